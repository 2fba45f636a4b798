"""Sparse vector technique: noise of a threshold session, and its price.

A session answers questions "is q(rows) at least T?" until c of them were answered yes. It draws one noise ρ for the
threshold when it is opened, and fresh noise ν for each question. The answer is yes where q + ν ≥ T + ρ. One person
moves every q by at most Δ. All numbers are integers, ρ is discrete Laplace of scale t₁ and ν of scale t₂, so that the
whole session is ε-differentially private with

    ε = Δ/t₁ + k c Δ/t₂,

where k = 1 if a person who is added can only raise every q of the session, or can only lower every one (a *monotone*
session), and k = 2 otherwise: [1]_, algorithm 7 and theorems 4 and 5. ε is split as 1 : (k c)^⅔, which makes the
variance of ν − ρ least. docs/privacy.md has the proof for these integers.

References
----------
.. [1] M. Lyu, D. Su, N. Li, "Understanding the Sparse Vector Technique for Differential Privacy", VLDB 2017.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from curator_service.privacy.accountant import Accountant, Price
from curator_service.privacy.calibration import PlanError
from curator_service.privacy.conversions import exact, units_up
from curator_service.privacy.samplers import SCALE_MAX, SCALE_MIN

POSITIVES_MAX = 1_000
_PARTS = 2**40
"""Parts of ε that the split is rounded to."""


@dataclass(frozen=True, slots=True)
class SessionNoise:
    """Noise of a threshold session.

    Attributes
    ----------
    sensitivity : int
        Δ, how far a person moves any question, in steps.
    positives : int
        c, after how many questions that were answered yes the session has ended.
    is_monotone : bool
    threshold_scale, question_scale : int
        t₁ and t₂, in steps.
    """

    sensitivity: int
    positives: int
    is_monotone: bool
    threshold_scale: int
    question_scale: int

    @property
    def epsilon(self) -> Fraction:
        """The pure ε of the whole session, exactly."""
        return Fraction(self.sensitivity, self.threshold_scale) + Fraction(
            self.directions * self.positives * self.sensitivity, self.question_scale
        )

    @property
    def directions(self) -> int:
        """The k of the price: 1 of a monotone session, else 2."""
        return 1 if self.is_monotone else 2

    def cost(self, accountant: Accountant) -> int:
        """Return what the session costs, in units of an account: as one ε-DP mechanism, rounded up."""
        return units_up(accountant.laplace(self.epsilon))


def plan_session(
    accountant: Accountant, price: Price, *, sensitivity: int, positives: int, is_monotone: bool
) -> SessionNoise:
    """Return the least noise of a session at a price.

    Parameters
    ----------
    price : Price
        ε alone.

    Returns
    -------
    SessionNoise
        It costs at most the price.

    Raises
    ------
    PlanError
        If the price is none of ε alone, or the noise is outside of what is drawn.
    """
    if price.epsilon is None or price.delta is not None:
        raise PlanError("price", "a session is charged as pure ε: state epsilon alone")
    try:
        most = accountant.units_of(price)
    except ValueError as error:
        raise PlanError("price", str(error)) from None
    epsilon, weight = exact(price.epsilon), (1 if is_monotone else 2) * positives
    share = Fraction(round(_PARTS / (1.0 + weight ** (2 / 3))), _PARTS)
    threshold = math.ceil(sensitivity / (share * epsilon))
    question, more = math.ceil(weight * sensitivity / ((1 - share) * epsilon)), 1
    while True:
        noise = SessionNoise(sensitivity, positives, is_monotone, threshold, question)
        if not (threshold >= SCALE_MIN and max(threshold, question) <= SCALE_MAX):
            raise PlanError("price", "the noise of a session at this price is outside of what is drawn")
        if noise.cost(accountant) <= most:
            return noise
        question, more = question + more, 2 * more  # the price was rounded down to the account's integers
