"""The schema: accounts and signed chains, people, datasets, releases, and what the service may do with each table.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROLE = "curator_service"
"""A group without login: what the service may do. `GRANT curator_service TO` the role that it connects as."""
RIGHTS = {
    "SELECT": ("alembic_version",),
    "SELECT, INSERT": ("ledger_entries", "releases", "release_listings", "signing_keys"),
    "SELECT, INSERT, DELETE": ("sketches", "snapshots"),
    "SELECT, INSERT, UPDATE": (
        *("populations", "shares", "spending", "reservations", "idempotency_keys", "key_counts", "answer_space"),
        *("column_holders", "principals", "permits", "proposals", "changes", "seal"),
    ),
    "SELECT, INSERT, UPDATE, DELETE": (*("datasets", "tokens", "grants", "workers", "browser_sessions", "sign_ins"),),
}
"""Nothing that is in the ledger can be changed or deleted by the service."""
KEPT = {
    **dict.fromkeys(("ledger_entries", "releases", "release_listings", "signing_keys"), ("UPDATE", "DELETE")),
    **dict.fromkeys(("sketches", "snapshots"), ("UPDATE",)),
    "idempotency_keys": ("DELETE",),
}
"""What nobody may do, whoever is the owner; nor may anybody empty these tables. A correction is a new entry."""
KEY_IS_FIXED = (
    "OLD.release_id IS NOT NULL OR NEW.principal_id <> OLD.principal_id OR NEW.key <> OLD.key "
    "OR NEW.fingerprint <> OLD.fingerprint OR (NEW.reservation_id IS DISTINCT FROM OLD.reservation_id "
    "AND NOT EXISTS (SELECT 1 FROM reservations WHERE id = OLD.reservation_id AND state = 'closed'))"
)
"""A key with its answer never changes; one that waits may wait for another job only when its own has ended."""
KEY_MESSAGE = "idempotency_keys: a key that has its answer, or waits for it, never changes"
SEAL_STAYS = (
    "NEW.id <> OLD.id OR (OLD.reason <> '' AND NEW.reason = '' AND EXISTS (SELECT 1 FROM populations "
    "LEFT JOIN ledger_entries ON population = name AND sequence = head_sequence AND entry_hash = head_hash "
    "WHERE coalesce(payload, '') NOT LIKE '%\"kind\":\"reconcile\"%'))"
)
"""A seal is lifted only while every chain ends with a reconciliation."""
SEAL_MESSAGE = "the seal stays until every ledger is reconciled"
DIGITS = 2048
"""Hexadecimal digits of a chunk of `column_holders`, at most."""
BITS = f"('x' || lpad({{}}.bits, {DIGITS}, '0'))::bit({DIGITS * 4})"
HOLDERS_SHRINK = (
    "(NEW.collection, NEW.kind, NEW.name, NEW.chunk) <> (OLD.collection, OLD.kind, OLD.name, OLD.chunk) "
    f"OR {BITS.format('NEW')} & {BITS.format('OLD')} <> {BITS.format('OLD')}"
)
"""A release that is once found by its columns is found for ever: nobody can hide one, so that it is bought again."""
IS_RARE = " AND ".join(f'payload NOT LIKE \'%"kind":"{kind}"%\'' for kind in ("charge", "reserve", "void", "derive"))


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "column_holders",
        sa.Column("collection", sa.String(length=80), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("chunk", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("bits", sa.Text(), nullable=False),
        sa.CheckConstraint(
            f"length(bits) BETWEEN 1 AND {DIGITS}" + ("" if _is_sqlite() else " AND bits ~ '^[0-9a-f]+$'"),
            name=op.f("ck_column_holders_digits"),
        ),
        sa.PrimaryKeyConstraint("collection", "kind", "name", "chunk", name=op.f("pk_column_holders")),
    )
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
    op.create_table(
        "populations",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("adjacency", sa.String(length=16), nullable=False),
        sa.Column("accountant", sa.String(length=16), nullable=False),
        sa.Column("delta", sa.String(length=32), nullable=False),
        sa.Column("limit_units", sa.BigInteger(), nullable=False),
        sa.Column("highest_limit_units", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("posted_units", sa.BigInteger(), nullable=False),
        sa.Column("pending_units", sa.BigInteger(), nullable=False),
        sa.Column("head_sequence", sa.BigInteger(), nullable=False),
        sa.Column("head_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="1", nullable=False),
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
        sa.Column("roles", sa.String(length=63), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("shown_name", sa.String(length=200), server_default="", nullable=False),
        sa.Column("issuer", sa.String(length=255), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_principals")),
        sa.UniqueConstraint("name", name=op.f("uq_principals_name")),
    )
    op.create_table(
        "seal",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("sealed_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_seal")),
    )
    op.create_table(
        "sign_ins",
        sa.Column("id_hash", sa.String(length=64), nullable=False),
        sa.Column("began_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_sign_ins")),
    )
    op.create_index(op.f("ix_sign_ins_began_at"), "sign_ins", ["began_at"])
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
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "answer_space",
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["population"], ["populations.name"], name=op.f("fk_answer_space_population_populations")
        ),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.id"], name=op.f("fk_answer_space_principal_id_principals")
        ),
        sa.PrimaryKeyConstraint("population", "principal_id", name=op.f("pk_answer_space")),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("id_hash", sa.String(length=64), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("token_id", sa.String(length=32), nullable=False),
        sa.Column("began_at", sa.String(length=32), nullable=False),
        sa.Column("seen_at", sa.String(length=32), nullable=False),
        sa.Column("confirmed_at", sa.String(length=32), nullable=False),
        sa.Column("ends_at", sa.String(length=32), nullable=False),
        sa.Column("issuer", sa.String(length=255), server_default="", nullable=False),
        sa.Column("kept", sa.Text(), server_default="", nullable=False),
        sa.Column("proof", sa.String(length=64), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.id"], name=op.f("fk_browser_sessions_principal_id_principals")
        ),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_browser_sessions")),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("snapshot_commitment", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("folder", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("cut_at", sa.String(length=32), nullable=False),
        sa.Column("retired_at", sa.String(length=32), nullable=False),
        sa.Column("successor", sa.String(length=63), nullable=False),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_datasets_population_populations")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("name", name=op.f("uq_datasets_name")),
    )
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
    op.create_table(
        "ledger_entries",
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("entry_hash", sa.String(length=64), nullable=False),
        sa.Column("signature", sa.String(length=88), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["population"], ["populations.name"], name=op.f("fk_ledger_entries_population_populations")
        ),
        sa.PrimaryKeyConstraint("population", "sequence", name=op.f("pk_ledger_entries")),
    )
    rare = sa.text(IS_RARE)
    op.create_index(
        "ix_ledger_entries_rare", "ledger_entries", ["population", "sequence"], sqlite_where=rare, postgresql_where=rare
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
        sa.Column("content", sa.Text(), server_default="", nullable=False),
        sa.Column("decision", sa.Text(), server_default="", nullable=False),
        sa.Column("proposed_by", sa.String(length=32), nullable=False),
        sa.Column("proposed_at", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("decided_by", sa.String(length=32), nullable=True),
        sa.Column("decided_at", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["decided_by"], ["principals.id"], name=op.f("fk_proposals_decided_by_principals")),
        sa.ForeignKeyConstraint(["proposed_by"], ["principals.id"], name=op.f("fk_proposals_proposed_by_principals")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposals")),
    )
    op.create_table(
        "shares",
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("permit_id", sa.String(length=32), nullable=False),
        sa.Column("limit_units", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.String(length=32), server_default="", nullable=False),
        sa.Column("posted_units", sa.BigInteger(), nullable=False),
        sa.Column("pending_units", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "limit_units IS NULL OR posted_units + pending_units <= limit_units", name=op.f("ck_shares_within_limit")
        ),
        sa.CheckConstraint("posted_units >= 0 AND pending_units >= 0", name=op.f("ck_shares_amounts_not_negative")),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_shares_population_populations")),
        sa.PrimaryKeyConstraint("population", "permit_id", name=op.f("pk_shares")),
    )
    op.create_table(
        "snapshots",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("key_id", sa.String(length=40), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_snapshots_population_populations")),
        sa.PrimaryKeyConstraint("digest", "dataset_id", name=op.f("pk_snapshots")),
    )
    op.create_table(
        "spending",
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("permit_id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("dataset", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("charges", sa.BigInteger(), nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_spending_population_populations")),
        sa.PrimaryKeyConstraint(
            "population", "month", "principal_id", "permit_id", "project", "dataset", "kind", name=op.f("pk_spending")
        ),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.Column("revoked_at", sa.String(length=32), nullable=True),
        sa.Column("scopes", sa.String(length=80), server_default="", nullable=False),
        sa.Column("replaced_by", sa.String(length=32), server_default="", nullable=False),
        sa.Column("revoked_by", sa.String(length=63), server_default="", nullable=False),
        sa.Column("last_used_at", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_tokens_principal_id_principals")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
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
    op.create_table(
        "grants",
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("permit_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_grants_dataset_id_datasets")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_grants_principal_id_principals")),
        sa.PrimaryKeyConstraint("principal_id", "dataset_id", "permit_id", name=op.f("pk_grants")),
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
            name="fk_releases_entry",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
        sa.UniqueConstraint("population", "sequence", name=op.f("uq_releases_population")),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("permit_id", sa.String(length=32), server_default="", nullable=False),
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
    op.create_index(op.f("ix_reservations_request_digest"), "reservations", ["request_digest"])
    op.create_index(op.f("ix_reservations_state"), "reservations", ["state"])
    op.create_index("ix_reservations_study_id", "reservations", ["study_id"])
    op.create_table(
        "sketches",
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.String(length=40), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_sketches_dataset_id_datasets")),
        sa.PrimaryKeyConstraint("dataset_id", "version", name=op.f("pk_sketches")),
    )
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
    op.create_index("ix_idempotency_keys_release_id", "idempotency_keys", ["release_id"])
    op.create_index("ix_idempotency_keys_reservation_id", "idempotency_keys", ["reservation_id"])
    op.create_table(
        "release_listings",
        sa.Column("release_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("collection", sa.String(length=80), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("shelf", sa.String(length=64), nullable=False),
        sa.Column("members", sa.String(length=64), nullable=False),
        sa.Column("least_sd", sa.Double(), nullable=False),
        sa.Column("loudness", sa.Double(), nullable=False),
        sa.Column("noise", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_release_listings_release_id_releases")),
        sa.PrimaryKeyConstraint("release_id", name=op.f("pk_release_listings")),
    )
    op.create_index("ix_release_listings_collection", "release_listings", ["collection", "sequence"])
    op.create_index("ix_release_listings_dataset", "release_listings", ["dataset_id", "sequence"])
    op.create_index("ix_release_listings_members", "release_listings", ["members", "loudness", "sequence"])
    op.create_index("ix_release_listings_shelf", "release_listings", ["shelf", "least_sd", "sequence"])
    op.execute("INSERT INTO seal (id, reason, sealed_at) VALUES (1, '', '')")
    _guard()
    if not _is_sqlite():
        _grant()


def _guard() -> None:
    """Let the database itself refuse what would change history."""
    if _is_sqlite():
        for table, acts in KEPT.items():
            for act in acts:
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
    for table, acts in KEPT.items():
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE {' OR '.join(acts)} OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    _guard_rows("idempotency_keys", "idempotency_keys_fixed", KEY_IS_FIXED, KEY_MESSAGE)
    _guard_rows("seal", "seal_stays", SEAL_STAYS, SEAL_MESSAGE)
    _guard_rows("column_holders", "column_holders_grow", HOLDERS_SHRINK, "column_holders only grows")


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
    create = (
        f"IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN "
        f"BEGIN CREATE ROLE {ROLE} NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END; END IF;"
    )
    grants = [f"GRANT {rights} ON {', '.join(tables)} TO {ROLE}" for rights, tables in RIGHTS.items()]
    # Whoever may not create roles gets the schema without the group; docs/ledger.md has the grants for by hand.
    op.execute(
        f"DO $$ BEGIN {create} GRANT USAGE ON SCHEMA public TO {ROLE}; {'; '.join(grants)}; "
        f"EXCEPTION WHEN insufficient_privilege THEN RAISE NOTICE 'the role {ROLE} was not created'; END $$"
    )


def downgrade() -> None:
    """Refuse: a ledger is kept."""
    raise NotImplementedError("this is the first schema; nothing leads back from it but an empty database")
