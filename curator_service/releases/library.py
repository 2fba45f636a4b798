"""The library of releases: a request that a stored one answers already costs nothing.

A stored release answers a request if it is of the same shelf (`listings.shelf_of`: equal rows and weights), holds
every entry that is asked, and is nowhere noisier than asked. With exactly the entries of the request it is the answer,
in whatever order its columns stand; with more, the answer is cut out of it. Anything else that holds the columns is
offered under its own name, never in place of what was asked.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from curator_service.privacy.design import Term
from curator_service.privacy.parts import Statistic
from curator_service.releases import catalogue
from curator_service.releases.catalogue import Holders, Listed
from curator_service.releases.differences import tell_difference
from curator_service.releases.listings import (
    Listing,
    collection_of,
    listing_of_answer,
    listing_of_request,
)
from curator_service.releases.preparation import Prepared
from curator_service.releases.repository import StoredRelease

_OFFERS_MAX = 10
_FEW = 64
"""So few holders are looked at one by one; of more, the quietest of the shelf are asked whether they are among them."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A stored release that covers a request and is not the same thing: its id, and what is different."""

    release_id: str
    difference: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an entry of an answer stands in a stored one: which statistic, and which of its values."""

    statistic: Statistic
    index: int


class Search:
    """What the catalogue has for one request. It nominates: whoever serves a release checks what its entry states.

    Parameters
    ----------
    connection : Connection
    prepared : Prepared
    principal_id : str
        Who asks: where a dataset's releases are for whoever bought them, only his own are found.
    """

    def __init__(self, connection: Connection, prepared: Prepared, principal_id: str) -> None:
        self.connection = connection
        self.dataset = prepared.dataset
        self.prepared = prepared
        self.collection = collection_of(prepared.dataset, principal_id)
        self.asked = listing_of_request(prepared)
        self._holders: Holders | None = None

    def find_exact(self) -> str | None:
        """Return the id of the quietest release of exactly what is asked, with no more noise; or None."""
        return catalogue.find_exact(self.connection, self.collection, self.asked)

    def find_source(self) -> str | None:
        """Return the id of a release of which the request is a block, with no more noise than asked; or None.

        Of several it is the least noisy, as far as they are looked at.
        """
        for candidates in self._candidates():
            answering = [
                (sum(sd.values()), listed.sequence, listed.release_id)
                for listed in candidates
                if (sd := _answering_sd(self.asked, listed.listing)) is not None
            ]
            if answering:
                return min(answering)[2]
        return None

    def list_offers(self) -> list[Offer]:
        """Return releases that hold every column of a request and are no answer to it, the latest first looked at."""
        newest = [sequence for sequence, _ in zip(self.holders.newest_first(), range(_OFFERS_MAX), strict=False)]
        offers = []
        for listed in self._read(newest[::-1]):
            stored = listed.listing
            held = set(stored.design.terms) | set(stored.design.targets)
            if not (set(self.asked.design.terms) <= held and set(self.asked.design.targets) <= held):
                continue
            sd = _derived_sd(self.asked, stored) if self._is_of_shelf(stored) else None
            if sd is None or not _is_quiet_enough(sd, self.asked):
                offers.append(Offer(listed.release_id, tell_difference(stored, self.asked, sd)))
        return offers

    @property
    def holders(self) -> Holders:
        """Releases that hold every column of the request."""
        if self._holders is None:
            self._holders = catalogue.find_holders(self.connection, self.collection, self.asked.columns)
        return self._holders

    def _candidates(self) -> Iterator[list[Listed]]:
        """Yield releases of the shelf that may hold the request, until there are no more."""
        if len(self.holders) <= _FEW:
            yield [listed for listed in self._read([*self.holders.newest_first()]) if self._is_of_shelf(listed.listing)]
            return
        shelf = self.asked.shelf(self.collection)
        xtx_max = self.asked.sd.get("xtx_offdiagonal", math.inf)
        for page in catalogue.iterate_shelf(self.connection, shelf, xtx_max=xtx_max):
            yield self._read([sequence for sequence in page if sequence in self.holders])

    def _read(self, sequences: list[int]) -> list[Listed]:
        return catalogue.list_holders(self.connection, self.dataset, self.collection, sequences)

    def _is_of_shelf(self, stored: Listing) -> bool:
        return stored.shelf(self.collection) == self.asked.shelf(self.collection)


def answers(prepared: Prepared, principal_id: str, answer: str, *, exactly: bool) -> bool:
    """Tell whether a stored answer, by its own text, answers a request: whatever the catalogue says of it.

    Parameters
    ----------
    prepared : Prepared
    principal_id : str
        Who asks.
    answer : str
    exactly : bool
        Whether it must be the answer as it stands, or may be one that the answer is cut out of.
    """
    try:
        stored = listing_of_answer(prepared.dataset, answer)
    except (ValueError, KeyError, TypeError):
        return False
    asked, collection = listing_of_request(prepared), collection_of(prepared.dataset, principal_id)
    if exactly:
        return stored.members(collection) == asked.members(collection) and _is_quiet_enough(stored.sd, asked)
    same_rows = stored.shelf(collection) == asked.shelf(collection) and stored.derived_from is None
    return same_rows and _answering_sd(asked, stored) is not None


def derive_statistics(
    prepared: Prepared, source: StoredRelease
) -> tuple[dict[str, list[float]], dict[str, float], str]:
    """Cut a request's statistics out of a stored answer, of which `answers` says that they can be.

    Returns
    -------
    tuple of (dict, dict, str)
        Values by statistic, standard deviations, and the distribution of the noise.
    """
    stored, asked = listing_of_answer(prepared.dataset, source.answer), listing_of_request(prepared)
    sd = _derived_sd(asked, stored)
    assert sd is not None
    held = json.loads(source.answer)["statistics"]
    values = {
        statistic.value: [held[place.statistic.value]["values"][place.index] for place in places]
        for statistic, places in _places(asked, stored).items()
    }
    return values, sd, stored.distribution


def _places(asked: Listing, stored: Listing) -> dict[Statistic, list[_Place]]:
    """Return where each entry of each statistic stands.

    Raises
    ------
    ValueError
        If one stands nowhere.
    """
    terms = {term: i for i, term in enumerate(stored.design.terms)}
    targets = {term: i for i, term in enumerate(stored.design.targets)}
    width, count = len(terms), len(targets)

    def in_xtx(a: Term, b: Term) -> _Place:
        i, j = sorted((_at(terms, a), _at(terms, b)))
        return _Place(Statistic.XTX, i * width - i * (i - 1) // 2 + j - i)

    def in_xty(term: Term, target: Term) -> _Place:
        if target in targets and Statistic.XTY in stored.statistics:
            return _Place(Statistic.XTY, _at(terms, term) * count + targets[target])
        return in_xtx(term, target)

    def in_yty(target: Term) -> _Place:
        if target in targets and Statistic.YTY in stored.statistics:
            return _Place(Statistic.YTY, targets[target])
        return in_xtx(target, target)

    wanted = asked.design
    places: dict[Statistic, list[_Place]] = {}
    for statistic in (s for s in Statistic if s in asked.statistics):
        match statistic:
            case Statistic.XTX:
                pairs = [(a, b) for i, a in enumerate(wanted.terms) for b in wanted.terms[i:]]
                places[statistic] = [in_xtx(a, b) for a, b in pairs]
            case Statistic.XTY:
                places[statistic] = [in_xty(term, target) for term in wanted.terms for target in wanted.targets]
            case Statistic.YTY:
                places[statistic] = [in_yty(target) for target in wanted.targets]
            case Statistic.LAMBDA_MIN:
                if set(wanted.terms) != set(stored.design.terms):
                    raise ValueError("the smallest eigenvalue of a block is another number")
                places[statistic] = [_Place(Statistic.LAMBDA_MIN, 0)]
    needed = {place.statistic for found in places.values() for place in found}
    if not needed <= stored.statistics:
        raise ValueError("the release does not hold such a statistic")
    return places


def _at(places: Mapping[Term, int], term: Term) -> int:
    if term not in places:
        raise ValueError("the release does not hold such a column")
    return places[term]


def _derived_sd(asked: Listing, stored: Listing) -> dict[str, float] | None:
    """Return the standard deviations of a block as an answer states them; None if it is none, or has mixed ones."""
    try:
        places = _places(asked, stored)
    except ValueError:
        return None
    sd: dict[str, float] = {}
    for statistic, found in places.items():
        sources = {place.statistic for place in found}
        if len(sources) > 1:
            return None
        if statistic is Statistic.XTX:  # a diagonal entry stays one, whatever is left out
            sd |= {name: stored.sd[name] for name in ("xtx_diagonal", "xtx_offdiagonal")}
        else:
            # A target among the terms is a block under the box alone, which has one scale for all of XᵀX.
            name = sources.pop()
            sd[statistic.value] = stored.sd["xtx_offdiagonal" if name is Statistic.XTX else name.value]
    return sd


def _answering_sd(asked: Listing, stored: Listing) -> dict[str, float] | None:
    """Return the standard deviations of a block that is nowhere noisier than asked, or None; of one shelf."""
    sd = _derived_sd(asked, stored)
    return sd if sd is not None and _is_quiet_enough(sd, asked) else None


def _is_quiet_enough(sd: Mapping[str, float], asked: Listing) -> bool:
    return all(sd[name] <= most for name, most in asked.sd.items())


def offers_as_json(offers: list[Offer]) -> list[dict[str, Any]]:
    """Return offers as JSON."""
    return [{"release": offer.release_id, "difference": offer.difference} for offer in offers]
