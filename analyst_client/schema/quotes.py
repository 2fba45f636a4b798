"""Quotes: price and noise of a request before it is paid; and the lines of the library of releases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import (
    Inline,
    Table,
    View,
    aligned,
    code,
    facts,
    join,
    listing,
    number,
    percent,
    quiet,
    strong,
    table,
    untrusted,
    write_json,
)
from analyst_client.display.terminal import plain
from analyst_client.schema.amounts import Cost, write_cost
from analyst_client.schema.columns import Column, Term, write_words
from analyst_client.schema.wire import Fields


@dataclass(frozen=True)
class Noise:
    """Standard deviation of the noise of each released statistic, in scaled units; None for those not asked."""

    xtx_diagonal: float | None = None
    xtx_offdiagonal: float | None = None
    xty: float | None = None
    yty: float | None = None
    lambda_min: float | None = None
    distribution: str = "unstated"

    @classmethod
    def read(cls, fields: Fields) -> "Noise":
        """Read from an answer."""
        sd = fields.object("sd")
        names = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")
        deviations = {name: sd.optional(name, sd.number) for name in names}
        if any(value is not None and value < 0.0 for value in deviations.values()):
            raise fields.fault("sd", "free of negative numbers")
        return cls(distribution=fields.text("distribution"), **deviations)


@dataclass(frozen=True)
class Offer:
    """A stored release that holds every column of a request, and is another thing; reading it is free.

    Attributes
    ----------
    release_id : str
        What to give to `CuratorClient.fetch_release`.
    difference : str
        What is different from the request, in the curator's words.
    """

    release_id: str
    difference: str

    @classmethod
    def read(cls, fields: Fields) -> "Offer":
        """Read from an answer."""
        return cls(fields.text("release"), fields.text("difference"))


@dataclass(frozen=True, repr=False)
class Quote(Displayable):
    """Price and noise of a request. Free: no row was read.

    Attributes
    ----------
    request : dict
        The request with every default filled in.
    affordable : bool
        Whether the budget would suffice now.
    pass_over_rows : bool
        Whether an answer reads every row.
    duration_s : float
        After so many seconds an answer shows, whatever the rows are; 0 for an answer at once.
    answer_bytes, answer_bytes_left : int
        What a new answer is counted for, and how much more may be stored for you of this population's answers.
    stored_release : str or None
        A stored release of the same request: asking for it costs nothing.
    derivable_from : str or None
        A stored release of which the request is a part, with no more noise than asked: it is answered from that one,
        and costs nothing.
    offers : tuple of Offer
        Stored releases that hold something near the request. The request itself is not answered from them.
    """

    dataset: str
    kind: str
    request: dict[str, Any]
    features: tuple[Column, ...]
    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    noise: Noise
    cost: Cost
    affordable: bool
    pass_over_rows: bool
    duration_s: float
    answer_bytes: int
    answer_bytes_left: int
    stored_release: str | None
    derivable_from: str | None
    offers: tuple[Offer, ...]

    def __repr__(self) -> str:
        """Show what is asked, and its price."""
        targets = ", ".join(target.name for target in self.targets) or "no target"
        price = f"epsilon={number(self.cost.epsilon)}, delta={number(self.cost.delta)}"
        share = f"{percent(self.cost.share_of_budget)} of the budget"
        asked = f"{targets} ~ {', '.join(column.name for column in self.features)}"
        return plain(f"<Quote for {self.dataset!r}: {asked}, {price}, {share}>")

    def _view(self) -> View:
        return show_quote(self)

    @classmethod
    def read(cls, fields: Fields) -> "Quote":
        """Read from an answer."""
        duration_s = fields.number("duration_s")
        if duration_s < 0.0:
            raise fields.fault("duration_s", "a time")
        return cls(
            fields.text("dataset"),
            fields.text("kind"),
            fields.object("request").members,
            fields.each("features", Column.read),
            fields.each("terms", Term.read),
            fields.each("targets", Term.read),
            Noise.read(fields.object("noise")),
            Cost.read(fields.object("cost")),
            fields.flag("affordable"),
            fields.flag("pass_over_rows"),
            duration_s,
            _read_size(fields, "answer_bytes"),
            _read_size(fields, "answer_bytes_left"),
            fields.optional("stored_release", fields.text),
            fields.optional("derivable_from", fields.text),
            fields.each("offers", Offer.read),
        )


def _read_size(fields: Fields, name: str) -> int:
    size = fields.integer(name)
    if size < 0:
        raise fields.fault(name, "a size")
    return size


@dataclass(frozen=True)
class ReleaseSummary:
    """A line of the library of releases; fetch the whole by its `id`."""

    id: str
    dataset: str
    kind: str
    created_at: str
    request: dict[str, Any]
    cost: Cost

    @classmethod
    def read(cls, fields: Fields) -> "ReleaseSummary":
        """Read from an answer."""
        return cls(
            fields.text("id"),
            fields.text("dataset"),
            fields.text("kind"),
            fields.text("created_at"),
            fields.object("request").members,
            Cost.read(fields.object("cost")),
        )


_MANY_ANSWERS = 10
"""Where there is space for so many, a quote does not speak of it."""


def show_quote(quote: "Quote") -> View:
    """Show price and noise, and whether the request is answered for nothing."""
    stated: list[tuple[Inline, Inline]] = []
    if quote.stored_release is not None:
        stated.append(("stored release", join(code(quote.stored_release), " answers this very request: free")))
    if quote.derivable_from is not None:
        stated.append(("derivable from", join(code(quote.derivable_from), ", of which the request is a part: free")))
    stated += [
        ("price", write_cost(quote.cost)),
        ("affordable", "yes" if quote.affordable else strong("no")),
        ("answer shows", write_duration(quote.duration_s)),
        ("pass over rows", "yes" if quote.pass_over_rows else "no"),
        *list_request(quote.request),
    ]
    if quote.answer_bytes_left < _MANY_ANSWERS * quote.answer_bytes:
        stated.append(("space for answers", write_space(quote.answer_bytes, quote.answer_bytes_left)))
    if quote.offers:
        offers = [join(code(offer.release_id), quiet(": ", untrusted(offer.difference))) for offer in quote.offers]
        stated.append(("offers", listing(offers)))
    names = [column.name for column in quote.features]
    return (
        facts(join("Quote for ", write_formula(quote.dataset, names, quote.targets)), stated),
        list_noise(quote.noise, len(quote.terms), len(quote.targets)),
    )


def write_space(size: int, left: int) -> Inline:
    """Say what an answer takes of the space that is left."""
    return join(f"{size:,} bytes of the {left:,} that are left", strong(": too few") if size > left else "")


def write_duration(duration_s: float) -> str:
    """Say when an answer shows."""
    if duration_s == 0.0:
        return "at once"
    minutes = f" ({duration_s / 60:.1f} min)" if duration_s >= 120.0 else ""
    return f"after {number(duration_s)} s{minutes}, whatever the rows are"


def write_formula(dataset: str, features: Sequence[str], targets: "Sequence[Term]") -> Inline:
    """Write a request as a formula."""
    explained = [write_words([term.name for term in targets]), " ~ "] if targets else []
    return join(*explained, write_words(features), quiet(" of "), untrusted(dataset))


def list_request(request: Mapping[str, Any]) -> list[tuple[Inline, Inline]]:
    """Return what else of a request decides what is released."""
    stated: list[tuple[Inline, Inline]] = []
    rows = request.get("rows")
    if isinstance(rows, dict):
        norm = rows.get("norm")
        radius = f", norm {number(norm)}" if isinstance(norm, float) else ""
        stated.append(("row map", join(untrusted(write_json(rows.get("map"))), radius)))
    stated += [(name, write_json(request[name])) for name in ("mechanism", "calibration") if name in request]
    return stated


def list_noise(noise: "Noise", terms: int, targets: int) -> Table:
    """Return the table of the noise of each statistic."""
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
    caption = join("Noise ", quiet("(", untrusted(noise.distribution), ", in scaled units)"))
    return table(caption, ("statistic", "entries", "standard deviation"), rows, numeric=(1, 2))
