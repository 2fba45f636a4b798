"""Sessions of browsers at the dashboard.

Revision ID: 0012
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0010"
branch_labels = None
depends_on = None

ROLE = "curator_service"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "browser_sessions",
        sa.Column("id_hash", sa.String(length=64), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("token_id", sa.String(length=32), nullable=False),
        sa.Column("began_at", sa.String(length=32), nullable=False),
        sa.Column("seen_at", sa.String(length=32), nullable=False),
        sa.Column("confirmed_at", sa.String(length=32), nullable=False),
        sa.Column("ends_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.id"], name=op.f("fk_browser_sessions_principal_id_principals")
        ),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_browser_sessions")),
    )
    if op.get_bind().dialect.name != "sqlite":
        op.execute(
            f"DO $$ BEGIN GRANT SELECT, INSERT, UPDATE, DELETE ON browser_sessions TO {ROLE}; "
            "EXCEPTION WHEN insufficient_privilege OR undefined_object THEN "
            f"RAISE NOTICE 'the role {ROLE} has no rights on the new table'; END $$"
        )


def downgrade() -> None:
    """Undo: whoever is signed in signs in anew."""
    op.drop_table("browser_sessions")
