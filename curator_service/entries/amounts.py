"""Entries that charge, hold and give back, and those of free answers."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.entries.account import Account, Charged, Unfounded
from curator_service.entries.base import Event, Place, Units
from curator_service.entries.rules import Asked
from curator_service.kit.wire import Absent, Answer, Digest, Digits, Moment, left_out
from curator_service.privacy.samplers import Distribution

PermitId = Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")]
Rational = Annotated[str, Field(pattern=r"^[0-9]+(/[0-9]+)?$")]


class Reserve(Event):
    """An amount is held: by a job, or for a study."""

    kind = "reserve"
    meaning = "an amount is held"
    amounts = Units.SOME
    units_are = "held"
    is_use = True

    reservation: str
    permit: PermitId | Absent = left_out()
    project: str | Absent = left_out()
    drawn_from: Annotated[
        str | Absent, Field(alias="from", description="The analyst's reservation that a job draws on")
    ] = left_out()
    expires_at: Annotated[Moment | Absent, Field(description="Of an analyst's")] = left_out()

    def move(self, place: Place, account: Account) -> None:
        """Hold the amount: of the account, or of the reservation that a job draws on."""
        units = int(place.units)
        if self.reservation in account.reservations:
            raise Unfounded("the reservation is open already")
        if self.drawn_from is not None:
            account.draw(self.drawn_from, units)
        else:
            account.pending += units
            for share in account.find_shares(self.permit):
                share.spend(self.actor, None, self.time, pending=units)
        account.reservations[self.reservation] = units


class Void(Event):
    """The rest of a reservation was given back."""

    kind = "void"
    meaning = "what was held was given back"
    amounts = Units.ANY
    units_are = "given back"

    reservation: str
    holder: str
    outcome: Literal["voided", "cancelled", "closed", "expired"]
    permit: PermitId | Absent = left_out()
    project: str | Absent = left_out()
    to: Annotated[str | Absent, Field(description="The analyst's reservation that gets it back")] = left_out()

    def move(self, place: Place, account: Account) -> None:
        """Give the rest back: to the account, or to the reservation that a job drew on."""
        units = int(place.units)
        if account.reservations.pop(self.reservation, None) != units:
            raise Unfounded("the entry gives back another amount than was left of the reservation")
        if self.to is not None:
            if self.to not in account.reservations:
                raise Unfounded("the entry gives back to a reservation that is not open")
            account.reservations[self.to] += units
            return
        account.pending -= units
        for share in account.find_shares(self.permit):
            share.pending -= units


class PartModel(Answer):
    """A statistic of a charge: its sensitivity, and the scales of its noise, in lattice units."""

    statistic: str
    distribution: Annotated[Distribution, Field(strict=False)]
    sensitivity: Rational
    norm: Literal["L1", "L2 squared"]
    copies: int
    scales: Annotated[tuple[Digits, ...], Field(strict=False)]


class Answered(Event):
    """Members of an entry of an answer."""

    is_use = True

    dataset: str
    release: str
    request_digest: Digest
    answer_digest: Digest
    snapshot: Digest
    permit: PermitId | Absent = left_out()
    project: str | Absent = left_out()
    release_kind: str


class Charge(Answered):
    """A release was charged."""

    kind = "charge"
    meaning = "a release was charged"
    amounts = Units.SOME
    units_are = "spent"

    mechanism: Annotated[tuple[PartModel, ...], Field(strict=False)]
    curvature: Rational | Absent = left_out()
    reservation: Annotated[str | Absent, Field(description="Where it was held before")] = left_out()

    @property
    def charged(self) -> Charged:
        """Of what it is summed."""
        return Charged(
            self.time[:7], self.actor, self.permit or "", self.project or "", self.dataset, self.release_kind
        )

    def asked(self, units: int) -> Asked:
        """Return the release as the rules of a permit see it."""
        return Asked(self.release_kind, self.dataset, units)

    def move(self, place: Place, account: Account) -> None:
        """Post the amount, which may have been held before."""
        units, held = int(place.units), 0
        if self.reservation is not None:
            held = units
            account.draw(self.reservation, units, whole=self.reservation.startswith("job_"))
        account.posted += units
        account.pending -= held
        account.count(self.charged, units)
        for share in account.find_shares(self.permit):
            share.spend(self.actor, self.asked(units), self.time, posted=units, pending=-held)


class Derive(Answered):
    """An answer was cut out of a stored one."""

    kind = "derive"
    meaning = "an answer was cut out of a stored one"

    source: str
