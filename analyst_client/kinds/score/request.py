"""The request of a score."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from analyst_client.arrays import FloatArray
from analyst_client.kinds.combinations import BITS_MAX, Combinations
from analyst_client.kinds.gram.arguments import as_features, as_names, check_target
from analyst_client.kinds.request import PricedRequest
from analyst_client.kinds.score import LOSSES, SCORE, STATISTICS
from analyst_client.kinds.score.posted import Asked, Posted, as_coefficients, coefficient_members
from analyst_client.kinds.score.quote import ScoreQuote
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.terms.expression import Expression, as_expression


@dataclass(frozen=True, repr=False)
class ScoreRequest(PricedRequest[ScoreRelease, ScoreQuote]):
    r"""A request of the score of a loss: the sum over rows of its gradient, each row's clipped to a norm.

    A row with the scaled terms x has the residual r of the loss at xᵀθ, and the gradient :math:`g = rP^\top x` through
    directions P. It counts as :math:`g\min(1, C/\lVert g\rVert)` with C the norm. Noise follows from C, whatever θ and
    P are; both may be made of earlier releases.

    Which rows count, the cost, and who is charged: see `PricedRequest`.

    Parameters
    ----------
    features : sequence of str or Expression
        Columns, or what `analyst_client.terms` computes of them.
    target : str or Expression
        Of the loss: any number or boolean for ``"linear"``, a boolean for ``"logistic"``, a number that is not
        negative for ``"poisson"``.
    loss : str
        Residuals r: ``"linear"`` y − xᵀθ with y in scaled units; ``"logistic"`` y − 1/(1 + exp(−xᵀθ)); ``"poisson"``
        (y − min(exp(xᵀθ), B))/B with y in its own unit and its upper bound B.
    coefficients : mapping of str to float
        Coefficients θ, by the names of terms as a quote states them; a term that is left out has 0.
    directions : mapping of str to sequence of float
        Directions P, k numbers for each term; a term that is left out has zeros.
    norm : float
        Norm C, in units of the directions: they are posted divided by it, and releases are in units of it.
    intercept : bool
        Whether the terms hold a constant.
    statistics : sequence of str
        Of ``"score"``, ``"norms"`` and ``"meat"``, see `ScoreRelease`.
    bits : int
        Most binary digits of a posted number behind the point, from 0 to 30. Fewer make a body of 64 KiB hold more.
    shares : mapping of str to float, optional
        Parts of the cost, one for each statistic, which sum to 1. Default 94, 6 and 40 parts.

    Attributes
    ----------
    posted_coefficients : dict of str to float
        Coefficients as the curator will use them: rounded to whole numbers over a power of two.
    posted_directions : dict of str to ndarray of shape (k,)
        Directions over the norm as the curator will use them, rounded so too.

    Raises
    ------
    ValueError
        When the arguments contradict each other, or one makes no sense.

    Examples
    --------
    >>> request = ScoreRequest(
    ...     ["age"],
    ...     "kappa",
    ...     coefficients={"age": 0.3},
    ...     directions={"(constant)": [1.0, 0.0], "age": [0.0, 1.0]},
    ...     norm=2.0,
    ...     mu=0.3,
    ... )
    >>> request.members["directions"]
    {'bits': 1, 'matrix': {'(constant)': [1, 0], 'age': [0, 1]}}
    >>> request.posted_coefficients["age"] == round(0.3 * 2**30) / 2**30
    True
    """

    features: Sequence[str | Expression]
    target: str | Expression
    _: KW_ONLY
    loss: str = "linear"
    coefficients: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, Sequence[float]]
    norm: float = 1.0
    intercept: bool = True
    statistics: Sequence[str] = (SCORE,)
    bits: int = BITS_MAX
    shares: Mapping[str, float] | None = None

    @cached_property
    def asked(self) -> Asked:
        """The members that decide a row's contribution and the released statistics. Sequences are read once."""
        check_target(self.target)
        if self.loss not in LOSSES:
            raise ValueError(f"loss is one of {', '.join(LOSSES)}, not {self.loss!r}")
        names = as_names(self.statistics, "statistics")
        if not names or len(set(names)) < len(names) or not set(names) <= set(STATISTICS):
            raise ValueError(f"statistics are some of {', '.join(STATISTICS)}, each once")
        return Asked(
            [feature.to_json() for feature in as_features(self.features, "features")],
            as_expression(self.target).to_json(),
            bool(self.intercept),
            self.loss,
            Posted(
                as_coefficients(self.coefficients, self.bits),
                Combinations.nearest(self.directions, "directions", norm=self.norm, bits=self.bits),
            ),
            frozenset(names),
        )

    @property
    def posted_coefficients(self) -> dict[str, float]:
        """θ as the curator will use it."""
        return {name: float(value[0]) for name, value in self.asked.posted.coefficients.values.items()}

    @property
    def posted_directions(self) -> dict[str, FloatArray]:
        """P over the norm as the curator will use it."""
        return self.asked.posted.directions.values

    def _asked_members(self) -> dict[str, Any]:
        asked = self.asked
        body: dict[str, Any] = {
            "features": asked.features,
            "target": asked.target,
            "loss": asked.loss,
            "coefficients": coefficient_members(asked.posted.coefficients),
            "directions": asked.posted.directions.members,
            "statistics": [name for name in STATISTICS if name in asked.statistics],
        }
        return body if asked.intercept else body | {"intercept": False}

    def _option_members(self) -> dict[str, Any]:
        body = self._said("shares")
        if body and set(body["shares"]) != self.asked.statistics:
            raise ValueError("shares name exactly the statistics that are asked for")
        return body
