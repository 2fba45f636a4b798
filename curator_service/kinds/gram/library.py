"""The library of releases: a request that a stored one answers already costs nothing.

A stored release answers a request if it is of the same shelf (`listings.shelf_of`: equal rows and weights), holds
every entry that is asked, and is nowhere noisier than asked. With exactly the entries of the request it is the answer,
in whatever order its columns stand; with more, the answer is cut out of it. Anything else that holds the columns is
offered under its own name, never in place of what was asked.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from curator_service.datasets.visibility import collection_of
from curator_service.kinds.gram.differences import tell_difference
from curator_service.kinds.gram.listing import (
    NOISE_NAMES,
    Listing,
    listing_of,
    listing_of_answer,
    members_of,
)
from curator_service.kit.db import Connection
from curator_service.privacy.design import Term
from curator_service.privacy.parts import Statistic
from curator_service.releases import catalogue
from curator_service.releases.catalogue import Holders, Listed
from curator_service.releases.preparation import Prepared
from curator_service.releases.repository import StoredRelease

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
        self.asked = prepared.listing
        self.shelf = self.asked.shelf(self.collection)
        self._holders: Holders | None = None

    def find_exact(self) -> str | None:
        """Return the id of the quietest release of exactly what is asked, with no more noise; or None."""
        return catalogue.find_exact(self.connection, members_of(self.shelf, self.asked.request), self.asked)

    def find_source(self) -> str | None:
        """Return the id of a release of which the request is a block, with no more noise than asked; or None.

        Of several it is the one whose XᵀX has the least noise.
        """
        xtx_max = self.asked.sd.get("xtx_offdiagonal", math.inf)
        for sequences in self._candidates(xtx_max):
            for listed in catalogue.iterate_sources(
                self.connection, self.dataset, self.collection, sequences, shelf=self.shelf, xtx_max=xtx_max
            ):
                if _answering_sd(self.asked, listed.listing) is not None:
                    return listed.release_id
        return None

    def _candidates(self, xtx_max: float) -> Iterator[list[int]]:
        """Yield sequences of releases that may hold the request, until there are no more."""
        if not self.holders.bits:
            return
        for page in catalogue.iterate_shelf(self.connection, self.shelf, xtx_max=xtx_max):
            yield [sequence for sequence in page if sequence in self.holders]
            if len(self.holders) <= _FEW and len(page) == catalogue.FIRST_PAGE:
                yield list(self.holders.newest_first())
                return

    def list_offers(self) -> list[Offer]:
        """Return some releases that hold every column of a request and are no answer to it.

        First what another guess of the number of rows would have meant, so that nobody pays for two; then the newest.
        """
        newest = list(islice(self.holders.newest_first(), _OFFERS_MAX))
        others = catalogue.list_newest(self.connection, self.dataset, self.collection, newest)
        siblings = self._list_siblings()
        offers: list[Offer] = []
        for listed in chain(siblings, (other for other in others if other not in siblings)):
            stored = listed.listing
            if not stored.covers(self.asked):
                continue
            sd = _derived_sd(self.asked, stored) if listed.shelf == self.shelf else None
            if sd is None or not _is_quiet_enough(sd, self.asked):
                offers.append(Offer(listed.release_id, tell_difference(stored, self.asked, sd)))
        return offers[:_OFFERS_MAX]

    def _list_siblings(self) -> list[Listed]:
        """Return the quietest release of the same entries under each of the other default row maps."""
        found = []
        for rows in self.prepared.other_default_rows:
            request = {**self.asked.request, "rows": rows}
            wanted = replace(self.asked, request=request, sd=dict.fromkeys(NOISE_NAMES, math.inf))
            release_id = catalogue.find_exact(self.connection, wanted.members(self.collection), wanted)
            if release_id is not None:
                found.append(catalogue.get_listed(self.connection, self.dataset, release_id))
        return found

    @property
    def holders(self) -> Holders:
        """Releases that hold every column of the request."""
        if self._holders is None:
            self._holders = catalogue.find_holders(self.connection, self.collection, self.asked.columns)
        return self._holders


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
    asked, collection = prepared.listing, collection_of(prepared.dataset, principal_id)
    if exactly:
        return stored.members(collection) == asked.members(collection) and _is_quiet_enough(stored.sd, asked)
    return stored.shelf(collection) == asked.shelf(collection) and _is_source(stored, asked)


def will_answer(prepared: Prepared, job: Mapping[str, Any]) -> bool:
    """Tell whether the answer of a job of the same dataset, by its details, will be one to a request as it stands."""
    if "noise" not in job:  # an earlier version began it
        return bool(json.loads(job["request"]) == prepared.canonical)
    asked, collection = prepared.listing, prepared.dataset.id
    stored = listing_of(prepared.dataset, {name: json.loads(job[name]) for name in ("request", "noise")})
    return stored.members(collection) == asked.members(collection) and _is_quiet_enough(stored.sd, asked)


def is_block(asked: Listing, block: Mapping[str, Any], stored: Listing, source: Mapping[str, Any]) -> bool:
    """Tell whether an answer is cut out of another one of its shelf: values, standard deviations and distribution.

    Parameters
    ----------
    asked : Listing
        What the answer states of itself; its columns stand in whatever order it states.
    block : mapping
        Its statistics.
    stored : Listing
    source : mapping
        Statistics of the answer that it says that it is cut out of.
    """
    if not _is_source(stored, asked):
        return False
    held = {name: part["values"] for name, part in block.items()}
    return _cut(asked, stored, source) == (held, asked.sd, asked.distribution)


def _is_source(stored: Listing, asked: Listing) -> bool:
    """Tell whether what is asked can be cut out of a stored answer of its shelf, with no more noise than asked."""
    return stored.derived_from is None and _answering_sd(asked, stored) is not None


def derive_statistics(
    prepared: Prepared, source: StoredRelease
) -> tuple[dict[str, list[float]], dict[str, float], str]:
    """Cut a request's statistics out of a stored answer, of which `answers` says that they can be.

    Returns
    -------
    tuple of (dict, dict, str)
        Values by statistic, standard deviations, and the distribution of the noise.
    """
    answer = json.loads(source.answer)
    return _cut(prepared.listing, listing_of(prepared.dataset, answer), answer["statistics"])


def _cut(
    asked: Listing, stored: Listing, held: Mapping[str, Any]
) -> tuple[dict[str, list[float]], dict[str, float], str]:
    parts = _find_parts(asked, stored)
    assert parts is not None
    places = _places(asked, stored, parts)
    values = {
        statistic.value: [held[parts[statistic].value]["values"][place] for place in places[statistic]]
        for statistic in Statistic
        if statistic in parts
    }
    sd = _sd_of_parts(stored, parts)
    return values, {name: sd[name] for name in NOISE_NAMES if name in sd}, stored.distribution


def _find_parts(asked: Listing, stored: Listing) -> dict[Statistic, Statistic] | None:
    """Return from which statistic of a stored release each one that is asked is cut; None if one cannot be."""
    if not stored.has_terms_of(asked):
        return None
    parts: dict[Statistic, Statistic] = {}
    part: Statistic | None
    for statistic in asked.statistics:
        match statistic:
            case Statistic.XTX:
                part = Statistic.XTX
            case Statistic.LAMBDA_MIN:  # that of a block is another number
                part = Statistic.LAMBDA_MIN if stored.has_the_terms_of(asked) else None
            case _ if asked.targets <= stored.targets:
                part = statistic
            case _:  # those that are terms stand in XᵀX; some of either kind would have two noises
                part = Statistic.XTX if asked.targets <= stored.features else None
        if part is None or part not in stored.statistics:
            return None
        parts[statistic] = part
    return parts


def _places(asked: Listing, stored: Listing, parts: Mapping[Statistic, Statistic]) -> dict[Statistic, list[int]]:
    """Return where each value of each statistic stands among those of the part that it is cut from."""
    here, there = asked.design, stored.design
    terms = {term: i for i, term in enumerate(there.terms)}
    targets = {term: i for i, term in enumerate(there.targets)}
    width, count = len(terms), len(targets)

    def in_xtx(a: Term, b: Term) -> int:
        i, j = sorted((terms[a], terms[b]))
        return i * width - i * (i - 1) // 2 + j - i

    places: dict[Statistic, list[int]] = {}
    for statistic, part in parts.items():
        match statistic, part:
            case Statistic.XTX, _:
                places[statistic] = [in_xtx(a, b) for i, a in enumerate(here.terms) for b in here.terms[i:]]
            case Statistic.XTY, Statistic.XTX:
                places[statistic] = [in_xtx(term, target) for term in here.terms for target in here.targets]
            case Statistic.XTY, _:
                places[statistic] = [
                    terms[term] * count + targets[target] for term in here.terms for target in here.targets
                ]
            case Statistic.YTY, Statistic.XTX:
                places[statistic] = [in_xtx(target, target) for target in here.targets]
            case Statistic.YTY, _:
                places[statistic] = [targets[target] for target in here.targets]
            case _:
                places[statistic] = [0]
    return places


def _sd_of_parts(stored: Listing, parts: Mapping[Statistic, Statistic]) -> dict[str, float]:
    """Return the standard deviations of a block as an answer states them."""
    sd: dict[str, float] = {}
    for statistic, part in parts.items():
        if statistic is Statistic.XTX:  # a diagonal entry stays one, whatever is left out
            sd |= {name: stored.sd[name] for name in ("xtx_diagonal", "xtx_offdiagonal")}
        else:
            # A target among the terms is a block under the box alone, which has one scale for all of XᵀX.
            sd[statistic.value] = stored.sd["xtx_offdiagonal" if part is Statistic.XTX else part.value]
    return sd


def _derived_sd(asked: Listing, stored: Listing) -> dict[str, float] | None:
    parts = _find_parts(asked, stored)
    return None if parts is None else _sd_of_parts(stored, parts)


def _answering_sd(asked: Listing, stored: Listing) -> dict[str, float] | None:
    """Return the standard deviations of a block that is nowhere noisier than asked, or None; of one shelf."""
    sd = _derived_sd(asked, stored)
    return sd if sd is not None and _is_quiet_enough(sd, asked) else None


def _is_quiet_enough(sd: Mapping[str, float], asked: Listing) -> bool:
    return all(sd[name] <= most for name, most in asked.sd.items())


def offers_as_json(offers: list[Offer]) -> list[dict[str, Any]]:
    """Return offers as JSON."""
    return [{"release": offer.release_id, "difference": offer.difference} for offer in offers]
