"""The highest limit that a population ever had, beside the one that holds now.

Revision ID: 0003
Revises: 0002
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply; what is known of earlier limits stands in the chain."""
    op.add_column("populations", sa.Column("highest_limit_units", sa.BigInteger(), nullable=False, server_default="0"))
    connection = op.get_bind()
    highest: dict[str, int] = {}
    for population, payload in connection.execute(sa.text("SELECT population, payload FROM ledger_entries")):
        highest[population] = max(highest.get(population, 0), int(json.loads(payload)["limit"]))
    for population, units in highest.items():
        connection.execute(
            sa.text("UPDATE populations SET highest_limit_units = :units WHERE name = :population"),
            {"units": units, "population": population},
        )


def downgrade() -> None:
    """Undo; the chain still tells."""
    if op.get_bind().dialect.name == "sqlite":
        # As a plain statement: rebuilding the table would lose its triggers.
        op.execute("ALTER TABLE populations DROP COLUMN highest_limit_units")
    else:
        op.drop_column("populations", "highest_limit_units")
