"""The health of the service: samples within their space, findings, the page of operators, and what it hides."""

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dashboard_worlds import HOSTILE, MARKUP, Person, text_of
from support import World, open_world
from typer.testing import CliRunner

from curator_service.app import make_metrics
from curator_service.cli.main import app
from curator_service.dashboard.pages.health import draw_lines
from curator_service.health import service
from curator_service.health.findings import Finding, check_shares, find_noted, note_findings
from curator_service.health.machine import measure_memory
from curator_service.health.notes import list_notes
from curator_service.identity.policy import Role
from curator_service.kinds.registry import KINDS
from curator_service.kit.milestones import Milestone, note
from curator_service.kit.samples import DAY_S, SLOT_S, SLOTS, Sample, Samples
from curator_service.ledger.trust.recovery import reconcile

READERS = (Role.PRIVACY_OFFICER, Role.AUDITOR, Role.OPERATOR)

NOON = 1_800_000_000 // SLOT_S * SLOT_S
SIZE = 24 * SLOTS


@pytest.fixture
def ring(tmp_path: Path) -> Samples:
    return Samples(tmp_path / "samples")


@pytest.fixture
def now(tmp_path: Path) -> Iterator[World]:
    """Yield a world of now, in which files are as old as they seem."""
    with open_world(tmp_path, moment=datetime.now(UTC)) as world:
        world.add_token("opal", Role.OPERATOR)
        yield world


def known(ring: Samples, at: float) -> dict[int, Sample]:
    return {begin: sample for begin, sample in ring.read(at) if sample is not None}


# --- Samples


def test_what_is_added_within_five_minutes_adds_up_and_shows_when_they_are_over(ring: Samples) -> None:
    ring.add(NOON, Sample(3, 1, 0, 60, 40))
    ring.add(NOON + SLOT_S - 1, Sample(2, 0, 1, 50, None))
    ring.add(NOON + SLOT_S, Sample(7))
    assert known(ring, NOON + SLOT_S) == {NOON: Sample(5, 1, 1, 50, 40)}
    assert known(ring, NOON + 2 * SLOT_S)[NOON + SLOT_S] == Sample(7)
    assert len(ring.read(NOON)) == DAY_S // SLOT_S == SLOTS - 1


def test_the_ring_never_grows_and_forgets_what_is_older_than_a_day(ring: Samples, tmp_path: Path) -> None:
    for i in range(3 * SLOTS):
        ring.add(NOON + i * SLOT_S, Sample(i, 0, 0, 100, 100))
        assert (tmp_path / "samples").stat().st_size == SIZE
    end = NOON + 3 * SLOTS * SLOT_S
    assert [sample and sample.requests for _, sample in ring.read(end)] == list(range(2 * SLOTS + 1, 3 * SLOTS))
    assert known(ring, end + DAY_S) == {}
    assert known(ring, NOON - DAY_S) == {}  # a clock that was ahead shows nothing that is to come
    assert (tmp_path / "samples").stat().st_mode & 0o77 == 0
    assert os.listdir(tmp_path) == ["samples"]


def test_numbers_are_held_within_their_slots(ring: Samples) -> None:
    ring.add(NOON, Sample(2**32 - 1, 2**32 - 1, 2**32 - 1, 0, 0))
    ring.add(NOON, Sample(5, 5, 5, 10, 10))
    assert known(ring, NOON + SLOT_S) == {NOON: Sample(2**32 - 1, 2**32 - 1, 2**32 - 1, 0, 0)}


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * SIZE, b"\x00" * SIZE, b"x" * (SIZE + 24)])
def test_a_file_that_somebody_spoilt_is_no_sample_and_is_written_anew(
    ring: Samples, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "samples").write_bytes(content)
    assert known(ring, NOON) == {}
    ring.add(NOON, Sample(1))
    assert known(ring, NOON + SLOT_S) == {NOON: Sample(1)}
    assert (tmp_path / "samples").stat().st_size == SIZE


def test_processes_that_add_at_once_lose_nothing(ring: Samples, tmp_path: Path) -> None:
    """Each opens the file itself, as processes do: their locks are of the open file, and not of the process."""
    adding = [
        threading.Thread(target=lambda: [Samples(tmp_path / "samples").add(NOON, Sample(1, 1)) for _ in range(100)])
        for _ in range(4)
    ]
    for one in adding:
        one.start()
    for one in adding:
        one.join()
    assert known(ring, NOON + SLOT_S) == {NOON: Sample(400, 400)}


def test_requests_are_counted_by_what_came_of_them_and_probes_are_not(world: World) -> None:
    api = world.api()
    for path, token in (("/v1/me", world.tokens["ada"]), ("/v1/me", None), ("/healthz", None), ("/metrics", None)):
        api.get(path, token=token)
    health = api.app.state.curator.health
    health.count("/v1/me", 503)
    health.memory, health.disks = (lambda: 70), (lambda: {"data": 30, "keys": 20})
    health.sample()
    health.sample()  # nothing is counted twice
    world.clock.advance(seconds=SLOT_S)
    (found,) = known(health.samples, world.clock().timestamp()).values()
    assert found == Sample(3, 1, 1, 70, 20)


def test_what_cannot_be_written_is_kept_for_the_next_minute(world: World) -> None:
    health = world.curator.health
    health.samples = Samples(world.folder / "nowhere" / "samples")
    health.count("/v1/me", 200)
    with pytest.raises(FileNotFoundError):
        health.sample()
    health.samples = Samples(world.folder / "samples")
    health.sample()
    world.clock.advance(seconds=SLOT_S)
    assert [one.requests for one in known(health.samples, world.clock().timestamp()).values()] == [1]


def test_free_disk_is_told_without_rows_that_wait_and_as_metrics_tell_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(total=1000, free=295)
    monkeypatch.setattr("shutil.disk_usage", lambda _: disk)
    monkeypatch.setattr(world.curator.datasets, "measure_waiting", lambda: 105)
    assert set(world.curator.health.disks().values()) == {40}
    told = make_metrics(world.settings, KINDS)._free(105)
    assert {sample.value for sample in told.samples} == {0.4}
    monkeypatch.setattr(world.curator.datasets, "measure_waiting", lambda: 1 / 0)
    assert world.curator.health.disks() == {}  # nobody knows what is to be hidden


def test_memory_is_told_in_tenths_of_what_the_service_may_use(tmp_path: Path) -> None:
    assert measure_memory(tmp_path, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 799 kB\n")
    assert measure_memory(tmp_path, tmp_path) == 70
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/a.service\n")
    group = tmp_path / "a.service"
    group.mkdir()
    for limit, used, expected in (("max", "900", 70), ("1000", "900", 30), ("1000", "5000", 0), ("0", "1", 70)):
        for name, text in (("max", limit), ("current", used), ("stat", "anon 1\ninactive_file 200\n")):
            (group / f"memory.{name}").write_text(text)
        assert measure_memory(tmp_path, tmp_path) == expected, (limit, used)
    assert measure_memory() in {None, *range(0, 101, 10)}


# --- Findings, and the page


def page(world: World, who: str = "opal") -> str:
    answer = Person(world, who).get("/admin/health")
    assert answer.status_code == 200, text_of(answer.text)[-500:]
    return answer.text


def test_of_a_new_curator_it_says_what_is_missing_and_which_command_brings_it(now: World) -> None:
    said = " ".join(text_of(page(now)).split())
    for expected in (
        "No run of curator doctor is known",
        "No sample is known yet",
        "None is known. Make one with curator backup FILE",
        "None is known. Do it with curator ledger verify",
        "was never reconciled after a seal",
        "none waits or is worked on",
        "Notes of 0.1.0",
    ):
        assert expected in said
    assert "<svg" not in page(now)


def test_it_shows_the_day_the_tasks_and_what_doctor_found(now: World) -> None:
    health, moment = now.curator.health, now.clock().timestamp()
    for i in range(SLOTS):
        if i not in range(50, 60):
            health.samples.add(moment - i * SLOT_S, Sample(50, 5, int(i == 100), 60, 44))
    note(now.settings.data_dir, Milestone.BACKUP_WRITTEN)
    old = moment - 3 * 86_400
    os.utime(now.settings.data_dir / Milestone.BACKUP_WRITTEN, (old, old))
    note(now.settings.data_dir, Milestone.LEDGER_VERIFIED, is_well=False)
    assert CliRunner().invoke(app, ["doctor"], env={"CURATOR_DATA_DIR": str(now.settings.data_dir)}).exit_code == 1
    shown = page(now)
    said = " ".join(text_of(shown).split())
    assert "13,900 requests in a day 1,390 refused 1 failed" in said
    assert shown.count("<svg") == 4
    assert "Requests, per minute: at most 10, last 10" in said
    assert "Memory that is free, in %: least 60 %, last 60 %" in said
    assert f"3.0 days ago, {datetime.fromtimestamp(old, UTC):%Y-%m-%d %H:%M:%S} UTC" in said
    assert "It failed: run curator ledger verify" in said
    assert "arithmetic: well is what the proofs assume" in said
    assert "By curator doctor, less than an hour ago" in said
    assert "GiB" not in said  # exact space would tell that rows came


def test_a_seal_is_shown_without_its_reason_and_stays_known(now: World) -> None:
    now.curator.ledger.guard.seal(f"town: {MARKUP}")
    assert CliRunner().invoke(app, ["doctor"], env={"CURATOR_DATA_DIR": str(now.settings.data_dir)}).exit_code == 1
    said = text_of(page(now))
    assert "The curator is sealed" in said
    assert "does not hold, or is sealed" in said
    assert "town" not in said
    reconcile(now.curator.ledger, [], actor="operator:test", anchor_lost=True)
    said = " ".join(text_of(page(now)).split())
    assert "The curator is sealed" not in said
    assert "by a reconciliation of operator:test" in said
    assert now.api("opal").get("/v1/admin/health").json()["seals"][0]["ended_by"] == "operator:test"


def test_hostile_texts_do_nothing(now: World) -> None:
    note_findings(
        now.settings.data_dir, [Finding("clock", HOSTILE, HOSTILE, HOSTILE), Finding("sign-in", "ill", MARKUP)]
    )
    shown = page(now)
    assert "<img src=x" not in shown
    assert "<script>document" not in shown
    assert "\u202e" not in shown
    assert "{{ 7 * 7 }}" in shown


@pytest.mark.parametrize("content", ["", "[", "{}", "[1]", '[{"what": 1}]', "[" * 100_000, '"' + "x" * 100_000])
def test_findings_that_cannot_be_read_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "doctor").write_text(content)
    noted = find_noted(tmp_path)
    assert noted is None or noted.findings == []


def test_jobs_cuts_rows_and_a_clock_are_looked_at(now: World, monkeypatch: pytest.MonkeyPatch) -> None:
    health = now.curator.health
    assert {one.what for one in health.look().findings if one.state == "ill"} == set()
    now.clock.advance(days=40)
    found = {one.what: one for one in health.look().findings}
    assert "2 datasets were not cut" in found["cuts"].found
    now.curator.versions.cut_due()
    assert health.look().overdue == 0
    monkeypatch.setattr(health.clock, "is_settled", lambda: False)
    now.settings.keys_folder.chmod(0o755)
    ill = {one.what for one in health.look().findings if one.state == "ill"}
    assert ill == {"clock", "keys"}


def test_what_waits_is_one_click_away(now: World) -> None:
    raised = {"limit": {"epsilon": 1.5, "delta": 1e-6}, "reason": "more"}
    assert now.api("root").post("/v1/admin/populations/town/limits", json=raised).status_code == 202
    finding = page(now, "root").partition("wait for a second person")[2]
    assert finding.startswith('</bdi> · <a href="/admin/proposals">')


def test_open_jobs_are_counted_with_the_oldest(world: World) -> None:
    assert world.curator.health.look().jobs == 0
    for key in ("a", "b"):
        asked = {"price": {"mu": 0.01}, "expires_in_s": 3600}
        assert world.api().post("/v1/datasets/cohort/reservations", json=asked, key=key).status_code == 201
    assert world.curator.health.look().jobs == 0  # amounts that analysts hold are none
    world.sql("UPDATE reservations SET owner = 'a worker'")
    found = world.curator.health.look()
    assert (found.jobs, found.oldest_job) == (2, "2026-03-01T12:00:00Z")


def test_little_space_is_a_finding() -> None:
    found = {one.what: one.state for one in check_shares({"data": 9, "keys": 10}, 0)}
    assert found == {"disk of data": "care", "disk of keys": "well", "memory": "care"}
    assert list(check_shares({}, None)) == []


def test_lines_have_gaps_and_none_is_of_nothing() -> None:
    (requests, failed) = draw_lines([Sample(10), None, Sample(15, 0, 3)])
    assert (requests.top, requests.half, requests.said) == ("4", "2", "at most 3, last 3")
    assert (failed.top, failed.unit) == ("4", "in 5 minutes")
    assert str(requests.drawn).count("M") == 2 + 2 + 3  # the line and its area begin anew behind a gap; three rules


def test_ages_are_those_of_the_clock() -> None:
    assert service.age_of(4000, 0) == "after now: the clock was ahead"
    assert service.age_of(10, 0) == "less than an hour ago"
    assert service.age_of(0, timedelta(hours=1).total_seconds()) == "1 hour ago"


def test_the_notes_are_those_of_the_changelog() -> None:
    titles = [one.title for one in list_notes()]
    assert titles[:2] == ["Unreleased", "0.1.0 - 2026-11-28"]
    assert all(one.notes for one in list_notes())
    assert not any("](" in note for one in list_notes() for note in one.notes)


def test_nobody_else_sees_it(world: World) -> None:
    for role in Role:
        world.add_token(role.value, role)
        expected: Any = 200 if role in READERS else 403
        assert world.api(role.value).get("/v1/admin/health").status_code == expected
        person = Person(world, role.value)
        assert person.get("/admin/health").status_code == expected
        assert ('href="/admin/health"' in person.get("/admin").text) is (role in READERS)
