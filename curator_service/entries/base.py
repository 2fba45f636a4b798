"""An entry: its place in a chain, and what it says. A kind of entries is a class, and declaring it registers it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Generic, Literal, NotRequired, TypedDict, TypeVar

from pydantic import ConfigDict, Field

from curator_service.entries.account import Account, Charged, Unfounded
from curator_service.entries.told import Told
from curator_service.kit.wire import STRICT, Answer, Digest, Digits, Moment

FORMAT = 2
REGISTER = "_register"
"""The chain of the curator's own acts, a name that no population may have. Its limit is 0: nothing is charged to it."""
KeyId = Annotated[str, Field(pattern=r"^key_[0-9a-f]{32}$")]
ProposalId = Annotated[str, Field(pattern=r"^prp_[0-9a-f]{24}$", description="What was proposed; the register has it")]


class Place(Answer):
    """Place of an entry, its amount, and the account there."""

    format: Literal[2]
    population: str
    sequence: int
    previous_hash: Digest
    units: Digits
    epoch: int
    limit: Digits
    posted: Digits
    pending: Digits
    key_id: KeyId


class Decision(TypedDict):
    """Members of an entry for a decision: actor, approver, time and reason."""

    actor: str
    approved_by: str
    reason: str
    time: str
    proposal: NotRequired[str]


class Units(Enum):
    """Amounts that an entry of a kind may have."""

    NONE = "none"
    SOME = "some"
    ANY = "any"

    def allow(self, units: int) -> bool:
        """Tell whether an amount is one of them."""
        return self is Units.ANY or (units > 0) is (self is Units.SOME)


class Event(Answer):
    """Statement of an entry.

    Attributes
    ----------
    kind : str
        The name of the class in an entry.
    meaning : str
        What an entry of this kind does, for people.
    in_populations, in_register : bool
        The chains in which it stands.
    amounts : Units
    units_are : str
        What the amount is.
    is_use : bool
        Whether something was, or may have been, answered under a limit after it.
    actor : str
        Id of a principal, or ``operator:NAME``, or ``curator``.
    time : str
    """

    model_config = ConfigDict(**STRICT, validate_by_name=True, validate_by_alias=True)
    kind: ClassVar[str]
    meaning: ClassVar[str] = ""
    in_populations: ClassVar[bool] = True
    in_register: ClassVar[bool] = False
    amounts: ClassVar[Units] = Units.NONE
    units_are: ClassVar[str] = "0"
    is_use: ClassVar[bool] = False

    actor: str
    time: Moment

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Register a kind."""
        if "kind" in vars(cls) and KINDS.setdefault(cls.kind, cls) is not cls:
            raise TypeError(f"a kind {cls.kind!r} is declared already")

    @property
    def charged(self) -> Charged | None:
        """Of what the entry's amount is summed as spent; None where it is no charge."""
        return None

    def move(self, place: Place, account: Account) -> None:
        """Move the account as the entry says: by default not at all.

        Raises
        ------
        Unfounded
            If the account does not allow it.
        """

    def tell(self, told: Told) -> None:
        """Add what the entry says beside amounts: by default nothing."""

    @property
    def payload(self) -> dict[str, Any]:
        """Its members as JSON."""
        return {"kind": self.kind, **self.model_dump(mode="json", by_alias=True)}


KINDS: dict[str, type[Event]] = {}
"""Every kind of entries that was declared, by its name."""
E = TypeVar("E", bound=Event)
_Said_co = TypeVar("_Said_co", bound=Event, covariant=True)


@dataclass(frozen=True, slots=True)
class Entry(Generic[_Said_co]):
    """An entry as it was read."""

    place: Place
    said: _Said_co

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> "Entry[Any]":
        """Read an entry.

        Raises
        ------
        ValueError, KeyError, TypeError
            If it is none of a declared kind, to the letter.
        """
        members = dict(payload)
        if None in members.values():
            raise ValueError("a member that says nothing is left out")
        kind = KINDS[members.pop("kind")]
        place = Place.model_validate({name: members.pop(name) for name in Place.model_fields})
        return Entry(place, kind.model_validate(members, by_alias=True, by_name=False))

    def move(self, account: Account) -> None:
        """Move an account by this entry, the next one of its chain.

        Raises
        ------
        Unfounded
            If the account does not allow it, or the entry states another one than follows.
        """
        place, said, units = self.place, self.said, int(self.place.units)
        if place.population == REGISTER:
            if units or not said.in_register:
                raise Unfounded(f"an entry of kind {said.kind!r} with {units} units does not belong into the register")
        elif not said.in_populations or not said.amounts.allow(units):
            raise Unfounded(f"an entry of kind {said.kind!r} with {units} units does not belong here")
        said.move(place, account)
        account.is_used = account.is_used or said.is_use
        account.highest_limit = max(account.highest_limit, account.limit)
        if account.posted + account.pending > account.limit:
            raise Unfounded("the charges exceed the limit")
