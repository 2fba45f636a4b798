"""The same identifiers under another population are told on a terminal, with noise, and nowhere else."""

import json
import math
import os
import pty
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import BUDGET, World, ZeroNoise, open_population

from curator_service.cli.main import app
from curator_service.container import make_curator
from curator_service.datasets import sketch as sketches
from curator_service.datasets.manifest import ManifestError, load_manifest
from curator_service.datasets.pseudonyms import Pseudonymiser
from curator_service.datasets.repository import APPEND, REPLACE, Dataset
from curator_service.datasets.same_people import EPSILON, PERSONS_MIN, SCALE, SENSITIVITY, TRIES_MAX, choose, score
from curator_service.datasets.service import RegistrationError
from curator_service.datasets.sketch import Part, Sketch, Sketcher
from curator_service.identity.policy import Role
from curator_service.privacy.samplers import Distribution, SystemNoise

MANIFEST = """
name = "{name}"
population = "{population}"
row_capacity = 4000
subject = "patient"
rows_per_subject = 2
{more}
[[columns]]
name = "dose"
type = "numeric"
lower = 0
upper = 10
"""
SEEDS = iter(range(10**6))
pytestmark = pytest.mark.usefixtures("read_here")
NOTE = "note: More than about a fifth of these people seem to be in the population 'town' too"


def write(folder: Path, people: Sequence[int], name: str, population: str, more: str = "") -> tuple[Path, Path]:
    """Write a manifest, and rows with values that no other rows have."""
    drawn = np.random.default_rng(next(SEEDS)).uniform(0, 10, len(people))
    rows = "".join(f"P{i:05d},{dose!r}\n" for i, dose in zip(people, drawn.tolist(), strict=True))
    manifest, data = folder / f"{name}.toml", folder / f"{name}.csv"
    manifest.write_text(MANIFEST.format(name=name, population=population, more=more), encoding="utf-8")
    data.write_text(f"patient,dose\n{rows}", encoding="utf-8")
    return manifest, data


def register(world: World, people: Sequence[int], name: str, population: str = "valley", more: str = "") -> Dataset:
    """Register rows of people, by their numbers."""
    files = write(world.folder, people, name, population, more)
    return world.curator.datasets.register(*files, actor="operator:test")


def find(world: World, dataset: Dataset, version: int = 1) -> str | None:
    """Return what the terminal would name."""
    return world.curator.datasets.find_same_people(dataset, version)


def comparisons(world: World) -> list[str]:
    """Return what was counted."""
    path = world.settings.anchor_folder / "comparisons"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def town(world: World) -> World:
    """Return a world in which a population has 300 people with identifiers; comparisons have no noise."""
    world.curator.datasets.likeness.noise = ZeroNoise()
    register(world, range(300), "people", "town")
    return world


def run_command(world: World, *words: str, at_terminal: bool = True) -> tuple[bytes, int, str]:
    """Run a command whose error stream is a terminal, or a pipe; return its output, status and what is shown.

    It is a fork of this process, in which all that it imports is there already.
    """
    streams = os.pipe(), pty.openpty() if at_terminal else os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, of which none is used
        child = os.fork()
    if child == 0:
        try:
            os.dup2(streams[0][1], 1)
            os.dup2(streams[1][1], 2)
            sys.stdout, sys.stderr = open(1, "w", encoding="utf-8"), open(2, "w", encoding="utf-8")  # noqa: SIM115
            os.environ |= {"CURATOR_DATA_DIR": str(world.settings.data_dir), "COLUMNS": "400"}
            os.environ |= {"TERM": "dumb"} if at_terminal else {"FORCE_COLOR": "1"}
            app(list(words))
        except SystemExit as left:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(left.code or 0))
        finally:
            os._exit(70)
    _, status = os.waitpid(child, 0)
    read = []
    for mine, its in streams:
        os.close(its)
        content = b""
        with suppress(OSError):  # of a terminal whose other end is closed
            while chunk := os.read(mine, 2**16):
                content += chunk
        os.close(mine)
        read.append(content)
    return read[0], os.waitstatus_to_exitcode(status), " ".join(read[1].decode().split())


def test_the_same_identifiers_are_told_on_a_terminal_and_nothing_else_differs(
    town: World, capfd: pytest.CaptureFixture[str]
) -> None:
    open_population(town.curator, "village", BUDGET)
    told, written, entries = {}, {}, {}
    for population, people in (("valley", range(100, 400)), ("village", range(1000, 1300))):
        manifest, data = write(town.folder, people, "later", population)
        data.write_text(
            "patient,dose\n" + "".join(f"P{i:05d},{j / 40 + len(told) / 100}\n" for j, i in enumerate(people))
        )
        manifest.write_text(manifest.read_text().replace('"later"', f'"in_{population}"'))
        out, status, told[population] = run_command(town, "datasets", "add", str(manifest), str(data))
        assert status == 0, told
        written[population] = out.replace(population.encode(), b"")
        entries[population] = [(entry["kind"], sorted(entry)) for entry in town.entries(population)][-1:]
        sealed = (
            f"SELECT length(sealed) FROM sketches JOIN datasets ON id = dataset_id WHERE population = '{population}'"
        )
        entries[population] += [town.sql(sealed)[-1]]
        assert len(comparisons(town)) == len(told)
    assert NOTE in told["valley"]
    assert "note:" not in told["village"]
    assert b"fifth" not in written["valley"]
    assert written["valley"] == written["village"]
    assert entries["valley"] == entries["village"]
    town.clock.moment = datetime.now(UTC)  # as the commands had it
    town.add_token("audrey", Role.AUDITOR)
    listed = town.api("audrey").get("/v1/datasets")
    assert listed.status_code == 200, listed.text
    answers = {d["name"]: d for d in listed.json()["datasets"]}
    own = ("name", "population", "snapshot", "since")
    one, other = ({k: v for k, v in answers[name].items() if k not in own} for name in ("in_valley", "in_village"))
    assert one == other
    assert "fifth" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_terminal_and_as_json_nothing_is_compared_and_nothing_counted(town: World, *, as_json: bool) -> None:
    manifest, data = write(town.folder, range(300), "later", "valley")
    words = ["datasets", "add", str(manifest), str(data), *(["--json"] if as_json else [])]
    out, status, shown = run_command(town, *words, at_terminal=as_json)
    assert (b"later" in out, json.loads(out)["name"] if as_json else "later") == (True, "later")
    assert (status, "fifth" in out.decode() + shown, comparisons(town)) == (0, False, [])


def test_people_are_told_beyond_a_share_whatever_brings_them(town: World) -> None:
    assert find(town, register(town, range(270, 570), "tenth")) is None
    assert find(town, register(town, range(200, 500), "third")) == "town"
    assert find(town, register(town, range(40), "few")) == "town"
    assert find(town, register(town, range(12), "too_few")) is None
    fresh = register(town, range(2000, 2300), "fresh")
    assert find(town, fresh) is None
    for act, people in ((APPEND, range(300)), (APPEND, range(3000, 3300)), (REPLACE, range(150))):
        _, data = write(town.folder, people, "more", "valley")
        change = town.curator.versions.add_rows("fresh", data, act=act, actor="operator:test").change
        assert find(town, fresh, -change.number) == (None if people[0] == 3000 else "town")


def test_few_people_within_many_are_told(town: World) -> None:
    register(town, range(10_000, 13_900), "many", "town")
    assert find(town, register(town, range(11_000, 11_150), "within")) == "town"


def test_so_many_comparisons_a_day_and_no_more_whatever_they_say(town: World) -> None:
    shared, alone = register(town, range(300), "shared"), register(town, range(1000, 1300), "alone")
    for k in range(TRIES_MAX):
        assert find(town, alone if k % 2 else shared) == (None if k % 2 else "town")
    assert find(town, shared) is None
    again = make_curator(town.settings, now=town.clock)
    again.datasets.likeness.noise = ZeroNoise()
    try:
        assert again.datasets.find_same_people(shared, 1) is None
        assert len(comparisons(town)) == TRIES_MAX
        town.clock.advance(days=1, seconds=1)
        assert again.datasets.find_same_people(shared, 1) == "town"
    finally:
        again.close()
    assert len(comparisons(town)) == TRIES_MAX + 1


def test_where_a_comparison_cannot_be_counted_none_is_made(town: World) -> None:
    shared = register(town, range(300), "shared")
    (town.settings.anchor_folder / "comparisons").mkdir()
    assert find(town, shared) is None


def test_what_a_manifest_declares_is_shown_and_not_told(town: World) -> None:
    said = 'same_people_as = ["town"]'
    declared = register(town, range(300), "declared", more=said)
    assert find(town, declared) is None
    shown = {d["name"]: d for d in town.api("root").get("/v1/datasets").json()["datasets"]}
    assert shown["declared"]["same_people_as"] == ["town"]
    assert "same_people_as" not in shown["people"]
    open_population(town.curator, "village", BUDGET)
    # What is declared on one side holds on both; a third population is compared as ever.
    assert (
        find(town, register(town, range(1000, 1300), "of_the_third", "village", 'same_people_as = ["valley"]')) is None
    )
    assert find(town, register(town, range(1000, 1300), "of_valley")) is None
    assert find(town, register(town, range(200), "also", more='same_people_as = ["village"]')) == "town"
    register(town, range(5000, 5010), "anybody", more=said)  # it may always be said
    with pytest.raises(RegistrationError, match="same_people_as: the population 'nowhere' does not exist"):
        register(town, range(9), "wrong", more='same_people_as = ["nowhere"]')
    for names in ('["valley"]', '["town", "town"]'):
        with pytest.raises(ManifestError, match="names other populations than the dataset's own, each once"):
            register(town, range(9), "wrong", more=f"same_people_as = {names}")


def test_a_declaration_is_in_the_signed_digest_and_one_of_before_keeps_its_own(tmp_path: Path) -> None:
    bare, declared = (
        load_manifest(write(tmp_path, [1], "d", "valley", more)[0]) for more in ("", 'same_people_as = ["town"]')
    )
    assert "same_people_as" not in bare.model_dump_json()
    assert bare.digest != declared.digest


def test_a_declaration_does_not_lift_a_refusal(town: World) -> None:
    data = (town.folder / "people.csv").read_text()
    manifest, rows = write(town.folder, [1], "copy", "valley", 'same_people_as = ["town"]')
    rows.write_text(data)
    with pytest.raises(RegistrationError, match="the same rows, or nearly"):
        town.curator.datasets.register(manifest, rows, actor="operator:test")


def stored_subjects(world: World, name: str) -> list[set[int]]:
    """Return the persons of each sketch of a dataset."""
    (dataset_id,) = (d.id for d in world.curator.datasets.list_all() if d.name == name)
    with world.curator.database.read() as connection:
        found = world.curator.datasets.likeness.list_subjects(connection)
    return [set(part[1].tolist()) for about, part in found if about.dataset_id == dataset_id]


def test_a_sketch_of_persons_is_sealed_and_forgets_who_is_erased(town: World) -> None:
    keys = town.curator.keys
    people = Pseudonymiser(keys.list_keys()[0].key_id, keys.secret(keys.list_keys()[0].key_id, "pseudonym"))
    gone = people.make(pa.array(["p00007"])).tobytes()[:8]
    token = int.from_bytes(gone, "little")
    assert all(token in found for found in stored_subjects(town, "people"))
    kept = b"".join(p.read_bytes() for p in town.settings.data_dir.glob("curator.sqlite3*"))
    assert gone not in kept
    assert b"p00007" not in kept.lower()
    town.curator.versions.erase("P00007", actor="operator:test")
    town.clock.advance(days=40)
    town.curator.versions.cut_due()
    found = stored_subjects(town, "people")
    assert len(found) == 2
    assert all(token not in one and len(one) == 299 for one in found)


def test_no_pseudonym_outlives_the_rows_of_its_person(town: World) -> None:
    sizes = "SELECT length(sealed) FROM sketches JOIN datasets ON id = dataset_id WHERE name = 'people'"
    _, data = write(town.folder, range(500, 550), "more", "town")
    town.curator.versions.add_rows("people", data, act=REPLACE, actor="operator:test")
    town.clock.advance(days=40)
    town.curator.versions.cut_due()
    assert sorted(map(len, stored_subjects(town, "people"))) == [0, 50]
    town.curator.versions.retire("people", actor="operator:test")
    town.clock.advance(days=40)
    town.curator.versions.cut_due()
    assert {len(found) for found in stored_subjects(town, "people")} == {0}
    assert len(set(town.sql(sizes))) == 1


def test_the_size_of_a_sketch_does_not_follow_from_persons(town: World) -> None:
    register(town, range(5000, 5009), "nine")
    register(town, range(6000, 9999), "many")
    found = town.sql("SELECT name, length(sealed) FROM sketches JOIN datasets ON id = dataset_id")
    sizes = [size for name, size in found if name in {"nine", "many", "people"}]
    assert (len(sizes), len(set(sizes))) == (3, 1)


def test_identifiers_are_compared_after_the_key_was_rotated(town: World) -> None:
    town.curator.keys.rotate("2026-03-01T12:00:00Z")
    assert find(town, register(town, range(100, 400), "rotated")) == "town"


def test_sketches_are_as_large_whoever_was_erased_after_the_key_was_rotated(town: World) -> None:
    town.curator.keys.rotate("2026-03-01T12:00:00Z")
    for name, people in (("erased", range(1000, 1020)), ("untouched", range(2000, 2020))):
        register(town, people, name)
    town.curator.versions.erase("P01007", actor="operator:test")
    sizes = "SELECT length(sealed) FROM sketches JOIN datasets ON id = dataset_id WHERE name = '{}' ORDER BY 1"
    for _ in range(2):
        town.clock.advance(days=40)
        town.curator.versions.cut_due()
        found = [town.sql(sizes.format(name)) for name in ("erased", "untouched")]
        assert found[0] == found[1]
    assert set(map(len, stored_subjects(town, "erased"))) == {0}


def sample(tokens: Sequence[int]) -> Part:
    """Return what a sketch keeps of persons."""
    sketcher = Sketcher(b"one")
    for chunk in np.array_split(np.array(tokens, "<u8"), 3):
        wide = np.zeros((len(chunk), 2), "<u8")
        wide[:, 0] = chunk
        sketcher.add_subjects(wide.view("V16")[:, 0])
    found = Sketch.from_bytes(sketcher.finish().to_bytes()).subjects
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(3))
def test_one_person_moves_a_score_by_the_sensitivity_at_most(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(sketches, "_WORKING", 12)
    monkeypatch.setattr(sketches, "_SUBJECTS_WORDS", 13)
    monkeypatch.setattr("curator_service.datasets.same_people.PERSONS_MIN", 4)
    source, moved = np.random.default_rng(seed), []
    for _ in range(300):
        tokens = (source.permutation(60) + 1).tolist()
        one, other = tokens[: source.integers(5, 50)], tokens[source.integers(0, 20) : source.integers(25, 60)]
        before = score(sample(one), sample(other))
        who = int(source.integers(1, 61))
        without = [[person for person in side if person != who] for side in (one, other)]
        for left, right in ((without[0], other), (one, without[1]), (without[0], without[1])):
            moved.append(abs(before - score(sample(left), sample(right))))
    assert max(moved) == SENSITIVITY


def test_repeated_rows_of_a_person_count_once_and_nobody_is_no_person() -> None:
    limit, tokens = sample([5, 3, 5, 0, 0, 9, 3, 3])
    assert tokens.tolist() == [3, 5, 9]
    assert limit == np.uint64(2**64 - 1)


def test_the_noise_of_a_comparison_is_that_of_its_epsilon() -> None:
    asked: list[Any] = []

    class Asking(ZeroNoise):
        def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
            asked.append((distribution, list(scales)))
            return super().sample(distribution, scales)

    assert EPSILON == 1
    assert 2 * SENSITIVITY / SCALE <= EPSILON
    persons = sample(range(1, 401))
    assert choose(persons, {"a": [persons], "b": [persons, sample([1])]}, Asking()) == "a"
    assert choose(persons, {"a": [sample([1])]}, Asking()) is None
    assert asked == [(Distribution.DISCRETE_LAPLACE, [SCALE] * count) for count in (3, 2)]


def test_neighbours_are_told_nearly_alike() -> None:
    draws, source = 40_000, SystemNoise()
    both, one = list(range(1, 24)), list(range(1, 23))  # 23 and 22 persons in common of fewer than a hundred
    counts = []
    for common in (both, one):
        mine = sample(range(1, 60))
        others = {"a": [sample(common)], "b": [sample(range(20, 44))]}
        scores = [score(mine, others[name][0]) for name in ("a", "b")]
        assert abs(scores[0]) <= 3 * SCALE
        told = [choose(mine, others, source) for _ in range(draws // 20)]
        counts.append([told.count(name) for name in ("a", "b", None)])
    for first, second in zip(*counts, strict=True):
        assert abs(math.log(first / second)) <= float(EPSILON) + 0.3


def test_disjoint_people_are_hardly_ever_told() -> None:
    mine, others = sample(range(1, 400)), {"a": [sample(range(1000, 1400))]}
    assert score(mine, others["a"][0]) == -PERSONS_MIN
    assert sum(choose(mine, others, SystemNoise()) is not None for _ in range(3000)) <= 5
