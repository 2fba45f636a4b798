"""How many new keys a principal used today: each leaves something for good.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

ROLE = "curator_service"


def upgrade() -> None:
    """Apply: nobody has used one yet."""
    op.create_table(
        "key_counts",
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("keys", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.id"], name=op.f("fk_key_counts_principal_id_principals")
        ),
        sa.PrimaryKeyConstraint("principal_id", name=op.f("pk_key_counts")),
    )
    if op.get_bind().dialect.name != "sqlite":
        op.execute(
            f"DO $$ BEGIN GRANT SELECT, INSERT, UPDATE ON key_counts TO {ROLE}; "
            "EXCEPTION WHEN insufficient_privilege OR undefined_object THEN "
            f"RAISE NOTICE 'the role {ROLE} has no rights on the new table'; END $$"
        )


def downgrade() -> None:
    """Undo."""
    op.drop_table("key_counts")
