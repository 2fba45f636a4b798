"""First schema: accounts, chains, datasets, principals, releases.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# What was written stays: a correction is a new entry.
APPEND_ONLY = ("ledger_entries", "releases", "idempotency_keys", "snapshots")


def _forbid_changes() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in APPEND_ONLY:
            for act in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
        return
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "populations",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("adjacency", sa.String(length=16), nullable=False),
        sa.Column("accountant", sa.String(length=16), nullable=False),
        sa.Column("delta", sa.String(length=32), nullable=False),
        sa.Column("limit_units", sa.BigInteger(), nullable=False),
        sa.Column("posted_units", sa.BigInteger(), nullable=False),
        sa.Column("pending_units", sa.BigInteger(), nullable=False),
        sa.Column("head_sequence", sa.BigInteger(), nullable=False),
        sa.Column("head_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.CheckConstraint("posted_units + pending_units <= limit_units", name=op.f("ck_populations_within_limit")),
        sa.CheckConstraint(
            "posted_units >= 0 AND pending_units >= 0", name=op.f("ck_populations_amounts_not_negative")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_populations")),
    )
    op.create_table(
        "principals",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_principals")),
        sa.UniqueConstraint("name", name=op.f("uq_principals_name")),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("lattice_digest", sa.String(length=64), nullable=False),
        sa.Column("snapshot_nonce", sa.String(length=64), nullable=False),
        sa.Column("snapshot_commitment", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_datasets_population_populations")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("name", name=op.f("uq_datasets_name")),
    )
    op.create_table(
        "ledger_entries",
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("entry_hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["population"], ["populations.name"], name=op.f("fk_ledger_entries_population_populations")
        ),
        sa.PrimaryKeyConstraint("population", "sequence", name=op.f("pk_ledger_entries")),
    )
    op.create_table(
        "snapshots",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_snapshots_population_populations")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_snapshots")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.Column("revoked_at", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_tokens_principal_id_principals")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_table(
        "grants",
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_grants_dataset_id_datasets")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_grants_principal_id_principals")),
        sa.PrimaryKeyConstraint("principal_id", "dataset_id", name=op.f("pk_grants")),
    )
    op.create_table(
        "releases",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_releases_dataset_id_datasets")),
        sa.ForeignKeyConstraint(
            ["population", "sequence"],
            ["ledger_entries.population", "ledger_entries.sequence"],
            name=op.f("fk_releases_entry"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
        sa.UniqueConstraint("population", "sequence", name=op.f("uq_releases_population")),
    )
    op.create_index("ix_releases_dataset_request", "releases", ["dataset_id", "request_digest"])

    op.create_table(
        "idempotency_keys",
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("fingerprint", sa.String(length=80), nullable=False),
        sa.Column("release_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.id"], name=op.f("fk_idempotency_keys_principal_id_principals")
        ),
        sa.ForeignKeyConstraint(
            ["release_id"],
            ["releases.id"],
            name=op.f("fk_idempotency_keys_release_id_releases"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("principal_id", "key", name=op.f("pk_idempotency_keys")),
        sqlite_with_rowid=False,
    )
    _forbid_changes()


def downgrade() -> None:
    """Undo."""
    op.drop_table("idempotency_keys")
    op.drop_index("ix_releases_dataset_request", table_name="releases")
    op.drop_table("releases")
    op.drop_table("grants")
    op.drop_table("tokens")
    op.drop_table("snapshots")
    op.drop_table("ledger_entries")
    op.drop_table("datasets")
    op.drop_table("principals")
    op.drop_table("populations")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change()")
