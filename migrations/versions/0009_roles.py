"""Roles: a principal holds several, and what was an admin holds the four that it stood for.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

OF_ADMIN = "steward,privacy_officer,auditor,operator"


def upgrade() -> None:
    """Apply."""
    op.add_column("principals", sa.Column("roles", sa.String(length=63), nullable=False, server_default=""))
    op.execute(f"UPDATE principals SET roles = CASE role WHEN 'admin' THEN '{OF_ADMIN}' ELSE role END")  # noqa: S608 -- a constant
    op.execute("ALTER TABLE principals DROP COLUMN role")  # rebuilding it would ask what refers to it


def downgrade() -> None:
    """Undo, where everybody holds roles that the version before knows."""
    known = ("analyst", "auditor", OF_ADMIN)
    others = sa.text("SELECT count(*) FROM principals WHERE roles NOT IN (:analyst, :auditor, :admin)")
    if op.get_bind().execute(others, dict(zip(("analyst", "auditor", "admin"), known, strict=True))).scalar_one():
        raise RuntimeError("principals hold roles that the version before does not know: stay with this one")
    op.add_column("principals", sa.Column("role", sa.String(length=16), nullable=False, server_default=""))
    op.execute(f"UPDATE principals SET role = CASE roles WHEN '{OF_ADMIN}' THEN 'admin' ELSE roles END")  # noqa: S608
    op.execute("ALTER TABLE principals DROP COLUMN roles")
