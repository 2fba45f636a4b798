"""Exact statistics: equal to Python integers, whatever the order and the cut of the rows."""

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from grams import split_gram
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_service.kinds.gram import sensitivity
from curator_service.kinds.gram.kernel import compute_lambda_min, lambda_min_float_error
from curator_service.privacy import sums
from curator_service.privacy.lattice import UNIT, IntArray
from curator_service.privacy.mechanism import ExactSums
from curator_service.privacy.samplers import SCALE_MAX
from curator_service.privacy.sums import EXACT_BLOCK_ROWS, INT64_CAPACITY_MAX, ROW_CAPACITY_MAX, compute_gram, split


def gram_in_python(rows: IntArray) -> list[list[int]]:
    """Sum products of columns in Python integers."""
    columns = rows.T.tolist()
    return [[sum(a * b for a, b in zip(u, v, strict=True)) for v in columns] for u in columns]


def extreme_rows(count: int, width: int, seed: int = 0) -> IntArray:
    """Return rows of ±q and ±(q − 1): the largest products, with odd sums."""
    rng = np.random.default_rng(seed)
    return rng.choice(np.array([-UNIT, -UNIT + 1, UNIT - 1, UNIT], dtype=np.int64), size=(count, width))


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(1, 5), st.data())
def test_the_gram_equals_python_integers_for_any_order_and_cut(
    seed: int, count: int, width: int, data: st.DataObject
) -> None:
    rows = extreme_rows(count, width, seed)
    order = np.array(data.draw(st.permutations(range(count))), dtype=np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    blocks = np.split(rows[order], cuts)
    assert compute_gram(blocks, width).tolist() == gram_in_python(rows)


@pytest.mark.parametrize("block_rows", [1, 2, 7, 64, 99, 100, 101])
def test_the_cut_into_blocks_does_not_change_the_gram(monkeypatch: pytest.MonkeyPatch, block_rows: int) -> None:
    monkeypatch.setattr(sums, "_BLOCK_ROWS", block_rows)
    rows = extreme_rows(100, 4)
    assert compute_gram([rows], 4).tolist() == gram_in_python(rows)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_the_gram_is_exact_across_the_block_boundary(extra: int) -> None:
    rows = extreme_rows(sums._BLOCK_ROWS + extra, 2)
    assert compute_gram([rows], 2).tolist() == gram_in_python(rows)


def test_a_block_never_exceeds_what_float64_adds_exactly() -> None:
    assert sums._BLOCK_ROWS <= EXACT_BLOCK_ROWS == 524_296
    assert EXACT_BLOCK_ROWS * UNIT**2 <= 2**53


def test_no_rows_give_zeros() -> None:
    assert compute_gram([], 3).tolist() == [[0] * 3] * 3


def test_the_row_capacity_leaves_room_for_sums_and_noise() -> None:
    assert INT64_CAPACITY_MAX * UNIT**2 + 60 * SCALE_MAX < 2**63


def test_the_gram_is_cut_into_its_parts() -> None:
    rows = extreme_rows(20, 5)
    parts = split_gram(compute_gram([rows], 5), 3)
    X, Y = rows[:, :3], rows[:, 3:]
    assert parts.xtx.tolist() == (X.T @ X).tolist()
    assert parts.xty.tolist() == (X.T @ Y).tolist()
    assert parts.yty.tolist() == [int(Y[:, k] @ Y[:, k]) for k in range(2)]


def test_the_representation_shows_no_number() -> None:
    exact = ExactSums(np.full(3, 98765, dtype=np.int64))
    assert repr(exact) == f"{exact}" == "ExactSums(<3 entries>)"


def test_exact_sums_carry_no_other_fields() -> None:
    assert not hasattr(ExactSums(np.zeros(1, dtype=np.int64)), "__dict__")


def smallest_eigenvalue(xtx: list[list[int]]) -> mpmath.mpf:
    context = mpmath.MPContext()
    context.dps = 60
    return min(context.eigsy(context.matrix(xtx), eigvals_only=True))


def ill_conditioned(kind: str, width: int, capacity: int) -> tuple[list[list[int]], int]:
    """Return a Gram of up to a row capacity, and its number of rows."""
    rng = np.random.default_rng(width)
    rows = rng.integers(-UNIT, UNIT, size=(width + 2, width), endpoint=True)
    if kind == "collinear":
        rows[:, -1] = rows[:, 0]
    if kind == "nearly collinear":
        rows[:, -1] = rows[:, 0]
        rows[0, -1] -= np.sign(rows[0, -1])
    if kind == "rank one":
        rows = np.repeat(rows[:, :1], width, axis=1)
    if kind == "largest":
        rows = np.full((width + 2, width), UNIT)
    repeats = capacity // len(rows)
    gram = (rows.T.astype(object) @ rows.astype(object)) * repeats
    return gram.tolist(), len(rows) * repeats


@pytest.mark.parametrize("capacity", [INT64_CAPACITY_MAX, ROW_CAPACITY_MAX])
@pytest.mark.parametrize("width", [1, 2, 5, 10])
@pytest.mark.parametrize("kind", ["random", "collinear", "nearly collinear", "rank one", "largest"])
def test_lambda_min_is_within_its_float_error(kind: str, width: int, capacity: int) -> None:
    xtx, count = ill_conditioned(kind, width, capacity)
    tolerance = lambda_min_float_error(width, width * UNIT**2, count)
    held = np.array(xtx, dtype=object)
    fitting = held if capacity == INT64_CAPACITY_MAX else split(held)
    computed, true = compute_lambda_min(fitting.astype(np.int64), tolerance), smallest_eigenvalue(xtx)
    assert computed % tolerance == 0
    assert true - 2 * tolerance <= computed <= true + tolerance


@pytest.mark.parametrize("wrong", [-0.3, -1e-6, 1e-6, 0.3])
def test_a_wrong_first_guess_does_not_change_lambda_min_beyond_its_bound(
    monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    rows = extreme_rows(60, 4).astype(np.float64)
    xtx = compute_gram([rows], 4)
    tolerance = 2**20
    true = smallest_eigenvalue(xtx.tolist())
    spectrum = np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda matrix: spectrum(matrix) + wrong * 2**25)
    assert true - 2 * tolerance <= compute_lambda_min(xtx, tolerance) <= true + tolerance


@pytest.mark.parametrize("rows_per_person", [1, 3])
@pytest.mark.parametrize("tolerance", [1, 1000])
def test_lambda_min_moves_by_its_bound_where_factorisations_err_as_far_as_is_proved(
    monkeypatch: pytest.MonkeyPatch, tolerance: int, rows_per_person: int
) -> None:
    """A yes says λ_min ≥ −E and no more, a no λ_min ≤ E: three tolerances lie between two such answers."""
    norm_squared, least = 50 * tolerance, 4000 * tolerance

    def err(*, upwards: bool) -> None:
        def decide(matrix: npt.NDArray[np.float64]) -> None:
            smallest = np.diagonal(matrix).min()  # of a diagonal matrix
            if not (smallest >= -tolerance if upwards else smallest > tolerance):
                raise np.linalg.LinAlgError

        monkeypatch.setattr(np.linalg, "cholesky", decide)

    before = np.diag([least, 10 * least, 10 * least])
    person = np.diag([rows_per_person * norm_squared, 0, 0])
    err(upwards=False)
    low = compute_lambda_min(before, tolerance)
    err(upwards=True)
    high = compute_lambda_min(before + person, tolerance)
    assert (low, high) == (least - 2 * tolerance, least + rows_per_person * norm_squared + tolerance)
    assert high - low == sensitivity.lambda_min(norm_squared, tolerance, rows_per_person)


def test_lambda_min_of_a_singular_matrix_is_zero_to_within_the_tolerance() -> None:
    xtx = np.full((3, 3), UNIT**2, dtype=np.int64)
    assert -2 * 10**4 <= compute_lambda_min(xtx, 10**4) <= 10**4
    assert -2 <= compute_lambda_min(np.zeros((3, 3), dtype=np.int64)) <= 1


def test_a_factorisation_decides_definiteness_up_to_the_proved_error() -> None:
    """Shift matrices by what their smallest eigenvalue is, give or take the bound: both verdicts must be right."""
    for width in (2, 5, 20):
        held, count = ill_conditioned("random", width, INT64_CAPACITY_MAX)
        xtx = np.array(held, dtype=np.int64)
        error = lambda_min_float_error(width, width * UNIT**2, count)
        shift = round(smallest_eigenvalue(xtx.tolist()))
        identity = np.eye(width)
        np.linalg.cholesky(xtx.astype(np.float64) - float(shift - error - 1) * identity)
        with pytest.raises(np.linalg.LinAlgError):
            np.linalg.cholesky(xtx.astype(np.float64) - float(shift + error + 1) * identity)


def test_the_float_error_grows_with_every_public_number() -> None:
    base = lambda_min_float_error(5, 5 * UNIT**2, 10**9)
    assert base >= 1
    assert lambda_min_float_error(6, 5 * UNIT**2, 10**9) > base
    assert lambda_min_float_error(5, UNIT**2 // 2, 10**9) < base
    assert lambda_min_float_error(5, 5 * UNIT**2, 2 * 10**9) > base
