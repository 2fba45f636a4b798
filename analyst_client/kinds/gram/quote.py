"""Quotes of noisy sufficient statistics: their terms, and the noise of each statistic."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from analyst_client.display.model import Block, Table
from analyst_client.kinds.gram.coding import Coded, order_terms
from analyst_client.schema.quotes import AnyQuote, Deviation, Distribution, NamedNoise, list_noise
from analyst_client.schema.reading import LOCAL
from analyst_client.terms.matching import match_features


@dataclass(frozen=True)
class Noise(NamedNoise):
    """Standard deviation of the noise of each released statistic, in scaled units; None for those not asked.

    Attributes
    ----------
    xtx_diagonal, xtx_offdiagonal, xty, yty, lambda_min : float or None
        Of one entry.
    distribution : str
        Law of the noise, as the curator names it: ``"discrete_gaussian"`` or ``"discrete_laplace"``.

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> round(QUOTE.noise.xty, 2), QUOTE.noise.distribution
    (7.76, 'discrete_gaussian')
    """

    xtx_diagonal: Deviation = None
    xtx_offdiagonal: Deviation = None
    xty: Deviation = None
    yty: Deviation = None
    lambda_min: Deviation = None
    distribution: Distribution = "unstated"


@dataclass(frozen=True, repr=False)
class Quote(Coded, AnyQuote):
    """Cost and noise of a request of sufficient statistics. Free: no row was read.

    Cost, time and stored releases that would do: see `AnyQuote`. Columns and terms: see `Coded`.

    Attributes
    ----------
    noise : Noise
        Standard deviation of the noise of each statistic; where the row map is chosen in two steps, that of the norm
        which public numbers alone would choose.
    steps : TwoSteps or None
        Outcomes of several steps: of the one that chooses the row map, both ends of what the release may then be, and
        of the one that buys robust standard errors.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> quote = client.quote("flchain", ["age", "sex", "creatinine"], target="kappa", epsilon=0.5, delta=1e-6)
    >>> quote.term_names, quote.affordable
    (('(constant)', 'age', 'sex[M]', 'creatinine'), True)
    """

    noise: Noise
    steps: Annotated[Any, LOCAL] = None

    @property
    def sums(self) -> dict[str, float]:
        """Standard deviation of an entry of XᵀX."""
        sd = self.noise.xtx_offdiagonal if len(self.terms) > 1 else self.noise.xtx_diagonal
        return {} if sd is None else {"XᵀX": sd}

    @property
    def laplace_parts(self) -> tuple[float, ...]:
        """Parts of ε of each statistic, those of the targets one by one."""
        shares = self.request.get("shares") or {"": 1.0}
        whole, targets = sum(shares.values()), max(len(self.targets), 1)
        copies = {name: targets if name in {"xty", "yty"} else 1 for name in shares}
        return tuple(share / whole / copies[name] for name, share in shares.items() for _ in range(copies[name]))

    def find_order(self, request: Any) -> Any:
        """Return the order of a request; one of other columns is left as it is."""
        return match_features(self.expressions, self.columns, request.members) or self.order

    def in_order(self, order: Any) -> "Quote":
        """Return this quote with its features and targets in an order."""
        columns = {column.name: column for column in self.features}
        targets = {term.name: term for term in self.targets}
        return replace(
            self,
            features=tuple(columns[name] for name in order[0] if name in columns),
            terms=tuple(self.terms[i] for i in order_terms(self.terms, order[0])),
            combined=tuple(self.combined[i] for i in order_terms(self.combined, order[0])),
            targets=tuple(targets[name] for name in order[1]),
        )

    def _request_shown(self) -> Mapping[str, Any]:
        chosen = self.steps is not None and self.steps.norms is not None
        return {k: v for k, v in self.request.items() if k != "rows"} if chosen else self.request

    def _noise_view(self) -> tuple[Block, ...]:
        if self.steps is None:
            return (show_noise(self.noise, len(self.terms), len(self.targets)),)
        both: tuple[Block, ...] = self.steps.list_noise(len(self.terms), len(self.targets))
        return both


def show_noise(noise: Noise, terms: int, targets: int, *, under: str = "") -> Table:
    """Return the table of the noise of each statistic, under a row map where that is said."""
    rows = [
        ("XᵀX, diagonal", terms, noise.xtx_diagonal),
        ("XᵀX, off-diagonal", terms * (terms - 1) // 2, noise.xtx_offdiagonal),
        ("Xᵀy", terms * targets, noise.xty),
        ("yᵀy", targets, noise.yty),
        ("λ_min", 1, noise.lambda_min),
    ]
    return list_noise(noise, rows, ("statistic", "entries"), under=under, unit=", in scaled units")
