"""Somebody has the service's login to PostgreSQL, and neither the signing key nor the host: what they cannot do.

They may insert into the log and change what is not history. Each test lets them, and holds a promise against it: no
release leaves that is charged to nobody, to others or for other noise, and no answer is served that was never charged,
unless `curator ledger verify` or the next start names it.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dashboard_worlds import Person
from scenes import ASYNC, QUOTES, RELEASES, Gate, another_worker, await_job, box, register_private
from support import (
    PERSONS,
    World,
    body,
    csv_text,
    find_discrepancies,
    fresh_database,
    make_rows,
    manifest_text,
    open_world,
    problem,
    service_url,
)
from typer.testing import CliRunner

from curator_service.backup import read_backup, write_backup
from curator_service.cli.main import app
from curator_service.container import make_curator
from curator_service.datasets import repository as datasets
from curator_service.datasets.visibility import collection_of
from curator_service.entries.account import GENESIS
from curator_service.identity.policy import Role
from curator_service.kinds.registry import KINDS
from curator_service.ledger.chain.entries import canonical, entry_hash
from curator_service.ledger.trust.recovery import reconcile
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases import repository as releases
from curator_service.releases.answers import make_listing, read_about
from curator_service.settings import Settings

pytestmark = pytest.mark.postgres

WHEN = "2026-03-01T12:00:00Z"
ENTRY = "INSERT INTO ledger_entries (population, sequence, payload, entry_hash, signature) VALUES (%s, %s, %s, %s, '')"
_HOLD = "INSERT INTO column_holders (collection, kind, name, chunk, bits)"
Act = str | tuple[str, tuple[Any, ...]]


def bring_permits(population: str) -> str:
    """Return what whoever moves a dataset to other people does, so that its analysts may spend there."""
    return (
        "INSERT INTO shares (population, permit_id, posted_units, pending_units, expires_at) "
        f"SELECT DISTINCT '{population}', permit_id, 0, 0, '' FROM shares ON CONFLICT DO NOTHING"
    )


def intrude(world: World, *acts: Act) -> list[Any]:
    """Act with the service's login; return the rows of the last statement."""
    assert world.settings.database_url is not None
    found: list[Any] = []
    with psycopg.connect(service_url(world.settings.database_url)) as connection:
        for act in acts:
            cursor = connection.execute(act) if isinstance(act, str) else connection.execute(*act)
            found = cursor.fetchall() if cursor.description else []
    return found


def is_detected(world: World) -> bool:
    """Return whether `curator ledger verify`, or a start, names something."""
    worker = another_worker(world)
    try:
        for population in worker.ledger.list_populations():
            if not worker.ledger.verify(population.name).ok:
                return True
            if find_discrepancies(worker, population.name):
                return True
        return bool(worker.ledger.guard.inspection.find_contradiction() or worker.ledger.guard.start())
    finally:
        worker.database.dispose()


def unsigned(population: str, sequence: int, previous: str, kind: str, units: int, **payload: str) -> tuple[str, str]:
    """Write an entry that lacks nothing but the signature, of a limit of 2**59; return its text and its hash."""
    place = {"population": population, "sequence": sequence, "previous_hash": previous, "units": str(units)}
    account = {"epoch": 1, "limit": str(2**59), "posted": "0", "pending": "0", "key_id": "key_0"}
    text = canonical({"format": 2, "kind": kind, "actor": "operator:test", "time": WHEN, **place, **account, **payload})
    return text, entry_hash(text)


COLUMNS_OF_LISTINGS = "release_id, dataset_id, collection, sequence, shelf, members, least_sd, loudness, noise, summary"


def forge_answer(world: World, sequence: int) -> str:
    """Put an invented answer to Ada's request beside an entry, and list it as the quietest; return its id."""
    true = world.api().post(RELEASES, json=box(), key="one").json()
    receipt = true.pop("receipt")
    invented = true | {"id": "rel_" + "f" * 24}
    invented["statistics"]["xtx"]["values"] = [424242.0] * len(invented["statistics"]["xtx"]["values"])
    text = json.dumps(invented, separators=(",", ":"))
    ((dataset,),) = intrude(world, "SELECT dataset_id FROM releases")
    if sequence < 1:
        payload = {name: value for name, value in receipt.items() if name not in {"entry_hash", "signature"}}
        digest = hashlib.sha256(text.encode()).hexdigest()
        payload_text = canonical(payload | {"release": invented["id"], "answer_digest": digest, "sequence": sequence})
        intrude(world, (ENTRY, ("town", sequence, payload_text, entry_hash(payload_text))))
    row = invented["id"], dataset, "town", sequence, receipt["request_digest"], text
    intrude(world, ("INSERT INTO releases VALUES (%s, %s, %s, %s, %s, %s)", row))
    list_as_quietest(world, str(invented["id"]))
    return str(invented["id"])


def list_as_quietest(world: World, release: str) -> None:
    """List a release in the place of the one there is, without noise."""
    ((sequence,),) = intrude(world, ("SELECT sequence FROM releases WHERE id = %s", (release,)))
    copied = COLUMNS_OF_LISTINGS.replace("release_id", "%s").replace("sequence", "%s").replace("loudness", "0")
    intrude(
        world,
        (
            f"INSERT INTO release_listings ({COLUMNS_OF_LISTINGS}) SELECT {copied} FROM release_listings LIMIT 1",
            (release, sequence),
        ),
        (
            f"{_HOLD} SELECT DISTINCT collection, kind, name, %s / 8192, '1' FROM column_holders "
            "ON CONFLICT DO NOTHING",
            (sequence,),
        ),
    )


@pytest.mark.parametrize("sequence", [0, -5, 2], ids=["before_the_chain", "far_before_it", "beside_another_entry"])
@pytest.mark.parametrize("asked", [box(), box(price={"mu": 0.01})], ids=["the_same", "less_precision"])
def test_an_invented_answer_is_not_served(town: World, sequence: int, asked: dict[str, Any]) -> None:
    invented, ben = forge_answer(town, sequence), town.api("ben")
    assert ben.post(QUOTES, json=asked).json()["stored_release"] == invented
    problem(ben.post(RELEASES, json=asked, key="his"), "ledger-unverified", 503)
    problem(ben.get(f"/v1/releases/{invented}"), "ledger-unverified", 503)
    problem(ben.post(RELEASES, json=box(fresh=True), key="next"), "ledger-unverified", 503)
    assert is_detected(town)


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({"rows": {"map": "ball"}}, {}),
        ({"features": ["age", "sex", "weight"], "price": {"mu": 0.01}}, {}),
        ({"targets": ["alive"]}, {}),
        ({"intercept": False}, {}),
        ({"rows": {"map": "ball"}, "features": ["age", "sex", "weight"]}, {"features": ["age"], "price": {"mu": 0.01}}),
    ],
    ids=["other_rows", "other_columns", "another_target", "no_constant", "cut_out_of_other_rows"],
)
def test_a_true_answer_is_not_served_for_what_it_is_not(
    town: World, change: dict[str, Any], asked: dict[str, Any]
) -> None:
    """Ada's answer is genuine, and is listed under Ben's request before the curator could list it itself."""
    api, ben = town.api(), town.api("ben")
    assert api.post(RELEASES, json=box(**change), key="other").status_code == 201
    assert api.post(RELEASES, json=box(), key="asked").status_code == 201
    # As the owner: the service itself can neither change a listing nor add a second one.
    off, on = (f"ALTER TABLE release_listings {act} TRIGGER USER" for act in ("DISABLE", "ENABLE"))
    places = "shelf, members, least_sd, loudness, noise, summary"
    town.sql(
        off,
        f"UPDATE release_listings o SET ({places}) = (SELECT {places} FROM release_listings l WHERE sequence = "
        "(SELECT max(sequence) FROM release_listings)) WHERE o.sequence < (SELECT max(sequence) FROM release_listings)",
        on,
    )
    problem(ben.post(RELEASES, json=box(**asked), key="his"), "ledger-unverified", 503)
    assert is_detected(town)


def test_a_dataset_that_changes_for_a_moment_serves_nobody_elses_answer(town: World) -> None:
    """Whose answers may be served stands in the declarations, and these in the chain."""
    at = f"{register_private(town, 'ada', 'ben')}/releases"
    bought = town.api().post(at, json=box(), key="hers").json()
    intrude(town, """UPDATE datasets SET manifest = replace(manifest, '"library":"own"', '"library":"shared"')""")
    with town.curator.database.read() as connection:
        dataset = datasets.find_dataset(connection, "private", granted_to=None)
        release = releases.find_release(connection, bought["id"])
    assert dataset is not None
    assert release is not None
    collection, listing = collection_of(dataset, "ada"), make_listing(KINDS.first, dataset, read_about(release.answer))
    listed = {
        "collection": collection,
        "shelf": listing.shelf(collection),
        "members": listing.members(collection),
    }
    # As the owner: the service itself can neither change a listing nor add a second one.
    off, on = (f"ALTER TABLE release_listings {act} TRIGGER USER" for act in ("DISABLE", "ENABLE"))
    places = ", ".join(f"{name} = '{value}'" for name, value in listed.items())
    town.sql(off, f"UPDATE release_listings SET {places} WHERE release_id = '{release.id}'", on)
    problem(town.api("ben").post(at, json=box(), key="his"), "ledger-unverified", 503)
    assert is_detected(town)


@pytest.mark.parametrize(
    "act",
    [
        "UPDATE release_listings SET loudness = 0",
        "DELETE FROM release_listings",
        "DELETE FROM column_holders",
        "UPDATE column_holders SET bits = '0'",
        "UPDATE column_holders SET bits = substr(bits, 2)",
        "UPDATE column_holders SET bits = bits || repeat('0', 2048)",
        "UPDATE column_holders SET bits = '8' || lpad(bits, 2047, '0'); UPDATE column_holders SET bits = bits || '0'",
        "UPDATE column_holders SET bits = upper(bits) || 'F'",
        "UPDATE column_holders SET bits = ' ' || bits",
        "UPDATE column_holders SET name = 'hidden'",
        "UPDATE column_holders SET kind = 'hidden'",
        "UPDATE column_holders SET chunk = chunk + 1",
        f"{_HOLD} SELECT collection, kind, name, 1, '' FROM column_holders",
        f"{_HOLD} SELECT collection, kind, name, 1, '0x1' FROM column_holders",
        f"{_HOLD} SELECT collection, kind, name, 1, repeat('1', 2049) FROM column_holders",
        "INSERT INTO release_listings SELECT * FROM release_listings",
    ],
)
def test_nobody_hides_a_stored_release_so_that_it_is_bought_again(town: World, act: str) -> None:
    api = town.api()
    for number, price in enumerate((0.02, 0.03)):
        assert api.post(RELEASES, json=box(price={"mu": price}, fresh=True), key=f"k{number}").status_code == 201
    with pytest.raises(psycopg.Error):
        intrude(town, act)
    assert api.post(RELEASES, json=box(features=["age"], price={"mu": 0.01}), key="k").headers["curator-answer"] == (
        "derived"
    )


@pytest.mark.parametrize("bits", ["'8' || lpad(bits, 2047, '0')", "repeat('f', 2048)"])
def test_bits_of_releases_that_there_are_not_hide_none(town: World, bits: str) -> None:
    api = town.api()
    assert api.post(RELEASES, json=box(price={"mu": 0.03}), key="one").status_code == 201
    spent = town.account().posted
    intrude(town, f"UPDATE column_holders SET bits = {bits}")
    answer = api.post(RELEASES, json=box(features=["age"], price={"mu": 0.01}), key="two")
    assert answer.headers["curator-answer"] == "derived"
    assert town.account().posted == spent


@pytest.mark.parametrize("bits", ["bits || repeat('0', 2048)", "''", "'-1'", "'0x' || bits"])
def test_bits_that_are_not_those_of_a_chunk_seal_the_curator(town: World, bits: str) -> None:
    api = town.api()
    assert api.post(RELEASES, json=box(price={"mu": 0.03}), key="one").status_code == 201
    # As the owner: the service itself can write none.
    town.sql(
        "ALTER TABLE column_holders DROP CONSTRAINT ck_column_holders_digits",
        "ALTER TABLE column_holders DISABLE TRIGGER USER",
        f"UPDATE column_holders SET bits = {bits}",
    )
    assert town.discrepancies()
    block = box(features=["age"], price={"mu": 0.01})
    spent = town.account().posted
    problem(api.post(QUOTES, json=block), "ledger-unverified", 503)
    problem(api.post(RELEASES, json=block, key="two"), "ledger-unverified", 503)
    problem(api.post(RELEASES, json=box(fresh=True), key="three"), "ledger-unverified", 503)
    assert town.account().posted == spent


def test_an_invented_reconciliation_saves_nobody_a_write_off(town: World, tmp_path: Path, postgres_server: str) -> None:
    api = town.api()
    payload = {"kind": "reconcile", "population": "town", "sequence": 0, "epoch": 2, "kept_through": "2"}
    payload_text = canonical(payload | {"posted": str(2**60), "lost": [], "all": "no"})
    intrude(town, (ENTRY, ("town", 0, payload_text, entry_hash(payload_text))))
    write_backup(town.curator, tmp_path / "b.tar")
    assert api.post(RELEASES, json=box(fresh=True), key="lost").status_code == 201
    assert is_detected(town)
    with fresh_database(postgres_server) as url:
        settings = Settings(
            data_dir=tmp_path / "restored",
            keys_dir=town.settings.keys_folder,
            anchor_dir=town.settings.anchor_folder,
            database_url=url,
        )
        curator = make_curator(settings, noise=town.noise, now=town.clock)
        try:
            read_backup(curator, tmp_path / "b.tar")
            done = reconcile(curator.ledger, [], actor="operator:test", anchor_lost=False)
            of_town = next(one for one in done if one.population == "town")
            assert (of_town.set_aside, of_town.written_off) == (1, town.account().posted)
            assert of_town.written_off > 0
        finally:
            curator.close()


def test_terms_of_a_population_that_change_for_a_moment_sell_nothing(tmp_path: Path, postgres_url: str) -> None:
    with open_world(tmp_path, url=postgres_url, adjacency=Adjacency.REPLACE_ONE) as world:
        api = world.api()
        intrude(world, "UPDATE populations SET adjacency = 'add_remove'")
        problem(api.post(RELEASES, json=box(fresh=True), key="k"), "ledger-unverified", 503)


@pytest.mark.parametrize("rows", [{"map": "box"}, {"map": "ball"}], ids=["at_once", "reserved_first"])
@pytest.mark.parametrize(
    "change",
    [
        "manifest = replace(manifest, '\"row_capacity\":1000', '\"row_capacity\":90')",
        "population = 'valley'",
        "snapshot_commitment = repeat('0', 64)",
        "name = 'cohort2'",
    ],
    ids=["declarations", "population", "snapshot", "name"],
)
def test_a_dataset_that_changes_for_a_moment_sells_nothing(town: World, change: str, rows: dict[str, str]) -> None:
    api = town.api()
    name = "cohort2" if "name" in change else "cohort"
    assert intrude(town, f"UPDATE datasets SET {change} WHERE name = 'cohort' RETURNING 1") == [(1,)]
    if "population" in change:
        intrude(town, bring_permits("valley"))
    before = town.account().sequence
    answer = api.post(f"/v1/datasets/{name}/releases", json=body(rows=rows, fresh=True), key="k")
    problem(answer, "ledger-unverified", 503)
    assert town.account().sequence == before


def test_rows_per_person_that_change_for_a_moment_sell_nothing(town: World) -> None:
    rows = [{**row, "pid": str(i // 4)} for i, row in enumerate(make_rows(80, seed=5))]
    manifest, data = town.folder / "visits.toml", town.folder / "visits.csv"
    declared = manifest_text("visits").replace(PERSONS, 'subject = "pid"\nrows_per_subject = 100')
    manifest.write_text(declared, encoding="utf-8")
    data.write_text(csv_text(rows), encoding="utf-8")
    dataset = town.curator.datasets.register(manifest, data, actor="operator:test").id
    town.grant("ada", dataset)
    api = town.api()
    changed = """UPDATE datasets SET manifest = replace(manifest, '"rows_per_subject":100', '"rows_per_subject":1')"""
    intrude(town, f"{changed} WHERE name = 'visits'")
    problem(api.post("/v1/datasets/visits/releases", json=box(), key="k"), "ledger-unverified", 503)


def test_a_dataset_does_not_point_to_the_rows_of_another(town: World) -> None:
    api = town.api()
    ((dataset,),) = intrude(town, "SELECT id FROM datasets WHERE name = 'cohort'")
    intrude(
        town,
        (
            "INSERT INTO datasets (id, name, population, manifest, snapshot_commitment, created_at, folder, version, "
            "sequence, cut_at, retired_at, successor) SELECT %s, 'twin', 'valley', manifest, "
            "snapshot_commitment, created_at, folder, version, sequence, cut_at, retired_at, successor "
            "FROM datasets WHERE name = 'cohort'",
            (f"./{dataset}",),
        ),
        (
            "INSERT INTO grants (principal_id, dataset_id, permit_id, created_at) "
            "SELECT principal_id, %s, permit_id, created_at FROM grants WHERE dataset_id = %s",
            (f"./{dataset}", dataset),
        ),
        bring_permits("valley"),
    )
    problem(api.post("/v1/datasets/twin/releases", json=box(), key="k"), "ledger-unverified", 503)


def test_a_dataset_does_not_name_the_folder_of_another(town: World) -> None:
    api = town.api()
    intrude(town, "UPDATE datasets SET folder = (SELECT id FROM datasets WHERE name = 'hidden') WHERE name = 'cohort'")
    problem(api.post("/v1/datasets/cohort/releases", json=box(), key="k"), "dataset-unavailable", 503)
    assert town.account().posted == 0


def test_two_datasets_do_not_change_their_rows(town: World) -> None:
    """The stored rows of a dataset lie in a folder of its id."""
    api = town.api()
    town.grant("ada", town.register("other", "valley", make_rows(40, seed=9)))
    swap = "UPDATE datasets d SET name = o.name, population = o.population, manifest = o.manifest, "
    swap += "snapshot_commitment = o.snapshot_commitment FROM datasets o "
    swap += "WHERE d.name IN ('cohort', 'other') AND o.name IN ('cohort', 'other') AND d.name <> o.name"
    assert town.curator.database.url is not None
    intrude(town, "UPDATE datasets SET name = 'parked' WHERE name = 'other'")
    intrude(
        town,
        bring_permits("valley"),
        bring_permits("town"),
        swap.replace("'other'", "'parked'").replace("name = o.name, ", ""),
        "UPDATE datasets SET name = 'swapping' WHERE name = 'cohort'",
        "UPDATE datasets SET name = 'cohort' WHERE name = 'parked'",
    )
    problem(api.post(RELEASES, json=box(fresh=True), key="k"), "ledger-unverified", 503)


def test_a_limit_is_not_raised_by_an_entry_that_nobody_signed(town: World) -> None:
    api = town.api()  # it runs when the command line adds people, of whom its anchor knows nothing
    town.curator.ledger.create_population(
        "city",
        adjacency=Adjacency.ADD_REMOVE,
        accountant="gdp",
        limit=Price(mu=0.06),
        delta=1e-6,
        actor="operator:test",
    )
    town.grant("ada", town.register("urban", "city", make_rows(50, seed=3)))
    ((head, sequence),) = intrude(town, "SELECT head_hash, head_sequence FROM populations WHERE name = 'city'")
    text, digest = unsigned("city", sequence + 1, head, "limit", 2**59, approved_by="prn_b", reason="")
    raised = "UPDATE populations SET limit_units = %s, head_sequence = %s, head_hash = %s WHERE name = 'city'"
    intrude(town, (ENTRY, ("city", sequence + 1, text, digest)), (raised, (2**59, sequence + 1, digest)))
    problem(api.post("/v1/datasets/urban/releases", json=box(fresh=True), key="k"), "ledger-unverified", 503)
    assert not town.curator.ledger.verify("city").ok


def test_an_invented_population_pays_for_nobody(town: World) -> None:
    api = town.api()
    ((manifest, snapshot),) = intrude(town, "SELECT manifest, snapshot_commitment FROM datasets WHERE name = 'cohort'")
    terms = {"adjacency": "add_remove", "accountant": "gdp", "delta": "1e-06"}
    first, first_hash = unsigned("evil", 1, GENESIS, "open", 2**59, **terms)
    ((dataset_id,),) = intrude(town, "SELECT id FROM datasets WHERE name = 'cohort'")
    registered = {"dataset": "cohort", "dataset_id": dataset_id}
    registered["manifest_digest"] = hashlib.sha256(manifest.encode()).hexdigest()
    second, second_hash = unsigned("evil", 2, first_hash, "dataset", 0, snapshot=snapshot, **registered)
    intrude(
        town,
        (
            "INSERT INTO populations (name, adjacency, accountant, delta, limit_units, posted_units, pending_units, "
            "head_sequence, head_hash, created_at, epoch) VALUES "
            "('evil', 'add_remove', 'gdp', '1e-06', %s, 0, 0, 2, %s, %s, 1)",
            (2**59, second_hash, WHEN),
        ),
        (ENTRY, ("evil", 1, first, first_hash)),
        (ENTRY, ("evil", 2, second, second_hash)),
        "UPDATE datasets SET population = 'evil' WHERE name = 'cohort'",
        bring_permits("evil"),
    )
    answer = api.post(RELEASES, json=box(fresh=True, price={"mu": 5.0}), key="k")
    problem(answer, "ledger-unverified", 503)
    assert is_detected(town)


def test_a_seal_is_not_lifted_by_an_update(town: World) -> None:
    api = town.api()
    town.curator.ledger.guard.seal("a proved contradiction")
    mine = "CREATE TEMPORARY TABLE populations (name text, head_sequence bigint, head_hash text)"
    for change in ("reason = '', sealed_at = ''", "id = 2"):
        for before in ("SELECT 1", mine):
            with pytest.raises(psycopg.errors.RaiseException, match="seal"):
                intrude(town, before, f"UPDATE seal SET {change}")
    problem(api.post(RELEASES, json=box(fresh=True), key="k"), "ledger-unverified", 503)


def test_a_changed_dataset_does_not_pass_the_start(town: World) -> None:
    ((manifest, snapshot),) = intrude(town, "SELECT manifest, snapshot_commitment FROM datasets WHERE name = 'cohort'")
    changed = manifest.replace('"row_capacity":1000', '"row_capacity":90')
    payload = {"kind": "dataset", "population": "town", "dataset": "cohort", "snapshot": snapshot, "sequence": -5}
    payload_text = canonical(payload | {"manifest_digest": hashlib.sha256(changed.encode()).hexdigest()})
    intrude(
        town,
        (ENTRY, ("town", -5, payload_text, entry_hash(payload_text))),
        ("UPDATE datasets SET manifest = %s WHERE name = 'cohort'", (changed,)),
    )
    worker = another_worker(town)
    assert worker.ledger.guard.start()
    worker.database.dispose()


def test_a_key_that_waits_does_not_come_to_wait_for_another_job(tmp_path: Path, postgres_url: str) -> None:
    gate = Gate()
    with open_world(tmp_path, url=postgres_url, noise=gate) as world:
        api = world.api()
        cancelled = api.post(RELEASES, json=body(fresh=True), key="other", headers=ASYNC).json()["id"]
        gate.await_entry()
        assert api.request("DELETE", f"/v1/jobs/{cancelled}").status_code == 200
        running = api.post(RELEASES, json=body(fresh=True), key="k", headers=ASYNC).json()["id"]
        mine = f"CREATE TEMPORARY TABLE reservations AS SELECT '{running}' AS id, 'closed' AS state"
        for before in ("SELECT 1", mine):
            with pytest.raises(psycopg.errors.RaiseException, match="idempotency_keys"):
                intrude(world, before, f"UPDATE idempotency_keys SET reservation_id = '{cancelled}' WHERE key = 'k'")
        gate.opened.set()
        assert await_job(api, running)["state"] == "done"
        assert [entry["reservation"] for entry in world.entries() if entry["kind"] == "charge"] == [running]


def test_a_stray_key_is_named_and_verifies_nothing(town: World) -> None:
    intrude(town, "INSERT INTO signing_keys VALUES ('key_x', 'x', 't', 'key_nobody', '')")
    environment = {"CURATOR_DATA_DIR": str(town.settings.data_dir), "CURATOR_DATABASE_URL": town.settings.database_url}
    result = CliRunner().invoke(app, ["ledger", "verify"], env=environment | {"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "key_x" in result.stderr
    api = town.api()
    problem(api.post(RELEASES, json=box(), key="k"), "ledger-unverified", 503)
    assert api.post(QUOTES, json=box()).status_code == 200


def test_a_session_that_they_write_lets_them_in_as_nobody(tmp_path: Path, postgres_url: str) -> None:
    """Of an officer whose token they see in the table, and whose secret they do not."""
    with open_world(tmp_path, url=postgres_url) as world:
        token = world.add_token("olga", Role.PRIVACY_OFFICER).split("_")[1]
        browser = Person(world)
        ((officer,),) = intrude(world, "SELECT id FROM principals WHERE name = 'olga'")
        forged = {"id_hash": hashlib.sha256(b"A" * 43).hexdigest(), "principal_id": officer, "token_id": token}
        forged |= dict.fromkeys(("began_at", "seen_at", "confirmed_at"), WHEN) | {"ends_at": "2026-03-01T18:00:00Z"}
        columns, values = ", ".join(forged), ", ".join(["%s"] * len(forged))
        intrude(world, (f"INSERT INTO browser_sessions ({columns}) VALUES ({values})", tuple(forged.values())))
        browser.cookies.set("__Host-curator-session", "A" * 43, domain="curator.test", path="/")
        assert browser.get("/admin").status_code == 303
