"""Sign-ins of browsers at identity providers, forms that wait for one, and what proves these rows.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ROLE = "curator_service"


def upgrade() -> None:
    """Apply: nothing proves the sessions that there are, so whoever is signed in signs in anew."""
    op.execute("DELETE FROM browser_sessions")
    op.add_column("browser_sessions", sa.Column("issuer", sa.String(length=255), nullable=False, server_default=""))
    op.add_column("browser_sessions", sa.Column("kept", sa.Text(), nullable=False, server_default=""))
    op.add_column("browser_sessions", sa.Column("proof", sa.String(length=64), nullable=False, server_default=""))
    op.create_table(
        "sign_ins",
        sa.Column("id_hash", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=16), nullable=False),
        sa.Column("began_at", sa.String(length=32), nullable=False),
        sa.Column("session_hash", sa.String(length=64), nullable=False),
        sa.Column("next_address", sa.Text(), nullable=False),
        sa.Column("proof", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_sign_ins")),
    )
    op.create_index("ix_sign_ins_began_at", "sign_ins", ["began_at"])
    if op.get_bind().dialect.name != "sqlite":
        op.execute(
            f"DO $$ BEGIN GRANT SELECT, INSERT, UPDATE, DELETE ON sign_ins TO {ROLE}; "
            "EXCEPTION WHEN insufficient_privilege OR undefined_object THEN "
            f"RAISE NOTICE 'the role {ROLE} has no rights on the new table'; END $$"
        )


def downgrade() -> None:
    """Undo: whoever signed in at a provider signs in anew."""
    op.drop_table("sign_ins")
    op.execute("DELETE FROM browser_sessions WHERE token_id = ''")
    op.drop_column("browser_sessions", "proof")
    op.drop_column("browser_sessions", "kept")
    op.drop_column("browser_sessions", "issuer")
