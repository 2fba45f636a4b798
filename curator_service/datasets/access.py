"""The answer to a person who asks: datasets with rows of theirs, answers since, and what these may tell.

All of it is for the operator, who hands it to that person and to nobody else: that a dataset holds somebody is a fact
about rows. What answers may tell is counted so that it is never too little (see `Exposure`).
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from curator_service.datasets import repository
from curator_service.datasets.repository import ERASE, REPLACE, WITHDRAWN, Change, Dataset
from curator_service.datasets.subjects import (
    Presence,
    find_identified,
    find_person,
    make_pseudonyms,
    tells_persons_apart,
)
from curator_service.datasets.versions import VersionService
from curator_service.entries.amounts import Answered, Charge, Derive
from curator_service.entries.base import Entry, Event
from curator_service.entries.recovery import Reconcile
from curator_service.entries.rows import Dataset as DatasetEntry
from curator_service.entries.sessions import KIND, AnswerQuestion, OpenSession
from curator_service.kit.clock import timestamp
from curator_service.kit.db import Connection
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.repository import Population, list_populations
from curator_service.ledger.service import LedgerService
from curator_service.privacy.guessing import Limits

_OfRows = DatasetEntry | Answered | OpenSession | AnswerQuestion | Reconcile


class AccessError(ValueError):
    """Nothing that is certain can be said; the message says why, for the operator."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that an analyst got, as its entry in the ledger has it.

    Attributes
    ----------
    sequence : int
    time : str
    dataset : str
    kind : str
    is_free : bool
        Cut out of one that was charged before: it told nothing new. Or of a threshold session whose first answer counts
        as charged.
    concerns : bool
        Whether it was made of rows that hold, or may have held, the person.
    """

    sequence: int
    time: str
    dataset: str
    kind: str
    is_free: bool
    concerns: bool


@dataclass(frozen=True, slots=True)
class Erasure:
    """A request that a dataset forgets a person: waiting, or done.

    Attributes
    ----------
    dataset : str
    asked_at : str
    version : int or None
        The first version without the person's rows; None before it is cut.
    due : str
        When that will be; empty when it is over.
    """

    dataset: str
    asked_at: str
    version: int | None
    due: str


@dataclass(frozen=True, slots=True)
class Exposure:
    """The charges, held amounts and written-off amounts of a population that may concern a person.

    It begins with the first entry about a dataset of which it is not certain that it never held the person. That is
    certain where all rows can be searched and none is the person's, rows were never replaced, and nobody asked that the
    person be forgotten. Every charge from there on counts, whatever its dataset; so does every amount that is held, for
    it may be spent by now; and whatever was ever written off, for nobody knows what rows lost entries were about.

    Attributes
    ----------
    population : Population
    since : int
        The sequence of that entry; 0 if there is none, and it is about what was written off.
    since_time : str
    spent : int
        The sum of the charges and of the amounts held, in units. It is no bound on what was learnt.
    held, written_off : int
        Units among them: that are held, and that were written off before `since`.
    answers : tuple of Answer
        From `since` on.
    """

    population: Population
    since: int
    since_time: str
    spent: int
    held: int
    written_off: int
    answers: tuple[Answer, ...]

    @property
    def ever(self) -> int:
        """The most that it can grow to, in units, unless the population's limit is raised above the highest so far.

        The highest limit counts, not today's: a limit that was lowered after answers was not fixed before them.
        """
        return self.spent + self.population.highest_limit - self.population.posted - self.population.pending


@dataclass(frozen=True, slots=True)
class Access:
    """The answer to a person who asks.

    Attributes
    ----------
    as_of : str
    held : tuple of Presence
    searched : int
        How many datasets could be searched.
    unsearched : tuple of Dataset
        Those in which nothing says whose a row is.
    exposures : tuple of Exposure
        Of the populations that hold, or may have held, the person; of every one, if nothing was found.
    erasures : tuple of Erasure
    registered : dict of str to int
        The sequence of each dataset's registration, by its id.
    due : dict of str to str
        When each dataset that holds the person is cut next, by its id.
    identified : frozenset of str
        The ids of the datasets that keep identifiers, encrypted.
    """

    as_of: str
    held: tuple[Presence, ...]
    searched: int
    unsearched: tuple[Dataset, ...]
    exposures: tuple[Exposure, ...]
    erasures: tuple[Erasure, ...]
    registered: dict[str, int]
    due: dict[str, str]
    identified: frozenset[str]

    @property
    def datasets(self) -> list[Dataset]:
        """The datasets that hold the person."""
        return list({presence.dataset.id: presence.dataset for presence in self.held}.values())

    @property
    def ever(self) -> Limits:
        """The most that can ever be charged under the limits so far, by population."""
        return [(exposure.population.accountant, exposure.ever) for exposure in self.exposures]


def find_access(versions: VersionService, identifier: str) -> Access:
    """Find what is said to a person.

    Parameters
    ----------
    versions : VersionService
        Of a curator that is not sealed.
    identifier : str
        As the source of the rows wrote it.

    Raises
    ------
    AccessError
        If a ledger does not hold.
    RowsUnreadable, SigningError
    """
    ledger, storage = versions.ledger, versions.storage
    keys = ledger.guard.keys
    with ledger.database.snapshot() as connection:
        datasets, changes = repository.list_datasets(connection, granted_to=None), repository.list_changes(connection)
        chains = [(found, _read_chain(ledger, connection, found)) for found in list_populations(connection)]
    searched = [dataset for dataset in datasets if tells_persons_apart(storage, dataset, identifier)]
    held = tuple(find_person(storage, keys, datasets, identifier, changes))
    changes = [change for change in changes if change.version != WITHDRAWN]
    erasures = _find_erasures(changes, make_pseudonyms(keys, identifier))
    replaced = {change.dataset_id for change in changes if change.act == REPLACE and change.version is not None}
    doubtful = replaced | {change.dataset_id for change in erasures} | {presence.dataset.id for presence in held}
    # Of somebody who is not found, rows may have been removed: then everything that was ever spent counts.
    absent = {d.id for d in searched if not d.is_retired and d.id not in doubtful} if held else set()
    exposures = (_expose(population, entries, absent) for population, entries in chains)
    known = {dataset.id: dataset for dataset in datasets}
    return Access(
        as_of=timestamp(ledger.now()),
        held=held,
        searched=len(searched),
        unsearched=tuple(dataset for dataset in datasets if dataset not in searched),
        exposures=tuple(exposure for exposure in exposures if exposure is not None),
        erasures=tuple(
            Erasure(
                known[change.dataset_id].name,
                change.asked_at,
                change.version,
                "" if change.version is not None else versions.due(known[change.dataset_id]),
            )
            for change in erasures
        ),
        registered={
            entry.said.dataset_id: entry.place.sequence
            for _, entries in chains
            for entry in reversed(entries)
            if isinstance(entry.said, DatasetEntry)
        },
        due={presence.dataset.id: versions.due(presence.dataset) for presence in held},
        identified=find_identified(storage, datasets),
    )


def _read_chain(ledger: LedgerService, connection: Connection, population: Population) -> list[Entry[_OfRows]]:
    """Return the entries on rows, their answers and written-off amounts of a chain that holds."""
    entries: list[Entry[_OfRows]] = []

    def watch(_stored: StoredEntry, entry: Entry[Event]) -> None:
        said = entry.said
        if isinstance(said, Charge):  # the mechanism of every charge ever would take memory
            said = said.model_copy(update={"mechanism": ()})
        if isinstance(said, _OfRows):
            entries.append(Entry(entry.place, said))

    found = ledger.verify_within(connection, population.name, watch=watch)
    if not found.ok:
        raise AccessError(
            f"the ledger of {population.name!r} does not hold at sequence {found.bad_sequence}: what was spent is not "
            "certain. `curator ledger verify` says more"
        )
    return entries


def _find_erasures(changes: list[Change], pseudonyms: Mapping[str, bytes]) -> list[Change]:
    asked = [(change, json.loads(change.content)["pseudonyms"]) for change in changes if change.act == ERASE]
    return [
        change
        for change, named in asked
        if any(named.get(key_id) == pseudonym.hex() for key_id, pseudonym in pseudonyms.items())
    ]


def _expose(population: Population, entries: list[Entry[_OfRows]], absent: Collection[str]) -> Exposure | None:
    # Names stay taken; were one given to two datasets by a damaged database, neither would be certain.
    owners = {(one.said.dataset, one.said.dataset_id) for one in entries if isinstance(one.said, DatasetEntry)}
    doubtful = {name for name, dataset_id in owners if dataset_id not in absent}
    sessions = {one.said.session: one.said.dataset for one in entries if isinstance(one.said, OpenSession)}

    def dataset_of(said: DatasetEntry | Answered | OpenSession | AnswerQuestion) -> str:
        return sessions[said.session] if isinstance(said, AnswerQuestion) else said.dataset

    first = next(
        (one for one in entries if not isinstance(one.said, Reconcile) and dataset_of(one.said) in doubtful), None
    )
    since = population.sequence + 1 if first is None else first.place.sequence
    lost = sum(
        int(one.place.units) for one in entries if isinstance(one.said, Reconcile) and one.place.sequence < since
    )
    if first is None:
        return Exposure(population, 0, "", lost, 0, lost, ()) if lost else None
    answers = tuple(
        Answer(
            sequence=one.place.sequence,
            time=one.said.time,
            dataset=dataset_of(one.said),
            kind=KIND if isinstance(one.said, AnswerQuestion) else one.said.release_kind,
            is_free=one.said.number > 1 if isinstance(one.said, AnswerQuestion) else isinstance(one.said, Derive),
            concerns=dataset_of(one.said) in doubtful,
        )
        for one in entries
        if isinstance(one.said, Answered | AnswerQuestion) and one.place.sequence > since
    )
    spent = population.posted - int(first.place.posted) + population.pending + lost
    return Exposure(population, since, first.said.time, spent, population.pending, lost, answers)
