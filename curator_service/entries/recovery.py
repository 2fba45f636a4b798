"""The entry of a reconciliation."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.entries.account import Account, Charged, Unfounded
from curator_service.entries.base import Event, Place, Units
from curator_service.entries.told import Told
from curator_service.kit.wire import Absent, Answer, Digest, Digits, left_out


class LostModel(Answer):
    """Sequences of an epoch that were lost."""

    epoch: int
    after: Digits
    through: Digits


class HistoryModel(Answer):
    """A second history of which the whole chain was at hand."""

    after: Annotated[Digits, Field(description="The last sequence that both histories have")]
    entries: Annotated[
        list[Digest], Field(description="The hash of each of its own entries that is accounted for here")
    ]


class HistoryChargesModel(Answer):
    """Charges of a second history that are alike, and their units."""

    month: str
    actor: str
    permit: str
    project: str
    dataset: str
    kind: str
    count: Digits
    units: Digits

    @property
    def charged(self) -> Charged:
        """Of what they are summed."""
        return Charged(self.month, self.actor, self.permit, self.project, self.dataset, self.kind)


class Reconcile(Event):
    """An epoch begins after a restore; `units` were written off, or charged in a second history."""

    kind = "reconcile"
    meaning = "the ledger was reconciled after a restore"
    in_register = True
    amounts = Units.ANY
    units_are = "written off, or charged in a second history"
    is_use = True

    kept_through: Digits
    lost: list[LostModel]
    all: Literal["yes", "no"]
    highest_limit: Digits | Absent = left_out()
    voided: Annotated[dict[str, Digits], Field(description="What was left of each reservation that was open")]
    set_aside: Digest | Absent = left_out()
    history: HistoryModel | Absent = left_out()
    charges: list[HistoryChargesModel] | Absent = left_out()
    approved_by: str | Absent = left_out()
    beside: Annotated[
        Digits | Absent,
        Field(description="What was counted of a history that went on beside this one, if more of it is seen"),
    ] = left_out()

    @property
    def told(self) -> frozenset[str]:
        """The hashes of the entries of a second history that it accounts for, one by one."""
        return frozenset() if self.history is None else frozenset(self.history.entries)

    def move(self, place: Place, account: Account) -> None:
        """Begin an epoch: nothing is held, no session is open, and what was lost is posted."""
        if self.voided != {name: str(left) for name, left in account.reservations.items()}:
            raise Unfounded("the entry closes other reservations than were open")
        account.reservations.clear()
        account.sessions.clear()
        for share in account.shares.values():
            share.pending = 0
        account.pending = 0
        if place.epoch <= account.epoch:
            raise Unfounded("the entry begins an epoch that is not a new one")
        account.epoch = place.epoch
        account.posted += int(place.units)
        if self.history is not None:
            self._count_history(place, account)
        account.limit = int(place.limit)
        # Of a history that was lost a higher limit may be known than the last.
        account.highest_limit = max(account.highest_limit, int(self.highest_limit or 0))

    def tell(self, told: Told) -> None:
        """End every threshold session: what was answered in a lost history is not known."""
        told.sessions.clear()

    def _count_history(self, place: Place, account: Account) -> None:
        """Add the charges of a second history to the sums, and to the permits that were charged there."""
        if self.approved_by in {None, self.actor}:
            raise Unfounded("the charges of a second history were taken over without a second person")
        if self.charges is None:
            raise Unfounded("the entry names no charges of a second history")
        charges = [(one.charged, int(one.count), int(one.units)) for one in self.charges]
        if any(count <= 0 or cost <= 0 for _, count, cost in charges) or sum(cost for *_, cost in charges) != int(
            place.units
        ):
            raise Unfounded("the entry counts another amount than the charges that it names")
        for charged, count, cost in charges:
            account.count(charged, cost, count)
            share = account.shares.get(charged.permit)
            if share is not None:
                share.posted += cost
                share.posted = share.posted if share.limit is None else min(share.posted, share.limit)
