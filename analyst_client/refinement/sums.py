"""Residual and total sums of squares at the coefficients that a refinement found: one small release of all rows alike.

A row counts as the vector (r, f) of its residual and of its fitted value around their mean, each over its deviation,
and as one of a stated length where it is longer: no weight of rows, and no other column's length, enters. The sums of
their products tell R = Σ r² and T = Σ (r + f)², with noise that is known. It is a score of a linear loss whose residual
is 1 in every row, as looks are.
"""

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.sums import NORMAL_FOURTH, ResidualSums
from analyst_client.kinds.score import MEAT
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.looks import never_true
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.questions import BITS, Question
from analyst_client.refinement.solution import expected_excess
from analyst_client.schema.columns import CONSTANT
from analyst_client.terms.expression import Expression

_NORM_LEAST, _NORM_PART, _NORM_POWER = 4.0, 0.75, 0.7
"""Square of the norm, at least, and by a power of rows by µ: what noise adds is then about what tails lose."""
_TAIL = 1.4
"""Most part of a variance that is beyond the norm, times the norm: 0.8 for Student's t with 3 degrees of freedom, and
more for rows of which few hold much of it."""
_FOURTH = 2.0
"""Part of the mean fourth power of rows that comes from tails, over the norm, for the same law."""
_PART_LEAST = 0.03
"""Least part of the target's variance that fitted values are taken to have."""


def tell_sums(
    problem: Problem,
    frame: Frame,
    features: Sequence[Expression],
    target: Expression,
    belief: Belief,
    n: float,
    theta: FloatArray,
    residual: float,
    cost: float,
) -> Generator[Question, Any, ResidualSums]:
    """Buy the sums of squares of residuals and of fitted values.

    Parameters
    ----------
    problem : Problem
    frame : Frame
    features : sequence of Expression
    target : Expression
    belief : Belief
        Of all releases before.
    n : float
        Rows.
    theta : ndarray of shape (d,)
        Coefficients of coordinates, beside the origin.
    residual : float
        Expected variance of residuals, in squares of the target's spread.
    cost : float
        µ².

    Yields
    ------
    Question

    Returns
    -------
    ResidualSums
    """
    A = belief.xtx
    rows = max(float(A[0, 0]), 1.0)
    mean = float(A[0] @ theta) / rows
    explained = min(max(float(theta @ A @ theta) / rows - mean**2, _PART_LEAST), 1.2)
    sds = np.sqrt([residual, explained])
    square = max(_NORM_LEAST, _NORM_PART * (n * math.sqrt(cost)) ** _NORM_POWER)
    fitted = frame.to_terms(theta + frame.origin) / frame.target_scale
    around = fitted - (frame.target_center + mean) * np.eye(frame.size)[0]
    directions = frame.by_name(np.column_stack([-fitted, around]) / sds)
    release: ScoreRelease = yield Question(
        ScoreRequest(
            [*features, target],
            never_true(problem.target),
            coefficients={CONSTANT: -1.0},
            directions=directions | {frame.target.name: [1.0 / (frame.target_scale * sds[0]), 0.0]},
            norm=math.sqrt(square),
            bits=BITS,
            statistics=(MEAT,),
            shares={MEAT: 1.0},
            **problem.paying(cost),
        )
    )
    assert release.meat is not None
    noise = square * (release.noise.meat_diagonal or 0.0)
    M = square * np.outer(sds, sds) * release.meat
    unit, (r, f) = frame.target_scale**2, sds**2
    excess = expected_excess(belief, n, theta)
    return ResidualSums(
        residual=unit * float(M[0, 0]),
        total=unit * float(M.sum()),
        covariance=(unit * noise) ** 2 * np.array([[r**2, r**2], [r**2, (r + f) ** 2]]),
        rows=n,
        fourth=min(2.0 * square, NORMAL_FOURTH + _FOURTH * math.sqrt(square)),
        tail=_tail(math.sqrt(square), max(float(np.trace(release.meat)) * square / (2.0 * n), 1.0)),
        excess=unit * excess,
        excess_most=unit * excess * (1.0 + 2.0 * math.sqrt(2.0 / frame.size)),
    )


def _tail(norm: float, found: float) -> float:
    """Return the most that tails have beyond a norm, over what is within it, where that was found instead of 1."""
    lost = 0.0
    for _ in range(10):
        lost = min(_TAIL * math.sqrt(found / (1.0 - lost)) / norm, 0.5)
    return lost / (1.0 - lost)
