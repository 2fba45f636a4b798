"""Sign-ins that begin are kept in cookies; the table has those that an answer came for.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_REST = (
    ("provider", sa.String(length=16)),
    ("session_hash", sa.String(length=64)),
    ("next_address", sa.Text()),
    ("proof", sa.String(length=64)),
)


def upgrade() -> None:
    """Apply: whoever is signing in at a provider begins anew."""
    op.execute("DELETE FROM sign_ins")
    for name, _ in _REST:
        op.drop_column("sign_ins", name)


def downgrade() -> None:
    """Undo."""
    op.execute("DELETE FROM sign_ins")
    for name, kind in _REST:
        op.add_column("sign_ins", sa.Column(name, kind, nullable=False, server_default=""))
