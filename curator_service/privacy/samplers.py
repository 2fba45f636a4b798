"""Exact discrete noise from the operating system's randomness."""

from functools import lru_cache
from typing import Any, Protocol

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features

SIGMA_MIN = 2**10
SIGMA_MAX = 2**53  # the largest integer that a float64 scale states exactly


class NoiseSource(Protocol):
    """Where noise comes from: injected, so that tests can take its place; never configurable."""

    def sample_discrete_gaussian(self, sigma: int, size: int) -> list[int]:
        """Draw `size` independent integers from the discrete Gaussian N_Z(0, sigma²)."""
        ...


class OpenDpNoise:
    """opendp's exact sampler (Canonne, Kamath, Steinke 2020), keyed by the operating system; nothing to seed."""

    def sample_discrete_gaussian(self, sigma: int, size: int) -> list[int]:
        """Draw `size` independent integers from the discrete Gaussian N_Z(0, sigma²).

        Parameters
        ----------
        sigma : int
            Scale, from `SIGMA_MIN` to `SIGMA_MAX`, in lattice units.
        size : int

        Returns
        -------
        list of int

        Raises
        ------
        ValueError
            If `sigma` is out of range.
        """
        if not SIGMA_MIN <= sigma <= SIGMA_MAX:
            raise ValueError("sigma must be an integer from 2**10 to 2**53")
        draws: list[int] = _measurement(sigma)([0] * size)
        return draws


@lru_cache(maxsize=256)
def _measurement(sigma: int) -> Any:
    enable_features("contrib")
    # The metric and measure of the opendp measurement are not used: our accountant prices the integers themselves.
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=float(sigma))
