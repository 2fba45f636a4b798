"""Self-tests of this machine before the first release: they run when the service starts.

The proofs assume IEEE arithmetic with one rounding per operation, classical matrix products, and a sampler that draws
anew. A library or a processor can break each of these silently.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from threadpoolctl import threadpool_info

from curator_service.privacy.lattice import UNIT, to_request_lattice, to_stored
from curator_service.privacy.samplers import Distribution, SystemNoise, propose
from curator_service.privacy.sums import EXACT_BLOCK_ROWS, compute_gram

_PERIOD = 64
Check: TypeAlias = tuple[Callable[[], bool], str]
"""Something that must hold, and the rule that is broken where it does not."""


class SelfTestError(RuntimeError):
    """The machine or a library breaks an assumption of the proofs; the service must not start."""


def run_self_test(of_kinds: Iterable[Check]) -> None:
    """Check the assumptions of the proofs on this machine, in a fraction of a second.

    Parameters
    ----------
    of_kinds : iterable of Check
        What kinds of release assume beside.

    Raises
    ------
    SelfTestError
        Naming what does not hold.
    """
    for check, rule in (
        (_is_one_rounding_per_operation, "elementwise float64 operations are not rounded once each"),
        (_is_gram_exact, "the float64 matrix product of a worst-case block is not exact"),
        (_is_blas_single_threaded, "BLAS runs more than one thread"),
        (_is_sampler_sound, "the sampler's draws are not what their law allows"),
        *of_kinds,
    ):
        if not check():
            raise SelfTestError(f"self-test failed: {rule}. Nothing is released on this machine.")


def _is_one_rounding_per_operation() -> bool:
    """Tell a fused multiply-add, a wider register and a flush to zero from IEEE arithmetic."""
    near_one = np.array([1 + 2.0**-30])
    fused = near_one * near_one - (1 + 2.0**-29)  # 2⁻⁶⁰ if the product was not rounded
    wide = (np.array([1.0]) + 2.0**-53) + 2.0**-53  # above 1 if the first sum was kept in more than 53 bits
    subnormal = np.array([2.0**-1060]) * 0.5
    lattice = to_stored(np.array([0.1, 0.3, 7.0, np.nan]), 0.0, 1.0)
    return bool(
        fused[0] == 0.0
        and wide[0] == 1.0
        and subnormal[0] > 0.0
        and lattice.tolist() == [-858993459, -429496730, 2**30, -(2**31)]
        and to_request_lattice(lattice).tolist() == [-104857, -52428, UNIT, 0]
    )


def _is_gram_exact() -> bool:
    """Multiply worst-case blocks, as tall as a block may be and as wide as memory allows; compare with integers."""
    return all(_is_product_exact(rows, columns) for rows, columns in ((EXACT_BLOCK_ROWS, 6), (8192, 128)))


def _is_product_exact(rows: int, columns: int) -> bool:
    # Rows repeat with a period, so that the exact product is a multiple of a small one, of Python integers.
    place = np.arange(_PERIOD * columns).reshape(_PERIOD, columns)
    pattern = np.where(place % 7 % 2 == 0, 1, -1) * (UNIT - place % 5)
    pattern[:, 0] = UNIT  # its sum of squares comes within a period's length of 2^53
    repeats = rows // _PERIOD
    block = np.tile(pattern.astype(np.float64), (repeats, 1))
    small = pattern.astype(object).T @ pattern.astype(object)
    return bool((block.T @ block == (small * repeats).astype(np.float64)).all()) and bool(
        (compute_gram([block[: _PERIOD * 3]], columns) == small * 3).all()
    )


def _is_blas_single_threaded() -> bool:
    return all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")


def _is_sampler_sound() -> bool:
    """Draw from both laws: new numbers each time, of the right size; floats decide as exact rationals do.

    A right sampler fails with probability below 1e-9.
    """
    noise, scale, count = SystemNoise(), 2**40 + 1, 4000
    for distribution, variance in ((Distribution.DISCRETE_GAUSSIAN, 1.0), (Distribution.DISCRETE_LAPLACE, 2.0)):
        # At once, and in small batches, as most releases draw.
        first = np.asarray(noise.sample(distribution, [scale] * count))
        second = np.concatenate([noise.sample(distribution, [scale] * 50) for _ in range(count // 50)])
        sizes = [float(np.mean((draws / scale) ** 2)) / variance for draws in (first, second)]
        if len(np.unique([*first, *second])) < 2 * count - 2 or not all(0.7 < size < 1.5 for size in sizes):
            return False
        words = first.view(np.uint64).reshape(2, -1)[:, :100]
        words = words * np.uint64(0x9E3779B97F4A7C15) & ~np.uint64(1 << 15)  # no tail: it draws further, other bits
        scales = np.full(100, scale)
        fast, exact = (propose(distribution, scales, words, exactly=choice)[1] for choice in (False, True))
        if not (fast == exact).all():
            return False
    return True
