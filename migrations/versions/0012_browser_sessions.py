"""Sessions of browsers at the dashboard; an index to the entries of rare kinds.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ROLE = "curator_service"
IS_RARE = " AND ".join(f'payload NOT LIKE \'%"kind":"{kind}"%\'' for kind in ("charge", "reserve", "void", "derive"))


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
    rare = sa.text(IS_RARE)
    op.create_index(
        "ix_ledger_entries_rare", "ledger_entries", ["population", "sequence"], sqlite_where=rare, postgresql_where=rare
    )
    if op.get_bind().dialect.name != "sqlite":
        op.execute(
            f"DO $$ BEGIN GRANT SELECT, INSERT, UPDATE, DELETE ON browser_sessions TO {ROLE}; "
            "EXCEPTION WHEN insufficient_privilege OR undefined_object THEN "
            f"RAISE NOTICE 'the role {ROLE} has no rights on the new table'; END $$"
        )


def downgrade() -> None:
    """Undo: whoever is signed in signs in anew."""
    op.drop_index("ix_ledger_entries_rare", "ledger_entries")
    op.drop_table("browser_sessions")
