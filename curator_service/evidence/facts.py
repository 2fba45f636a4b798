"""Facts of an evidence pack: releases, their permit and their accounts, as attested entries and declarations say.

Nothing here depends on rows but the released answers themselves.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from curator_service.datasets.repository import Dataset
from curator_service.kinds.base import KindWords
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.chain.keys import PublicKey
from curator_service.ledger.repository import Population

CURATOR = "curator"
"""The actor of entries that nobody asked for, such as a cut."""
OPERATOR = "operator:"
"""Before the name of an actor who acted at the machine."""


@dataclass(frozen=True)
class Entry:
    """An entry of the ledger: its receipt, to the byte, and what it says."""

    receipt: Receipt

    @cached_property
    def says(self) -> dict[str, Any]:
        """The entry's members, without its hash and its signature."""
        said: dict[str, Any] = json.loads(self.receipt.payload_text)
        return said

    @property
    def population(self) -> str:
        """The population in whose chain it stands."""
        return str(self.says["population"])

    @property
    def sequence(self) -> int:
        """Its place in the chain."""
        return int(self.says["sequence"])

    @property
    def time(self) -> str:
        """Moment of the entry."""
        return str(self.says["time"])

    @property
    def file_name(self) -> str:
        """The name of the file that holds its receipt."""
        return f"{self.population}-{self.sequence}.json"


@dataclass(frozen=True)
class ReleaseFacts:
    """A release.

    Attributes
    ----------
    id : str
    entry : Entry
        Of its charge; or that it was cut out of a stored answer, at no cost.
    source : Entry or None
        The charge of the release that it was cut out of.
    dataset : Dataset
    kind : str
    answer : dict
        What the answer states; of its statistics the shape, and how many numbers they are.
    body : bytes
        The answer with its receipt, as it was sent; empty where the pack is without it.
    columns : tuple of str
        Names of the columns that it is about.
    asked : str
        The question, in words.
    words : KindWords
        Of its kind.
    """

    id: str
    entry: Entry
    source: Entry | None
    dataset: Dataset
    kind: str
    answer: dict[str, Any] = field(repr=False)
    body: bytes = field(repr=False)
    columns: tuple[str, ...]
    asked: str
    words: KindWords = field(repr=False)

    @property
    def charge(self) -> Entry:
        """The entry that says what its noise cost: its own, or that of its source."""
        return self.source or self.entry

    @property
    def units(self) -> int:
        """Cost of its noise, in units of the account; for a part of a stored answer, the cost of that answer."""
        return int(self.charge.says["units"])


@dataclass(frozen=True)
class SessionFacts:
    """A threshold session as its entries have it.

    Attributes
    ----------
    opened : Entry
    answers : tuple of Entry
    closed : Entry or None
        None where nobody closed it.
    is_open : bool
        Whether it may answer more questions, by its chain.
    """

    opened: Entry
    answers: tuple[Entry, ...]
    closed: Entry | None
    is_open: bool

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.opened.says["session"])

    def list_files(self, *, has_answers: bool) -> dict[str, Entry]:
        """Return the entries that a pack quotes, by their paths: of answers, which are released, where it has them."""
        found = {"opened": self.opened} | ({} if self.closed is None else {"closed": self.closed})
        if has_answers:
            found |= {f"answer-{entry.says['number']}": entry for entry in self.answers}
        return {f"sessions/{self.id}/{name}.json": entry for name, entry in found.items()}


@dataclass(frozen=True)
class PermitFacts:
    """A permit as its entries have it.

    Attributes
    ----------
    id : str
    entries : tuple of Entry
        Of every population, in the order of population and sequence.
    spent : dict of str to int
        What was posted and is held under it, by population, in units.
    """

    id: str
    entries: tuple[Entry, ...]
    spent: dict[str, int]

    def in_force(self, population: str, before: int | None = None) -> Entry | None:
        """Return the entry that held when an entry of a population was written; at last if none is given.

        One that ended the permit names nobody: then the one before it, whose terms they were.
        """
        own = [entry for entry in self.entries if entry.population == population]
        named = [entry for entry in own if entry.says["people"] and (before is None or entry.sequence < before)]
        return named[-1] if named else None

    @property
    def last(self) -> Entry:
        """The latest terms."""
        named = [entry for entry in self.entries if entry.says["people"]] or list(self.entries)
        return max(named, key=lambda entry: (entry.says["version"], entry.population))

    @property
    def highest_limits(self) -> dict[str, int | None]:
        """The highest part of each population's budget that it ever might spend, in units; None for all of it."""
        found: dict[str, int | None] = {}
        for population in dict.fromkeys(entry.population for entry in self.entries):
            named = [entry for entry in self.entries if entry.population == population and entry.says["people"]]
            limits = [entry.says.get("permit_limit") for entry in named or [self.last]]
            found[population] = None if None in limits else max(int(limit) for limit in limits if limit is not None)
        return found

    @property
    def people(self) -> dict[str, str]:
        """Names of everybody who ever might spend under it, by id."""
        return {who: name for entry in self.entries for who, name in entry.says["people"].items()}

    @property
    def ended_at(self) -> str:
        """Moment of an end before its time; empty if there was none."""
        final = {population: self._final(population) for population in self.highest_limits}
        ended = [entry.time for entry in final.values() if not entry.says["people"]]
        return max(ended) if len(ended) == len(final) else ""

    def _final(self, population: str) -> Entry:
        return [entry for entry in self.entries if entry.population == population][-1]


@dataclass(frozen=True)
class Evidence:
    """Everything that a pack states.

    Attributes
    ----------
    subject : str
        The id of the release, or of the permit, that the pack is of.
    is_of_permit : bool
    as_of : str
        The moment of the latest entry of the accounts: a pack is a function of what is stored, and of no clock.
    releases : tuple of ReleaseFacts
    sessions : tuple of SessionFacts
        Of a permit.
    permit : PermitFacts or None
        None where it is not the reader's to see.
    accounts : dict of str to Population
    names : dict of str to str
        Of principals, by id: the name that the chain has, and behind it the displayed one.
    keys : tuple of PublicKey
        From the curator's first one to the last that signed something in the pack.
    has_answers : bool
        Whether the pack holds the released numbers.
    datasets : tuple of Dataset
        By name: that of the release, or those that the permit ever was for.
    identified : frozenset of str
        Ids of the datasets that keep identifiers, encrypted.
    """

    subject: str
    is_of_permit: bool
    as_of: str
    releases: tuple[ReleaseFacts, ...]
    permit: PermitFacts | None
    accounts: dict[str, Population]
    names: Mapping[str, str]
    keys: Sequence[PublicKey]
    has_answers: bool
    datasets: tuple[Dataset, ...]
    identified: frozenset[str] = frozenset()
    sessions: tuple[SessionFacts, ...] = ()

    def terms(self, release: ReleaseFacts | None = None) -> Entry | None:
        """Return the permit's entry that a release was charged under, or its latest terms; None if none is known."""
        if self.permit is None:
            return None
        if release is None:
            return self.permit.last
        return self.permit.in_force(release.entry.population, release.entry.sequence)

    def name_of(self, actor: str) -> str:
        """Return what an actor is called; of a principal whose name is not the reader's to see, the id."""
        return self.names.get(actor, actor)

    def list_people(self, terms: Entry) -> list[str]:
        """Return what the people of a permit's terms are called."""
        return sorted(map(self.name_of, terms.says["people"]))
