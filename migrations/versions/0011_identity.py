"""Tokens that act with fewer roles, that are rotated, and that show their use; principals of identity providers.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ADDED = {
    "tokens": ("scopes", "replaced_by", "revoked_by", "last_used_at"),
    "principals": ("shown_name", "issuer"),
}


def upgrade() -> None:
    """Apply. Entries of what there is are signed, so that the curator itself writes them, when it starts."""
    for table, name, length in (
        ("tokens", "scopes", 80),
        ("tokens", "replaced_by", 32),
        ("tokens", "revoked_by", 63),
        ("principals", "shown_name", 200),
        ("principals", "issuer", 255),
    ):
        op.add_column(table, sa.Column(name, sa.String(length=length), nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("last_used_at", sa.String(length=32), nullable=True))


def downgrade() -> None:
    """Undo, where there is no register: the version before reads no chain of this kind."""
    if op.get_bind().execute(sa.text("SELECT count(*) FROM populations WHERE name = '_register'")).scalar_one():
        raise RuntimeError("acts were registered, which the version before does not know: stay with this one")
    for table, columns in ADDED.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
