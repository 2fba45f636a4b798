"""A second history under the curator's key is accounted for to the unit where its whole chain is at hand.

Whoever has the machine may want budget back for released answers: each test of the second part tries one way.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import scenes
from entry_examples import EXAMPLES, PLACE, read
from scenes import BUDGET_OF, RELEASES, RESERVATIONS, assert_sound, box, checkpoint_of, seen
from support import ADMIN, Price, World, client_of, open_world
from typer.testing import CliRunner, Result

from analyst_client.errors import LedgerRestoredWarning
from curator_service.backup import read_backup, write_backup
from curator_service.cli.main import app as cli
from curator_service.container import make_curator
from curator_service.entries.account import Account, Unfounded
from curator_service.entries.base import Entry
from curator_service.settings import Settings

pytestmark = pytest.mark.crashes

Release = dict[str, Any]
COPIES: list[World] = []


@pytest.fixture(autouse=True)
def _end_copies() -> Iterator[None]:
    yield
    while COPIES:
        COPIES.pop().close()


@pytest.fixture
def used(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    today = datetime.now(UTC).replace(microsecond=0)  # commands have the machine's clock, and tokens an end
    with open_world(tmp_path, url=database_url, limit=Price(mu=1.0), moment=today) as world:
        world.add_token("rita", *ADMIN)
        buy(world, "common")
        yield world


# --- Scenes


def buy(world: World, key: str, mu: float = 0.03, who: str = "ada") -> Release:
    answer = world.api(who).post(RELEASES, json=box(fresh=True, price={"mu": mu}), key=key)
    assert answer.status_code == 201, answer.text
    release: Release = answer.json()
    return release


def units(*releases: Release) -> int:
    return sum(int(release["cost"]["units"]) for release in releases)


def copy_of(world: World, name: str = "copy", *, anchor_lost: bool = False) -> World:
    copied = scenes.copy_of(world, name, anchor_lost=anchor_lost)
    COPIES.append(copied)
    if anchor_lost:
        raised = {"limit": {"mu": 1.2}, "reason": "to try it"}
        asked = copied.api("root").post("/v1/admin/populations/town/limits", json=raised).json()
        assert copied.api("rita").post(f"/v1/admin/proposals/{asked['id']}/approve").status_code == 200
    return copied


def backup_of(world: World, name: str) -> Path:
    file = world.folder / f"{name}.tar"
    write_backup(world.curator, file)
    return file


def bring(world: World, *releases: Release) -> str:
    """Let a client that saw answers of another history ask this one; return why the curator is sealed."""
    for release in releases:
        assert world.api().get(BUDGET_OF, headers=seen(checkpoint_of(release["receipt"]))).status_code == 200
    return world.curator.ledger.guard.reason()


def run(world: World, *words: str, first: str = "root", second: str = "rita") -> Result:
    env: dict[str, str | None] = {
        "CURATOR_DATA_DIR": str(world.settings.data_dir),
        "CURATOR_KEYS_DIR": str(world.settings.keys_folder),
        "CURATOR_ANCHOR_DIR": str(world.settings.anchor_folder),
        "CURATOR_DATABASE_URL": world.settings.database_url,
        "CURATOR_TOKEN": world.tokens.get(first, first),
        "CURATOR_SECOND_TOKEN": world.tokens.get(second, second),
    }
    return CliRunner().invoke(cli, [*words, "--json"], env=env)


def account_for(world: World, copy: World | None = None, file: Path | None = None, **people: str) -> Result:
    """Reconcile as the command line does, with a copy's anchor and backup if there is one."""
    words = ["restore", "--reconcile"]
    if copy is not None:
        words += ["--anchor", str(copy.settings.anchor_folder)]
    if file is not None:
        words += ["--history", str(file)]
    return run(world, *words, **people)


def assert_refused(ended: Result, world: World, reason: str) -> None:
    assert (ended.exit_code, reason in ended.stderr) == (1, True), ended.output
    assert world.curator.ledger.guard.reason() != ""


def assert_counted(world: World, posted: int) -> None:
    assert world.account().posted == posted
    assert world.curator.ledger.guard.reason() == ""
    assert_sound(world)


# --- What is counted


@pytest.mark.parametrize("ours_count", [1, 3])
def test_what_both_histories_charged_is_counted_where_checkpoints_alone_tell(used: World, ours_count: int) -> None:
    """They parted nobody knows where: what the second one states as spent is added to what was spent here."""
    common, copy = used.account().posted, copy_of(used)
    ours = [buy(used, f"ours{i}") for i in range(ours_count)]
    theirs = [buy(copy, f"theirs{i}") for i in range(3)]
    for shown in (theirs[1], theirs[2]):
        assert "which a client has seen" in bring(used, shown)
        assert account_for(used).exit_code == 0
    assert used.account().posted >= common + units(*ours, *theirs)
    assert bring(used, *theirs) == ""
    assert_sound(used)


@pytest.mark.parametrize("anchor_lost", [False, True], ids=["with a copy of the anchor", "without an anchor"])
def test_a_second_history_is_counted_by_its_chain_to_the_unit(used: World, anchor_lost: bool) -> None:
    buy(used, "later")
    before = used.account()
    client = client_of(used)
    copy = copy_of(used, anchor_lost=anchor_lost)
    theirs = [buy(copy, f"theirs{i}", who=who) for i, who in enumerate(["ada", "ada", "ben"])]
    ours = buy(used, "ours")
    client.budget("cohort")
    assert "which a client has seen" in bring(used, *theirs)
    ended = account_for(used, copy, backup_of(copy, "copy"))
    assert ended.exit_code == 0, ended.output
    assert_counted(used, before.posted + units(ours, *theirs))
    after = used.account()
    assert (after.limit, after.highest_limit, after.pending) == (before.limit, max(before.limit, limit_of(theirs)), 0)
    (entry,) = (one for one in used.entries() if one["kind"] == "reconcile")
    read(entry)
    ids = {principal.name: principal.id for principal in used.curator.identity.list_principals()}
    assert (entry["actor"], entry["approved_by"], entry["units"]) == (ids["root"], ids["rita"], str(units(*theirs)))
    assert {charge["actor"]: int(charge["units"]) for charge in entry["charges"]} == {
        ids["ada"]: units(*theirs[:2]),
        ids["ben"]: units(theirs[2]),
    }
    shares = {label: share.posted for label, share in shares_of(used).items()}
    for release in theirs:
        assert shares[release["receipt"]["permit"]] >= units(release)
    assert sum(shares.values()) == after.posted  # each charge counts to its analyst
    assert run(used, "ledger", "verify").exit_code == 0
    assert bring(used, *theirs) == ""
    with pytest.warns(LedgerRestoredWarning):  # it refuses an account whose spending fell
        client.budget("cohort")
    buy(used, "again")
    assert_sound(used)


def limit_of(releases: list[Release]) -> int:
    return max(int(release["receipt"]["limit"]) for release in releases)


def shares_of(world: World) -> dict[str, Any]:
    return world.curator.ledger.verify("town").state.shares


def test_a_permit_that_a_second_history_filled_is_full_here(used: World) -> None:
    (permit,) = (p.id for p in used.curator.permits.list_permits() if "ada" in p.people.values())
    part = {"people": ["ada"], "datasets": ["cohort"], "reason": "a part", "limit": {"mu": 0.06}}
    assert used.api("root").post(f"/v1/permits/{permit}", json=part).status_code == 200
    before, copy = used.account().posted, copy_of(used)
    ours, theirs = buy(used, "ours", 0.05), buy(copy, "theirs", 0.05)
    assert bring(used, theirs)
    assert account_for(used, copy, backup_of(copy, "copy")).exit_code == 0
    assert_counted(used, before + units(ours, theirs))
    share = shares_of(used)[permit]
    assert share.posted == share.limit
    refused = used.api().post(RELEASES, json=box(fresh=True, price={"mu": 0.001}), key="more")
    assert refused.json()["type"] == "/problems/budget-exceeded"


# --- Ways to get budget back for what was released


def test_an_answer_that_somebody_holds_is_not_disowned(used: World) -> None:
    """The backup of the copy is older than its last sale: of which a client, or the copy's anchor, knows."""
    copy = copy_of(used)
    first = buy(copy, "first")
    cut = backup_of(copy, "cut")
    sold = buy(copy, "sold")
    assert bring(used, sold)
    assert_refused(account_for(used, copy, cut), used, "bring a later backup of it")
    shutil.copytree(copy.settings.anchor_folder, used.folder / "kept")
    wind_back(copy.settings.anchor_folder, first)
    assert_refused(account_for(used, copy, cut), used, "bring a later backup of it")  # its checkpoint was kept here
    shutil.rmtree(copy.settings.anchor_folder)
    assert_refused(account_for(used, None, cut), used, "bring a later backup of it")


def wind_back(anchor: Path, to: Release) -> None:
    """Cut an anchor behind a release, as whoever has the machine can."""
    lines = (anchor / "checkpoints").read_bytes().splitlines(keepends=True)
    end = next(i for i, line in enumerate(lines) if to["receipt"]["entry_hash"].encode() in line)
    (anchor / "checkpoints").write_bytes(b"".join(lines[: end + 1]))


def test_an_answer_that_the_copy_s_anchor_knows_is_not_disowned(used: World) -> None:
    copy = copy_of(used)
    first = buy(copy, "first")
    cut = backup_of(copy, "cut")
    buy(copy, "sold")
    assert bring(used, first)
    assert_refused(account_for(used, None, cut), used, "Bring it")
    assert_refused(account_for(used, copy, cut), used, "bring a later backup of it")


def test_an_answer_that_shows_late_seals_again_and_is_counted_then(used: World) -> None:
    """Nobody told of it: the chain ends before it, and so does the anchor."""
    before, copy = used.account().posted, copy_of(used, anchor_lost=True)
    first = buy(copy, "first")
    cut = backup_of(copy, "cut")
    sold = buy(copy, "sold")
    whole = backup_of(copy, "whole")
    ours = [buy(used, f"ours{i}") for i in range(3)]
    assert bring(used, first)
    wind_back(copy.settings.anchor_folder, first)
    assert account_for(used, copy, cut).exit_code == 0
    assert_counted(used, before + units(first, *ours))
    assert bring(used, sold)
    assert account_for(used, copy, whole).exit_code == 0  # the later backup counts what is new in it
    assert_counted(used, before + units(first, sold, *ours))


def test_another_copy_that_sold_nothing_stands_in_for_none(used: World) -> None:
    """It has the epoch and the sequences of the one that sold."""
    before = used.account().posted
    sold_there, harmless = copy_of(used, "sold"), copy_of(used, "harmless", anchor_lost=True)
    sold = buy(sold_there, "sold")
    small = [buy(harmless, f"small{i}", 0.001) for i in range(3)]
    assert harmless.account().epoch == sold_there.account().epoch
    assert harmless.account().sequence > sold["receipt"]["sequence"]
    file = backup_of(harmless, "harmless")
    ours = [buy(used, f"ours{i}") for i in range(3)]
    assert bring(used, small[0])
    assert account_for(used, harmless, file).exit_code == 0
    assert_counted(used, before + units(*ours, *small))
    assert bring(used, sold), "an answer of a third history is not known here, and nobody found out"
    assert_refused(account_for(used, harmless, file), used, "bring a later backup of it")
    assert account_for(used).exit_code == 0
    assert used.account().posted >= before + units(*ours, *small, sold)


def test_one_history_counts_once_however_often_it_is_brought(used: World) -> None:
    before, copy = used.account().posted, copy_of(used)
    theirs = buy(copy, "theirs")
    file = backup_of(copy, "copy")
    assert bring(used, theirs)
    for _ in range(2):
        assert account_for(used, copy, file).exit_code == 0
        assert_counted(used, before + units(theirs))
    assert len(spending_of(used)) == len(set(spending_of(used)))


def spending_of(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT month, principal_id, permit_id, dataset, kind, charges, units FROM spending")


def test_a_charge_that_two_copies_share_counts_once(used: World) -> None:
    before, one = used.account().posted, copy_of(used, "one")
    shared = buy(one, "shared")
    two = copy_of(one, "two")
    own = [buy(one, "own-of-one"), buy(two, "own-of-two")]
    for copy, sold in zip((one, two), own, strict=True):
        assert bring(used, sold)
        assert account_for(used, copy, backup_of(copy, f"{sold['id']}")).exit_code == 0
    assert_counted(used, before + units(shared, *own))


def test_what_was_written_off_stays_so(used: World) -> None:
    """Spending never falls: clients and auditors hold the curator to that."""
    copy = copy_of(used, anchor_lost=True)
    theirs = buy(copy, "theirs")
    assert bring(used, theirs)
    assert account_for(used).exit_code == 0
    written_off = used.account().posted
    more = buy(copy, "more")
    assert bring(used, more)
    assert_refused(account_for(used, copy, backup_of(copy, "copy")), used, "what was written off stays so")
    assert used.account().posted == written_off


def test_a_restore_from_before_the_reconciliation_gives_nothing_back(used: World) -> None:
    before, copy = used.account().posted, copy_of(used)
    theirs = buy(copy, "theirs")
    file, old = backup_of(copy, "copy"), backup_of(used, "old")
    ours = buy(used, "ours")
    assert bring(used, theirs)
    assert account_for(used, copy, file).exit_code == 0
    settings = Settings(
        data_dir=used.folder / "restored",
        keys_dir=used.settings.keys_folder,
        anchor_dir=used.settings.anchor_folder,
    )
    curator = make_curator(settings, noise=used.noise, now=used.clock)
    read_backup(curator, old)
    restored = World(settings, curator, used.clock, used.folder, used.noise, used.tokens)
    COPIES.append(restored)
    assert_refused(account_for(restored, copy, file), restored, "bring a later backup of it")
    assert account_for(restored).exit_code == 0
    assert restored.account().posted >= before + units(ours, theirs)
    assert bring(restored, theirs, ours) == ""
    assert_sound(restored)


def test_a_copy_that_wrote_off_a_third_history_is_refused(used: World) -> None:
    third, copy = copy_of(used, "third"), copy_of(used)
    assert bring(copy, buy(third, "third"))
    assert account_for(copy).exit_code == 0
    theirs = buy(copy, "theirs")
    assert bring(used, theirs)
    assert_refused(account_for(used, copy, backup_of(copy, "copy")), used, "a third one has been served")


def test_amounts_that_a_copy_still_holds_are_settled_first(used: World) -> None:
    copy = copy_of(used)
    asked = {"price": {"mu": 0.05}, "expires_in_s": 600}
    held = copy.api().post(RESERVATIONS, json=asked, key="held").json()
    assert bring(used, {"receipt": held["receipt"]})
    assert_refused(account_for(used, copy, backup_of(copy, "copy")), used, "holds amounts")


def test_a_history_of_another_curator_is_refused(used: World, tmp_path: Path) -> None:
    copy = copy_of(used)
    assert bring(used, buy(copy, "theirs"))
    with open_world(tmp_path / "other", moment=used.clock().replace(month=1, day=1)) as other:
        buy(other, "k")
        assert_refused(
            account_for(used, copy, backup_of(other, "other")), used, "does not hold under this curator's keys"
        )


def test_a_chain_without_the_charge_is_refused(used: World) -> None:
    """Its database was changed before the backup: the last sale, and what it moved, is gone."""
    copy = copy_of(used)
    first, sold = buy(copy, "first"), buy(copy, "sold")
    sequence, hashed = sold["receipt"]["sequence"], first["receipt"]["entry_hash"]
    with closing(sqlite3.connect(str(copy.curator.database.url.database))) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(f"DELETE FROM ledger_entries WHERE population = 'town' AND sequence = {sequence}")
        for table in ("idempotency_keys", "release_listings"):
            connection.execute(f"DELETE FROM {table} WHERE release_id = '{sold['id']}'")
        connection.execute(f"DELETE FROM releases WHERE id = '{sold['id']}'")
        connection.execute(
            f"UPDATE populations SET head_sequence = {sequence - 1}, head_hash = '{hashed}' WHERE name = 'town'"
        )
    assert bring(used, first)
    assert_refused(account_for(used, copy, backup_of(copy, "copy")), used, "does not hold")


def test_it_takes_two_people(used: World) -> None:
    again = used.curator.identity.create_token("root", *ADMIN).text
    copy = copy_of(used)
    assert bring(used, buy(copy, "theirs"))
    file = backup_of(copy, "copy")
    for second, reason in ((used.tokens["root"], "That is you"), (again, "That is you"), ("ada", ""), ("cur_none", "")):
        assert_refused(account_for(used, copy, file, second=second), used, reason)
    assert_refused(account_for(used, copy, file, first="ada"), used, "")
    assert account_for(used, copy, file).exit_code == 0


def test_a_history_goes_with_a_reconciliation_alone(used: World) -> None:
    for words in (["--anchor-lost", "--reconcile"], [str(used.folder / "backup.tar")]):
        refused = run(used, "restore", *words, "--history", str(used.folder / "copy.tar"))
        assert (refused.exit_code, "goes with --reconcile" in refused.stderr) == (1, True)


CHARGE = {"month": "2026-03", "actor": "prn_a", "permit": "prm_a", "project": "", "dataset": "cohort", "kind": "gram"}
COUNTED = {"actor": "prn_a", "approved_by": "prn_b", "charges": [CHARGE | {"count": "2", "units": "5"}]}


def count(change: dict[str, Any]) -> Account:
    """Return the account after an entry that takes over a second history."""
    told = EXAMPLES["reconcile"].payload | COUNTED | {"history": {"after": "1", "entries": []}} | change
    account = Account(limit=9, sequence=1)
    Entry.read(PLACE | {"epoch": 2} | told).move(account)
    return account


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"approved_by": "prn_a"}, "without a second person"),
        ({"charges": []}, "another amount"),
        ({"charges": [CHARGE | {"count": "1", "units": "7"}]}, "another amount"),
        ({"charges": [CHARGE | {"count": "1", "units": "5"}, CHARGE | {"count": "1", "units": "0"}]}, "another amount"),
        ({"charges": [CHARGE | {"count": "0", "units": "5"}]}, "another amount"),
    ],
)
def test_a_signed_entry_that_counts_otherwise_does_not_hold(change: dict[str, Any], reason: str) -> None:
    """Whoever has the key can sign it; whoever verifies the chain is told."""
    assert list(count({}).spending.values()) == [(2, 5)]
    with pytest.raises(Unfounded, match=reason):
        count(change)


def test_no_amount_of_a_second_history_is_below_zero() -> None:
    charges = [CHARGE | {"count": "1", "units": "7"}, CHARGE | {"count": "1", "units": "-2"}]
    with pytest.raises(ValueError, match="units"):
        count({"charges": charges})
