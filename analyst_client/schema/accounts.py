"""The account of a population: its budget, and the parts of it that are held for studies."""

from dataclasses import dataclass
from typing import Annotated

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, Note, View, code, facts, join, number, percent, quiet, untrusted
from analyst_client.display.terminal import plain
from analyst_client.ledger.checkpoints import Checkpoint
from analyst_client.schema.amounts import Amount, show_amounts
from analyst_client.schema.reading import Readable
from analyst_client.schema.receipts import Receipt, fold_receipt
from analyst_client.schema.wire import Fields

NO_BOUND = "What was spent is the sum of the charges, and no bound on what was learnt so far; the highest limit is."
"""Under ``gdp`` and ``zcdp``, because an analyst may decide by the answers when to stop."""


def read_checkpoint(fields: Fields, name: str) -> Checkpoint:
    """Read a member that is a checkpoint."""
    try:
        return Checkpoint.read(fields.object(name).members)
    except ValueError as error:
        raise fields.fault(name, f"a checkpoint ({error})") from None


@dataclass(frozen=True, repr=False)
class Budget(Displayable, Readable):
    """The budget of a dataset's population, shared by all of its datasets and analysts.

    Attributes
    ----------
    dataset, population : str
    accountant : str
        Unit of the account: ``"gdp"`` (µ²), ``"zcdp"`` (ρ) or ``"pure"`` (ε).
    adjacency : str
        Neighbour relation: ``"add_remove"`` or ``"replace_one"``.
    delta : float
        The δ at which ε is stated.
    limit, posted, pending, remaining : Amount
        Limit of all charges, the sum of the charges so far, reservations, and rest. The sum of the charges bounds what
        was learnt so far under ``"pure"`` alone; the highest limit bounds what all answers together may ever tell.
    share_spent : float
        Part of the limit that is spent, in the account's own unit, 0 to 1.
    checkpoint : Checkpoint
        The head of the population's ledger, signed by the curator.
    highest_limit : Amount or None
        The highest that the limit ever was: that of the guarantee. None where an older curator does not state it.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> budget = client.budget("flchain")
    >>> budget.population, budget.limit.epsilon, budget.remaining.epsilon
    ('olmsted', 3.0, 3.0)
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
    checkpoint: Annotated[Checkpoint, read_checkpoint]
    highest_limit: Amount | None = None

    def __repr__(self) -> str:
        """Show whose it is, and how much of it is left."""
        whole = f"limit epsilon={number(self.limit.epsilon)}, delta={number(self.limit.delta)}"
        return f"<Budget of {self.population!r}: {whole}, {percent(self.share_spent)} spent>"

    def _view(self) -> View:
        return show_budget(self)


@dataclass(frozen=True, repr=False)
class Reservation(Displayable, Readable):
    """A part of a budget that is held for a study.

    Attributes
    ----------
    id : str
        Id to give as ``reservation=`` to `CuratorClient.release`.
    dataset, population : str
    state : str
        ``"open"``, or ``"closed"`` when the rest went back to the budget.
    reserved, drawn, remaining : Amount
        Amount that was held, charges of releases to it, and rest.
    created_at, expires_at : str
    project : str or None
    receipt : Receipt
        The ledger entry of the reservation.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> held = client.reserve("flchain", epsilon=0.2, delta=1e-6, expires_in_s=3600)
    >>> held.state, round(held.remaining.epsilon, 3), held.drawn.epsilon
    ('open', 0.2, 0.0)
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
        return show_reservation(self)


def show_budget(budget: "Budget") -> View:
    """Show a budget as shares of its limit, and as a bar."""
    parts = [("spent", budget.posted), ("held", budget.pending), ("left", budget.remaining)]
    notes: list[Inline] = [
        "Shared by all its datasets and analysts.",
        join("Counted in ", untrusted(budget.accountant), ", neighbours by ", untrusted(budget.adjacency), "."),
        f"Ledger at epoch {budget.checkpoint.epoch:,}, sequence {budget.checkpoint.sequence:,}.",
    ]
    if budget.accountant != "pure":
        notes.insert(0, "Shares add up; ε does not.")
        notes.append(NO_BOUND)
    highest = budget.highest_limit
    if highest is not None and highest != budget.limit:
        views = f"ε = {number(highest.epsilon)} at δ = {number(highest.delta)}"
        notes.append(f"The guarantee is that of the highest limit there ever was: {views}.")
    caption = join("Budget of ", untrusted(budget.population))
    return (
        *show_amounts(caption, parts, ("limit", budget.limit), share_used=budget.share_spent),
        Note(quiet(join(*notes, by=" "))),
    )


def show_reservation(reservation: "Reservation") -> View:
    """Show a reservation: its amount and the part that was drawn."""
    stated: list[tuple[Inline, Inline]] = [
        ("state", reservation.state),
        ("dataset", join(untrusted(reservation.dataset), quiet(" of "), untrusted(reservation.population))),
        ("made at", reservation.created_at),
        ("its time ends", reservation.expires_at),
    ]
    if reservation.project is not None:
        stated.append(("project", reservation.project))
    parts = [("drawn", reservation.drawn), ("left", reservation.remaining)]
    return (
        facts(join("Reservation ", code(reservation.id)), stated),
        *show_amounts("What it holds", parts, ("reserved", reservation.reserved)),
        fold_receipt(reservation.receipt),
    )
