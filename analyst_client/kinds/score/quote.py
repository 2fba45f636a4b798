"""Quotes of scores: the noise of each statistic."""

from dataclasses import dataclass

from analyst_client.display.model import Block, Note
from analyst_client.kinds.score.posted import PostedScore, ScoreNoise
from analyst_client.schema.quotes import AnyQuote

UNIT_NOTE = "In units of the norm to which gradients are clipped; norms in rows, or in their weight."


@dataclass(frozen=True, repr=False)
class ScoreQuote(PostedScore, AnyQuote):
    """Cost and noise of a request of a score. Free: no row was read.

    Cost, time and stored releases that would do: see `AnyQuote`.

    Attributes
    ----------
    terms : tuple of Term
        In the order that was asked.
    coefficients : ndarray of shape (D,)
        Coefficients θ as the curator would use them.
    directions : ndarray of shape (D, k)
        Directions P over the norm as the curator would use them.

    Examples
    --------
    >>> from analyst_client.kinds import ScoreRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> directions = {"(constant)": [1, 0], "age": [0, 1]}
    >>> options = {"directions": directions, "norm": 2.0, "epsilon": 0.5, "delta": 1e-6}
    >>> request = ScoreRequest(["age"], "kappa", coefficients={"age": 0.3}, **options)
    >>> quote = client.quote("flchain", request)
    >>> quote.term_names, quote.affordable
    (('(constant)', 'age'), True)
    """

    noise: ScoreNoise

    @property
    def laplace_parts(self) -> tuple[float, ...]:
        """Parts of ε of each statistic."""
        shares = self.request.get("shares") or {"": 1.0}
        return tuple(share / sum(shares.values()) for share in shares.values())

    @property
    def sums(self) -> dict[str, float]:
        """Standard deviation of a number of each statistic."""
        return self.noise.sd

    def _noise_view(self) -> tuple[Block, ...]:
        return self.noise.table(self.posted.directions.count), Note(UNIT_NOTE)
