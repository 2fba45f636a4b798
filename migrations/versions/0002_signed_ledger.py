"""A signed ledger: keys, shares, reservations, proposals, workers, the seal, and the service's database role.

Revision ID: 0002
Revises: 0001
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROLE = "curator_service"
"""A group without login: what the service may do. `GRANT curator_service TO` the role that it connects as."""
INSERT_ONLY = ("ledger_entries", "releases", "snapshots", "signing_keys", "alembic_version")
INSERT_AND_UPDATE = ("populations", "shares", "reservations", "idempotency_keys", "principals", "proposals", "seal")
EVERYTHING = ("datasets", "tokens", "grants", "workers")
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
KEYS_TABLE = """CREATE TABLE idempotency_keys_next (
    principal_id VARCHAR(32) NOT NULL, "key" VARCHAR(128) NOT NULL, fingerprint VARCHAR(80) NOT NULL,
    release_id VARCHAR(32){release_null}, {reservation}
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (principal_id, "key"),
    CONSTRAINT fk_idempotency_keys_principal_id_principals FOREIGN KEY(principal_id) REFERENCES principals (id),
    {reservation_key}
    CONSTRAINT fk_idempotency_keys_release_id_releases FOREIGN KEY(release_id) REFERENCES releases (id)
      DEFERRABLE INITIALLY DEFERRED
) WITHOUT ROWID"""


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def upgrade() -> None:
    """Apply."""
    op.add_column("populations", sa.Column("epoch", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("ledger_entries", sa.Column("signature", sa.String(length=88), nullable=False, server_default=""))
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
        "workers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
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
    _widen_keys()
    _count_shares()
    if _is_sqlite():
        for act in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER signing_keys_no_{act.lower()} BEFORE {act} ON signing_keys "
                "BEGIN SELECT RAISE(ABORT, 'signing_keys is append-only'); END"
            )
        op.execute(
            f"CREATE TRIGGER seal_stays BEFORE UPDATE ON seal WHEN {SEAL_STAYS} "
            f"BEGIN SELECT RAISE(ABORT, '{SEAL_MESSAGE}'); END"
        )
    else:
        _guard_rows("seal", "seal_stays", SEAL_STAYS, SEAL_MESSAGE)
        op.execute(
            "CREATE TRIGGER signing_keys_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON signing_keys "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
        _grant()


def _guard_rows(table: str, trigger: str, refused: str, message: str) -> None:
    """Refuse changes of rows under a condition that may look at other tables, which PostgreSQL's WHEN may not.

    Temporary tables come last in the search path: those of whoever writes must not take the place of the ledger's.
    """
    op.execute(
        f"CREATE FUNCTION {trigger}() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN "
        f"IF {refused} THEN RAISE EXCEPTION '{message}'; END IF; RETURN NEW; END $$"
    )
    op.execute(f"CREATE TRIGGER {trigger} BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {trigger}()")


def _widen_keys() -> None:
    """Let a key wait for a reservation; one that has its answer stays as it is, for ever."""
    if _is_sqlite():
        op.execute(
            KEYS_TABLE.format(
                release_null="",
                reservation="reservation_id VARCHAR(32),",
                reservation_key=(
                    "CONSTRAINT fk_idempotency_keys_reservation_id_reservations FOREIGN KEY(reservation_id) "
                    "REFERENCES reservations (id) DEFERRABLE INITIALLY DEFERRED,"
                ),
            )
        )
        op.execute(
            "INSERT INTO idempotency_keys_next (principal_id, key, fingerprint, release_id) "
            "SELECT principal_id, key, fingerprint, release_id FROM idempotency_keys"
        )
        op.execute("DROP TABLE idempotency_keys")
        op.execute("ALTER TABLE idempotency_keys_next RENAME TO idempotency_keys")
        op.execute(
            "CREATE TRIGGER idempotency_keys_no_update BEFORE UPDATE ON idempotency_keys "
            f"WHEN {KEY_IS_FIXED} "
            f"BEGIN SELECT RAISE(ABORT, '{KEY_MESSAGE}'); END"
        )
        op.execute(
            "CREATE TRIGGER idempotency_keys_no_delete BEFORE DELETE ON idempotency_keys "
            "BEGIN SELECT RAISE(ABORT, 'idempotency_keys is append-only'); END"
        )
    else:
        op.execute("DROP TRIGGER idempotency_keys_append_only ON idempotency_keys")
        op.alter_column("idempotency_keys", "release_id", nullable=True)
        op.add_column("idempotency_keys", sa.Column("reservation_id", sa.String(length=32), nullable=True))
        op.create_foreign_key(
            op.f("fk_idempotency_keys_reservation_id_reservations"),
            "idempotency_keys",
            "reservations",
            ["reservation_id"],
            ["id"],
            initially="DEFERRED",
            deferrable=True,
        )
        op.execute(
            "CREATE TRIGGER idempotency_keys_append_only BEFORE DELETE OR TRUNCATE ON idempotency_keys "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
        _guard_rows("idempotency_keys", "idempotency_keys_fixed", KEY_IS_FIXED, KEY_MESSAGE)
    op.create_index("ix_idempotency_keys_reservation_id", "idempotency_keys", ["reservation_id"])


def _count_shares() -> None:
    """Count what each analyst has spent so far, from the chains."""
    bind = op.get_bind()
    spent: dict[tuple[str, str], int] = {}
    for population, payload in bind.execute(sa.text("SELECT population, payload FROM ledger_entries")):
        entry = json.loads(payload)
        if entry["kind"] == "charge":
            place = population, entry["actor"]
            spent[place] = spent.get(place, 0) + int(entry["units"])
    for (population, label), units in sorted(spent.items()):
        bind.execute(
            sa.text(
                "INSERT INTO shares (population, scope, label, limit_units, posted_units, pending_units) "
                "VALUES (:population, 'analyst', :label, NULL, :units, 0)"
            ),
            {"population": population, "label": label, "units": units},
        )


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
    """Undo. Signatures and keys are lost for good; idempotency keys that wait would be, so nothing may be pending."""
    pending = op.get_bind().execute(sa.text("SELECT count(*) FROM reservations WHERE state = 'open'")).scalar()
    if pending:
        raise RuntimeError("reservations are open: close them, or let them end, before going back")
    _narrow_keys()
    for table in ("proposals", "workers", "reservations", "seal", "signing_keys", "shares"):
        op.drop_table(table)
    if not _is_sqlite():
        for function in ("seal_stays", "idempotency_keys_fixed"):
            op.execute(f"DROP FUNCTION {function}()")
    if _is_sqlite():
        # As plain statements: rebuilding the tables would lose their triggers.
        op.execute("ALTER TABLE ledger_entries DROP COLUMN signature")
        op.execute("ALTER TABLE populations DROP COLUMN epoch")
    else:
        op.drop_column("ledger_entries", "signature")
        op.drop_column("populations", "epoch")


def _narrow_keys() -> None:
    if _is_sqlite():
        op.execute(KEYS_TABLE.format(release_null=" NOT NULL", reservation="", reservation_key=""))
        op.execute(
            "INSERT INTO idempotency_keys_next (principal_id, key, fingerprint, release_id) "
            "SELECT principal_id, key, fingerprint, release_id FROM idempotency_keys WHERE release_id IS NOT NULL"
        )
        op.execute("DROP TABLE idempotency_keys")
        op.execute("ALTER TABLE idempotency_keys_next RENAME TO idempotency_keys")
        for act in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER idempotency_keys_no_{act.lower()} BEFORE {act} ON idempotency_keys "
                "BEGIN SELECT RAISE(ABORT, 'idempotency_keys is append-only'); END"
            )
        return
    op.execute("DROP TRIGGER idempotency_keys_fixed ON idempotency_keys")
    op.execute("DROP TRIGGER idempotency_keys_append_only ON idempotency_keys")
    op.execute("DELETE FROM idempotency_keys WHERE release_id IS NULL")
    op.drop_index("ix_idempotency_keys_reservation_id", table_name="idempotency_keys")
    op.drop_column("idempotency_keys", "reservation_id")
    op.alter_column("idempotency_keys", "release_id", nullable=False)
    op.execute(
        "CREATE TRIGGER idempotency_keys_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON idempotency_keys "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )
