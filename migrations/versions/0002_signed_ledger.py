"""The first schema: accounts, signed chains, datasets, principals, releases, and the service's database role.

Revision ID: 0002
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"  # databases are stamped with it; what was 0001 was never released
down_revision = None
branch_labels = None
depends_on = None

ROLE = "curator_service"
"""A group without login: what the service may do. `GRANT curator_service TO` the role that it connects as."""
INSERT_ONLY = ("ledger_entries", "releases", "snapshots", "signing_keys", "alembic_version")
INSERT_AND_UPDATE = ("populations", "shares", "reservations", "idempotency_keys", "principals", "proposals", "seal")
EVERYTHING = ("datasets", "tokens", "grants", "workers")
APPEND_ONLY = ("ledger_entries", "releases", "snapshots", "signing_keys")
"""What was written stays: a correction is a new entry."""
KEY_IS_FIXED = (
    "OLD.release_id IS NOT NULL OR NEW.principal_id <> OLD.principal_id OR NEW.key <> OLD.key "
    "OR NEW.fingerprint <> OLD.fingerprint OR (NEW.reservation_id IS DISTINCT FROM OLD.reservation_id "
    "AND NOT EXISTS (SELECT 1 FROM reservations WHERE id = OLD.reservation_id AND state = 'closed'))"
)
"""A key with its answer never changes; one that waits may wait for another job only when its own has ended."""
KEY_MESSAGE = "idempotency_keys: a key that has its answer, or waits for it, never changes"
SEAL_MESSAGE = "the seal stays until every ledger is reconciled"
SEAL_STAYS = (
    "NEW.id <> OLD.id OR (OLD.reason <> '' AND NEW.reason = '' AND EXISTS (SELECT 1 FROM populations "
    "LEFT JOIN ledger_entries ON population = name AND sequence = head_sequence AND entry_hash = head_hash "
    "WHERE coalesce(payload, '') NOT LIKE '%\"kind\":\"reconcile\"%'))"
)
"""A seal is lifted only while every chain ends with a reconciliation."""


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


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
        sa.Column("epoch", sa.Integer(), nullable=False, server_default="1"),
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
        sa.Column("signature", sa.String(length=88), nullable=False, server_default=""),
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
        "reservations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("study_id", sa.String(length=32), nullable=True),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("drawn_units", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("drawn_units >= 0 AND drawn_units <= units", name=op.f("ck_reservations_drawn_within")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_reservations_dataset_id_datasets")),
        sa.ForeignKeyConstraint(
            ["population"], ["populations.name"], name=op.f("fk_reservations_population_populations")
        ),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.id"], name=op.f("fk_reservations_principal_id_principals")
        ),
        sa.ForeignKeyConstraint(["study_id"], ["reservations.id"], name=op.f("fk_reservations_study_id_reservations")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
    )
    op.create_index("ix_reservations_state", "reservations", ["state"])
    op.create_index("ix_reservations_request_digest", "reservations", ["request_digest"])
    op.create_table(
        "idempotency_keys",
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("fingerprint", sa.String(length=80), nullable=False),
        sa.Column("release_id", sa.String(length=32), nullable=True),
        sa.Column("reservation_id", sa.String(length=32), nullable=True),
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
        sa.ForeignKeyConstraint(
            ["reservation_id"],
            ["reservations.id"],
            name=op.f("fk_idempotency_keys_reservation_id_reservations"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("principal_id", "key", name=op.f("pk_idempotency_keys")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_idempotency_keys_reservation_id", "idempotency_keys", ["reservation_id"])
    op.create_table(
        "shares",
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("label", sa.String(length=63), nullable=False),
        sa.Column("limit_units", sa.BigInteger(), nullable=True),
        sa.Column("posted_units", sa.BigInteger(), nullable=False),
        sa.Column("pending_units", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("posted_units >= 0 AND pending_units >= 0", name=op.f("ck_shares_amounts_not_negative")),
        sa.CheckConstraint(
            "limit_units IS NULL OR posted_units + pending_units <= limit_units", name=op.f("ck_shares_within_limit")
        ),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_shares_population_populations")),
        sa.PrimaryKeyConstraint("population", "scope", "label", name=op.f("pk_shares")),
    )
    op.create_table(
        "proposals",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("label", sa.String(length=63), nullable=False),
        sa.Column("limit_units", sa.BigInteger(), nullable=False),
        sa.Column("from_units", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("proposed_by", sa.String(length=32), nullable=False),
        sa.Column("proposed_at", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("decided_by", sa.String(length=32), nullable=True),
        sa.Column("decided_at", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_proposals_population_populations")),
        sa.ForeignKeyConstraint(["proposed_by"], ["principals.id"], name=op.f("fk_proposals_proposed_by_principals")),
        sa.ForeignKeyConstraint(["decided_by"], ["principals.id"], name=op.f("fk_proposals_decided_by_principals")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposals")),
    )
    op.create_table(
        "signing_keys",
        sa.Column("key_id", sa.String(length=40), nullable=False),
        sa.Column("public_key", sa.String(length=44), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("previous", sa.String(length=40), nullable=False),
        sa.Column("endorsement", sa.String(length=88), nullable=False),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_signing_keys")),
        sa.UniqueConstraint("previous", name=op.f("uq_signing_keys_previous")),
    )
    seal = op.create_table(
        "seal",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("sealed_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_seal")),
    )
    op.bulk_insert(seal, [{"id": 1, "reason": "", "sealed_at": ""}])
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    _guard()
    if not _is_sqlite():
        _grant()


def _guard() -> None:
    """Let the database itself refuse what would change history."""
    if _is_sqlite():
        rules = [(table, act) for table in APPEND_ONLY for act in ("UPDATE", "DELETE")]
        for table, act in (*rules, ("idempotency_keys", "DELETE")):
            op.execute(
                f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        for trigger, table, refused, message in (
            ("idempotency_keys_no_update", "idempotency_keys", KEY_IS_FIXED, KEY_MESSAGE),
            ("seal_stays", "seal", SEAL_STAYS, SEAL_MESSAGE),
        ):
            op.execute(
                f"CREATE TRIGGER {trigger} BEFORE UPDATE ON {table} WHEN {refused} "
                f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in (*APPEND_ONLY, "idempotency_keys"):
        acts = "DELETE OR TRUNCATE" if table == "idempotency_keys" else "UPDATE OR DELETE OR TRUNCATE"
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE {acts} ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    _guard_rows("idempotency_keys", "idempotency_keys_fixed", KEY_IS_FIXED, KEY_MESSAGE)
    _guard_rows("seal", "seal_stays", SEAL_STAYS, SEAL_MESSAGE)


def _guard_rows(table: str, trigger: str, refused: str, message: str) -> None:
    """Refuse changes of rows under a condition that may look at other tables, which PostgreSQL's WHEN may not.

    Temporary tables come last in the search path: those of whoever writes must not take the place of the ledger's.
    """
    op.execute(
        f"CREATE FUNCTION {trigger}() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN "
        f"IF {refused} THEN RAISE EXCEPTION '{message}'; END IF; RETURN NEW; END $$"
    )
    op.execute(f"CREATE TRIGGER {trigger} BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {trigger}()")


def _grant() -> None:
    """Give the service's group what it needs, and nothing that could change history."""
    statements = [
        f"GRANT USAGE ON SCHEMA public TO {ROLE}",
        f"GRANT SELECT, INSERT ON {', '.join(INSERT_ONLY)} TO {ROLE}",
        f"REVOKE INSERT ON alembic_version FROM {ROLE}",
        f"GRANT SELECT, INSERT, UPDATE ON {', '.join(INSERT_AND_UPDATE)} TO {ROLE}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(EVERYTHING)} TO {ROLE}",
    ]
    create = (
        f"IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN "
        f"BEGIN CREATE ROLE {ROLE} NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END; END IF;"
    )
    # Whoever may not create roles gets the schema without the group; docs/ledger.md has the grants for by hand.
    op.execute(
        f"DO $$ BEGIN {create} {'; '.join(statements)}; "
        f"EXCEPTION WHEN insufficient_privilege THEN RAISE NOTICE 'the role {ROLE} was not created'; END $$"
    )


def downgrade() -> None:
    """Undo: nothing is left."""
    for table in (
        *("idempotency_keys", "proposals", "workers", "reservations", "seal", "signing_keys", "shares", "releases"),
        *("grants", "tokens", "snapshots", "ledger_entries", "datasets", "principals", "populations"),
    ):
        op.drop_table(table)
    if not _is_sqlite():
        for function in ("seal_stays", "idempotency_keys_fixed", "refuse_change"):
            op.execute(f"DROP FUNCTION {function}()")
