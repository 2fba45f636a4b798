"""Persons with several rows: m of each count, which a rule of these rows picks, and noise grows with m."""

import itertools
import os
import tracemalloc
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import PERSONS, World, ZeroNoise, body, open_world

from curator_service.datasets.manifest import ManifestError
from curator_service.datasets.persons import ROW_BYTES, Persons, hash_rows
from curator_service.datasets.pseudonyms import SIZE, PseudonymArray, Pseudonymiser
from curator_service.datasets.service import RegistrationError
from curator_service.datasets.sources import base as source
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.coding import fold_subjects
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.lattice import MISSING

MANIFEST = """
name = "visits"
population = "{population}"
row_capacity = 10000
subject = "patient"
rows_per_subject = {rows}
keep_by = "age"

[[columns]]
name = "age"
type = "numeric"
missing = "complete"
lower = 0
upper = 100

[[columns]]
name = "weight"
type = "numeric"
missing = "omit"
lower = 0
upper = 200

[[columns]]
name = "score"
type = "numeric"
missing = "complete"
lower = -10
upper = 10
"""
VISITS = [
    ("p1", "50", "80", "3"),
    ("p2", "20", "", "1"),
    ("p1", "51", "82", "4"),
    ("p3", "90", "60", "-2"),
    ("p1", "52", "84", "5"),
    ("p1", "100", "200", "10"),
    ("p2", "21", "70", "9"),
]
KEYS = itertools.count()
pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture(params=list(Adjacency), ids=lambda adjacency: adjacency.value)
def clinic(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    with open_world(tmp_path, adjacency=request.param, limit=Price(mu=100.0), noise=ZeroNoise()) as world:
        yield world


def register(world: World, visits: list[tuple[str, ...]], *, rows: int = 2, manifest: str | None = None) -> str:
    """Register visits under a new name; return it."""
    name = f"visits{next(KEYS)}"
    text = MANIFEST.format(population="town", rows=rows) if manifest is None else manifest
    paths = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    paths[0].write_text(text.replace('"visits"', f'"{name}"'))
    paths[1].write_text("patient,age,weight,score\n" + "".join(",".join(context) + "\n" for context in visits))
    dataset = world.curator.datasets.register(*paths, actor="operator:test")
    world.grant("ada", dataset.id)
    return name


def buy(world: World, name: str, **request: Any) -> dict[str, Any]:
    defaults = {"features": ["age"], "targets": ["score"], "price": {"mu": 0.5}, "fresh": True}
    asked = body(**defaults | request)
    answer = world.api().post(f"/v1/datasets/{name}/releases", json=asked, key=f"k{next(KEYS)}")
    assert answer.status_code == 201, answer.text
    content: dict[str, Any] = answer.json()
    return content


def sums(rows: list[tuple[str, ...]]) -> list[float]:
    """Return XᵀX and Xᵀy of (1, age) and score in scaled units."""
    X = np.array([[1.0, (float(age) - 50) / 50] for _, age, _, _ in rows])
    y = np.array([float(score) / 10 for *_, score in rows])
    return [*(X.T @ X)[np.triu_indices(2)], *(X.T @ y), float(y @ y)]


def released(answer: dict[str, Any]) -> list[float]:
    return [v for name in ("xtx", "xty", "yty") for v in answer["statistics"][name]["values"]]


COUNTED = [VISITS[i] for i in (0, 1, 2, 3, 6)]  # the two of each at the lowest age


@pytest.mark.parametrize("rows", [{"map": "box"}, {"map": "ball", "norm": 1.4142}, {"map": "unit_xy"}], ids=str)
def test_only_so_many_rows_of_each_person_count(clinic: World, rows: dict[str, Any]) -> None:
    everyone, counted = register(clinic, VISITS), register(clinic, COUNTED)
    assert released(buy(clinic, everyone, rows=rows)) == released(buy(clinic, counted, rows=rows))
    if rows["map"] == "box":
        assert released(buy(clinic, everyone, rows=rows)) == pytest.approx(sums(COUNTED), abs=1e-4)


def test_a_row_that_misses_a_value_uses_up_its_place(clinic: World) -> None:
    # p2's first row misses the weight: it counts for nothing here, and its place is not given to another row.
    name = register(clinic, VISITS, rows=1)
    answer = buy(clinic, name, features=["weight"], rows={"map": "box"})
    assert answer["statistics"]["xtx"]["values"][0] == pytest.approx(2.0)  # p1 and p3


def test_persons_are_followed_across_chunks(clinic: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = released(buy(clinic, register(clinic, VISITS), rows={"map": "box"}))
    monkeypatch.setattr(source, "BATCH_ROWS", 2)
    assert released(buy(clinic, register(clinic, [*VISITS, ("p1", "99", "1", "1")]), rows={"map": "box"})) == whole


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_noise_grows_with_the_rows_of_a_person(clinic: World, rows: int) -> None:
    request = {"statistics": ["xtx", "xty", "yty", "lambda_min"], "rows": {"map": "box"}, "price": {"mu": 0.1}}
    several = buy(clinic, register(clinic, VISITS, rows=rows), **request)["noise"]["sd"]
    one = buy(clinic, register(clinic, VISITS[:1], rows=1), **request)["noise"]["sd"]
    for name in one:
        assert several[name] == pytest.approx(rows * one[name], rel=1e-6)


def test_a_person_moves_the_sums_by_no_more_than_the_rows_that_count(clinic: World) -> None:
    extreme = [("px", "100", "200", "10")] * 50
    before = np.array(released(buy(clinic, register(clinic, VISITS, rows=3), rows={"map": "box"})))
    after = np.array(released(buy(clinic, register(clinic, [*VISITS, *extreme], rows=3), rows={"map": "box"})))
    assert after - before == pytest.approx(np.full(6, 3.0))


def test_the_public_count_is_that_of_persons(clinic: World) -> None:
    answer = clinic.api().get(f"/v1/datasets/{register(clinic, VISITS)}").json()
    replaced = answer["adjacency"] == "replace_one"
    assert (answer["rows"], answer["rows_per_person"]) == (3 if replaced else None, 2)
    assert "patient" not in [column["name"] for column in answer["columns"]]


def test_the_same_rows_under_another_rule_get_no_second_budget(clinic: World) -> None:
    register(clinic, VISITS)
    text = MANIFEST.format(population="valley", rows=5)
    with pytest.raises(RegistrationError, match="same rows, or nearly, are registered"):
        register(clinic, [(f"q{i}", *context[1:]) for i, context in enumerate(VISITS)], manifest=text)


def stored_of(visits: list[tuple[str, ...]]) -> dict[str, Any]:
    """Return the stored integers of visits, of which the weight alone may be missing."""
    columns = list(zip(*visits, strict=True))[1:]
    numbers = {
        name: [int(word) if word else MISSING for word in words] for name, words in zip("aws", columns, strict=True)
    }
    return {name: np.array(values, dtype=np.int32) for name, values in numbers.items()}


def count_of(visits: list[tuple[str, ...]], rows_max: int, keep_by: str | None = None, cut: int = 0) -> list[Any]:
    """Return the visits that count, in an order of their own; taken in as two batches."""
    persons = Persons(rows_max, keep_by)
    for part in (visits[:cut], visits[cut:]) if cut else (visits,):
        persons.add(whose_of(part), stored_of(part))
    counted = list_counted(persons, stored_of(visits))
    assert persons.count == len({who for who, *_ in visits})
    return sorted(visits[row] for row in counted)


def whose_of(visits: list[tuple[str, ...]]) -> PseudonymArray:
    return Pseudonymiser("key", bytes(32)).make(pa.array([who for who, *_ in visits], pa.string()))


def list_counted(persons: Persons, stored: dict[str, Any]) -> list[int]:
    """Return the rows that count of those that were taken in, by their numbers."""
    marks = persons.find_counted(lambda rows: {name: one[rows] for name, one in stored.items()})
    rows: list[int] = np.flatnonzero(marks.read(0, len(stored["a"]))).tolist()
    assert len(rows) == len(marks)
    return rows


VISIT = st.tuples(st.sampled_from("abc"), *(st.sampled_from(["", "0", "1", "5"]) for _ in range(3)))


@given(st.lists(VISIT, min_size=1, max_size=30), st.integers(1, 4), st.sampled_from([None, "a", "-w"]), st.data())
def test_which_rows_count_depends_on_that_person_s_rows_alone(
    visits: list[tuple[str, ...]], rows_max: int, keep_by: str | None, data: Any
) -> None:
    """Neither the order of a source, nor where it is cut, nor other persons decide."""
    shuffled = data.draw(st.permutations(visits))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("curator_service.datasets.persons._SHARES", 2)  # two of three persons are in one
        counted = count_of(visits, rows_max, keep_by)
        assert count_of(shuffled, rows_max, keep_by, cut=len(visits) // 2) == counted
        for person in {who for who, *_ in visits}:
            alone = [visit for visit in visits if visit[0] == person]
            assert count_of(alone, rows_max, keep_by) == [visit for visit in counted if visit[0] == person]
            assert len([visit for visit in counted if visit[0] == person]) == min(rows_max, len(alone))


@pytest.mark.parametrize(("keep_by", "kept"), [("a", [1, 2]), ("-a", [8, 9]), ("w", [8, 9]), ("-w", [8, 9])])
def test_a_column_decides_which_rows_count_and_a_missing_value_stands_last(keep_by: str, kept: list[int]) -> None:
    visits = [("p", str(age), str(-age) if age > 7 else "", "0") for age in range(1, 10)]
    assert [int(age) for _, age, _, _ in count_of(visits, 2, keep_by)] == kept


def test_without_a_column_a_hash_picks_rows_as_if_at_random() -> None:
    """The picked ones are neither the first nor the lowest: their mean is that of all."""
    rng = np.random.default_rng(7)
    visits = [(str(who), str(age), "0", "0") for who in range(400) for age in rng.permutation(100)[:10]]
    counted = [int(age) for _, age, _, _ in count_of(visits, 1)]
    assert len(counted) == 400
    assert abs(np.mean(counted) - 49.5) < 4 * 28.9 / 400**0.5


def test_rows_that_were_made_to_have_one_hash_count_whatever_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [("p", "904637", "128945665"), ("p", "-29312", "0"), ("p", "904637", "128945665")]
    stored = [{"a": np.array([int(a)], np.int32), "b": np.array([int(b)], np.int32)} for _, a, b in made]
    assert len({int(hash_rows(row, 1)[0]) for row in stored}) == 1
    for rows_max, held in itertools.product((1, 2), (0, 100)):
        monkeypatch.setattr("curator_service.datasets.persons._HELD_ROWS", held)
        found = set()
        for order in permutations(range(3)):
            persons = Persons(rows_max)
            for i in order:
                persons.add(whose_of(made[:1]), stored[i])
            whole = {name: np.concatenate([stored[i][name] for i in order]) for name in "ab"}
            found.add(tuple(sorted(made[order[row]] for row in list_counted(persons, whole))))
        assert len(found) == 1


def test_of_rows_that_are_the_same_the_first_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what is stored would depend on how a processor sorts."""
    visits = [(f"p{i % 500}", "1", "1", "1") for i in range(20_000)]
    for held in (50, 10**6):
        monkeypatch.setattr("curator_service.datasets.persons._HELD_ROWS", held)
        persons = Persons(4)
        for start in range(0, 20_000, 1000):
            persons.add(whose_of(visits[start : start + 1000]), stored_of(visits[start : start + 1000]))
        assert list_counted(persons, stored_of(visits)) == list(range(2000))


def test_rows_are_dropped_in_between_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = [(str(i % 7), str(i * 31 % 100), str(i), "0") for i in range(300)]
    whole = count_of(visits, 3)
    monkeypatch.setattr("curator_service.datasets.persons._HELD_ROWS", 4)
    persons = Persons(3)
    for size in range(1, 25):  # each batch is larger than those before
        batch = visits[size * (size - 1) // 2 :][:size]
        persons.add(whose_of(batch), stored_of(batch))
    assert sorted(visits[row] for row in list_counted(persons, stored_of(visits))) == whole


def test_memory_does_not_grow_with_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator_service.datasets.persons._HELD_ROWS", 2**13)
    batch, peaks = 2**12, []
    for batches in (16, 128):
        persons, chance = Persons(1), np.random.default_rng(3)
        tracemalloc.start()
        for _ in range(batches):
            whose = np.frombuffer(chance.bytes(SIZE * batch), f"V{SIZE}")
            persons.add(whose, {"a": np.zeros(batch, np.int32)})
        counted = persons.find_counted()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(counted) == persons.count == batches * batch
    assert peaks[1] < 1.2 * peaks[0]


def test_what_waits_in_a_file_has_no_name_and_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with its process, however that ends, and a disk from which it was removed holds noise."""
    monkeypatch.setattr("curator_service.datasets.persons._HELD_ROWS", 10)
    opened: list[Any] = []

    def open_file(**given: Any) -> Any:
        opened.append(TemporaryFile(**given))  # noqa: SIM115 -- as `Persons` holds it
        return opened[-1]

    monkeypatch.setattr("curator_service.datasets.persons.TemporaryFile", open_file)
    visits = [(f"p{i}", "77", "88", "99") for i in range(200)]
    persons, whose = Persons(1, "a", tmp_path), whose_of(visits)
    for start in range(0, 200, 20):
        persons.add(whose[start : start + 20], stored_of(visits[start : start + 20]))
    (file,) = opened
    assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
    assert os.fstat(file.fileno()).st_nlink == 0
    assert list(tmp_path.iterdir()) == []
    file.seek(0)
    content = file.read()
    assert len(content) == 200 * ROW_BYTES
    assert not any(who.tobytes() in content for who in whose)
    words = np.frombuffer(content, np.uint64)
    assert len(np.unique(words)) == len(words)  # columns that are the same in every row are not
    assert list_counted(persons, stored_of(visits)) == list(range(200))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("rows_per_subject = 2\n", ""), "go together"),
        (('subject = "patient"', PERSONS), "go together"),
        (('subject = "patient"', 'subject = "age"'), "must not be a column"),
        (('keep_by = "age"', 'keep_by = "patient"'), "declared column"),
        (('keep_by = "age"', 'keep_by = "--age"'), "declared column"),
        (('subject = "patient"\nrows_per_subject = 2', PERSONS), "goes with a subject"),
        (("rows_per_subject = 2", "rows_per_subject = 0"), "rows_per_subject"),
        (("rows_per_subject = 2", "rows_per_subject = 1001"), "rows_per_subject"),
    ],
    ids=str,
)
def test_a_wrong_declaration_is_refused(clinic: World, wrong: tuple[str, str], message: str) -> None:
    text = MANIFEST.format(population="town", rows=2)
    assert wrong[0] in text
    with pytest.raises(ManifestError, match=message):
        register(clinic, VISITS, manifest=text.replace(*wrong))


@pytest.mark.parametrize("like", ["P1", " p1 ", "p\u200b1", "ｐ１", "p\u00ad1"], ids=ascii)
def test_look_alikes_are_one_person(clinic: World, like: str) -> None:
    visits = [("p1", "50", "80", "3"), (like, "51", "82", "4"), ("p1", "52", "84", "5")]
    assert released(buy(clinic, register(clinic, visits), rows={"map": "box"})) == pytest.approx(
        sums(visits[:2]), abs=1e-4
    )


def test_a_row_without_a_subject_refuses_the_upload(clinic: World) -> None:
    with pytest.raises(IngestError, match=r"line 9, column 'patient': the subject is missing"):
        register(clinic, [*VISITS, ("  ", "1", "1", "1")])


def test_a_file_without_the_subject_is_refused(clinic: World) -> None:
    text = MANIFEST.format(population="town", rows=2).replace('"patient"', '"person"')
    with pytest.raises(IngestError, match="no column 'person'"):
        register(clinic, VISITS, manifest=text)


@pytest.mark.parametrize(
    "mark", ["\x7f", "\u200d", "\u034f", "\ufe0f", "\u3164", "\u180b", "\U000e0100"], ids=lambda mark: f"{ord(mark):x}"
)
def test_what_is_not_seen_tells_no_two_persons_apart(mark: str) -> None:
    """Or one person has the rows of two."""
    pairs = [(f"e{mark}\u0301", "\u00e9"), (f"a{mark}b", "AB"), (f"\u304b{mark}\u3099", "\u304c")]
    for one, other in pairs:
        assert fold_subjects(pa.array([one])) == fold_subjects(pa.array([other]))


def test_a_number_that_became_a_float_is_the_same_identifier() -> None:
    """A later file of the same persons has `100001.0`; each identifier is read by itself, whatever stands beside it."""
    plain = ["100001", "7", "007", "12", "p1", "1.10", "3.0.0", "100,000", "5.000", "9", "a\u00e9"]
    floats = ["100001.0", "7,0", "007.0", " 12.0", "p1", "1.10", "3.0.0", "100,000", "5.000", "9.00", "a\u00e9"]
    for count in range(1, len(plain) + 1):
        for some in (slice(count), slice(count - 1, count)):
            assert fold_subjects(pa.array(floats[some])) == fold_subjects(pa.array(plain[some]))
    assert len(set(fold_subjects(pa.array(floats)))) == len(plain)


def test_persons_of_a_later_file_with_floats_are_those_of_before(clinic: World) -> None:
    first = [(f"{100001 + i}", "50", "80", "3") for i in range(30)]
    later = [(f"{100001 + i}.0", "51", "80", "4") for i in range(30)]
    both = register(clinic, [*first, *later], rows=1)
    assert released(buy(clinic, both, rows={"map": "box"})) == released(
        buy(clinic, register(clinic, first, rows=1), rows={"map": "box"})
    )
