"""Withdrawal of a waiting change by another person; nobody sees it from outside, and nobody forges it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from support import World
from test_versions import OTHERS, SKETCHES, add, assert_sound, cut, erase, find, open_restored, register, rows, run

from curator_service.backup import read_backup, write_backup
from curator_service.datasets import repository, versions
from curator_service.datasets.access import find_access
from curator_service.datasets.repository import REPLACE, WITHDRAW, WITHDRAWN, Change
from curator_service.datasets.versions import ChangeError
from curator_service.ledger.trust.recovery import reconcile

ENDING: dict[str, Callable[[World], object]] = {
    "erase": erase,
    "retire": lambda world: world.curator.versions.retire("visits", actor="operator:test"),
    "replace": lambda world: add(world, "visits", OTHERS, REPLACE),
}


def last(world: World) -> Change:
    """Return what was asked for last."""
    return max(world.curator.versions.list_changes(), key=lambda change: change.number)


def withdraw(world: World, act: Callable[[World], object]) -> None:
    """Ask for something, and withdraw it."""
    act(world)
    asked = last(world)
    world.curator.versions.withdraw(asked.id, actor="operator:other", at_subjects_wish=asked.act == "erase")


def look(world: World) -> list[object]:
    """Return what may be seen from outside, but for counts of requests, and how much others leave of a disk."""
    api, varying = world.api(), ("request", "second", "_free_ratio")
    lines = api.get("/metrics").text.splitlines()
    numbers = [line for line in lines if not any(word in line for word in varying)]
    chains = [world.curator.ledger.list_entries(chain.name) for chain in world.curator.ledger.list_chains()]
    return [chains, api.get("/v1/datasets/visits").json(), numbers]


@contextmanager
def restored(world: World, backup: Path) -> Iterator[World]:
    """Restore a backup elsewhere, as the command does; the anchor and the keys are those of now."""
    beside = {"anchor_dir": world.settings.anchor_folder, "keys_dir": world.settings.keys_folder}
    settings = world.settings.model_copy(update={"data_dir": world.folder / "again", "database_url": None, **beside})
    with open_restored(world, settings) as again:
        read_backup(again.curator, backup)
        again.curator.keys.recover("2026-03-01T12:00:00Z")
        again.curator.versions.recall_erasures()
        reconcile(again.curator.ledger, [], [], actor="operator:test", anchor_lost=False)
        again.curator.versions.cut_due()
        yield again


def test_an_erasure_that_is_withdrawn_is_not_carried_out_and_the_next_one_is(both: World) -> None:
    register(both, "visits")
    first, seen = rows(both, "visits"), look(both)
    withdraw(both, erase)
    assert look(both) == seen
    for _ in range(2):
        cut(both)
        assert rows(both, "visits") == first
        assert find_access(both.curator.versions, "anna-canary").erasures == ()
    assert erase(both) == ["visits"]
    cut(both)
    assert len(rows(both, "visits")) == 13
    assert_sound(both)


@pytest.mark.parametrize("act", ["retire", "replace"])
def test_what_else_ends_rows_is_withdrawn_too(both: World, act: str) -> None:
    """And an erasure of later makes the sketches anew, which are still of the same rows."""
    register(both, "visits")
    first = rows(both, "visits")
    withdraw(both, ENDING[act])
    for _ in range(2):
        cut(both)
        assert not find(both, "visits").is_retired
        assert rows(both, "visits") == first
    assert_sound(both)
    sketches = both.sql(SKETCHES)
    erase(both)
    cut(both)
    assert {*sketches}.isdisjoint(both.sql(SKETCHES))
    assert len(rows(both, "visits")) == 13


@pytest.mark.parametrize("act", ENDING)
def test_who_may_not_withdraw_and_what(world: World, act: str) -> None:
    register(world, "visits")
    ENDING[act](world)
    asked, wish = last(world).id, act == "erase"

    def refuse(match: str, name: str = asked, *, actor: str = "operator:other", at_subjects_wish: bool = wish) -> None:
        with pytest.raises(ChangeError, match=match):
            world.curator.versions.withdraw(name, actor=actor, at_subjects_wish=at_subjects_wish)

    refuse("another person must withdraw it", actor="operator:test")
    refuse("wish", at_subjects_wish=not wish)
    refuse("curator datasets changes", "chg_unknown")
    world.clock.advance(days=31)
    refuse("only what waits can be withdrawn")  # its cut may be under way
    world.curator.versions.cut_due()
    refuse("only what waits can be withdrawn")
    assert [change.act for change in world.curator.versions.list_changes()] == [act]


@pytest.mark.parametrize(("count", "fits"), [(23, True), (24, False)])
def test_a_replacement_stays_on_which_rows_rest_that_came_behind_it(world: World, count: int, *, fits: bool) -> None:
    """Or no cut could be made of the rows of before and these: nothing would be released, and nobody forgotten."""
    register(world, "visits")
    add(world, "visits", "z1,2010,true,2\n", REPLACE)
    replaced = last(world)
    add(world, "visits", "".join(f"q{i},2010,true,{i / 4}\n" for i in range(count)))
    if fits:
        world.curator.versions.withdraw(replaced.id, actor="operator:other")
    else:
        with pytest.raises(ChangeError, match="do not fit beside those of before"):
            world.curator.versions.withdraw(replaced.id, actor="operator:other")
    assert "visits" in cut(world)
    assert_sound(world)


def test_nothing_is_withdrawn_twice(world: World) -> None:
    register(world, "visits")
    erase(world)
    asked = last(world).id
    world.curator.versions.withdraw(asked, actor="operator:other", at_subjects_wish=True)
    with pytest.raises(ChangeError, match="was withdrawn before"):
        world.curator.versions.withdraw(asked, actor="operator:other", at_subjects_wish=True)
    assert json.loads(last(world).content)["wish"] == "the subject's own"
    with pytest.raises(ChangeError, match="there is no erasure"):
        world.curator.versions.withdraw(last(world).id, actor="operator:test")


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_restored_backup_knows_what_was_withdrawn(world: World, moment: str, *, is_cut: bool) -> None:
    register(world, "visits")
    backup = world.folder / "b.tar"
    if moment == "before":
        write_backup(world.curator, backup)
    erase(world)
    if moment == "between":
        write_backup(world.curator, backup)
    world.curator.versions.withdraw(last(world).id, actor="operator:other", at_subjects_wish=True)
    if is_cut:
        cut(world)
    if moment == "after":
        write_backup(world.curator, backup)
    with restored(world, backup) as again:
        assert rows(again, "visits") == rows(world, "visits")
        assert len(rows(again, "visits")) == 15
        assert again.curator.versions.recall_erasures() == 0
        erase(again)
        cut(again)
        assert len(rows(again, "visits")) == 13
        assert_sound(again)


def forge(change: Change, **said: Any) -> Change:
    """Return a change whose content says something else."""
    return replace(change, content=json.dumps(json.loads(change.content) | said))


FORGED: dict[str, Callable[[Change, Change], Change]] = {
    "of another": lambda signed, asked: forge(signed, of=asked.id),
    "by another": lambda signed, asked: replace(forge(signed, of=asked.id), actor="operator:test"),
    "unsigned": lambda signed, asked: replace(signed, content=json.dumps({"of": asked.id})),
    "of the erasure's own signature": lambda signed, asked: replace(
        asked, id=signed.id, act=WITHDRAW, content=json.dumps(json.loads(asked.content) | {"of": asked.id})
    ),
}


@pytest.mark.parametrize("place", ["file", "table"])
@pytest.mark.parametrize("how", FORGED)
def test_a_withdrawal_that_the_curator_did_not_sign_is_refused(world: World, how: str, place: str) -> None:
    """Of somebody who has a signed one of another erasure, and may write the file, or the table."""
    register(world, "visits")
    withdraw(world, erase)
    signed = last(world)
    erase(world)
    asked = last(world)
    forged = replace(FORGED[how](signed, asked), id=f"{signed.id[:-1]}x", number=asked.number + 1, version=WITHDRAWN)
    if place == "file":
        world.curator.versions.erasures.add(forged)
    else:
        with world.curator.database.begin() as connection:
            repository.insert_change(connection, forged)
            assert repository.apply_change(connection, asked.id, WITHDRAWN)
    cut(world)
    assert len(rows(world, "visits")) == 13


def test_an_erasure_that_the_curator_did_not_sign_is_refused(world: World, caplog: pytest.LogCaptureFixture) -> None:
    register(world, "visits")
    first = rows(world, "visits")
    withdraw(world, erase)
    path = world.curator.versions.erasures.path
    asked = next(world.curator.versions.erasures.read(world.curator.keys))
    path.write_text(json.dumps(asdict(replace(asked, id=f"{asked.id[:-1]}x"))) + "\n" + path.read_text())
    cut(world)
    assert "line 1: not signed by this curator" in caplog.text
    assert rows(world, "visits") == first


@pytest.mark.parametrize("act", ["DELETE FROM changes WHERE act = 'withdraw'", "UPDATE changes SET number = number"])
def test_a_withdrawal_that_was_struck_out_of_the_database_holds(world: World, act: str) -> None:
    register(world, "visits")
    withdraw(world, erase)
    world.sql(act, "UPDATE changes SET version = NULL WHERE act = 'erase'")
    cut(world)
    assert len(rows(world, "visits")) == 15


@pytest.mark.parametrize("act", ["erase", "retire"])
def test_a_cut_that_was_made_of_something_withdrawn_meanwhile_is_undone(
    world: World, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment of the cut keeps both apart; clocks of two hosts may differ."""
    register(world, "visits")
    ENDING[act](world)
    asked, made = last(world), versions.rewrite
    moment = world.clock.moment

    def meanwhile(*given: Any) -> Any:
        written = made(*given)
        now, world.clock.moment = world.clock.moment, moment
        if given[2].manifest.name == "visits" and find(world, "visits").version == 1:
            world.curator.versions.withdraw(asked.id, actor="operator:other", at_subjects_wish=act == "erase")
        world.clock.moment = now
        return written

    with monkeypatch.context() as patch:
        patch.setattr(versions, "rewrite", meanwhile)
        assert "visits" not in cut(world)
    world.curator.versions.cut_due()
    assert len(rows(world, "visits")) == 15
    assert not find(world, "visits").is_retired
    assert_sound(world)


def test_at_the_machine_another_user_withdraws(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    register(world, "visits")
    assert run(world, "datasets", "cut").exit_code == 0  # commands have the clock of the machine
    monkeypatch.setenv("LOGNAME", "carol")
    erased = run(world, "subjects", "erase", "--yes", "--json", identifier="anna-canary")
    (asked,) = json.loads(erased.stdout)
    own = run(world, "datasets", "withdraw", asked["change"], "--at-subjects-wish")
    assert (own.exit_code, "another person must withdraw it" in own.stderr) == (1, True)
    monkeypatch.setenv("LOGNAME", "dave")
    unsaid = run(world, "datasets", "withdraw", asked["change"])
    assert (unsaid.exit_code, "--at-subjects-wish" in unsaid.stderr) == (1, True)
    done = run(world, "datasets", "withdraw", asked["change"], "--at-subjects-wish")
    assert (done.exit_code, done.stdout) == (0, f"{asked['change']} is withdrawn\n")
    shown = json.loads(run(world, "datasets", "changes", "--json").stdout)["changes"]
    said = [(row["act"], row["actor"], row["is_withdrawn"]) for row in shown]
    assert said == [("erase", "operator:carol", True), ("withdraw", "operator:dave", False)]
    assert asked["change"] in run(world, "datasets", "changes").stdout
