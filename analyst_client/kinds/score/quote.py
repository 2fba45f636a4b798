"""Quotes of scores: the noise of each statistic."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyst_client.display.model import Block, Inline, Note, Table, aligned, join, quiet, table, untrusted
from analyst_client.kinds.counts.axes import read_is_laplace
from analyst_client.kinds.score import MEAT, NORMS, SCORE
from analyst_client.kinds.score.posted import PostedScore, read_posted
from analyst_client.schema.quotes import AnyQuote, read_deviations, read_quote
from analyst_client.schema.wire import Fields

UNIT_NOTE = "In units of the norm to which gradients are clipped; norms in rows, or in their weight."
DEVIATIONS = {SCORE: (SCORE,), NORMS: (NORMS,), MEAT: ("meat_diagonal", "meat_offdiagonal")}


@dataclass(frozen=True)
class ScoreNoise:
    """Standard deviation of the noise of one number of each statistic; None for those not asked.

    Attributes
    ----------
    score, meat_diagonal, meat_offdiagonal : float or None
        In units of the norm to which gradients are clipped, and of its square.
    norms : float or None
        In rows, or in their weight.
    distribution : str
        Law of the noise: ``"discrete_gaussian"`` or ``"discrete_laplace"``.
    """

    score: float | None = None
    norms: float | None = None
    meat_diagonal: float | None = None
    meat_offdiagonal: float | None = None
    distribution: str = "unstated"

    @classmethod
    def read(cls, fields: Fields, statistics: Sequence[str]) -> "ScoreNoise":
        """Read from an answer.

        Parameters
        ----------
        fields : Fields
            The member of the answer.
        statistics : sequence of str
            Names of those that were asked.

        Returns
        -------
        ScoreNoise
            Of these statistics.
        """
        deviations = read_deviations(fields, [name for statistic in statistics for name in DEVIATIONS[statistic]])
        read_is_laplace(fields)
        return cls(distribution=fields.text("distribution"), **deviations)

    @property
    def sd(self) -> dict[str, float]:
        """Standard deviations of the statistics that were asked, by name."""
        stated = {name: getattr(self, name) for names in DEVIATIONS.values() for name in names}
        return {name: sd for name, sd in stated.items() if sd is not None}


@dataclass(frozen=True, repr=False)
class ScoreQuote(PostedScore, AnyQuote):
    """Cost and noise of a request of a score. Free: no row was read.

    Cost, duration, space and stored releases are stated as by `Quote`; terms, coefficients and directions as by
    `ScoreRelease`.

    Attributes
    ----------
    noise : ScoreNoise
        Standard deviation of the noise of each statistic.
    terms : tuple of Term
        In the order that was asked.
    target : Term
    coefficients : ndarray of shape (D,)
        Coefficients θ as the curator would use them.
    directions : ndarray of shape (D, k)
        Directions P over the norm as the curator would use them.
    request : dict
        The request with every default filled in, in the curator's own order.
    affordable : bool
        Whether the budget would suffice now.
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

    @classmethod
    def read(cls, fields: Fields) -> "ScoreQuote":
        """Read from an answer."""
        posted = read_posted(fields)
        noise = ScoreNoise.read(fields.object("noise"), posted["statistics"])
        return cls(**read_quote(fields, noise), **posted)

    def _asked(self) -> str:
        return self.title

    def _caption(self) -> Inline:
        return join(untrusted(self.title), quiet(" of "), untrusted(self.dataset))

    def _noise_view(self) -> tuple[Block, ...]:
        return list_score_noise(self.noise, self.posted.directions.count), Note(UNIT_NOTE)


def list_score_noise(noise: ScoreNoise, count: int) -> Table:
    """Return the table of the noise of each statistic, of so many directions."""
    named = {
        "score": (noise.score, count),
        "norms": (noise.norms, 13),
        "meat, diagonal": (noise.meat_diagonal, count),
        "meat, off-diagonal": (noise.meat_offdiagonal, count * (count - 1) // 2),
    }
    stated = [(name, numbers, sd) for name, (sd, numbers) in named.items() if sd is not None]
    deviations = aligned([sd for *_, sd in stated])
    rows = [(name, f"{numbers:,}", sd) for (name, numbers, _), sd in zip(stated, deviations, strict=True)]
    caption = join("Noise ", quiet("(", untrusted(noise.distribution), ")"))
    return table(caption, ("statistic", "numbers", "standard deviation"), rows, numeric=(1, 2))
