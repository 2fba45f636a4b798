"""The library's catalogue: listings of releases, which of them hold a column, and how much each analyst has stored.

Revision ID: 0005
Revises: 0004
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op
from pydantic_core import to_json

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ROLE = "curator_service"
CHUNK = 8192
_DIGITS = CHUNK // 4
_PAGE = 8
NOISE_NAMES = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")
SUMMARY = ("id", "dataset", "kind", "created_at", "request", "cost")


def upgrade() -> None:
    """Apply. What was stored before is listed, but for answers that state no request."""
    listings = op.create_table(
        "release_listings",
        sa.Column("release_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("collection", sa.String(length=80), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("shelf", sa.String(length=64), nullable=False),
        sa.Column("members", sa.String(length=64), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in NOISE_NAMES),
        sa.Column("loudness", sa.Double(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_release_listings_release_id_releases")),
        sa.PrimaryKeyConstraint("release_id", name=op.f("pk_release_listings")),
    )
    holders = op.create_table(
        "column_holders",
        sa.Column("collection", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("chunk", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("bits", sa.Text(), nullable=False),
        sa.CheckConstraint(
            f"length(bits) BETWEEN 1 AND {_DIGITS} AND ltrim(bits, '0123456789abcdef') = ''",
            name=op.f("ck_column_holders_digits"),
        ),
        sa.PrimaryKeyConstraint("collection", "name", "chunk", name=op.f("pk_column_holders")),
    )
    space = op.create_table(
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
    _list_releases(listings, holders, space)
    for name, columns in (
        ("members", ["members", "loudness", "sequence"]),
        ("shelf", ["shelf", "xtx_offdiagonal", "sequence"]),
        ("collection", ["collection", "sequence"]),
        ("dataset", ["dataset_id", "sequence"]),
    ):
        op.create_index(f"ix_release_listings_{name}", "release_listings", columns)
    op.drop_index("ix_releases_dataset_request", table_name="releases")
    if op.get_bind().dialect.name == "sqlite":
        for act in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER release_listings_no_{act.lower()} BEFORE {act} ON release_listings "
                "BEGIN SELECT RAISE(ABORT, 'release_listings is append-only'); END"
            )
        return
    op.execute(
        "CREATE TRIGGER release_listings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON release_listings "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )
    # A release that is once found by its columns is found for ever: nobody can hide one, so that it is bought again.
    # `lpad` cuts what is longer, and the table's CHECK refuses it.
    bits = f"('x' || lpad({{}}.bits, {_DIGITS}, '0'))::bit({CHUNK})"
    new, old = bits.format("NEW"), bits.format("OLD")
    op.execute(
        "CREATE FUNCTION column_holders_grow() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS "
        "$$ BEGIN IF (NEW.collection, NEW.name, NEW.chunk) <> (OLD.collection, OLD.name, OLD.chunk) "
        f"OR {new} & {old} <> {old} THEN RAISE EXCEPTION 'column_holders only grows'; END IF; RETURN NEW; END $$"
    )
    op.execute(
        "CREATE TRIGGER column_holders_grow BEFORE UPDATE ON column_holders "
        "FOR EACH ROW EXECUTE FUNCTION column_holders_grow()"
    )
    # Whoever may not grant leaves it to the owner; docs/ledger.md has the grants for by hand.
    op.execute(
        f"DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN "
        f"GRANT SELECT, INSERT ON release_listings TO {ROLE}; "
        f"GRANT SELECT, INSERT, UPDATE ON column_holders, answer_space TO {ROLE}; END IF; "
        "EXCEPTION WHEN insufficient_privilege THEN RAISE NOTICE 'the role was not given its rights'; END $$"
    )


def _list_releases(listings: sa.Table, holders: sa.Table, space: sa.Table) -> None:
    """List every stored release, a few at a time: one may be megabytes long."""
    bind = op.get_bind()
    datasets = {
        dataset_id: json.loads(manifest)
        for dataset_id, manifest in bind.execute(sa.text("SELECT id, manifest FROM datasets"))
    }
    held: dict[tuple[str, str, int], int] = {}
    stored: dict[tuple[str, str], int] = {}
    for release_id, dataset_id, population, sequence, answer, payload in _releases(bind):
        actor = json.loads(payload)["actor"]
        stored[population, actor] = stored.get((population, actor), 0) + len(answer)
        manifest = datasets[dataset_id]
        try:
            about = _read_about(answer)
            request, noise = about["request"], about["noise"]
            collection = dataset_id if manifest.get("library", "shared") == "shared" else f"{dataset_id}/{actor}"
            shelf = _shelf_of(collection, request, noise["distribution"], _omitting(manifest, request))
            summary = to_json({name: about[name] for name in SUMMARY}).decode()
        except (ValueError, KeyError, TypeError):
            continue
        values = {
            "release_id": release_id,
            "dataset_id": dataset_id,
            "collection": collection,
            "sequence": sequence,
            "shelf": "" if "derived_from" in about else shelf,
            "members": _members_of(shelf, request),
            **{name: noise["sd"].get(name, 0.0) for name in NOISE_NAMES},
            "loudness": sum(noise["sd"].get(name, 0.0) for name in NOISE_NAMES),
            "summary": summary,
        }
        bind.execute(sa.insert(listings), values)
        if "derived_from" not in about:
            chunk, place = divmod(sequence, CHUNK)
            for name in (*request["features"], *request["targets"]):
                held[collection, name, chunk] = held.get((collection, name, chunk), 0) | 1 << place
    for (collection, name, chunk), bits in held.items():
        values = {"collection": collection, "name": name, "chunk": chunk, "bits": f"{bits:x}"}
        bind.execute(sa.insert(holders), values)
    for (population, principal), size in stored.items():
        bind.execute(sa.insert(space), {"population": population, "principal_id": principal, "bytes": size})


def _releases(bind: sa.Connection) -> Iterator[tuple[Any, ...]]:
    page = sa.text(
        "SELECT id, dataset_id, r.population, r.sequence, answer, payload FROM releases r JOIN ledger_entries e "
        "ON e.population = r.population AND e.sequence = r.sequence WHERE id > :after ORDER BY id LIMIT :count"
    )
    after = ""
    while rows := bind.execute(page, {"after": after, "count": _PAGE}).all():
        yield from (tuple(row) for row in rows)
        after = rows[-1][0]


def _omitting(manifest: dict[str, Any], request: dict[str, Any]) -> set[str]:
    """Return the columns of a request whose missing values take the row out; a target has no flag of its own."""
    rules = {column["name"]: column.get("missing", "omit") for column in manifest["columns"]}
    features = {name for name in request["features"] if rules[name] == "omit"}
    return features | {name for name in request["targets"] if rules[name] in {"omit", "indicator"}}


def _read_about(answer: str) -> dict[str, Any]:
    """Read an answer without its statistics, which may be half a million numbers."""
    head, _, rest = answer.partition(',"statistics":{')
    _, mark, tail = rest.rpartition('},"noise":{')
    about: dict[str, Any] = json.loads(f'{head},"noise":{{{tail}' if mark else answer)
    return about


def _shelf_of(collection: str, request: dict[str, Any], distribution: str, omitting: set[str]) -> str:
    rows = request["rows"]
    shaping = [] if rows["map"] == "box" else [sorted(request["features"]), request["intercept"]]
    return _hash([collection, rows, shaping, sorted(omitting), distribution])


def _members_of(shelf: str, request: dict[str, Any]) -> str:
    columns = [sorted(request["features"]), sorted(request["targets"]), request["intercept"]]
    return _hash([shelf, *columns, sorted(request["statistics"])])


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def downgrade() -> None:
    """Undo: the catalogue is made anew from the answers."""
    op.create_index("ix_releases_dataset_request", "releases", ["dataset_id", "request_digest"])
    for table in ("release_listings", "column_holders", "answer_space"):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION column_holders_grow()")
