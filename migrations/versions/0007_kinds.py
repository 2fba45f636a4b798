"""A catalogue for any kind of release: listings state their noise as their answers do; columns are held by kind.

Revision ID: 0007
Revises: 0006
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op
from pydantic_core import to_json

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NOISE = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")
_SHELF = "ix_release_listings_shelf"
_FIRST_KIND = "gram"
_PAGE = 200
_DIGITS = 8192 // 4


def upgrade() -> None:
    """Apply. Every release of before is of the first kind."""
    _drop_append_only()
    op.drop_index(_SHELF, "release_listings")
    with op.batch_alter_table("release_listings") as table:
        table.add_column(sa.Column("least_sd", sa.Double()))
        table.add_column(sa.Column("noise", sa.Text()))
    for row in _rows(", ".join(_NOISE)):
        values = dict(zip(_NOISE, row[3:], strict=True))
        request = json.loads(row[2])["request"]
        stated = request["statistics"]
        sd = {name: values[name] for name in _NOISE if name in stated or (name[:4] == "xtx_" and "xtx" in stated)}
        noise = {"distribution": f"discrete_{request['mechanism']}", "sd": sd}
        _set(row[0], least_sd=values["xtx_offdiagonal"], noise=to_json(noise).decode())
    with op.batch_alter_table("release_listings") as table:
        table.alter_column("least_sd", existing_type=sa.Double(), nullable=False)
        table.alter_column("noise", existing_type=sa.Text(), nullable=False)
        for name in _NOISE:
            table.drop_column(name)
    op.create_index(_SHELF, "release_listings", ["shelf", "least_sd", "sequence"])
    _make_append_only()
    kind = sa.Column("kind", sa.String(length=20), nullable=False, server_default=_FIRST_KIND)
    with _holders() as table:
        table.add_column(kind)
        table.drop_constraint(op.f("pk_column_holders"), type_="primary")
        table.create_primary_key(op.f("pk_column_holders"), ["collection", "kind", "name", "chunk"])
    with _holders() as table:
        table.alter_column("kind", existing_type=sa.String(length=20), server_default=None)
    _replace_growth("kind, ")


def downgrade() -> None:
    """Undo, where there is nothing that the version before could not serve."""
    others = sa.text("SELECT count(*) FROM column_holders WHERE kind <> :kind")
    if op.get_bind().execute(others, {"kind": _FIRST_KIND}).scalar_one():
        raise RuntimeError("there are releases of kinds that the version before does not know: stay with this one")
    _replace_growth("")
    with _holders() as table:
        table.drop_constraint(op.f("pk_column_holders"), type_="primary")
        table.drop_column("kind")
        table.create_primary_key(op.f("pk_column_holders"), ["collection", "name", "chunk"])
    _drop_append_only()
    op.drop_index(_SHELF, "release_listings")
    with op.batch_alter_table("release_listings") as table:
        for name in _NOISE:
            table.add_column(sa.Column(name, sa.Double(), nullable=False, server_default="0"))
    for row in _rows("noise"):
        _set(row[0], **json.loads(row[3])["sd"])
    with op.batch_alter_table("release_listings") as table:
        for name in _NOISE:
            table.alter_column(name, existing_type=sa.Double(), server_default=None)
        table.drop_column("least_sd")
        table.drop_column("noise")
    op.create_index(_SHELF, "release_listings", ["shelf", "xtx_offdiagonal", "sequence"])
    _make_append_only()


def _holders() -> Any:
    return op.batch_alter_table("column_holders", naming_convention={"ck": "ck_%(table_name)s_%(constraint_name)s"})


def _rows(columns: str) -> Any:
    """Yield id, sequence, summary and some columns of every listing."""
    page = sa.text(
        f"SELECT release_id, sequence, summary, {columns} FROM release_listings WHERE release_id > :after "  # noqa: S608
        "ORDER BY release_id LIMIT :count"
    )
    after = ""
    while rows := op.get_bind().execute(page, {"after": after, "count": _PAGE}).all():
        yield from rows
        after = rows[-1][0]


def _set(release_id: str, **values: Any) -> None:
    members = ", ".join(f"{name} = :{name}" for name in values)
    change = sa.text(f"UPDATE release_listings SET {members} WHERE release_id = :id")  # noqa: S608
    op.get_bind().execute(change, {**values, "id": release_id})


def _drop_append_only() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for act in ("update", "delete"):
            op.execute(f"DROP TRIGGER release_listings_no_{act}")
    else:
        op.execute("DROP TRIGGER release_listings_append_only ON release_listings")


def _make_append_only() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for act in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER release_listings_no_{act.lower()} BEFORE {act} ON release_listings "
                "BEGIN SELECT RAISE(ABORT, 'release_listings is append-only'); END"
            )
    else:
        op.execute(
            "CREATE TRIGGER release_listings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON release_listings "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )


def _replace_growth(kind: str) -> None:
    """Let the rule that `column_holders` only grows look at the whole key."""
    if op.get_bind().dialect.name == "sqlite":
        return
    bits = f"('x' || lpad({{}}.bits, {_DIGITS}, '0'))::bit({_DIGITS * 4})"
    new, old = bits.format("NEW"), bits.format("OLD")
    key = f"collection, {kind}name, chunk".split(", ")
    ours, theirs = (", ".join(f"{row}.{name}" for name in key) for row in ("NEW", "OLD"))
    op.execute(
        "CREATE OR REPLACE FUNCTION column_holders_grow() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = public, pg_temp AS $$ BEGIN IF ({ours}) <> ({theirs}) OR {new} & {old} <> {old} "
        "THEN RAISE EXCEPTION 'column_holders only grows'; END IF; RETURN NEW; END $$"
    )
