"""An account as entries add up to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from curator_service.entries.rules import Asked, Rule, find_broken, is_wider

GENESIS = "0" * 64
EPOCH_FIRST = 1
FOR_EVER = ""
"""The end of a permit that has none."""


class Unfounded(Exception):
    """An entry that does not follow from those before it; the message says why."""


@dataclass(slots=True)
class Share:
    """Share that one permit has of an account; without a limit of its own it is bound by the account's.

    Attributes
    ----------
    limit : int or None
    posted, pending : int
        Units.
    expires_at : str
        When nothing is charged any more; empty for a permit without an end.
    people, datasets : frozenset of str
        Ids of who may spend, and names of what of; the chain alone says so.
    stated : tuple of str
        Project, purpose, legal basis and conditions: what the second person agreed to.
    rules : mapping of str to Rule
        By their names.
    """

    limit: int | None = None
    posted: int = 0
    pending: int = 0
    expires_at: str = FOR_EVER
    people: frozenset[str] = field(default=frozenset(), compare=False)
    datasets: frozenset[str] = field(default=frozenset(), compare=False)
    stated: tuple[str, ...] = field(default=(), compare=False)
    rules: Mapping[str, Rule[Any]] = field(default_factory=dict, compare=False)

    def spend(self, actor: str, asked: Asked | None, moment: str, *, posted: int = 0, pending: int = 0) -> None:
        """Add amounts if the permit lets the actor spend them now, and on the request.

        Raises
        ------
        Unfounded
        """
        self.posted += posted
        self.pending += pending
        self.check_limit()
        if actor not in self.people:
            raise Unfounded("the permit is somebody else's")
        if asked is not None and asked.dataset not in self.datasets:
            raise Unfounded("the permit is for other datasets")
        broken = None if asked is None else find_broken(self.rules, asked)
        if broken is not None:
            raise Unfounded(f"the permit's rule {broken.name!r} does not allow it")
        if self.expires_at and moment >= self.expires_at:
            raise Unfounded("the permit had expired")

    @property
    def project(self) -> str:
        """What the permit is for; empty for a plain grant."""
        return self.stated[0] if self.stated else ""

    def check_limit(self) -> None:
        """Check that what is posted and held is within the limit.

        Raises
        ------
        Unfounded
        """
        if self.limit is not None and self.posted + self.pending > self.limit:
            raise Unfounded("the charges exceed the limit of a permit")

    def is_wider_than(self, before: "Share | None") -> bool:
        """Tell whether it allows more than before, or something else."""
        if before is None:
            return True
        ended = before.expires_at != FOR_EVER
        longer = ended and (self.expires_at == FOR_EVER or self.expires_at > before.expires_at)
        higher = before.limit is not None and (self.limit is None or self.limit > before.limit)
        others = not self.people <= before.people or not self.datasets <= before.datasets
        looser = is_wider(self.rules, before.rules)
        return longer or higher or others or looser or self.stated != before.stated


@dataclass(slots=True)
class OpenThresholds:
    """A threshold session that is open, and its answers so far."""

    dataset: str
    positives_max: int
    answered: int = 0
    positives: int = 0


class Sessions(dict[str, OpenThresholds]):
    """The threshold sessions of an account that are open, by their ids."""

    def open(self, session: str, dataset: str, positives: int) -> None:
        """Open one. Raise `Unfounded` if its id is taken."""
        if session in self:
            raise Unfounded("the session is open already")
        self[session] = OpenThresholds(dataset, positives)

    def answer(self, session: str, number: int, positives: int, *, is_positive: bool) -> None:
        """Count an answer; the last positive one ends the session.

        Raises
        ------
        Unfounded
            If the session is not open, or the answer is not its next one.
        """
        found = self.get(session)
        if found is None:
            raise Unfounded("the entry answers a question of a session that is not open")
        if (number, positives) != (found.answered + 1, found.positives):
            raise Unfounded("the entry is not the next answer of its session")
        self.reach(session, number, positives + is_positive)

    def reach(self, session: str, answered: int, positives: int) -> None:
        """Note how many answers an open session has given; the last positive one ends it."""
        found = self[session]
        found.answered, found.positives = answered, positives
        if positives == found.positives_max:
            del self[session]

    def close(self, session: str) -> None:
        """End one. Raise `Unfounded` if it is not open."""
        if self.pop(session, None) is None:
            raise Unfounded("the entry closes a session that is not open")

    def end_of(self, dataset: str) -> None:
        """End those of a dataset: it has other rows from here on, or none."""
        for session in [session for session, found in self.items() if found.dataset == dataset]:
            del self[session]


class Charged(NamedTuple):
    """Of what charges are summed: month, analyst's id, permit, project, dataset's name, and kind of release."""

    month: str
    actor: str
    permit: str
    project: str
    dataset: str
    kind: str


@dataclass(slots=True)
class Account:
    """An account as its rows state it, or as its chain implies it.

    Attributes
    ----------
    limit, posted, pending : int
        Units.
    highest_limit : int
        The highest that the limit ever was, in units: that of the guarantee. Of limits that two people replaced before
        the first use none counts.
    is_used : bool
        Whether the chain has an entry that is a use; of an account's rows it is not asked.
    sequence, epoch : int
    head : str
        The hash of the last entry.
    terms : tuple of str
        Adjacency, accountant, delta and time of creation, which the opening entry fixes for good.
    shares : dict
        By permit.
    reservations : dict of str to int
        What is left of each open reservation.
    spending : dict of Charged to (int, int)
        How many charges there were, and their units.
    sessions : Sessions
        Of a chain; the account's rows do not have them.
    """

    limit: int = 0
    highest_limit: int = 0
    posted: int = 0
    pending: int = 0
    sequence: int = 0
    epoch: int = EPOCH_FIRST
    head: str = GENESIS
    terms: tuple[str, ...] = ()
    shares: dict[str, Share] = field(default_factory=dict)
    reservations: dict[str, int] = field(default_factory=dict)
    spending: dict[Charged, tuple[int, int]] = field(default_factory=dict)
    is_used: bool = field(default=False, compare=False)
    sessions: Sessions = field(default_factory=Sessions, compare=False)

    def find_shares(self, permit: str | None) -> Iterable[Share]:
        """Return the share that an entry touches: its permit's; none where nobody needs a permit.

        Raises
        ------
        Unfounded
        """
        if permit is not None:
            if permit not in self.shares:
                raise Unfounded("the entry names a permit that was not granted")
            return [self.shares[permit]]
        if self.shares:
            raise Unfounded("the entry names no permit")
        return []

    def draw(self, reservation: str, units: int, *, whole: bool = False) -> None:
        """Take an amount from an open reservation; with `whole`, all of it, which ends it.

        Raises
        ------
        Unfounded
        """
        left = self.reservations.get(reservation, -1) - units
        if left < 0 or (whole and left):
            raise Unfounded("the entry takes another amount than was left of the reservation")
        self.reservations[reservation] = left
        if whole:
            del self.reservations[reservation]

    def count(self, charged: Charged, units: int, charges: int = 1) -> None:
        """Add charges to the sum of those like them."""
        before, sum_of_units = self.spending.get(charged, (0, 0))
        self.spending[charged] = before + charges, sum_of_units + units
