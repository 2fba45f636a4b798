"""Nothing in the database is a function of rows without a secret: keyed digests, sealed sketches, no counts.

This step has neither keys nor rows: what the earlier schema held is put aside, and the first start of the service,
which has both, takes it over and empties that table.

Revision ID: 0004
Revises: 0003
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ROLE = "curator_service"


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "unkeyed",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unkeyed")),
    )
    op.create_table(
        "sketches",
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("key_id", sa.String(length=40), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_sketches_dataset_id_datasets")),
        sa.PrimaryKeyConstraint("dataset_id", name=op.f("pk_sketches")),
    )
    bind = op.get_bind()
    set_aside = [
        (row.id, {"persons": row.row_count, "lattice_digest": row.lattice_digest, "nonce": row.snapshot_nonce})
        for row in bind.execute(sa.text("SELECT id, row_count, lattice_digest, snapshot_nonce FROM datasets"))
    ]
    set_aside += [
        (digest, {"population": population})
        for digest, population in bind.execute(sa.text("SELECT digest, population FROM snapshots"))
    ]
    for name, content in set_aside:
        bind.execute(
            sa.text("INSERT INTO unkeyed (id, content) VALUES (:id, :content)"),
            {"id": name, "content": json.dumps(content)},
        )
    _unguard("snapshots")
    # TRUNCATE and CLUSTER write new files: what is deleted otherwise stays in PostgreSQL's until they are vacuumed.
    op.execute("DELETE FROM snapshots" if _is_sqlite() else "TRUNCATE snapshots")
    op.add_column("snapshots", sa.Column("key_id", sa.String(length=40), nullable=False, server_default=""))
    for column in ("row_count", "lattice_digest", "snapshot_nonce"):
        op.execute(f"ALTER TABLE datasets DROP COLUMN {column}")
    _guard("snapshots")
    _guard("sketches")
    if not _is_sqlite():
        op.execute("CLUSTER datasets USING pk_datasets")
        op.execute("ALTER TABLE datasets SET WITHOUT CLUSTER")
        grants = f"GRANT SELECT, INSERT ON sketches TO {ROLE}; GRANT SELECT, DELETE, TRUNCATE ON unkeyed TO {ROLE};"
        op.execute(
            f"DO $$ BEGIN {grants} EXCEPTION WHEN insufficient_privilege OR undefined_object THEN "
            f"RAISE NOTICE 'the role {ROLE} has no rights on the new tables'; END $$"
        )


def _guard(table: str) -> None:
    if not _is_sqlite():
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
        return
    for act in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )


def _unguard(table: str) -> None:
    if not _is_sqlite():
        op.execute(f"DROP TRIGGER {table}_append_only ON {table}")
        return
    for act in ("update", "delete"):
        op.execute(f"DROP TRIGGER {table}_no_{act}")


def downgrade() -> None:
    """Undo. What was keyed stays so: the earlier version recognises none of the files that were registered."""
    bind = op.get_bind()
    _unguard("snapshots")
    for column, kind, empty in (
        ("row_count", sa.BigInteger(), "0"),
        ("lattice_digest", sa.String(length=64), ""),
        ("snapshot_nonce", sa.String(length=64), ""),
    ):
        op.add_column("datasets", sa.Column(column, kind, nullable=False, server_default=empty))
    for name, text in bind.execute(sa.text("SELECT id, content FROM unkeyed")).all():
        content = json.loads(text)
        if "population" in content:
            insert = sa.text("INSERT INTO snapshots (digest, population) VALUES (:digest, :population)")
            bind.execute(insert, {"digest": name, **content})
        else:
            update = "UPDATE datasets SET row_count = :persons, lattice_digest = :lattice_digest, "
            bind.execute(sa.text(update + "snapshot_nonce = :nonce WHERE id = :id"), {"id": name, **content})
    op.execute("ALTER TABLE snapshots DROP COLUMN key_id")
    _guard("snapshots")
    op.drop_table("sketches")
    op.drop_table("unkeyed")
