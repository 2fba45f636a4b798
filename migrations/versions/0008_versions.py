"""Versions of datasets: a folder of rows for each, changes that wait for the next cut, and erasure of what knows rows.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ROLE = "curator_service"
_FORGETTING = ("sketches", "snapshots")
"""Tables whose rows know something of persons: what is erased leaves them."""


def upgrade() -> None:
    """Apply. What is registered is a first version, as old as its registration."""
    op.add_column("datasets", sa.Column("folder", sa.String(length=64), nullable=False, server_default=""))
    op.add_column("datasets", sa.Column("version", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("datasets", sa.Column("sequence", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("datasets", sa.Column("cut_at", sa.String(length=32), nullable=False, server_default=""))
    op.add_column("datasets", sa.Column("retired_at", sa.String(length=32), nullable=False, server_default=""))
    op.add_column("datasets", sa.Column("successor", sa.String(length=63), nullable=False, server_default=""))
    op.execute("UPDATE datasets SET folder = id, cut_at = created_at")
    op.create_table(
        "changes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("act", sa.String(length=16), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=100), nullable=False),
        sa.Column("asked_at", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_changes_dataset_id_datasets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
        sa.UniqueConstraint("dataset_id", "number", name=op.f("uq_changes_dataset_id")),
    )
    with op.batch_alter_table("snapshots") as table:
        table.add_column(sa.Column("dataset_id", sa.String(length=32), nullable=False, server_default=""))
        table.drop_constraint(op.f("pk_snapshots"), type_="primary")
        table.create_primary_key(op.f("pk_snapshots"), ["digest", "dataset_id"])
    with op.batch_alter_table("sketches") as table:
        table.add_column(sa.Column("version", sa.Integer(), nullable=False, server_default="1"))
        table.drop_constraint(op.f("pk_sketches"), type_="primary")
        table.create_primary_key(op.f("pk_sketches"), ["dataset_id", "version"])
    for table in _FORGETTING:
        _drop_triggers(table)
        _guard(table, ("UPDATE",))
    if not _is_sqlite():
        grants = f"GRANT SELECT, INSERT, DELETE ON sketches, snapshots TO {ROLE}; "
        grants += f"GRANT SELECT, INSERT, UPDATE ON changes TO {ROLE};"
        op.execute(
            f"DO $$ BEGIN {grants} EXCEPTION WHEN insufficient_privilege OR undefined_object THEN "
            f"RAISE NOTICE 'the role {ROLE} has no rights on the new tables'; END $$"
        )


def downgrade() -> None:
    """Undo, where every dataset is as it was registered."""
    changed = sa.text("SELECT count(*) FROM datasets WHERE version > 1 OR retired_at <> ''")
    waiting = sa.text("SELECT count(*) FROM changes")
    if any(op.get_bind().execute(query).scalar_one() for query in (changed, waiting)):
        raise RuntimeError("datasets were changed in ways that the version before does not know: stay with this one")
    for table in _FORGETTING:
        _drop_triggers(table, ("UPDATE",))
    with op.batch_alter_table("sketches") as table:
        table.drop_constraint(op.f("pk_sketches"), type_="primary")
        table.drop_column("version")
        table.create_primary_key(op.f("pk_sketches"), ["dataset_id"])
    op.execute(
        "DELETE FROM snapshots WHERE EXISTS (SELECT 1 FROM snapshots AS other WHERE other.digest = snapshots.digest "
        "AND other.dataset_id < snapshots.dataset_id)"
    )
    with op.batch_alter_table("snapshots") as table:
        table.drop_constraint(op.f("pk_snapshots"), type_="primary")
        table.drop_column("dataset_id")
        table.create_primary_key(op.f("pk_snapshots"), ["digest"])
    for table in _FORGETTING:
        _guard(table, ("UPDATE", "DELETE"))
    if not _is_sqlite():
        op.execute(
            f"DO $$ BEGIN REVOKE DELETE ON sketches, snapshots FROM {ROLE}; EXCEPTION WHEN undefined_object THEN "
            "NULL; END $$"
        )
    op.drop_table("changes")
    for column in ("folder", "version", "sequence", "cut_at", "retired_at", "successor"):
        op.execute(f"ALTER TABLE datasets DROP COLUMN {column}")  # rebuilding it would ask what refers to it


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def _drop_triggers(table: str, acts: tuple[str, ...] = ("UPDATE", "DELETE")) -> None:
    if not _is_sqlite():
        op.execute(f"DROP TRIGGER {table}_append_only ON {table}")
        return
    for act in acts:
        op.execute(f"DROP TRIGGER IF EXISTS {table}_no_{act.lower()}")  # what is rebuilt has lost them


def _guard(table: str, acts: tuple[str, ...]) -> None:
    if not _is_sqlite():
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE {' OR '.join(acts)} OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
        return
    for act in acts:
        op.execute(
            f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
