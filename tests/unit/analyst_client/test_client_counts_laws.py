"""Laws of noise, the accuracy that a quote states, and coverage of intervals by simulation.

A simulated share may be off by three standard errors of its own: 0.3 % of right ones are, and the seeds are fixed.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from counts_examples import STEP, quote_body
from numpy.typing import NDArray

from analyst_client import Axis, Column, CountsRequest
from analyst_client.kinds import CountsQuote, Table
from analyst_client.kinds.counts import laws
from analyst_client.kinds.counts.axes import TableAxis
from analyst_client.planning import price_for_error
from analyst_client.schema.wire import Fields

BOTH = pytest.mark.parametrize("laplace", [False, True], ids=["gaussian", "laplace"])


def draw(generator: np.random.Generator, shape: Any, *, laplace: bool) -> NDArray[np.float64]:
    """Return noise of standard deviation 1."""
    drawn = generator.laplace(0.0, math.sqrt(0.5), shape) if laplace else generator.normal(0.0, 1.0, shape)
    return np.round(drawn / STEP) * STEP


def check_share(found: Any, level: float, *, at_least: bool = False) -> None:
    """Hold a share of successes against a level."""
    found = np.ravel(found)
    error = 3.0 * math.sqrt(level * (1.0 - level) / len(found))
    assert np.mean(found) > level - error
    assert at_least or np.mean(found) < level + error


def table_of(exact: NDArray[Any], sd: float, generator: np.random.Generator, *, laplace: bool, draws: Any = 1) -> Table:
    """Return a table of one axis whose cells have so many draws each."""
    draws = np.broadcast_to(np.asarray(draws, dtype=np.int64), exact.shape)
    noise = np.array([np.sum(draw(generator, n, laplace=laplace)) for n in draws])
    edges = tuple(float(edge) for edge in range(len(exact) + 1))
    axis = TableAxis(Column.numeric("x", 0, len(exact)), edges, missing=False)
    return Table("table_0", (axis,), exact + sd * noise, draws, sd, laplace)


def counts_quote(tables: list[Any], **options: Any) -> CountsQuote:
    request = CountsRequest(tables, **options)
    return request.arrange_quote(CountsQuote.read(Fields(quote_body(request.members))))


# Laws


@pytest.mark.parametrize("x", [0.0, 0.3, 2.0, 11.0])
def test_a_sum_of_laplace_draws_has_the_tail_of_its_closed_form(x: float) -> None:
    closed = {1: 0.5, 2: (2.0 + x) / 4.0, 3: (8.0 + 5.0 * x + x**2) / 16.0}
    for draws, polynomial in closed.items():
        assert laws.laplace_tail(x, draws) == pytest.approx(polynomial * math.exp(-x), rel=1e-12)


@pytest.mark.parametrize("draws", [4, 30, 100_000])
def test_a_sum_of_laplace_draws_has_the_tail_of_its_characteristic_function(draws: int) -> None:
    sd = math.sqrt(2.0 * draws)
    t = (np.arange(200_000) + 0.5) * (40.0 / sd / 4000.0)
    for x in (0.4 * sd, 1.96 * sd, 4.0 * sd):
        integral = np.sum(np.sin(t * x) / t * (1.0 + t**2) ** -float(draws)) * (t[1] - t[0])
        assert laws.laplace_tail(x, draws) == pytest.approx(0.5 - integral / math.pi, abs=2e-7)


@BOTH
@pytest.mark.parametrize("draws", [1, 7, 2000])
def test_a_quantile_is_exceeded_as_often_as_stated(laplace: bool, draws: int) -> None:
    for tail in (1e-12, 0.025, 0.4):
        q = laws.noise_quantile(tail, draws, laplace=laplace)
        assert laws.noise_tail(q, draws, laplace=laplace) == pytest.approx(tail, rel=1e-9)


@BOTH
@pytest.mark.parametrize("parts", [[(0.5, 2), (0.5, 5)], [(0.9, 1), (0.1, 30)], [(0.8, 12), (0.2, 9)]])
def test_a_weighted_sum_exceeds_its_bound_as_seldom_as_stated(laplace: bool, parts: list[tuple[float, int]]) -> None:
    generator = np.random.default_rng(3)
    drawn = sum(
        (w * draw(generator, (n, 20_000), laplace=laplace).sum(axis=0) for w, n in parts), start=np.zeros(20_000)
    )
    within = drawn <= laws.contrast_quantile(0.05, parts, laplace=laplace)
    check_share(within, 0.95, at_least=laplace and parts[0][0] != 0.5)


def test_unequal_weights_have_the_smaller_of_two_bounds() -> None:
    def q(tail: float, draws: int) -> float:
        return laws.noise_quantile(tail, draws, laplace=True)

    assert laws.contrast_quantile(0.05, [(0.9, 1), (0.1, 30)], laplace=True) == 0.9 * q(0.025, 1) + 0.1 * q(0.025, 30)
    assert laws.contrast_quantile(0.05, [(0.6, 9), (0.4, 9)], laplace=True) == 0.6 * q(0.05, 18)


# Before paying


@BOTH
def test_every_cell_is_within_the_largest_error_as_often_as_stated(laplace: bool) -> None:
    sizes = [(5, 2.0), (40, 1.0)]
    error = laws.largest_error(0.9, sizes, laplace=laplace)
    generator, repeats = np.random.default_rng(5), 4000
    noise = np.hstack([sd * draw(generator, (repeats, k), laplace=laplace) for k, sd in sizes])
    check_share(np.abs(noise).max(axis=1) <= error, 0.9)
    assert error < laws.largest_error_bound(0.9, sizes, laplace=laplace)


def test_the_simple_bound_is_that_of_the_textbook() -> None:
    quote = counts_quote([Axis("age", bins=25)], epsilon=0.5, mechanism="laplace")
    b, k, beta = 1.0 / 0.5, 25, 0.05
    assert quote.largest_error(1.0 - beta, simple=True) == pytest.approx(b * math.log(k / beta))
    assert quote.largest_error(1.0 - beta) == pytest.approx(b * -math.log(-math.expm1(math.log1p(-beta) / k)))
    gaussian = counts_quote([Axis("age", bins=25)], mu=0.5)
    assert gaussian.largest_error(1.0 - beta, simple=True) == pytest.approx(
        2.0 * math.sqrt(2.0 * math.log(2 * k / beta))
    )


@BOTH
def test_a_price_buys_the_error_that_it_was_planned_for(laplace: bool) -> None:
    tables, shares = ["sex", Axis("age", bins=20)], [0.3, 0.7]
    first = {"epsilon": 1.0, "mechanism": "laplace"} if laplace else {"mu": 0.1}
    cost = price_for_error(counts_quote(tables, shares=shares, **first), 6.0, 0.99)
    if laplace:
        assert cost.pure_epsilon is not None
        second = counts_quote(tables, shares=shares, epsilon=cost.pure_epsilon, mechanism="laplace")
    else:
        second = counts_quote(tables, shares=shares, mu=cost.mu)
    assert second.largest_error(0.99) == pytest.approx(6.0)
    with pytest.raises(ValueError, match="error must be positive"):
        price_for_error(second, 0.0)


def test_a_laplace_price_is_parted_as_the_tables_are() -> None:
    options = {"epsilon": 1.0, "mechanism": "laplace"}
    assert counts_quote(["sex", "dead"], **options, shares=[0.3, 0.7]).laplace_parts in {(0.3, 0.7), (0.7, 0.3)}
    assert replace(counts_quote(["sex", "dead"], **options), request={}).laplace_parts == (0.5, 0.5)


@BOTH
@pytest.mark.parametrize("weights", [[1, 1, 0, 1], [1.0, -0.5, 0.25, 3.0]])
def test_a_linear_query_is_within_its_error_as_often_as_stated(laplace: bool, weights: list[float]) -> None:
    options = {"epsilon": 1.0, "mechanism": "laplace"} if laplace else {"mu": 1.0}
    quote = counts_quote([["sex", "dead"]], **options)
    sd = quote.noise.sd["table_0"]
    errors = sd * draw(np.random.default_rng(9), (20_000, 4), laplace=laplace) @ np.array(weights)
    within = np.abs(errors) <= quote.query_error(np.reshape(weights, (2, 2)), 0.9)
    check_share(within, 0.9, at_least=laplace and weights[0] != weights[1])
    with pytest.raises(ValueError, match="4 cells, and there are 2 weights"):
        quote.query_error([1, 2])


# Coverage


@BOTH
@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("draws", [1, 6])
def test_intervals_hold_exact_counts_as_often_as_stated(laplace: bool, level: float, draws: int) -> None:
    exact = np.full(4000, 1000.0)
    low, high = table_of(exact, 5.0, np.random.default_rng(11), laplace=laplace, draws=draws).interval(level).T
    check_share((low <= exact) & (exact <= high), level)


@BOTH
def test_simultaneous_intervals_hold_all_counts_at_once_as_often_as_stated(laplace: bool) -> None:
    exact, generator = np.full(12, 100.0), np.random.default_rng(12)
    found = []
    for _ in range(600):
        limits = table_of(exact, 5.0, generator, laplace=laplace).interval(0.9, simultaneous=True)
        found.append(np.all((limits[:, 0] <= exact) & (exact <= limits[:, 1])))
    check_share(found, 0.9)


@BOTH
@pytest.mark.parametrize("draws", [1, [1, 4, 1, 9]])
def test_proportions_of_the_dataset_are_covered(laplace: bool, draws: Any) -> None:
    exact, generator = np.array([3.0, 60.0, 300.0, 137.0]), np.random.default_rng(13)
    truth, found = exact / exact.sum(), []
    for _ in range(1000):
        _, low, high, _ = table_of(exact, 6.0, generator, laplace=laplace, draws=draws).proportions(0.9)
        found.append((low <= truth) & (truth <= high))
    for held in np.transpose(found):
        check_share(held, 0.9, at_least=laplace)


@BOTH
def test_proportions_of_the_population_are_covered_too(laplace: bool) -> None:
    truth, generator = np.array([0.1, 0.3, 0.6]), np.random.default_rng(14)
    found, dataset = [], []
    for _ in range(1000):
        counts = table_of(generator.multinomial(500, truth).astype(float), 6.0, generator, laplace=laplace)
        for of, held in (("population", found), ("dataset", dataset)):
            _, low, high, _ = counts.proportions(0.9, of=of)
            held.append((low <= truth) & (truth <= high))
    for held in np.transpose(found):
        check_share(held, 0.9, at_least=laplace)
    assert np.mean(dataset) < 0.85  # which is another question


@BOTH
@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("bins", [3, 40])
def test_quantiles_of_the_dataset_are_covered(laplace: bool, q: float, bins: int) -> None:
    generator = np.random.default_rng(15)
    rows = np.sort(generator.beta(2.0, 3.0, 500) * bins)
    exact = np.histogram(rows, bins, (0, bins))[0].astype(float)
    truth = rows[math.ceil(q * len(rows)) - 1]
    found, lengths = [], []
    for _ in range(400):
        _, low, high, _ = table_of(exact, 6.0, generator, laplace=laplace).quantile("x", q, 0.9)
        found.append(low <= truth <= high)
        lengths.append(high - low)
    check_share(found, 0.9, at_least=True)
    assert 1.0 <= np.mean(lengths) < 1.5 + bins / 4


@BOTH
def test_a_quantile_at_an_edge_errs_on_neither_side_more_than_stated(laplace: bool) -> None:
    """Half of the rows are below the edge, exactly: the bin below it holds the median."""
    exact, generator = np.array([250.0, 250.0]), np.random.default_rng(16)
    held = [table_of(exact, 6.0, generator, laplace=laplace).median("x", 0.9).low == 0.0 for _ in range(2000)]
    check_share(held, 0.95)  # the error of one side


def test_nothing_is_told_by_noise_alone() -> None:
    generator = np.random.default_rng(17)
    for laplace in (False, True):
        counts = table_of(np.zeros(4), 50.0, generator, laplace=laplace)
        _, low, high, _ = counts.proportions()
        truth_free = (low == 0.0) | (high == 1.0)
        assert truth_free.all()
        assert counts.total().low == 0.0
