"""A search for stored tables that are taken for what they are not: random declarations, random pairs of requests."""

import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scenes import RELEASES, assert_sound
from support import World, csv_text, manifest_text, open_world
from test_stored_release_audit import rewrite

from curator_service.datasets.repository import Dataset
from curator_service.identity.repository import Principal
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import Price
from curator_service.privacy.mechanism import STEP_DENOMINATOR
from curator_service.privacy.samplers import Distribution
from curator_service.releases import publisher
from curator_service.releases.preparation import Prepared, prepare
from curator_service.releases.submission import AnswerKind

LOWER, UPPER = -1.0, 3.0
EDGES = (LOWER, 0.0, 0.5, 1.0, 2.0, 2.999, UPPER)
COLUMNS: list[tuple[str, str, str, tuple[Any, ...], str | None]] = [
    (f"{kind}-{rule}", kind, rule, public, None)
    for kind, public in (("numeric", (LOWER, UPPER)), ("boolean", ("no", "yes")), ("categorical", ("a", "b", "c")))
    for rule in ("complete", "omit", "midpoint", "indicator")
]


class OneScale:
    """Noise of exactly one scale in every draw, or none: what an answer has too much tells how many draws are in it."""

    on = True

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        return [int(scale) if self.on else 0 for scale in scales]


@pytest.fixture
def wealthy(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, limit=Price(mu=50.0), noise=OneScale()) as world:
        yield world


def register(source: random.Random, world: World, name: str) -> Dataset:
    """Register rows with values missing wherever they may be, at edges, at bounds and beyond."""
    rows = []
    for _ in range(60):
        row = {}
        for column, kind, rule, public, _unit in COLUMNS:
            near = (source.choice(EDGES), source.uniform(LOWER - 1, UPPER + 1))
            value = repr(source.choice(near)) if kind == "numeric" else source.choice(public)
            row[column] = "" if rule != "complete" and source.random() < 0.2 else value
        rows.append(row)
    manifest, data = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    manifest.write_text(manifest_text(name, columns=COLUMNS), encoding="utf-8")
    data.write_text(csv_text(rows), encoding="utf-8")
    return world.curator.datasets.register(manifest, data, actor="operator:test")


def draw_axis(source: random.Random, column: tuple[Any, ...], *, whole: bool) -> dict[str, Any]:
    name, kind, rule, _public, _unit = column
    axis: dict[str, Any] = {"column": name, "missing": rule != "complete" and (whole or source.random() < 0.5)}
    if kind == "numeric":
        edges = sorted(source.sample(EDGES, source.randint(2, len(EDGES))))
        axis |= {"edges": sorted({LOWER, UPPER, *edges}) if whole else edges}
    return axis


def draw_tables(source: random.Random) -> list[dict[str, Any]]:
    tables: dict[tuple[str, ...], Any] = {}
    for _ in range(source.randint(1, 3)):
        columns, whole = source.sample(COLUMNS, source.randint(1, 3)), source.random() < 0.7
        axes = [draw_axis(source, column, whole=whole) for column in columns]
        tables[tuple(sorted(axis["column"] for axis in axes))] = {"axes": axes}
    return list(tables.values())


def vary(source: random.Random, stored: dict[str, Any]) -> dict[str, Any]:
    """Return a request near a stored one: mostly margins, coarser or fewer bins, in another order, for less."""
    tables: dict[tuple[str, ...], Any] = {}
    for table in source.sample(stored["tables"], source.randint(1, len(stored["tables"]))):
        for _ in range(source.choice((1, 1, 2))):
            axes = [dict(axis) for axis in source.sample(table["axes"], source.randint(1, len(table["axes"])))]
            for axis in axes:
                if "edges" in axis and source.random() < 0.6:
                    axis["edges"] = sorted(source.sample(axis["edges"], source.randint(2, len(axis["edges"]))))
                if source.random() < 0.3:
                    axis["missing"] = not axis["missing"]
            tables[tuple(sorted(axis["column"] for axis in axes))] = {"axes": axes}
    by = source.choice((0.05, 0.1, 0.3, 0.5, 0.9, 1.0, 1.2))
    asked = {**stored, "tables": list(tables.values()), "price": {name: p * by for name, p in stored["price"].items()}}
    asked.pop("shares", None)
    if len(tables) > 1 and source.random() < 0.3:
        weights = [source.uniform(0.5, 2.0) for _ in tables]
        asked["shares"] = [weight / sum(weights) for weight in weights]
    return asked


def read(world: World, dataset: Dataset, analyst: Principal, asked: dict[str, Any], key: str) -> tuple[Any, Any, Any]:
    prepared = prepare(KINDS, dataset, KINDS["counts"].request_model.model_validate(asked))
    release, kind = world.curator.releases.release(prepared, analyst, key)
    return kind, json.loads(release.answer), prepared


def cells_of(axis: dict[str, Any]) -> list[frozenset[str]]:
    """Return which values each cell of a described axis holds, as names of the finest that any axis tells apart."""
    if "edges" in axis:
        bins = itertools.pairwise(axis["edges"])
        cells = [frozenset(f"[{a}" for a in EDGES[:-1] if low <= a < high) for low, high in bins]
    else:
        cells = [frozenset({level}) for level in axis["cells"]]
    return [*cells, frozenset({"missing"})] if axis["missing"] else cells


def values_of(name: str) -> frozenset[str]:
    """Return every value that a column may have."""
    _, kind, rule, public, _ = next(column for column in COLUMNS if column[0] == name)
    values = {f"[{a}" for a in EDGES[:-1]} if kind == "numeric" else set(public)
    return frozenset(values if rule == "complete" else values | {"missing"})


def most_draws(stored: dict[str, Any], asked: dict[str, Any]) -> int | None:
    """Return how many cells of a table make up a cell of another, at most; None if one is no union of them."""
    held, wanted = ({axis["column"]: cells_of(axis) for axis in table["axes"]} for table in (stored, asked))
    if not wanted.keys() <= held.keys():
        return None
    most = 1
    for name, cells in held.items():
        draws = []
        for whole in wanted.get(name, [values_of(name)]):
            within = [cell for cell in cells if cell <= whole]
            if frozenset().union(*within) != whole:
                return None
            draws.append(len(within))
        most *= max(draws)
    return most


def could_answer(stored: dict[str, Any], prepared: Prepared) -> bool:
    """Tell, from what two tables hold, whether a charged answer has all that is asked with no more noise."""
    asked = prepared.listing
    if stored["noise"]["distribution"] != asked.distribution:
        return False
    for table in asked.describe()["tables"]:
        noise = [
            stored["noise"]["sd"][source["name"]] * math.sqrt(draws)
            for source in stored["tables"]
            if (draws := most_draws(source, table)) is not None
        ]
        if not noise or min(noise) > asked.sd[table["name"]]:
            return False
    return True


def assert_values_are_counts_and_the_stated_noise(
    world: World, dataset: Dataset, prepared: Prepared, answer: dict[str, Any], charged: dict[str, Any]
) -> None:
    """Hold an answer against a count of the rows: what is too much in it are its draws, each of one scale.

    A sum of n independent draws has √n times the standard deviation of one; the scales are those of what was charged.
    """
    sums = iter((world.curator.datasets.sum_rows(dataset, prepared.kernel).values / STEP_DENOMINATOR).tolist())
    for name, part in answer["statistics"].items():
        draws = part.get("draws", [1] * len(part["values"]))
        excess = [(value - next(sums)) / n for value, n in zip(part["values"], draws, strict=True)]
        assert max(excess) == pytest.approx(min(excess), rel=1e-6)
        own = answer["noise"]["sd"][name] / math.sqrt(max(draws))  # of one draw
        assert any(own == pytest.approx(sd, rel=1e-9) for sd in charged["noise"]["sd"].values())
        if answer["noise"]["distribution"] == "discrete_gaussian":
            assert excess[0] == pytest.approx(own, rel=1e-6)
        else:  # a discrete Laplace of scale t has √2 t
            assert excess[0] * math.sqrt(2) == pytest.approx(own, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_no_stored_table_is_taken_for_what_it_is_not(wealthy: World, seed: int) -> None:
    """Whatever is served is what the rows are, cell by cell, with the noise that it states; nothing is sold twice."""
    source, world = random.Random(seed), wealthy
    dataset = register(source, world, f"random{seed}")
    world.grant("ada", dataset.id)
    analyst = next(p for p in world.curator.identity.list_principals() if p.name == "ada")
    seen = dict.fromkeys(AnswerKind, 0)
    charged: dict[str, dict[str, Any]] = {}
    for i, j in itertools.product(range(20), range(10)):
        if j == 0:
            laplace = source.random() < 0.2
            price = {"epsilon" if laplace else "mu": round(source.uniform(0.05, 0.2), 3)}
            mechanism = "laplace" if laplace else "gaussian"
            stored = {"kind": "counts", "tables": draw_tables(source), "mechanism": mechanism, "price": price}
        asked = vary(source, stored) if j else stored
        kind, answer, prepared = read(world, dataset, analyst, asked, f"k{i}-{j}") if is_valid(asked) else (None,) * 3
        if kind is None:
            continue
        seen[kind] += 1
        told = f"{asked} answered as {answer['request']}"
        described = json.loads(json.dumps(prepared.listing.describe()))
        assert (answer["tables"], answer["columns"]) == (described["tables"], described["columns"]), told
        assert answer["noise"]["distribution"] == prepared.listing.distribution, told
        assert all(answer["noise"]["sd"][name] <= most for name, most in prepared.noise_sd.items()), told
        can = any(could_answer(release, prepared) for release in charged.values())
        assert can is (kind is not AnswerKind.NEW), told
        if "derived_from" not in answer:
            charged[answer["id"]] = answer
        backing = charged[answer.get("derived_from", answer["id"])]
        assert could_answer(backing, prepared), told
        assert_values_are_counts_and_the_stated_noise(world, dataset, prepared, answer, backing)
    assert all(seen[kind] >= 5 for kind in (AnswerKind.NEW, AnswerKind.STORED, AnswerKind.DERIVED)), seen
    assert_sound(world)


def is_valid(asked: dict[str, Any]) -> bool:
    """Return whether no cell is asked for that a column declared complete has not."""
    rules = {name: rule for name, _, rule, _, _ in COLUMNS}
    axes = [axis for table in asked["tables"] for axis in table["axes"]]
    return not any(axis["missing"] and rules[axis["column"]] == "complete" for axis in axes)


WIDE = {
    "kind": "counts",
    "tables": [{"axes": [{"column": "sex"}, {"column": "age", "bins": 4}, {"column": "region", "missing": True}]}],
    "price": {"mu": 0.5},
}
MARGIN = {"kind": "counts", "tables": [{"axes": [{"column": "age", "bins": 2}]}], "price": {"mu": 0.01}}
FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "fewer draws": lambda answer: answer["statistics"]["table_0"]["draws"].__setitem__(0, 1),
    "one value": lambda answer: answer["statistics"]["table_0"]["values"].__setitem__(0, 1.0),
    "less noise": lambda answer: answer["noise"]["sd"].update(table_0=1e-3),
    "no draws": lambda answer: answer["statistics"]["table_0"].pop("draws"),
    "another law": lambda answer: answer["noise"].update(distribution="discrete_laplace"),
    "other edges": lambda answer: answer["tables"][0]["axes"][0].update(edges=[50.0, 60.0, 100.0]),
    "other edges of the request": lambda answer: answer["request"]["tables"][0]["axes"][0].update(edges=[50.0, 100.0]),
    "a member of an axis": lambda answer: answer["tables"][0]["axes"][0].update(exact=1.0),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_derived_table_that_is_not_that_of_its_source_is_found(
    wealthy: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whatever is signed: entry, hashes and receipt of the forged answer are right for it."""
    api = wealthy.api()
    assert api.post(RELEASES, json=WIDE, key="source").status_code == 201
    rewrite(monkeypatch, "render_derived", lambda answer: None)
    assert (
        api.post(RELEASES, json=MARGIN | {"price": {"mu": 0.02}}, key="honest").headers["curator-answer"] == "derived"
    )
    assert wealthy.discrepancies() == []
    monkeypatch.undo()
    rewrite(monkeypatch, "render_derived", FORGED[what])
    other = MARGIN | {"tables": [{"axes": [{"column": "age", "bins": 2}]}, {"axes": [{"column": "sex"}]}]}
    forged = api.post(RELEASES, json=other, key="forged")
    assert forged.headers["curator-answer"] == "derived"
    (found,) = wealthy.discrepancies()
    assert found.removeprefix("the source of ") == forged.json()["receipt"]["release"]


@pytest.mark.parametrize("kind", ["gram", "other"])
def test_an_entry_of_another_kinds_name_is_found(wealthy: World, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    honest = publisher.state_charge
    monkeypatch.setattr(
        publisher, "state_charge", lambda *given: honest(*given).model_copy(update={"release_kind": kind})
    )
    sold = wealthy.api().post(RELEASES, json=WIDE, key="k").json()["id"]
    assert sold in wealthy.discrepancies()
