"""What a curator says of privacy and of data, as frozen values: amounts, costs, budgets, noise, datasets, quotes.

Each class reads itself from the `Fields` of an answer.
"""

import math
from dataclasses import dataclass
from typing import Any

from analyst_client import _notebook, _notebook_receipts
from analyst_client._ledger import Checkpoint
from analyst_client._shown import Shown
from analyst_client._terminal import plain
from analyst_client._view import View, number, percent
from analyst_client._wire import Fields
from analyst_client.columns import Column, Term


@dataclass(frozen=True)
class Amount:
    """An amount of privacy in each of its notions.

    Attributes
    ----------
    mu, rho : float or None
        Gaussian DP and zero-concentrated DP; None where the account's number says nothing of a notion.
    epsilon, delta : float
        Approximate DP at the stated `delta`; an `epsilon` too large to be stated is infinite.
    units : int or None
        The ledger's own integer: 10⁻¹² of µ², ρ or ε, as the account counts. It adds up; (ε, δ) does not.
    pure_epsilon : float or None
        The ε of one Laplace release alone, with δ = 0. The `epsilon` of an account that counts µ² or ρ is larger: it is
        what the account's number implies.
    """

    mu: float | None
    rho: float | None
    epsilon: float
    delta: float
    units: int | None = None
    pure_epsilon: float | None = None

    @classmethod
    def read(cls, fields: Fields) -> "Amount":
        """Read from an answer."""
        return cls(
            mu=fields.optional("mu", fields.number),
            rho=fields.optional("rho", fields.number),
            epsilon=math.inf if fields.is_null("epsilon") else fields.number("epsilon"),
            delta=fields.number("delta"),
            units=fields.optional("units", fields.integer),
            pure_epsilon=fields.optional("pure_epsilon", fields.number),
        )


@dataclass(frozen=True)
class Cost(Amount):
    """What a request costs.

    Attributes
    ----------
    share_of_budget : float
        Its part of the population's limit, 0 to 1.
    """

    share_of_budget: float = 0.0

    @classmethod
    def read(cls, fields: Fields) -> "Cost":
        """Read from an answer."""
        return cls(
            **vars(Amount.read(fields)),
            share_of_budget=fields.number("share_of_budget"),
        )


@dataclass(frozen=True, repr=False)
class Budget(Shown):
    """The budget of a dataset's population, shared by all of its datasets and analysts.

    Attributes
    ----------
    limit, posted, pending, remaining : Amount
        What may be spent, what was spent, what is reserved by releases under way, what is left.
    share_spent : float
        Part of the limit that is spent, in the account's own unit, 0 to 1.
    checkpoint : Checkpoint
        The head of the population's ledger, signed by the curator.
    highest_limit : Amount or None
        The highest that the limit ever was: that of the guarantee. None where an older curator does not state it.
    """

    dataset: str
    population: str
    accountant: str
    adjacency: str
    delta: float
    limit: Amount
    posted: Amount
    pending: Amount
    remaining: Amount
    share_spent: float
    checkpoint: Checkpoint
    highest_limit: Amount | None = None

    def __repr__(self) -> str:
        """Show whose it is, and how much of it is left."""
        whole = f"limit epsilon={number(self.limit.epsilon)}, delta={number(self.limit.delta)}"
        return f"<Budget of {self.population!r}: {whole}, {percent(self.share_spent)} spent>"

    def _view(self) -> View:
        return _notebook.show_budget(self)

    @classmethod
    def read(cls, fields: Fields) -> "Budget":
        """Read from an answer."""
        return cls(
            dataset=fields.text("dataset"),
            population=fields.text("population"),
            accountant=fields.text("accountant"),
            adjacency=fields.text("adjacency"),
            delta=fields.number("delta"),
            limit=Amount.read(fields.object("limit")),
            posted=Amount.read(fields.object("posted")),
            pending=Amount.read(fields.object("pending")),
            remaining=Amount.read(fields.object("remaining")),
            share_spent=fields.number("share_spent"),
            checkpoint=read_checkpoint(fields),
            highest_limit=fields.optional("highest_limit", lambda name: Amount.read(fields.object(name))),
        )


def read_checkpoint(fields: Fields) -> Checkpoint:
    """Read the member ``checkpoint``."""
    try:
        return Checkpoint.read(fields.object("checkpoint").members)
    except ValueError as error:
        raise fields.fault("checkpoint", f"a checkpoint ({error})") from None


class Receipt(Shown, dict[str, Any]):
    """An entry of the ledger with its hash and signature: a dict of the members as they came, unchecked.

    `Release.verify` checks that of a release.
    """

    def _view(self) -> View:
        return _notebook_receipts.show_receipt(self)


@dataclass(frozen=True, repr=False)
class Reservation(Shown):
    """A part of a budget that is held for a study.

    Attributes
    ----------
    id : str
        What to give as ``reservation=`` to `CuratorClient.release`.
    dataset, population : str
    state : str
        ``"open"``, or ``"closed"`` when the rest went back to the budget.
    reserved, drawn, remaining : Amount
        What was held, what releases took of it, what they can still take.
    created_at, expires_at : str
    project : str or None
    receipt : Receipt
        The ledger entry of the reservation.
    """

    id: str
    dataset: str
    population: str
    state: str
    reserved: Amount
    drawn: Amount
    remaining: Amount
    created_at: str
    expires_at: str
    project: str | None
    receipt: Receipt

    def __repr__(self) -> str:
        """Show its state, and how much can still be drawn."""
        left = f"epsilon={number(self.remaining.epsilon)}, delta={number(self.remaining.delta)} left"
        return plain(f"<Reservation {self.id} on {self.dataset!r}: {self.state}, {left}>")

    def _view(self) -> View:
        return _notebook.show_reservation(self)

    @classmethod
    def read(cls, fields: Fields) -> "Reservation":
        """Read from an answer."""
        return cls(
            id=fields.text("id"),
            dataset=fields.text("dataset"),
            population=fields.text("population"),
            state=fields.text("state"),
            reserved=Amount.read(fields.object("reserved")),
            drawn=Amount.read(fields.object("drawn")),
            remaining=Amount.read(fields.object("remaining")),
            created_at=fields.text("created_at"),
            expires_at=fields.text("expires_at"),
            project=fields.optional("project", fields.text),
            receipt=Receipt(fields.object("receipt").members),
        )


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


@dataclass(frozen=True, repr=False)
class Dataset(Shown):
    """What the curator makes public of a dataset.

    Attributes
    ----------
    rows : int or None
        Number of stored rows, or of persons where one may have several; public only under ``replace_one``.
    columns : tuple of Column
    accountant : str
        What the population's account counts: ``gdp``, ``zcdp`` or ``pure``.
    mechanisms : tuple of str
        The kinds of noise that it sells.
    rows_per_person : int
        Most rows of one person that count.
    """

    name: str
    description: str
    population: str
    adjacency: str
    row_capacity: int
    rows: int | None
    columns: tuple[Column, ...]
    kinds: tuple[str, ...]
    row_maps: tuple[str, ...]
    accountant: str
    mechanisms: tuple[str, ...]
    rows_per_person: int

    def column(self, name: str) -> Column:
        """Return the column of this name. Raise `KeyError` when there is none."""
        return {column.name: column for column in self.columns}[name]

    def __repr__(self) -> str:
        """Show its name, and how many columns it has."""
        return f"<Dataset {self.name!r} of {self.population!r}: {len(self.columns)} columns>"

    def _view(self) -> View:
        return _notebook.show_dataset(self)

    @classmethod
    def read(cls, fields: Fields) -> "Dataset":
        """Read from an answer."""
        return cls(
            fields.text("name"),
            fields.text("description"),
            fields.text("population"),
            fields.text("adjacency"),
            fields.integer("row_capacity"),
            fields.optional("rows", fields.integer),
            fields.each("columns", Column.read),
            fields.texts("kinds"),
            fields.texts("row_maps"),
            fields.text("accountant"),
            fields.texts("mechanisms"),
            fields.integer("rows_per_person"),
        )


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
class Quote(Shown):
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
        return _notebook.show_quote(self)

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
