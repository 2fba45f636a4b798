"""Entries of what holds: an account and its limit, permits, and signing keys."""

from typing import Annotated, Final

from pydantic import Field

from curator_service.entries.account import FOR_EVER, Account, Share, Unfounded
from curator_service.entries.amounts import PermitId
from curator_service.entries.base import REGISTER, Event, KeyId, Place, ProposalId, Units
from curator_service.entries.rules import Rules, read_rules
from curator_service.entries.told import Told
from curator_service.kit.wire import Absent, Digits, Moment, left_out
from curator_service.privacy.accountant import AccountantName
from curator_service.privacy.adjacency import Adjacency

PERMIT: Final = "permit"
"""The kind of a permit's entries, and the member by which others name it."""


class Open(Event):
    """A population was opened, with a limit of `units`."""

    kind = "open"
    meaning = "the population was opened"
    in_register = True
    amounts = Units.ANY
    units_are = "the limit"

    adjacency: Annotated[Adjacency, Field(strict=False)]
    accountant: AccountantName
    delta: str
    approved_by: str | Absent = left_out()
    reason: str | Absent = left_out()
    proposal: ProposalId | Absent = left_out()

    def move(self, place: Place, account: Account) -> None:
        """Begin an account. The register may begin in a later epoch, where a restore has lost all of it."""
        account.limit = int(place.units)
        account.terms = (self.adjacency.value, self.accountant, self.delta, self.time)
        if place.population == REGISTER:
            account.epoch = place.epoch

    def tell(self, told: Told) -> None:
        """Tell the terms that hold for good."""
        told.terms = self.adjacency.value, self.accountant


class Limit(Event):
    """A limit was set to `units`."""

    kind = "limit"
    meaning = "a limit was set"
    amounts = Units.ANY
    units_are = "the new limit"

    reason: str
    approved_by: str
    proposal: ProposalId | Absent = left_out()

    def move(self, place: Place, account: Account) -> None:
        """Set the limit; two people raise it."""
        units, of_two = int(place.units), self.actor != self.approved_by
        raised = units > account.limit
        account.limit = units
        if raised and not of_two:
            raise Unfounded("a limit was raised without a second admin")
        if not raised and of_two and not account.is_used:
            account.highest_limit = units  # replaced, and never used


class Permit(Event):
    """A permit's terms from now on; nobody may spend if it was ended."""

    kind = PERMIT
    meaning = "a permit was granted, changed or ended"

    permit: PermitId
    version: int
    project: str
    people: Annotated[dict[str, str], Field(description="Names by id")]
    datasets: Annotated[dict[str, str], Field(description="Names by id")]
    purpose: str
    legal_basis: str
    conditions: str
    reason: str
    approved_by: str
    permit_limit: Digits | Absent = left_out()
    expires_at: Moment | Absent = left_out()
    rules: Rules | Absent = left_out()
    proposal: ProposalId | Absent = left_out()

    @property
    def share(self) -> Share:
        """Share of the account that it grants, nothing spent yet."""
        return Share(
            None if self.permit_limit is None else int(self.permit_limit),
            expires_at=self.expires_at or FOR_EVER,
            people=frozenset(self.people),
            datasets=frozenset(self.datasets.values()),
            stated=(self.project, self.purpose, self.legal_basis, self.conditions),
            rules=read_rules(self.rules),
        )

    def move(self, place: Place, account: Account) -> None:
        """Let people spend from now on, under a limit and until a time; or change that, or end it."""
        before, after = account.shares.get(self.permit), self.share
        if before is not None:
            after.posted, after.pending = before.posted, before.pending
        alone = self.approved_by in {self.actor, *self.people}
        if after.is_wider_than(before) and alone and not is_host(self.actor):
            raise Unfounded("a permit was granted or widened without a second person")
        account.shares[self.permit] = after
        after.check_limit()

    def tell(self, told: Told) -> None:
        """Tell what the permit is from here on."""
        told.permits[self.permit] = self.share


def is_host(actor: str) -> bool:
    """Tell whether an actor has the machine itself: an operator at its command line."""
    return actor.startswith("operator:")


class Key(Event):
    """A key signs from here on."""

    kind = "key"
    meaning = "a key signs from here on"
    in_register = True

    signing_key: KeyId
