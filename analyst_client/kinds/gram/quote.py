"""Quotes of noisy sufficient statistics: their terms, and the noise of each statistic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from analyst_client.display.model import Block, Inline, Table, aligned, join, quiet, table, untrusted
from analyst_client.kinds.combinations import Combinations
from analyst_client.kinds.gram.coding import name_features, read_coding
from analyst_client.schema.columns import Column, Term, write_words
from analyst_client.schema.quotes import AnyQuote, read_deviations, read_quote
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression
from analyst_client.terms.matching import match_features

STATISTICS = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")


@dataclass(frozen=True)
class Noise:
    """Standard deviation of the noise of each released statistic, in scaled units; None for those not asked.

    Attributes
    ----------
    xtx_diagonal, xtx_offdiagonal, xty, yty, lambda_min : float or None
        Of one entry.
    distribution : str
        Law of the noise, as the curator names it: ``"discrete_gaussian"`` or ``"discrete_laplace"``.
    """

    xtx_diagonal: float | None = None
    xtx_offdiagonal: float | None = None
    xty: float | None = None
    yty: float | None = None
    lambda_min: float | None = None
    distribution: str = "unstated"

    @classmethod
    def read(cls, fields: Fields) -> "Noise":
        """Read from an answer."""
        deviations = read_deviations(fields, filter(fields.object("sd").has, STATISTICS))
        return cls(distribution=fields.text("distribution"), **deviations)

    @property
    def sd(self) -> dict[str, float]:
        """Standard deviations of the statistics that were asked, by name."""
        stated = {name: getattr(self, name) for name in STATISTICS}
        return {name: sd for name, sd in stated.items() if sd is not None}


@dataclass(frozen=True, repr=False)
class Quote(AnyQuote):
    """Cost and noise of a request of sufficient statistics. Free: no row was read.

    Attributes
    ----------
    features : tuple of Column
        Columns that are features by themselves.
    inner_columns : tuple of Column
        Columns that only a basis or an interaction is made of, and targets that are computed.
    terms, targets : tuple of Term
    expressions : mapping of str to Expression
        Features and targets as they are asked for, by name.
    combined : tuple of Term
        The terms of the columns, where `terms` are combinations of these; else none.
    posted : Combinations or None
        The weights of these combinations.
    noise : Noise
        Standard deviation of the noise of each statistic; where the row map is chosen in two steps, that of the norm
        which public numbers alone would choose.
    steps : TwoSteps or None
        Outcomes of several steps: of the one that chooses the row map, both ends of what the release may then be, and
        of the one that buys robust standard errors.
    dataset, kind : str
    cost : Cost
        The charge, if it is asked for.
    request : dict
        The request with every default filled in.
    affordable : bool
        Whether the budget would suffice now.
    pass_over_rows : bool
        Whether an answer reads every row.
    duration_s : float
        After so many seconds an answer shows, whatever the rows are; 0 for an answer at once.
    answer_bytes, answer_bytes_left : int
        Size of a new answer, and space that is left for your answers of this population.
    stored_release : str or None
        A stored release of the same request: asking for it costs nothing.
    derivable_from : str or None
        A stored release of which the request is a part, with no more noise than asked: it is answered from that one,
        and costs nothing.
    offers : tuple of Offer
        Stored releases that hold something near the request. The request itself is not answered from them.
    """

    noise: Noise
    features: tuple[Column, ...]
    inner_columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    expressions: Mapping[str, Expression] = field(compare=False)
    combined: tuple[Term, ...] = ()
    posted: Combinations | None = None
    steps: Any = None

    @property
    def sums(self) -> dict[str, float]:
        """Standard deviation of an entry of XᵀX."""
        sd = self.noise.xtx_offdiagonal if len(self.terms) > 1 else self.noise.xtx_diagonal
        return {} if sd is None else {"XᵀX": sd}

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that terms are made of, and targets that are computed."""
        return (*self.features, *self.inner_columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features: of columns, bases and interactions."""
        return name_features(self.features, self.combined or self.terms)

    @property
    def laplace_parts(self) -> tuple[float, ...]:
        """Parts of ε of each statistic, those of the targets one by one."""
        shares = self.request.get("shares") or {"": 1.0}
        whole, targets = sum(shares.values()), max(len(self.targets), 1)
        copies = {name: targets if name in {"xty", "yty"} else 1 for name in shares}
        return tuple(share / whole / copies[name] for name, share in shares.items() for _ in range(copies[name]))

    @classmethod
    def read(cls, fields: Fields) -> "Quote":
        """Read from an answer."""
        return cls(
            **read_quote(fields, Noise.read(fields.object("noise"))),
            **read_coding(fields),
        )

    def arranged_as(self, request: Mapping[str, Any]) -> "Quote":
        """Return this quote with its columns in the order of a request; one of other columns is left as it is."""
        named = match_features(self.expressions, self.columns, request)
        if named is None:
            return self
        columns = {column.name: column for column in self.features}
        targets = {term.name: term for term in self.targets}
        return replace(
            self,
            features=tuple(columns[name] for name in named[0] if name in columns),
            terms=tuple(self.terms[i] for i in order_terms(self.terms, named[0])),
            combined=tuple(self.combined[i] for i in order_terms(self.combined, named[0])),
            targets=tuple(targets[name] for name in named[1]),
        )

    def _asked(self) -> str:
        targets = ", ".join(target.name for target in self.targets) or "no target"
        return f"{targets} ~ {', '.join(self.feature_names)}"

    def _caption(self) -> Inline:
        return write_formula(self.dataset, self.feature_names, self.targets)

    def _request_shown(self) -> Mapping[str, Any]:
        chosen = self.steps is not None and self.steps.norms is not None
        return {k: v for k, v in self.request.items() if k != "rows"} if chosen else self.request

    def _noise_view(self) -> tuple[Block, ...]:
        if self.steps is None:
            return (list_noise(self.noise, len(self.terms), len(self.targets)),)
        both: tuple[Block, ...] = self.steps.list_noise(len(self.terms), len(self.targets))
        return both


def order_terms(terms: Sequence[Term], features: Sequence[str]) -> list[int]:
    """Return the places of terms in the order of their columns; those of one column stay together as they are."""
    rank = {name: i for i, name in enumerate(features, 1)} | {None: 0}
    return sorted(range(len(terms)), key=lambda i: rank.get(terms[i].column, len(rank)))


def write_formula(dataset: str, features: Sequence[str], targets: Sequence[Term]) -> Inline:
    """Write a request as a formula."""
    explained = [write_words([term.name for term in targets]), " ~ "] if targets else []
    return join(*explained, write_words(features), quiet(" of "), untrusted(dataset))


def list_noise(noise: Noise, terms: int, targets: int, *, under: str = "") -> Table:
    """Return the table of the noise of each statistic, under a row map where that is said."""
    named = {
        "XᵀX, diagonal": (noise.xtx_diagonal, terms),
        "XᵀX, off-diagonal": (noise.xtx_offdiagonal, terms * (terms - 1) // 2),
        "Xᵀy": (noise.xty, terms * targets),
        "yᵀy": (noise.yty, targets),
        "λ_min": (noise.lambda_min, 1),
    }
    stated = [(name, count, sd) for name, (sd, count) in named.items() if sd is not None]
    deviations = aligned([sd for _, _, sd in stated])
    rows = [(name, f"{count:,}", sd) for (name, count, _), sd in zip(stated, deviations, strict=True)]
    caption = join("Noise ", under, quiet("(", untrusted(noise.distribution), ", in scaled units)"))
    return table(caption, ("statistic", "entries", "standard deviation"), rows, numeric=(1, 2))
