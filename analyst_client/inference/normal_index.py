"""Expectations over a normal index η = xᵀθ: a logistic or Poisson model on average, by its mean and variance."""

from collections.abc import Callable

import numpy as np

from analyst_client.arrays import FloatArray

# Normal expectations by the trapezoidal rule: for an integrand that is analytic near the real line its error falls
# like exp(−2πd/h), with h = 0.05 the step and d = π/spread how near the poles of the logistic function are.
NODES = np.linspace(-8.5, 8.5, 341)
NODE_WEIGHTS = np.exp(-(NODES**2) / 2.0) / np.sum(np.exp(-(NODES**2) / 2.0))


def sigmoid(values: FloatArray) -> FloatArray:
    """Return 1/(1 + exp(−x)), without overflow."""
    result: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * values))
    return result


def crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function crosses 0 between two points at which its signs differ."""
    from scipy import optimize  # noqa: PLC0415 -- importing the client stays quick

    return float(optimize.brentq(function, low, high, xtol=1e-13, rtol=1e-13))


def offset_of(mean: Callable[[FloatArray], FloatArray], link: Callable[[float], float], rate: float, s: float) -> float:
    r"""Return a with :math:`E\,m(a + sZ)` the rate, for a standard normal Z and an increasing mean function m.

    Examples
    --------
    >>> import math
    >>> logit = lambda rate: math.log(rate / (1.0 - rate))
    >>> round(offset_of(sigmoid, logit, 0.2, 0.0), 4), round(offset_of(sigmoid, logit, 0.2, 2.0), 4)
    (-1.3863, -2.2285)
    """
    center = link(rate)
    reach = s * float(NODES[-1]) + 1e-3  # beyond it every node is on one side of the link
    return crossing(lambda a: float(NODE_WEIGHTS @ mean(a + s * NODES)) - rate, center - reach, center + reach)
