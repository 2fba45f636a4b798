"""Threshold sessions, with their noise, their questions and the keys of their answers; surveys; names of people.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROLE = "curator_service"
RIGHTS = {
    "SELECT, INSERT": ("sessions", "session_questions", "survey_reports", "used_invitations"),
    "SELECT, INSERT, UPDATE": ("surveys",),
    "SELECT, INSERT, DELETE": ("session_noise", "person_names"),
}
KEPT = {
    "sessions": ("UPDATE", "DELETE"),
    "session_questions": ("UPDATE", "DELETE"),
    "session_noise": ("UPDATE",),
    "surveys": ("DELETE",),
    "survey_reports": ("UPDATE", "DELETE"),
    "used_invitations": ("UPDATE", "DELETE"),
}
"""What nobody may do, whoever is the owner. The noise of a session that has ended is deleted."""
KEY_IS_FIXED = (
    "OLD.release_id IS NOT NULL OR OLD.sequence IS NOT NULL OR NEW.principal_id <> OLD.principal_id "
    "OR NEW.key <> OLD.key OR NEW.fingerprint <> OLD.fingerprint "
    "OR (NEW.reservation_id IS DISTINCT FROM OLD.reservation_id "
    "AND NOT EXISTS (SELECT 1 FROM reservations WHERE id = OLD.reservation_id AND state = 'closed'))"
)
"""As before; and a key whose answer is an entry keeps it."""
KEY_MESSAGE = "idempotency_keys: a key that has its answer, or waits for it, never changes"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("population", sa.String(length=63), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["population"], ["populations.name"], name=op.f("fk_sessions_population_populations")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_sessions_dataset_id_datasets")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_sessions_principal_id_principals")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_principal_id"), "sessions", ["principal_id"])
    op.create_table(
        "session_noise",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("key_id", sa.String(length=40), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_session_noise_session_id_sessions")),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_session_noise")),
    )
    op.create_table(
        "session_questions",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_session_questions_session_id_sessions")),
        sa.PrimaryKeyConstraint("session_id", "number", name=op.f("pk_session_questions")),
    )
    op.create_table(
        "surveys",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("reports", sa.Integer(), nullable=False),
        sa.Column("closed_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_surveys")),
    )
    op.create_table(
        "survey_reports",
        sa.Column("survey", sa.String(length=63), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["survey"], ["surveys.name"], name=op.f("fk_survey_reports_survey_surveys")),
        sa.PrimaryKeyConstraint("survey", "token", name=op.f("pk_survey_reports")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "used_invitations",
        sa.Column("survey", sa.String(length=63), nullable=False),
        sa.Column("code", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["survey"], ["surveys.name"], name=op.f("fk_used_invitations_survey_surveys")),
        sa.PrimaryKeyConstraint("survey", "code", name=op.f("pk_used_invitations")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "person_names",
        sa.Column("principal_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=320), nullable=False),
        sa.Column("email", sa.String(length=320), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.id"], name=op.f("fk_person_names_principal_id_principals")
        ),
        sa.PrimaryKeyConstraint("principal_id", name=op.f("pk_person_names")),
    )
    op.drop_column("principals", "shown_name")  # no entry had a digest of it; a provider states it again
    op.add_column("idempotency_keys", sa.Column("population", sa.String(length=63), nullable=True))
    op.add_column("idempotency_keys", sa.Column("sequence", sa.BigInteger(), nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def _guard_sqlite() -> None:
    for table, acts in KEPT.items():
        for act in acts:
            op.execute(
                f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
    op.execute("DROP TRIGGER idempotency_keys_no_update")
    op.execute(
        f"CREATE TRIGGER idempotency_keys_no_update BEFORE UPDATE ON idempotency_keys WHEN {KEY_IS_FIXED} "
        f"BEGIN SELECT RAISE(ABORT, '{KEY_MESSAGE}'); END"
    )


def _guard_postgresql() -> None:
    for table, acts in KEPT.items():
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE {' OR '.join(acts)} OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    op.execute(
        "CREATE OR REPLACE FUNCTION idempotency_keys_fixed() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = public, pg_temp AS $$ BEGIN "
        f"IF {KEY_IS_FIXED} THEN RAISE EXCEPTION '{KEY_MESSAGE}'; END IF; RETURN NEW; END $$"
    )
    grants = [f"GRANT {rights} ON {', '.join(tables)} TO {ROLE}" for rights, tables in RIGHTS.items()]
    # Where the group is not there, as the first revision says, the grants are made by hand: docs/ledger.md.
    op.execute(
        f"DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN {'; '.join(grants)}; END IF; "
        "EXCEPTION WHEN insufficient_privilege THEN RAISE NOTICE 'nothing was granted'; END $$"
    )


def downgrade() -> None:
    """Refuse: a ledger is kept."""
    raise NotImplementedError("there is no way back to an older schema but the backup")
