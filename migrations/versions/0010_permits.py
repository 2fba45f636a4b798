"""Permits: who may spend which part of an account, on what, and until when. Grants and shares become theirs at a start.

Revision ID: 0010
Revises: 0009
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ROLE = "curator_service"


def upgrade() -> None:
    """Apply. Entries are signed, so that the curator itself writes them, when it starts: until then nobody spends."""
    op.create_table(
        "permits",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("granted_at", sa.String(length=32), nullable=False),
        sa.Column("ended_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_permits")),
    )
    charged = ("month", "principal_id", "permit_id", "project", "dataset", "kind")
    sizes = dict(zip(charged, (7, 32, 32, 63, 63, 16), strict=True))
    op.create_table(
        "spending",
        sa.Column("population", sa.String(length=63), nullable=False),
        *(sa.Column(name, sa.String(length=size), nullable=False) for name, size in sizes.items()),
        sa.Column("charges", sa.BigInteger(), nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_spending_population_populations")),
        sa.PrimaryKeyConstraint("population", *charged, name=op.f("pk_spending")),
    )
    _count_spending()
    with op.batch_alter_table("grants") as table:
        table.add_column(sa.Column("permit_id", sa.String(length=32), nullable=False, server_default=""))
        table.drop_constraint(op.f("pk_grants"), type_="primary")
        table.create_primary_key(op.f("pk_grants"), ["principal_id", "dataset_id", "permit_id"])
    op.add_column("shares", sa.Column("expires_at", sa.String(length=32), nullable=False, server_default=""))
    op.add_column("reservations", sa.Column("permit_id", sa.String(length=32), nullable=False, server_default=""))
    with op.batch_alter_table("proposals") as table:
        for column in ("content", "decision"):
            table.add_column(sa.Column(column, sa.Text(), nullable=False, server_default=""))
        # A population may be proposed: then it is not there yet.
        table.drop_constraint(op.f("fk_proposals_population_populations"), type_="foreignkey")
    op.execute(
        "UPDATE proposals SET state = 'superseded', decided_by = proposed_by, decided_at = proposed_at "
        "WHERE state = 'open' AND scope IN ('analyst', 'project')"
    )
    if op.get_bind().dialect.name != "sqlite":
        op.execute(
            f"DO $$ BEGIN GRANT SELECT, INSERT, UPDATE ON permits, spending TO {ROLE}; "
            "EXCEPTION WHEN insufficient_privilege OR undefined_object THEN "
            f"RAISE NOTICE 'the role {ROLE} has no rights on the new tables'; END $$"
        )


def downgrade() -> None:
    """Undo, where no permit was granted: the version before reads no chain that has one."""
    if op.get_bind().execute(sa.text("SELECT count(*) FROM permits")).scalar_one():
        raise RuntimeError("permits were granted, which the version before does not know: stay with this one")
    op.execute("DELETE FROM proposals WHERE population NOT IN (SELECT name FROM populations)")
    with op.batch_alter_table("proposals") as table:
        for column in ("content", "decision"):
            table.drop_column(column)
        columns = ["population"], ["name"]
        table.create_foreign_key(op.f("fk_proposals_population_populations"), "populations", *columns)
    op.execute("ALTER TABLE reservations DROP COLUMN permit_id")
    op.execute("ALTER TABLE shares DROP COLUMN expires_at")
    with op.batch_alter_table("grants") as table:
        table.drop_constraint(op.f("pk_grants"), type_="primary")
        table.drop_column("permit_id")
        table.create_primary_key(op.f("pk_grants"), ["principal_id", "dataset_id"])
    op.drop_table("permits")
    op.drop_table("spending")


def _count_spending() -> None:
    """Sum the charges of every chain, as each is summed from now on in the unit of work that writes it."""
    sums: dict[tuple[str, ...], list[int]] = {}
    pattern = '%"kind":"charge"%'
    entries = sa.text("SELECT population, payload FROM ledger_entries WHERE payload LIKE :pattern")
    for population, text in op.get_bind().execute(entries, {"pattern": pattern}):
        payload = json.loads(text)
        if payload["kind"] != "charge":
            continue
        named = (payload.get(name, "") for name in ("permit", "project", "dataset", "release_kind"))
        key = (population, payload["time"][:7], payload["actor"], *named)
        found = sums.setdefault(key, [0, 0])
        found[0], found[1] = found[0] + 1, found[1] + int(payload["units"])
    into = sa.text(
        "INSERT INTO spending VALUES (:p, :month, :actor, :permit, :project, :dataset, :kind, :count, :units)"
    )
    names = ("p", "month", "actor", "permit", "project", "dataset", "kind")
    for key, (count, units) in sums.items():
        op.get_bind().execute(into, dict(zip(names, key, strict=True)) | {"count": count, "units": units})
