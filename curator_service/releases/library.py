"""The library of releases: a request that a stored one answers already costs nothing.

A stored release answers a request if it is of the same shelf (`Listing.shelf`: equal rows and weights), holds every
entry that is asked, and is nowhere noisier than asked. With exactly the entries of the request it is the answer, in
whatever order they stand; with more, the answer is cut out of it, by the rules of its kind. Anything else that holds
the columns is offered under its own name, never in place of what was asked.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import inf
from typing import Any

from curator_service.datasets.visibility import collection_of
from curator_service.kinds.listing import Listing
from curator_service.kinds.registry import AnyKind
from curator_service.kit.db import Connection
from curator_service.ledger.accounts.unit_of_work import Contradiction
from curator_service.releases import catalogue
from curator_service.releases.answers import make_listing, read_about
from curator_service.releases.catalogue import Holders, Listed
from curator_service.releases.preparation import Prepared

_OFFERS_MAX = 3
_FEW = 128
"""The quietest of a shelf are asked whether they hold the columns; beyond the first page, so few holders are looked at
one by one."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A stored release that covers a request and is not the same thing: its id, and what is different."""

    release_id: str
    difference: str


class Search:
    """Search of the catalogue for one request. It only nominates: the caller checks the entry of a release.

    Every method raises `Contradiction` where the catalogue is not one that this curator wrote.

    Parameters
    ----------
    principal_id : str
        Who asks: where a dataset's releases are for whoever asked for them, only his own are found.
    """

    def __init__(self, connection: Connection, prepared: Prepared, principal_id: str) -> None:
        self.connection = connection
        self.prepared = prepared
        self.rules = prepared.kind.library
        self.collection = collection_of(prepared.dataset, principal_id)
        self.asked = prepared.listing
        self.shelf = self.asked.shelf(self.collection)
        self._holders: Holders | None = None

    def find_exact(self) -> str | None:
        """Return the id of the quietest release of exactly what is asked, with no more noise; or None.

        One from the present rows, where there is one; else from an earlier version's.
        """
        members = self.asked.members(self.collection)
        return catalogue.find_exact(self.connection, members, self.asked, self._since)

    def find_source(self) -> str | None:
        """Return the id of a release out of which the request can be cut, with no more noise than asked; or None.

        Of several it is the one whose own least noise is least (`LibraryRules.least_sd`), from the present rows first.
        """
        if self.rules is None:
            return None
        found = self._find_source(lambda sequence: sequence > self._since)
        if found is None and self._since != catalogue.BEFORE_ALL:
            found = self._find_source(lambda sequence: sequence <= self._since)
        return found

    @property
    def _since(self) -> int:
        """The sequence behind which all is from the present rows."""
        return self.prepared.dataset.sequence or catalogue.BEFORE_ALL

    def _find_source(self, may_be: Callable[[int], bool]) -> str | None:
        assert self.rules is not None
        most = self.rules.most_sd(self.asked)
        for page in self._candidates(most):
            sequences = [sequence for sequence in page if may_be(sequence)]
            for listed in catalogue.iterate_sources(
                self.connection, self.collection, sequences, shelf=self.shelf, most=most
            ):
                with _reading_listing():
                    sd = _answering_sd(self.prepared.kind, self._listing(listed), self.asked)
                if sd is not None:
                    return listed.release_id
        return None

    def _candidates(self, most: float) -> Iterator[list[int]]:
        """Yield sequences of releases that may hold the request, until there are no more."""
        if not self.holders.bits:
            return
        for page in catalogue.iterate_shelf(self.connection, self.shelf, most=most):
            yield [sequence for sequence in page if sequence in self.holders]
            if len(self.holders) <= _FEW and len(page) == catalogue.FIRST_PAGE:
                yield list(self.holders.newest_first())
                return

    def list_offers(self) -> list[Offer]:
        """Return some releases that hold every column of a request and are no answer to it.

        First what another guess of the analyst's would have meant, so that nobody pays for two; then the newest.
        """
        if self.rules is None:
            return []
        newest = list(islice(self.holders.newest_first(), _OFFERS_MAX))
        others = catalogue.list_newest(self.connection, self.collection, newest)
        siblings = self._list_siblings()
        offers: list[Offer] = []
        for listed in chain(siblings, (other for other in others if other not in siblings)):
            with _reading_listing():
                difference = self._tell_difference(listed)
            if difference is not None:
                offers.append(Offer(listed.release_id, difference))
        return offers[:_OFFERS_MAX]

    def _tell_difference(self, listed: Listed) -> str | None:
        """Say why a release that covers the request is no answer; None where it does not, or is one."""
        assert self.rules is not None
        stored = self._listing(listed)
        if not self.rules.covers(stored, self.asked):
            return None
        sd = self.rules.block_sd(stored, self.asked) if listed.shelf == self.shelf else None
        if sd is not None and self.asked.is_quiet_enough(sd):
            return None
        return self.rules.tell_difference(stored, self.asked, sd)

    def _list_siblings(self) -> list[Listed]:
        """Return the quietest release of the same entries under each of the other defaults."""
        found = []
        for members in self.prepared.siblings:
            request = {**self.asked.request, **members}
            wanted = replace(self.asked, request=request, sd=dict.fromkeys(self.asked.sd, inf))
            release_id = catalogue.find_exact(self.connection, wanted.members(self.collection), wanted)
            if release_id is not None:
                found.append(catalogue.get_listed(self.connection, release_id))
        return found

    def _listing(self, listed: Listed) -> Listing:
        return make_listing(self.prepared.kind, self.prepared.dataset, listed.about)

    @property
    def holders(self) -> Holders:
        """Releases that hold every column of the request."""
        if self._holders is None:
            self._holders = catalogue.find_holders(self.connection, self.collection, self.asked)
        return self._holders


@contextmanager
def _reading_listing() -> Iterator[None]:
    """Tell a listing that its kind's rules cannot read: its text, of which they read what they need, is not ours."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise Contradiction("the catalogue lists a release as what it cannot be") from None


def answers(prepared: Prepared, principal_id: str, answer: str, *, exactly: bool) -> bool:
    """Tell whether a stored answer, by its own text, answers a request: whatever the catalogue says of it.

    Parameters
    ----------
    principal_id : str
        Who asks.
    exactly : bool
        Whether it must be the answer as it stands, or may be one that the answer is cut out of.
    """
    try:
        about = read_about(answer)
        if about["kind"] != prepared.kind.name:
            return False
        stored = make_listing(prepared.kind, prepared.dataset, about)
        asked, collection = prepared.listing, collection_of(prepared.dataset, principal_id)
        if exactly:
            return stored.members(collection) == asked.members(collection) and asked.is_quiet_enough(stored.sd)
        return stored.shelf(collection) == asked.shelf(collection) and is_source(prepared.kind, stored, asked)
    except (ValueError, KeyError, TypeError):
        return False


def will_answer(prepared: Prepared, job: Mapping[str, Any]) -> bool:
    """Tell whether the answer of a job of the same dataset, by its details, will be one to a request as it stands."""
    about = {name: json.loads(job[name]) for name in ("request", "noise") if name in job}
    if "noise" not in about:  # an earlier version began it
        return bool(about["request"] == prepared.canonical)
    if about["request"]["kind"] != prepared.kind.name:
        return False
    asked, collection = prepared.listing, prepared.dataset.id
    stored = make_listing(prepared.kind, prepared.dataset, about)
    return stored.members(collection) == asked.members(collection) and asked.is_quiet_enough(stored.sd)


def is_source(kind: AnyKind, stored: Listing, asked: Listing) -> bool:
    """Tell whether a stored answer of the shelf contains the request, with no more noise than asked."""
    return stored.derived_from is None and _answering_sd(kind, stored, asked) is not None


def cut(kind: AnyKind, stored: Listing, asked: Listing, statistics: Mapping[str, Any]) -> "Block":
    """Cut the request out of a stored answer that `is_source` accepts."""
    assert kind.library is not None
    sd = kind.library.block_sd(stored, asked)
    assert sd is not None
    return Block(kind.library.cut(stored, asked, statistics), dict(sd), stored.distribution)


@dataclass(frozen=True, slots=True)
class Block:
    """Part of a stored answer: values by statistic, standard deviations, and their distribution."""

    statistics: dict[str, dict[str, Any]]
    sd: dict[str, float]
    distribution: str


def least_sd(kind: AnyKind, listing: Listing) -> float:
    """Return the standard deviation by which the catalogue sorts releases that others may be cut from."""
    return 0.0 if kind.library is None else kind.library.least_sd(listing)


def _answering_sd(kind: AnyKind, stored: Listing, asked: Listing) -> Mapping[str, float] | None:
    """Return the standard deviations of a block that is nowhere noisier than asked, or None; of one shelf."""
    sd = None if kind.library is None else kind.library.block_sd(stored, asked)
    return sd if sd is not None and asked.is_quiet_enough(sd) else None
