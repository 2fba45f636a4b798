"""Quotes: cost and noise of a request of any kind before it is charged; and the lines of the library of releases."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as members_of
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

from analyst_client.display.model import (
    Block,
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
from analyst_client.schema.answers import Stated
from analyst_client.schema.columns import Column
from analyst_client.schema.reading import LOCAL, Readable, read_members
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import read_expression


@dataclass(frozen=True)
class Offer(Readable):
    """A stored release that holds every column of a request, and is another thing; reading it is free.

    Attributes
    ----------
    release_id : str
        Id to give to `CuratorClient.fetch_release`.
    difference : str
        Difference from the request, in the curator's words.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> quote = recorded_client("methods").quote("flchain", ["age", "sex"], **options)
    >>> for offer in quote.offers:
    ...     print(*offer.difference.split("; ")[:2])
    it also holds the feature creatinine its rows were mapped by ball, not by box
    """

    release_id: Annotated[str, "release"]
    difference: str


class StatedNoise(Protocol):
    """Noise of a release, whatever its statistics are.

    Attributes
    ----------
    distribution : str
    sd : mapping of str to float
        Standard deviations, by the statistic's name.
    """

    @property
    def distribution(self) -> str: ...  # noqa: D102 -- see the class

    @property
    def sd(self) -> Mapping[str, float]: ...  # noqa: D102 -- see the class


def find_deviation(noise: Fields, name: str) -> float | None:
    """Read the standard deviation of the noise of a statistic; None where it was not asked."""
    deviation = noise.object("sd").optional(name, noise.object("sd").number)
    if deviation is not None and deviation < 0.0:
        raise noise.fault("sd", "free of negative numbers")
    return deviation


def read_deviation(noise: Fields, name: str) -> float:
    """Read the standard deviation of the noise of a statistic that was asked."""
    deviation = find_deviation(noise, name)
    if deviation is None:
        raise noise.object("sd").fault(name, "a number")
    return deviation


def _read_deviations(noise: Fields, member: str) -> dict[str, float]:
    return {name: read_deviation(noise, name) for name in noise.mapping(member)}


@dataclass(frozen=True)
class StatisticNoise(Readable):
    """Standard deviation of the noise of each released statistic, by its name."""

    distribution: str
    sd: Annotated[Mapping[str, float], _read_deviations]


Distribution = Annotated[str, Fields.text]
Deviation = Annotated[float | None, find_deviation]


@dataclass(frozen=True)
class NamedNoise(Readable):
    """Noise of statistics that are members of a `Deviation` each, beside the `distribution`."""

    @property
    def sd(self) -> dict[str, float]:
        """Standard deviations of the statistics that were asked, by name."""
        stated = {one.name: getattr(self, one.name) for one in members_of(self) if one.name != "distribution"}
        return {name: sd for name, sd in stated.items() if sd is not None}


def read_is_laplace(noise: Fields) -> bool:
    """Read whether noise is Laplace, or Gaussian. Raise `ServiceError` on any other."""
    distribution = noise.text("distribution")
    if distribution not in {"discrete_gaussian", "discrete_laplace"}:
        raise noise.fault("distribution", "a law that this version knows: a newer one may know more")
    return distribution == "discrete_laplace"


def list_noise(
    noise: "StatedNoise",
    rows: Iterable[tuple[Inline, int, float | None]],
    heads: tuple[str, str] = ("statistic", "numbers"),
    *,
    under: str = "",
    unit: str = "",
) -> Table:
    """Return the table of the noise of statistics: of each its name, how many numbers it has, and their deviation."""
    stated = [(name, f"{count:,}", sd) for name, count, sd in rows if sd is not None]
    shown = aligned([sd for *_, sd in stated])
    caption = join("Noise ", under, quiet("(", untrusted(noise.distribution), unit, ")"))
    cells = [(name, count, sd) for (name, count, _), sd in zip(stated, shown, strict=True)]
    return table(caption, (*heads, "standard deviation"), cells, numeric=(1, 2))


def _read_time(fields: Fields, name: str) -> float:
    duration_s = fields.number(name)
    if duration_s < 0.0:
        raise fields.fault(name, "a time")
    return duration_s


def _read_size(fields: Fields, name: str) -> int:
    size = fields.integer(name)
    if size < 0:
        raise fields.fault(name, "a size")
    return size


def _read_noise(fields: Fields, name: str) -> StatedNoise:
    return StatisticNoise.read(fields.object(name))


@dataclass(frozen=True, repr=False)
class AnyQuote(Stated):
    """Cost and noise of a request of any kind. Free: no row was read.

    Attributes
    ----------
    dataset, kind : str
    cost : Cost
        The charge, if it is asked for.
    request : dict
        The request with every default filled in.
    noise : StatedNoise
        Standard deviations by statistic, `sd`, and their `distribution`; a kind may have a class of its own for it.
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
    useless : tuple of str
        Reasons for which an answer would tell nothing, by public numbers. `CuratorClient.release` refuses the request,
        unless ``even_so=True``.
    notes : tuple of str
        Other facts that public numbers make certain of the request.

    Examples
    --------
    >>> from analyst_client import Axis, CountsRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = CountsRequest([["sex", Axis("age", edges=[50, 60, 70, 100])]], epsilon=0.5, delta=1e-6)
    >>> quote = client.quote("flchain", request)
    >>> quote.kind, quote.affordable, round(quote.cost.share_of_budget, 4)
    ('counts', True, 0.0367)
    """

    dataset: str
    kind: str
    request: dict[str, Any]
    noise: Annotated[StatedNoise, _read_noise]
    cost: Cost
    affordable: bool
    pass_over_rows: bool
    duration_s: Annotated[float, _read_time]
    answer_bytes: Annotated[int, _read_size]
    answer_bytes_left: Annotated[int, _read_size]
    stored_release: str | None
    derivable_from: str | None
    offers: tuple[Offer, ...]
    useless: Annotated[tuple[str, ...], LOCAL] = field(default=(), kw_only=True, compare=False)
    notes: Annotated[tuple[str, ...], LOCAL] = field(default=(), kw_only=True, compare=False)

    @property
    def laplace_parts(self) -> tuple[float, ...]:
        """Parts of ε of the Laplace releases that an answer is made of; they sum to 1."""
        return (1.0,)

    @property
    def sums(self) -> dict[str, float]:
        """Standard deviations of sums to which a row adds at most 1 in size, in words; none where it may add more."""
        return {}

    @property
    def told_alone(self) -> tuple[Column, ...]:
        """Columns each of which something is told of by itself."""
        return ()

    def __repr__(self) -> str:
        """Show what is asked, and its cost."""
        cost = f"epsilon={number(self.cost.epsilon)}, delta={number(self.cost.delta)}"
        share = f"{percent(self.cost.share_of_budget)} of the budget"
        return plain(f"<Quote for {self.dataset!r}: {self._asked}, {cost}, {share}>")

    @property
    def _title(self) -> str:
        return self.kind

    def _request_shown(self) -> Mapping[str, Any]:
        """Return the members of the request that decide what is released."""
        return self.request

    def _noise_view(self) -> tuple[Block, ...]:
        """Show the noise."""
        deviations = aligned(list(self.noise.sd.values()))
        rows = [(untrusted(name), sd) for name, sd in zip(self.noise.sd, deviations, strict=True)]
        caption = join("Noise ", quiet("(", untrusted(self.noise.distribution), ")"))
        return (table(caption, ("statistic", "standard deviation"), rows, numeric=(1,)),)

    def _view(self) -> View:
        return show_quote(self)

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read from an answer. Raise `ServiceError` when a member is missing or wrong."""
        return cls(**read_members(cls, fields, **cls.read_stated(fields)))


@dataclass(frozen=True)
class ReleaseSummary(Readable):
    """A line of the library of releases; fetch the whole by its `id`.

    Attributes
    ----------
    id, dataset, kind, created_at : str
    request : dict
        The request with every default filled in.
    cost : Cost
        The charge when it was made; reading it is free.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> summary = client.releases("flchain")[-1]
    >>> summary.kind, summary.request["features"], round(summary.cost.epsilon, 3)
    ('gram', ['age', 'sex', 'creatinine'], 0.495)
    """

    id: str
    dataset: str
    kind: str
    created_at: str
    request: dict[str, Any]
    cost: Cost

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Lead to the whole release for what it has."""
            hint = "" if name.startswith("_") else f": client.fetch_release({self.id!r}) returns the whole"
            raise AttributeError(f"a line of the library has no {name!r}{hint}", name=name, obj=self)


_MANY_ANSWERS = 10
"""A quote is silent about space if there is space for so many answers."""


def show_quote(quote: AnyQuote) -> View:
    """Show cost and noise, and whether the request is answered for nothing."""
    stated: list[tuple[Inline, Inline]] = []
    if quote.stored_release is not None:
        stated.append(("stored release", join(code(quote.stored_release), " answers this very request: free")))
    if quote.derivable_from is not None:
        stated.append(("derivable from", join(code(quote.derivable_from), ", of which the request is a part: free")))
    stated += [
        ("cost", write_cost(quote.cost)),
        ("affordable", "yes" if quote.affordable else strong("no")),
        ("answer shows", write_duration(quote.duration_s)),
        ("pass over rows", "yes" if quote.pass_over_rows else "no"),
        *list_request(quote._request_shown()),
    ]
    if quote.answer_bytes_left < _MANY_ANSWERS * quote.answer_bytes:
        stated.append(("space for answers", write_space(quote.answer_bytes, quote.answer_bytes_left)))
    for title, lines in (("tells nothing", quote.useless), ("note", quote.notes)):
        if lines:
            stated.append((title, listing([untrusted(line) for line in lines])))
    if quote.offers:
        offers = [join(code(offer.release_id), quiet(": ", untrusted(offer.difference))) for offer in quote.offers]
        stated.append(("offers", listing(offers)))
    return (facts(join("Quote for ", quote._caption()), stated), *quote._noise_view())


def write_space(size: int, left: int) -> Inline:
    """Show the size of an answer and the space that is left."""
    return join(f"{size:,} bytes of the {left:,} that are left", strong(": too few") if size > left else "")


def write_duration(duration_s: float) -> str:
    """Show the time until the answer."""
    if duration_s == 0.0:
        return "at once"
    minutes = f" ({duration_s / 60:.1f} min)" if duration_s >= 120.0 else ""
    return f"after {number(duration_s)} s{minutes}, whatever the rows are"


def write_expression(value: Any) -> str:
    """Write an expression of an answer as Python would; one that is not known here as JSON."""
    try:
        return repr(read_expression(value))
    except ValueError:
        return str(value)


def list_request(request: Mapping[str, Any]) -> list[tuple[Inline, Inline]]:
    """Return the other members of a request that decide the released values."""
    stated: list[tuple[Inline, Inline]] = []
    for name, title in (("where", "rows that count"), ("weight", "weight of a row")):
        if name in request:
            stated.append((title, untrusted(write_expression(request[name]))))
    if "weight" in request:
        stated.append(("noise beside the data", "2 times at a mean weight of 0.5, 10 times at 0.1, 100 times at 0.01"))
    rows = request.get("rows")
    if isinstance(rows, dict):
        norm = rows.get("norm")
        radius = f", norm {number(norm)}" if isinstance(norm, float) else ""
        stated.append(("row map", join(untrusted(write_json(rows.get("map"))), radius)))
    stated += [(name, write_json(request[name])) for name in ("mechanism", "calibration") if name in request]
    return stated
