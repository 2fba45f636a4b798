"""The same people under another population are recognised in disguise, and the answer tells nothing else."""

import csv
import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support import ADMIN, COLUMNS, World, csv_text, make_rows, manifest_text, open_population

from curator_service.approvals.problems import SecondAdminNeeded
from curator_service.container import make_curator
from curator_service.datasets import likeness
from curator_service.datasets import sketch as sketches
from curator_service.datasets.likeness import EXCESS, QUERY_SCALE, REFUSAL_EPSILON, THRESHOLD_SCALE, LikenessService
from curator_service.datasets.service import REFUSALS_MAX, OtherPeople, RegistrationError
from curator_service.datasets.sketch import Sketch, Sketcher, code_levels, code_numbers
from curator_service.datasets.sources import base
from curator_service.identity.repository import Principal
from curator_service.ledger.chain.signing import SigningError
from curator_service.privacy.accountant import Price
from curator_service.privacy.lattice import MISSING
from curator_service.privacy.samplers import Distribution

Columns = list[tuple[str, str, str, tuple[Any, ...], str | None]]
Rows = list[dict[str, str]]
PEOPLE = make_rows(400, seed=76)
pytestmark = pytest.mark.usefixtures("read_here")


def register(world: World, rows: Rows | str, columns: Columns | None = None, **options: Any) -> Any:
    """Register rows as those of other people."""
    name = options.pop("name", "new")
    population = options.pop("population", "valley")
    manifest, source = world.folder / "new.toml", world.folder / "new.csv"
    manifest.write_text(manifest_text(name, population, columns=columns), encoding="utf-8")
    source.write_text(rows if isinstance(rows, str) else csv_text(rows), encoding="utf-8")
    curator = options.pop("curator", world.curator)
    return curator.datasets.register(manifest, source, actor="operator:test", **options)


def written(world: World) -> list[Any]:
    """Return all that a registration writes beside the ledger."""
    tables = ("datasets", "snapshots", "sketches")
    folders = sorted(path.name for path in (world.settings.data_dir / "datasets").iterdir())
    return [sorted(world.sql(f"SELECT * FROM {table}")) for table in tables] + [folders]


def refusals(world: World, population: str = "valley") -> list[dict[str, Any]]:
    """Return what the ledger says of refused registrations."""
    return [entry for entry in world.entries(population) if entry["kind"] == "refusal"]


def assert_recognised(world: World, rows: Rows | str, columns: Columns | None = None) -> None:
    """Assert that a registration is refused in the same words as any other, and that the ledger alone knows of it."""
    before, known = written(world), len(refusals(world))
    with pytest.raises(RegistrationError) as caught:
        register(world, rows, columns)
    assert str(caught.value) == (
        "the same rows, or nearly, are registered under the population 'town'; the same people must not get a second "
        "budget: name the population 'town' in the manifest. If they are other people, a privacy officer may say so "
        "with --other-people, and another one approve"
    )
    assert written(world) == before
    assert len(refusals(world)) == known + 1
    assert world.curator.ledger.verify("valley").ok


def changed(column: str, *, missing: str = "", public: tuple[Any, ...] = ()) -> Columns:
    """Return the columns of the cohort with one declared otherwise."""
    return [
        (name, kind, missing or rule, public or known, unit) if name == column else (name, kind, rule, known, unit)
        for name, kind, rule, known, unit in COLUMNS
    ]


@pytest.fixture
def town(world: World) -> World:
    """A world in which a population has people enough to be recognised, whatever noise is drawn."""
    register(world, PEOPLE, name="people", population="town")
    return world


def with_value(row: int, column: str, value: str) -> Rows:
    return [{**r, column: value} if i == row else r for i, r in enumerate(PEOPLE)]


def renamed(rows: Rows) -> tuple[Rows, Columns]:
    """Return the cohort under other names of columns."""
    return (
        [{f"new_{name}": value for name, value in row.items()} for row in rows],
        [(f"new_{c[0]}", *c[1:]) for c in COLUMNS],
    )


def shifted(amount: float) -> Rows:
    """Return the cohort with every age changed."""
    return [{**row, "age": repr(float(row["age"]) + amount)} for row in PEOPLE]


def rounded(rows: Rows) -> Rows:
    """Return the cohort with fewer digits."""
    numeric = {name for name, kind, *_ in COLUMNS if kind == "numeric"}
    return [{k: f"{float(v):.3g}" if k in numeric and v else v for k, v in row.items()} for row in rows]


def widened(relative: float) -> Columns:
    return [(n, k, m, (p[0], p[1] + relative * (p[1] - p[0])) if k == "numeric" else p, u) for n, k, m, p, u in COLUMNS]


STRANGERS = make_rows(len(PEOPLE), seed=77)
DISGUISES: dict[str, Callable[[], tuple[Rows | str, Columns | None]]] = {
    "the same file": lambda: (PEOPLE, None),
    "quoted otherwise": lambda: (csv_text(PEOPLE, quoting=csv.QUOTE_ALL).replace("\n", "\r\n"), None),
    "other bounds": lambda: (PEOPLE, changed("kappa", public=(0.0, 7.0))),
    "bounds wider by 1e-7": lambda: (PEOPLE, widened(1e-7)),
    "bounds ten times as wide": lambda: (PEOPLE, widened(9.0)),
    "a declared column less": lambda: (PEOPLE, COLUMNS[1:]),
    "the last column less": lambda: (PEOPLE, COLUMNS[:-1]),
    "half of the columns": lambda: (PEOPLE, COLUMNS[::2]),
    "a declared column more": lambda: (
        [{**row, "more": other["age"]} for row, other in zip(PEOPLE, STRANGERS, strict=True)],
        [*COLUMNS, ("more", "numeric", "omit", (0.0, 200.0), None)],
    ),
    "levels in another order": lambda: (PEOPLE, changed("sex", public=("X", "M", "F"))),
    "a level more": lambda: (PEOPLE, changed("sex", public=("F", "M", "X", "Y"))),
    "columns in another order": lambda: (PEOPLE, COLUMNS[::-1]),
    "other names": lambda: renamed(PEOPLE),
    "another rule for missing values": lambda: (PEOPLE, changed("creatinine", missing="midpoint")),
    "two rows swapped": lambda: ([PEOPLE[1], PEOPLE[0], *PEOPLE[2:]], None),
    "rows in another order": lambda: (PEOPLE[::-1], None),
    "a row less": lambda: (PEOPLE[1:], None),
    "a row more": lambda: ([*PEOPLE, STRANGERS[0]], None),
    "a row twice": lambda: ([*PEOPLE, PEOPLE[0]], None),
    "every row twice": lambda: ([row for row in PEOPLE for _ in range(2)], None),
    "every row but one twice": lambda: ([*PEOPLE, *PEOPLE[1:]], None),
    "every number rounded to 3 digits": lambda: (rounded(PEOPLE), None),
    "one value changed by 1e-9": lambda: (with_value(3, "age", repr(float(PEOPLE[3]["age"]) + 1e-9)), None),
    "one value missing": lambda: (with_value(3, "dose", ""), None),
    "every age changed by 1e-9": lambda: (shifted(1e-9), None),
    "half of the rows": lambda: (PEOPLE[::2], None),
    "twice the rows": lambda: (PEOPLE + STRANGERS, None),
}


@pytest.mark.parametrize("name", list(DISGUISES))
def test_a_disguised_copy_is_recognised(town: World, name: str) -> None:
    rows, columns = DISGUISES[name]()
    assert_recognised(town, rows, columns)


def test_a_copy_is_recognised_wherever_chunks_are_cut(town: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard against a second budget must not depend on a constant that a later version may change."""
    monkeypatch.setattr(base, "BATCH_ROWS", 7)
    assert_recognised(town, PEOPLE[:-1])


def test_other_people_in_the_same_columns_are_registered(world: World) -> None:
    for seed in range(20):
        register(world, make_rows(60 + seed, seed=100 + seed), name=f"other{seed}")
    assert refusals(world) == []


def test_disjoint_parts_of_one_cohort_are_other_people(world: World) -> None:
    rows = make_rows(600, seed=31)
    register(world, rows[::2], name="even", population="town")
    register(world, rows[1::2], name="odd")


def test_the_same_people_may_come_again_under_their_population(town: World) -> None:
    for i, (rows, columns) in enumerate((PEOPLE, None) if i == 0 else DISGUISES[n]() for i, n in enumerate(DISGUISES)):
        register(town, rows, columns, name=f"version{i}", population="town")


def test_a_copy_is_recognised_after_the_key_was_rotated_and_with_a_later_one(town: World) -> None:
    town.curator.keys.rotate("2026-03-02T00:00:00Z")
    assert_recognised(town, PEOPLE)
    assert_recognised(town, PEOPLE[1:])
    register(town, make_rows(300, seed=55), name="later", population="town")
    town.curator.keys.rotate("2026-03-03T00:00:00Z")
    assert_recognised(town, make_rows(300, seed=55))
    assert_recognised(town, make_rows(300, seed=55)[1:])
    assert {len(row) for row in town.sql("SELECT DISTINCT key_id FROM snapshots")} == {1}
    assert len(town.sql("SELECT DISTINCT key_id FROM sketches")) == 2


def test_nothing_is_registered_while_a_key_that_it_takes_is_away(world: World) -> None:
    world.curator.keys.rotate("2026-03-02T00:00:00Z")
    first = world.settings.keys_folder / f"{world.curator.keys.list_keys()[0].key_id}.pem"
    first.rename(first.with_suffix(".away"))
    before = written(world)
    with pytest.raises(SigningError, match="cannot be read"):
        register(world, make_rows(300, seed=55))
    assert written(world) == before


def test_a_sketch_that_is_not_the_curator_s_own_refuses_a_registration(world: World) -> None:
    """Whoever may write to the database cannot blind the curator: what it cannot compare, it does not take."""
    world.sql("DROP TRIGGER sketches_no_update")
    ((whole,),) = world.sql("SELECT sealed FROM sketches JOIN datasets ON id = dataset_id WHERE name = 'cohort'")
    ((other,),) = world.sql("SELECT sealed FROM sketches JOIN datasets ON id = dataset_id WHERE name = 'hidden'")
    for sealed in ("", "AAAA", other, whole[:-8] + "AAAAAAA="):
        world.sql(f"UPDATE sketches SET sealed = '{sealed}'")
        with pytest.raises(SigningError, match="sketch"):
            register(world, make_rows(300, seed=55))


# --- What a second admin may confirm


def admins(world: World, count: int = 2) -> list[Principal]:
    tokens = [world.add_token(f"admin{i}", *ADMIN) for i in range(count)]
    return [world.curator.identity.authenticate(f"Bearer {token}") for token in tokens]


def propose(world: World, rows: Rows, admin: Principal) -> str:
    """Propose that rows are of other people; return the proposal's id."""
    with pytest.raises(RegistrationError, match="may approve prp_"):
        register(world, rows, other_people=OtherPeople(admin, "the twins of the first study"))
    proposal = world.curator.approvals.list_proposals()[0]
    assert (proposal.state, proposal.scope, proposal.population) == ("open", "rows", "valley")
    return proposal.id


def test_a_second_admin_may_confirm_that_rows_are_of_other_people(town: World) -> None:
    one, other = admins(town)
    copy = PEOPLE[1:]
    proposal = propose(town, copy, one)
    with pytest.raises(SecondAdminNeeded):
        town.curator.approvals.decide(proposal, one, approve=True)
    with pytest.raises(RegistrationError, match="the same rows"):
        register(town, copy)  # nobody has approved it yet
    limit = town.account("valley").limit
    town.curator.approvals.decide(proposal, other, approve=True)
    assert town.account("valley").limit == limit
    register(town, copy)
    (entry,) = [e for e in town.entries("valley") if e["kind"] == "confirmation"]
    assert (entry["actor"], entry["approved_by"]) == (one.id, other.id)
    assert (entry["reason"], entry["units"]) == ("the twins of the first study", "0")
    assert town.curator.ledger.verify("valley").ok
    assert town.discrepancies("valley") == []


def test_whoever_may_write_the_table_of_proposals_confirms_nothing(town: World) -> None:
    (one,) = admins(town, 1)
    propose(town, PEOPLE[1:], one)
    town.sql("UPDATE proposals SET state = 'approved', decided_by = proposed_by, decided_at = proposed_at")
    assert_recognised(town, PEOPLE[1:])


@pytest.mark.parametrize("change", ["rows", "manifest", "rejected"])
def test_a_confirmation_is_of_these_very_rows_and_this_very_manifest(town: World, change: str) -> None:
    one, other = admins(town)
    proposal = propose(town, PEOPLE[1:], one)
    town.curator.approvals.decide(proposal, other, approve=change != "rejected")
    rows, columns = (PEOPLE[2:] if change == "rows" else PEOPLE[1:]), (COLUMNS[1:] if change == "manifest" else None)
    assert_recognised(town, rows, columns)


def test_a_confirmation_is_about_the_population_that_was_shown(town: World) -> None:
    """Rows that are like those of two populations take two confirmations: each names what the admins were shown."""
    adjacency = town.account().adjacency
    open_population(town.curator, "ridge", Price(mu=1.0), adjacency=adjacency)
    register(town, STRANGERS, name="noise", population="ridge")
    one, other = admins(town)
    both = PEOPLE + STRANGERS
    for _ in range(2):
        town.curator.approvals.decide(propose(town, both, one), other, approve=True)
        town.clock.moment += timedelta(seconds=1)  # proposals are listed by time
    assert {entry["like"] for entry in refusals(town)} == {"town", "ridge"}
    register(town, both)


# --- No oracle of membership


def test_attempts_are_limited_per_day_whatever_the_population(town: World) -> None:
    for i in range(REFUSALS_MAX):
        assert_recognised(town, PEOPLE[i:])
    for rows in (PEOPLE, make_rows(50, seed=99)):
        with pytest.raises(RegistrationError, match="within a day"):
            register(town, rows)
    assert len(refusals(town)) == REFUSALS_MAX
    town.clock.moment += timedelta(days=1, seconds=1)
    register(town, make_rows(50, seed=99))


def test_a_file_of_guesses_is_compared_without_a_word_of_one_more(world: World) -> None:
    """Whoever knows some rows asks about one more: few rows are never recognised, and many always."""
    for count in (1, 2, 5, 10, 20):
        register(world, PEOPLE[:count], name=f"few{count}")
        register(world, [*PEOPLE[:count], STRANGERS[0]], name=f"more{count}")
    register(world, PEOPLE, name="people", population="town")
    assert_recognised(world, PEOPLE[:300])
    assert_recognised(world, [*PEOPLE[:300], STRANGERS[0]])


def test_the_noise_of_a_refusal_is_that_of_its_epsilon() -> None:
    """The sparse vector technique: a threshold of Δ/t, and comparisons of which each may move twice by Δ."""
    move = likeness._UNIT + 1  # by 1, and rounding
    assert Fraction(move, THRESHOLD_SCALE) + Fraction(2 * move, QUERY_SCALE) <= REFUSAL_EPSILON == 1


def test_the_threshold_stays_until_something_is_refused(town: World) -> None:
    service = town.curator.datasets.likeness
    drawn = {service._draw_threshold(b"%d" % i) for i in range(50)}
    assert len(drawn) > 40
    assert len({service._draw_threshold(b"once") for _ in range(5)}) == 1
    seen: list[bytes] = []
    service.find_owner, found = lambda *_, refusals, **__: seen.append(refusals), service.find_owner  # type: ignore[method-assign]
    for i in range(3):
        register(town, make_rows(30, seed=300 + i), name=f"other{i}")
    service.find_owner = found  # type: ignore[method-assign]
    assert_recognised(town, PEOPLE[1:])
    service.find_owner = lambda *_, refusals, **__: seen.append(refusals)  # type: ignore[method-assign]
    register(town, make_rows(30, seed=310), name="last")
    assert len(set(seen[:3])) == 1
    assert seen[3] != seen[0]


@pytest.fixture
def judge(world: World, monkeypatch: pytest.MonkeyPatch) -> LikenessService:
    """What decides, many times over: it reads its key once."""
    service = world.curator.datasets.likeness
    monkeypatch.setattr(service.keys, "secret", cache(service.keys.secret))
    return service


def test_the_threshold_s_noise_has_its_law(judge: LikenessService) -> None:
    # 0.015 is more than three standard errors of each share.
    drawn = np.array([judge._draw_threshold(b"%d" % i) for i in range(12_000)])
    for places in (1, 2, 4):
        share = np.mean(np.abs(drawn) > places * THRESHOLD_SCALE)
        assert share == pytest.approx(np.exp(-places), abs=0.015)
    assert abs(np.mean(drawn > 0) - 0.5) < 0.015


def test_a_decision_has_the_noise_of_the_threshold_and_its_own(world: World) -> None:
    """Rows are refused from the threshold on, its noise added and that of the comparison taken off, to one step."""

    class Stub:
        drawn = 0

        def sample(self, distribution: Distribution, scales: npt.ArrayLike) -> npt.ArrayLike:
            assert (distribution, list(np.asarray(scales))) == (Distribution.DISCRETE_LAPLACE, [QUERY_SCALE])
            return [self.drawn]

    noise, steps = Stub(), likeness._UNIT
    known = world.curator.datasets.likeness
    service = LikenessService(known.keys, known.storage, noise)
    for i, drawn in enumerate([0, 0, 900, -900, 5 * steps]):
        noise.drawn = drawn
        least = EXCESS * steps + service._draw_threshold(b"%d" % i) - drawn
        assert service._exceeds(least / steps, b"%d" % i)
        assert not service._exceeds((least - 1) / steps, b"%d" % i)


def test_a_decision_judges_neighbours_nearly_alike(judge: LikenessService) -> None:
    """Rows of which most are known: whether one more of them is registered is not read off the decisions."""
    source = np.random.default_rng(8)
    table = source.normal(size=(3, 58))
    known = sketch(table)
    shares = []
    for excess in (known.find_excess(known), known.find_excess(sketch(table[:, 1:]))):
        shares.append(np.mean([judge._exceeds(excess, b"%d" % i) for i in range(2000)]))
    assert all(0.3 < share < 0.95 for share in shares)
    for one, other in (shares, [1 - share for share in shares]):
        assert abs(np.log(one / other)) < float(REFUSAL_EPSILON)
    assert 0 < shares[0] - shares[1] < 0.15


class Crowd:
    """Persons with rows, whose sketch may be made without one of them, or with another in the place of one."""

    def __init__(self, source: np.random.Generator, columns: int, *, owned: bool) -> None:
        self.source, self.columns, self.owned = source, columns, owned
        self.laws = source.integers(0, 5, columns)
        self.rows = [self.draw() for _ in range(int(source.integers(5, 60)))]

    def draw(self) -> Any:
        count = int(self.source.integers(1, 40)) if self.owned and self.source.random() < 0.2 else 1
        values = [self.value(law, count) for law in self.laws]
        return np.array(values)

    def value(self, law: int, count: int) -> Any:
        found = self.source.integers(0, (2, 12, 60, 400, 10**9)[law], count).astype(float)
        return np.where(self.source.random(count) < 0.1, np.nan, found)

    def sketch(self, persons: list[Any]) -> Sketch:
        sketcher = Sketcher(b"crowd")
        whole = np.concatenate([np.empty((self.columns, 0)), *persons], axis=1)
        owners = np.repeat(np.arange(len(persons), dtype=np.uint64), [rows.shape[1] for rows in persons])
        order = self.source.permutation(len(owners))
        for chunk in np.array_split(order, 2):
            sketcher.add([code_numbers(column[chunk]) for column in whole], owners[chunk] if self.owned else None)
        return sketcher.finish()


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_one_person_moves_the_excess_by_one_at_most(monkeypatch: pytest.MonkeyPatch, seed: int, *, owned: bool) -> None:
    """Searched for neighbours, with so small a sketch that every limit is met, and with rows that others have too."""
    source = np.random.default_rng([seed, owned])
    for name, value in (
        ("KEPT", 7),
        ("_WORKING", 20),
        ("_COMPARED_MIN", 4),
        ("_DEVIATIONS", 0.2),
        ("_PAIRED_COLUMNS", 3),
    ):
        monkeypatch.setattr(sketches, name, value)
    farthest = 0.0
    for _ in range(20):
        crowd = Crowd(source, int(source.integers(1, 6)), owned=owned)
        others = [rows for rows in crowd.rows if source.random() < 0.8] + [crowd.draw() for _ in range(5)]
        against = crowd.sketch(others * int(source.integers(1, 3)))
        whole = crowd.sketch(crowd.rows).find_excess(against)
        for i in range(0, len(crowd.rows), 5):
            less = crowd.rows[:i] + crowd.rows[i + 1 :]
            moved = abs(whole - crowd.sketch(less).find_excess(against))
            replaced = abs(whole - crowd.sketch([*less, crowd.draw()]).find_excess(against))
            farthest = max(farthest, moved)
            assert moved <= 1 + 1e-9
            assert replaced <= 2 + 1e-9
    assert farthest > 0.5


def test_pairs_are_of_columns_by_their_declarations() -> None:
    """Were the most varied columns paired, one person's values could change all of them."""
    source = np.random.default_rng(9)
    table = [source.normal(size=50) for _ in range(20)]
    coarse = [np.round(column) for column in table]
    coded = [code_numbers(column) for column in table]
    assert [sorted(made(columns)._pairs) for columns in ([code_numbers(c) for c in coarse], coded)] == [
        sorted(made(coded)._pairs)
    ] * 2
    levels = code_levels(("no", "yes"), np.zeros(50, np.int32))
    assert (0, 1) not in made([levels, *coded])._pairs


def made(columns: list[Any]) -> Sketcher:
    sketcher = Sketcher(b"one")
    sketcher.add(columns)
    return sketcher


def test_appended_rows_that_come_again_are_refused_under_the_same_limit(town: World) -> None:
    """The answer is one more of the same kind: with an entry, with noise, and no oftener than ten times a day."""
    (town.folder / "again.csv").write_text(csv_text(PEOPLE[5:]), encoding="utf-8")

    def append() -> None:
        town.curator.versions.add_rows("people", town.folder / "again.csv", act="append", actor="operator:test")

    for _ in range(REFUSALS_MAX - 1):
        with pytest.raises(RegistrationError, match="replace all rows instead"):
            append()
    assert {(entry["dataset"], entry["like"]) for entry in refusals(town, "town")} == {("people", "town")}
    assert_recognised(town, PEOPLE[1:])
    for attempt in (append, lambda: register(town, make_rows(50, seed=99))):
        with pytest.raises(RegistrationError, match="within a day"):
            attempt()
    assert town.curator.versions.list_changes() == []
    assert len(refusals(town, "town")) == REFUSALS_MAX - 1
    assert town.curator.ledger.verify("town").ok


# --- What the database's thief has


def test_the_size_of_a_sketch_follows_from_the_manifest_alone(world: World) -> None:
    register(world, make_rows(30, seed=41), name="few")
    register(world, make_rows(900, seed=42), name="many")
    sizes = dict(world.sql("SELECT name, length(sealed) FROM sketches JOIN datasets ON id = dataset_id"))
    assert sizes["few"] == sizes["many"] == sizes["cohort"]


def test_two_sketches_of_the_same_rows_look_unlike_in_the_database(town: World) -> None:
    register(town, PEOPLE, name="again", population="town")
    ((one,), (other,)) = town.sql(
        "SELECT sealed FROM sketches JOIN datasets ON id = dataset_id WHERE name IN ('people', 'again')"
    )
    assert sum(a == b for a, b in zip(one, other, strict=True)) < len(one) / 16


def test_nothing_in_the_database_is_a_function_of_rows_without_a_secret(world: World) -> None:
    """Register the same rows on another curator: what is the same in both databases is public, or random of its length.

    And the neighbour of one row less: nothing that is public moves.
    """

    def public(rows: Rows, place: str) -> dict[str, Any]:
        settings = world.settings.model_copy(
            update={"data_dir": world.folder / place / "data", "anchor_dir": world.folder / place / "anchor"}
        )
        curator = make_curator(settings, now=world.clock)
        curator.database.upgrade()
        town = world.account()
        open_population(curator, "valley", Price(mu=1.0), adjacency=town.adjacency)
        register(world, rows, curator=curator)
        with curator.database.engine.begin() as connection:
            tables = [
                name
                for (name,) in connection.exec_driver_sql(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
                )
            ]
            content = {name: [tuple(r) for r in connection.exec_driver_sql(f"SELECT * FROM {name}")] for name in tables}
        curator.close()
        return content

    one, same, less = public(PEOPLE, "one"), public(PEOPLE, "same"), public(PEOPLE[1:], "less")
    shapes = [
        json.dumps({t: [[len(str(v)) for v in row] for row in rows] for t, rows in c.items()})
        for c in (one, same, less)
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    words = [{v for rows in c.values() for row in rows for v in row if isinstance(v, str)} for c in (one, same, less)]
    # What two curators have in common of the same rows, they have in common of one row less.
    assert words[0] & words[1] == words[0] & words[2]
    numbers = [{v for rows in c.values() for row in rows for v in row if isinstance(v, int)} for c in (one, same, less)]
    assert numbers[0] == numbers[1] == numbers[2]
    assert len(PEOPLE) not in numbers[0]


# --- The sketch itself


def sketch(table: Any, secret: bytes = b"one") -> Sketch:
    sketcher = Sketcher(secret)
    sketcher.add([code_numbers(column) for column in table])
    return sketcher.finish()


def test_sketches_under_two_secrets_share_nothing() -> None:

    table = np.random.default_rng(1).normal(size=(3, 500))
    assert sketch(table).find_excess(sketch(table)) > 2 * EXCESS
    one, other = sketch(table), sketch(table, b"other")
    assert one.find_excess(other) < 0
    assert not {int(t) for _, part in one.parts for t in part} & {int(t) for _, part in other.parts for t in part}


def test_a_sketch_is_read_back_as_it_was_written() -> None:

    for rows in (1, 30, 3000):
        one = sketch(np.random.default_rng(2).normal(size=(2, rows)))
        again = Sketch.from_bytes(one.to_bytes())
        assert again.to_bytes() == one.to_bytes()
        assert all((a[1] == b[1]).all() and a[0] == b[0] for a, b in zip(one.parts, again.parts, strict=True))


def test_the_rows_of_one_person_count_once() -> None:

    source = np.random.default_rng(3)
    people = np.arange(200, dtype=np.uint64)
    weight, score = source.normal(size=200), source.normal(size=(2, 200))
    visits, once = Sketcher(b"one"), Sketcher(b"one")
    for context in score:
        visits.add([code_numbers(weight), code_numbers(context)], people)
    once.add([code_numbers(weight), code_numbers(score[0])], people)
    assert visits.finish().find_excess(once.finish()) > 2 * EXCESS
    assert len(visits.finish().parts[0][1]) == 200


def test_a_column_of_few_values_counts_for_nothing() -> None:

    source = np.random.default_rng(4)
    ages = [source.integers(20, 90, 5000).astype(float) for _ in range(2)]
    assert sketch([ages[0]]).find_excess(sketch([ages[1]])) < 0
    assert sketch([ages[0]]).find_excess(sketch([ages[0]])) < 0  # and cannot be recognised by itself


@pytest.mark.parametrize(("most", "recognised"), [(3, True), (8, False)])
def test_rows_repeated_unevenly_are_recognised_up_to_three_times(most: int, recognised: bool) -> None:
    """Each row is there from once to `most` times: of 8, too few are there equally often to tell people by."""
    source = np.random.default_rng(5)
    table = source.normal(size=(4, 900))
    again = np.repeat(table, source.permutation(1 + np.arange(900) % most), axis=1)
    for secret in (b"one", b"other", b"third"):
        assert (sketch(table, secret).find_excess(sketch(again, secret)) > 2 * EXCESS) is recognised


def test_identical_rows_are_not_counted_once() -> None:
    """Of other people with coarse values nearly all with one value have the same row, and would be taken for copies."""
    source = np.random.default_rng(6)
    ages = [source.integers(20, 90, 5000).astype(float) for _ in range(2)]
    one, other = (sketch([age, age // 10]) for age in ages)
    assert one.find_excess(other) < 0


def test_persons_of_one_row_each_are_sketched_as_rows_without_persons() -> None:
    source = np.random.default_rng(7)
    bare, owned, first = Sketcher(b"s"), Sketcher(b"s"), 0
    for count in (9000, 1, 5000):
        table = [source.normal(size=count), source.integers(0, 9000, count) * 1.0, source.integers(0, 3, count) * 1.0]
        table += [np.where(source.random(count) < 0.3, np.nan, table[0].round(3)), np.full(count, np.nan)]
        bare.add([code_numbers(column) for column in table])
        owned.add([code_numbers(column) for column in table], np.arange(first, first + count, dtype=np.uint64))
        first += count
    assert bare.finish().to_bytes() == owned.finish().to_bytes()


def sketched(cuts: list[int], *, columns: int, owned: bool) -> str:
    """Return the digest of the sketch of rows that no generator of random numbers makes, cut into chunks."""
    rows = np.arange(120_000, dtype=np.int64)
    spread = [rows * factor % 1_000_003 for factor in (7919, 104_729, 611_953, 485_818)]
    numbers = [spread[0] / 997, spread[1] % 5000 / 100, np.where(spread[2] % 9, spread[2] / 64 - 5000, np.nan)]
    numbers += [(spread[3] * (k + 2) % 1_000_003) % (4000 + k) / 16 - k for k in range(columns - 4)]
    words, persons = (spread[0] % 3).astype(np.int32), (spread[3] % 40_000).astype(np.uint64)
    sketcher = Sketcher(b"literal")
    for start, stop in pairwise([0, *cuts, len(rows)]):
        chunk = [code_numbers(column[start:stop]) for column in numbers]
        chunk.append(code_levels(("no", "yes", "1.5"), np.where(words == 2, MISSING, words)[start:stop]))
        sketcher.add(chunk, persons[start:stop] if owned else None)
    return hashlib.sha256(sketcher.finish().to_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("columns", "owned", "digest"),
    [
        (6, False, "15b02496476d1eb8fcd8ab69c677b4cb9605b4b682f1d5496620f367dcc5f226"),
        (6, True, "07776e3325d96e51f214940cd4f486301be34606f92f4db2d2e06d64dfc56e41"),
        (19, False, "8ca43ead91b876abcf12af4cdd36a5c0c7dc35cdb02e973e54a05eb3a56e1a3d"),
        (19, True, "67c4d02db168cf9efa05a4fb96333e985a5ca5adfd8ef2040726ef50288cb77b"),
    ],
)
def test_rows_have_the_sketch_that_they_had(columns: int, owned: bool, digest: str) -> None:
    assert sketched([50_000, 100_000], columns=columns, owned=owned) == digest


@pytest.mark.parametrize("owned", [False, True])
def test_a_sketch_does_not_depend_on_chunks(*, owned: bool) -> None:
    cut = sketched([7, 31_111, 31_112, 90_000], columns=6, owned=owned)
    assert cut == sketched([], columns=6, owned=owned)


def test_sketches_are_compared_before_others_have_to_wait(town: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the unit of work, which keeps others from writing, only what was stored since is compared."""
    within: list[bool] = []
    find_excess = Sketch.find_excess

    def note(self: Sketch, other: Sketch) -> float:
        within.append(getattr(town.curator.database._local, "unit", None) is not None)
        return find_excess(self, other)

    monkeypatch.setattr(Sketch, "find_excess", note)
    register(town, make_rows(30, seed=1), name="other")
    assert within
    assert not any(within)

    service, compare = town.curator.datasets.likeness, LikenessService.compare
    copies = make_rows(400, seed=2)

    def compare_and_be_overtaken(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(service, "compare", lambda *again, **more: compare(service, *again, **more))
        found = compare(service, *given, **named)
        register(town, copies, name="faster", population="town")
        within.clear()
        return found

    monkeypatch.setattr(service, "compare", compare_and_be_overtaken)
    with pytest.raises(RegistrationError, match="registered under the population 'town'"):
        register(town, copies[1:], name="slower")
    assert within == [True]
