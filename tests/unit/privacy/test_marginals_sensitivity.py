"""No neighbour moves a marginal further than its stated sensitivity, and one moves it so far: every pair of rows."""

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_on_disk import map_rows
from sums_slowly import marginal_of, rows_of, scale, sum_slowly

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.conformance import COLUMNS, NUMBERS
from curator_service.datasets.engines.numpy import check_null_rows
from curator_service.datasets.manifest import Manifest
from curator_service.kinds.marginals import marginals as module
from curator_service.kinds.marginals.conformance import KERNELS
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.marginals.marginals import Flat, Marginal, Moments, Tree
from curator_service.kinds.marginals.schema import MarginalsRequest
from curator_service.kinds.marginals.sensitivity import marginal_l1, marginal_l2_squared
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import GDP
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT

Q = UNIT
X = Column("x", ColumnType.NUMERIC, MissingRule.OMIT, -1.0, 1.0)
MARGINALS: list[Marginal] = [*(Tree((X,), levels) for levels in (1, 3, 6)), Flat((X,), 2), Flat((X,), 7), Moments((X,))]
ONE: dict[tuple[type[Marginal], Adjacency], tuple[Fraction, Fraction]] = {
    (Moments, Adjacency.ADD_REMOVE): (Fraction(3, 2), Fraction(2)),
    (Moments, Adjacency.REPLACE_ONE): (Fraction(4), Fraction(9, 4)),
}
"""Of one row and one column, in units of q⁴ and q²: in L2, squared, and in L1."""
HOSTILE = [0, 1, Q // 3, Q // 2, Q // 2 + 1, round(Q / 2**0.5), round(Q / 2**0.5) + 1, Q - 1, Q]
WEIGHTS = [0, 1, 2, Q - 1, Q, Q**2 // 2, Q**2 // 2 + 1, Q**2 - Q, Q**2 - 2, Q**2 - 1, Q**2]
"""In units of 1/q²."""


def stated(marginal: Marginal, adjacency: Adjacency, m: int = 1) -> tuple[Fraction, Fraction]:
    return marginal_l2_squared(marginal, adjacency, m), marginal_l1(marginal, adjacency, m)


def stored_of(z: int) -> int:
    """Return a stored integer that becomes z."""
    return round(Fraction(z * STORED_UNIT, Q))


def weigh(numbers: Sequence[int], weight: int) -> list[int]:
    return [scale(number, weight, Q * Q) for number in numbers]


def test_the_constants_are_those_of_the_proofs() -> None:
    for marginal, adjacency in itertools.product(MARGINALS, Adjacency):
        moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
        cells = (marginal.levels if isinstance(marginal, Tree) else 1) * moved
        l2_squared, l1 = ONE.get((type(marginal), adjacency), (Fraction(cells), Fraction(cells)))
        for c, m in ((1, 1), (3, 1), (1, 4), (5, 2)):
            columns = tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(c))
            many = type(marginal)(columns, **marginal.options)
            assert stated(many, adjacency, m) == (c * l2_squared * (m * Q**2) ** 2, c * l1 * m * Q**2)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("marginal", MARGINALS, ids=lambda marginal: marginal.key)
def test_no_pair_of_rows_beats_a_bound_and_one_reaches_it(marginal: Marginal, adjacency: Adjacency) -> None:
    """Every pair of hostile values, missing ones and hostile weights among them, by Python's integers."""
    l2_squared, l1 = stated(marginal, adjacency)
    values = [stored_of(sign * z) for z in HOSTILE for sign in (1, -1)] + [STORED_UNIT - 1, 2**29 - 1, MISSING]
    added = {
        tuple(weigh(numbers, weight))
        for numbers in [marginal_of(marginal, X, value) for value in values]
        for weight in (WEIGHTS if isinstance(marginal, Moments) else (0, 1, Q**2 - 1, Q**2))
    }
    rows = np.array(sorted(added), dtype=object)
    nothing = np.zeros_like(rows[:1])
    reached = [Fraction(0), Fraction(0)]
    for row in rows:
        apart = (rows if adjacency is Adjacency.REPLACE_ONE else nothing) - row
        reached[0] = max(reached[0], *(Fraction(x) for x in (apart * apart).sum(axis=1)))
        reached[1] = max(reached[1], *(Fraction(x) for x in abs(apart).sum(axis=1)))
    assert reached[0] <= l2_squared
    assert reached[1] <= l1
    assert reached[0] >= l2_squared * (1 - Fraction(1, 10**6))
    assert reached[1] >= l1 * (1 - Fraction(1, 10**6))


@pytest.mark.parametrize("q", [7, 9, 13])
def test_no_two_weighted_rows_of_a_small_lattice_beat_the_bounds_of_moments(
    q: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All values and all weights, truncated by the kernel's own code: where truncation counts most."""
    monkeypatch.setattr(module, "UNIT", q)
    monkeypatch.setattr(module, "HALF", (q * q - 1) // 2)
    places, weights = np.meshgrid([0.0, *np.arange(q, 3 * q + 1)], np.arange(q * q + 1.0))
    rows = np.unique(np.stack(Moments((X,)).contribute(places.ravel(), weights.ravel()), axis=1), axis=0)
    largest = np.zeros(4)
    for row in rows:
        apart = rows - row
        found = [(row**2).sum(), abs(row).sum(), (apart**2).sum(axis=1).max(), abs(apart).sum(axis=1).max()]
        largest = np.maximum(largest, found)
    assert largest.tolist() == [1.5 * q**4 - q**2 + 0.5, 2 * q**2 - 1, 4 * q**4, (9 * q**2 - 1) / 4]


@given(
    st.lists(
        st.tuples(st.integers(-Q, Q), st.one_of(st.just(Q * Q), st.sampled_from(WEIGHTS), st.integers(0, Q * Q))),
        min_size=2,
        max_size=2,
    )
)
def test_no_two_weighted_rows_beat_the_bounds_of_moments(pair: list[tuple[int, int]]) -> None:
    (z, w), (y, v) = pair
    places, weights = np.array([z + 2.0 * Q, y + 2.0 * Q]), np.array([w, v], dtype=np.float64)
    contributed = [numbers.tolist() for numbers in Moments((X,)).contribute(places, weights)]
    added = [[int(x) for x in numbers] for numbers in contributed]
    assert contributed == added
    for numbers, (value, weight) in zip(zip(*added, strict=True), pair, strict=True):
        moments = [Q * Q // 2, Q * value, value * value - Q * Q // 2 - 1]
        assert list(numbers) == weigh(moments, weight)  # exactly, although products exceed what a float holds
    for adjacency, apart in (
        (Adjacency.REPLACE_ONE, [one - other for one, other in added]),
        (Adjacency.ADD_REMOVE, [one for one, _ in added]),
    ):
        l2_squared, l1 = stated(Moments((X,)), adjacency)
        assert sum(d * d for d in apart) <= l2_squared
        assert sum(map(abs, apart)) <= l1


def manifest(rows_per_subject: int) -> Manifest:
    columns = [
        {"name": name, "type": "numeric", "missing": rule, "lower": -3.0, "upper": 7.0}
        for name, rule in (("x", "omit"), ("y", "midpoint"), ("w", "indicator"))
    ]
    return Manifest.model_validate(
        {
            "name": "cohort",
            "population": "town",
            "row_capacity": 10_000,
            "subject": "person",
            "rows_per_subject": rows_per_subject,
            "columns": columns,
        }
    )


def plan_of(adjacency: Adjacency, m: int, **asked: Any) -> Any:
    dataset: Any = SimpleNamespace(manifest=manifest(m), adjacency=adjacency, accountant=GDP)
    return KINDS["marginals"].plan(dataset, MarginalsRequest.model_validate({"kind": "marginals"} | asked)).plan


ASKED: list[dict[str, Any]] = [
    {"type": "tree", "columns": ["x", "y"], "levels": 3},
    {"type": "flat", "columns": ["y", {"multiply": ["x", "y"]}], "bins": 5},
    {"type": "moments", "columns": ["x", "y", {"absolute": ["x"]}]},
]


@pytest.mark.parametrize("weight", [None, {"divide": [{"add": ["w", 3]}, 10]}])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("m", [1, 3])
def test_no_neighbour_moves_a_release_further_than_is_charged(
    weight: Any, mechanism: str, adjacency: Adjacency, m: int
) -> None:
    """The bounds that are compared are those from which the noise of a charge is found."""
    source = random.Random(f"{mechanism} {adjacency} {m} {weight}")
    price = {"mu": 0.5} if mechanism == "gaussian" else {"epsilon": 0.5}
    plan = plan_of(adjacency, m, marginals=ASKED, mechanism=mechanism, price=price, weight=weight)
    kernel: Any = KINDS["marginals"].kernel(plan)
    near = [stored_of(sign * z) for z in HOSTILE for sign in (1, -1)]

    def draw() -> dict[str, int]:
        return {
            name: source.choice((*near, MISSING, source.randint(-STORED_UNIT, STORED_UNIT))) for name in ("x", "y")
        } | {"w": source.choice((STORED_UNIT, STORED_UNIT, 0, STORED_UNIT - 1, source.randint(0, STORED_UNIT)))}

    def total(rows: list[dict[str, int]]) -> npt.NDArray[np.int64]:
        stored = {name: np.array([row[name] for row in rows], dtype=np.int32) for name in ("x", "y", "w")}
        return kernel.sum(map_rows(kernel, stored, len(rows)))  # type: ignore[no-any-return]

    common = [draw() for _ in range(5)]
    low, high = ({"x": side, "y": side, "w": STORED_UNIT} for side in (-STORED_UNIT, STORED_UNIT))
    pairs = [([low] * m, [high] * m), *(([draw()] * m, [draw()] * m) for _ in range(150))]
    pairs += [([draw() for _ in range(m)], [draw() for _ in range(m)]) for _ in range(50)]
    sizes = np.cumsum([output.size for output in plan.outputs])[:-1]
    reached = [Fraction(0)] * 3
    for person, other in pairs:
        instead = other if adjacency is Adjacency.REPLACE_ONE else []
        for i, part in enumerate(np.split(total(common + person) - total(common + instead), sizes)):
            numbers = part.tolist()
            moved = sum(map(abs, numbers)) if mechanism == "laplace" else sum(d * d for d in numbers)
            bound = plan.parts[i].sensitivity if mechanism == "laplace" else plan.parts[i].sensitivity_squared
            assert moved <= bound
            reached[i] = max(reached[i], moved / Fraction(bound))
    trees = [i for i, marginal in enumerate(plan.items) if isinstance(marginal, Tree)]
    assert all(reached[i] == 1 for i in trees)


def test_the_finest_level_is_that_of_counts_and_each_bin_is_two_of_the_next() -> None:
    edges = [-3.0 + 10 * i / 8 for i in range(9)]
    cohort: Any = SimpleNamespace(manifest=manifest(1), adjacency=Adjacency.ADD_REMOVE, accountant=GDP)
    counts = KINDS["counts"]
    asked = {"kind": "counts", "tables": [{"axes": [{"column": "x", "edges": edges}]}], "price": {"mu": 0.5}}
    kernels: list[Any] = [
        counts.kernel(counts.plan(cohort, counts.request_model.model_validate(asked)).plan),
        *(MarginalsKernel((marginal,)) for marginal in (Tree((cohort.manifest.by_name["x"],), 3),)),
    ]
    source = np.random.default_rng(3)
    stored = {"x": source.choice([*NUMBERS, *source.integers(-STORED_UNIT, STORED_UNIT, 99)], 500).astype(np.int32)}
    finest, tree = (kernel.sum(map_rows(kernel, stored, 500)).tolist() for kernel in kernels)
    levels = [tree[:2], tree[2:6], tree[6:]]
    assert levels[2] == finest
    for coarse, fine in itertools.pairwise(levels):
        assert coarse == [a + b for a, b in zip(fine[::2], fine[1::2], strict=True)]


@given(st.sampled_from(sorted(KERNELS)), st.integers(0, 2**32 - 1))
def test_marginals_are_those_of_the_slow_program(name: str, seed: int) -> None:
    """In any order, and under any cut into batches."""
    source, kernel = np.random.default_rng(seed), KERNELS[name]
    size = int(source.integers(1, 20))
    stored = {name: source.choice(NUMBERS, size).astype(np.int32) for name in COLUMNS}
    stored[MARK] = source.choice([0, 1, 1, 2], size).astype(np.int32)
    mapped = np.empty((size, kernel.width), order="F")
    kernel.map(stored, stored[MARK] == 1, mapped)
    cut = int(source.integers(0, size + 1))
    found = kernel.sum(mapped[:cut]) + kernel.sum(mapped[cut:])
    assert found.tolist() == sum_slowly(kernel, rows_of(stored))  # type: ignore[arg-type]
    assert kernel.sum(mapped[source.permutation(size)]).tolist() == found.tolist()


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_rows_that_do_not_count_add_nothing(name: str) -> None:
    check_null_rows(KERNELS[name])
