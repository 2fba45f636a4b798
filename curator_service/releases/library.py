"""The library of releases: a request that a stored one answers already costs nothing.

A smaller request is a block of a stored Gram only where no column shaped rows or weights: with the box map, and columns
that omit no row. Elsewhere a stored release is offered under its own name, never in place of what was asked.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from curator_service.datasets.repository import Dataset
from curator_service.privacy.design import Design, Term
from curator_service.privacy.parts import Part, Statistic
from curator_service.privacy.rows import Box
from curator_service.releases import repository
from curator_service.releases.differences import tell_difference
from curator_service.releases.preparation import Prepared
from curator_service.releases.repository import StoredRelease
from curator_service.releases.volumes import Volume, read_volume

_DATASETS_MAX = 256
_OFFERS_MAX = 10


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


class Library:
    """What the stored releases of each dataset hold; read once, as they never change."""

    def __init__(self) -> None:
        self._shelves: OrderedDict[str, tuple[int, list[Volume]]] = OrderedDict()

    def find_source(self, connection: Connection, prepared: Prepared, *, reader: str) -> StoredRelease | None:
        """Return the least noisy release of which the request is a block, with no more noise than asked; or None.

        Parameters
        ----------
        connection : Connection
        prepared : Prepared
        reader : str
            A principal, where a dataset's releases are for whoever bought them; empty where they are for all.
        """
        if not _is_pure_block(prepared.plan.design, is_box=isinstance(prepared.plan.row_map, Box)):
            return None
        fitting = []
        for volume in self._volumes(connection, prepared.dataset):
            sd = _derived_sd(prepared, volume)
            if sd is not None and _is_quiet_enough(sd, prepared, volume):
                fitting.append((sum(sd.values()), volume.release_id))
        for _noise, release_id in sorted(fitting):
            if not reader or repository.was_given(connection, release_id, reader):
                return repository.find_release(connection, release_id)
        return None

    def list_offers(self, connection: Connection, prepared: Prepared, *, reader: str) -> list[Offer]:
        """Return stored releases that hold every column and statistic of a request, and what is different in them."""
        covering: list[tuple[Volume, dict[str, float] | None]] = []
        asked = prepared.plan.design
        is_block = _is_pure_block(asked, is_box=isinstance(prepared.plan.row_map, Box))
        for volume in self._volumes(connection, prepared.dataset):
            held = set(volume.design.terms) | set(volume.design.targets)
            if not (set(asked.terms) <= held and set(asked.targets) <= held):
                continue
            if reader and not repository.was_given(connection, volume.release_id, reader):
                continue
            sd = _derived_sd(prepared, volume) if is_block else None
            is_answer = sd is not None and _is_quiet_enough(sd, prepared, volume)
            if volume.request_digest != prepared.request_digest and not is_answer:
                covering.append((volume, sd))
        # First what another guess of the number of rows would have meant, so that nobody pays for two; then the last.
        others = [found for found in covering if found[0].request_digest not in prepared.sibling_digests]
        siblings = [found for found in covering if found[0].request_digest in prepared.sibling_digests][-2:]
        offered = siblings + others[len(siblings) - _OFFERS_MAX :]
        return [Offer(volume.release_id, tell_difference(volume, prepared, sd)) for volume, sd in offered]

    def _volumes(self, connection: Connection, dataset: Dataset) -> list[Volume]:
        after, volumes = self._shelves.get(dataset.id, (0, []))
        while page := repository.list_releases(connection, dataset.id, after=after, count=100):
            read = (read_volume(dataset, release) for release in page)
            volumes = volumes + [volume for volume in read if volume is not None]
            after = page[-1].sequence
        self._shelves[dataset.id] = after, volumes
        self._shelves.move_to_end(dataset.id)
        if len(self._shelves) > _DATASETS_MAX:
            self._shelves.popitem(last=False)
        return volumes


def derive_statistics(
    prepared: Prepared, source: StoredRelease
) -> tuple[dict[str, list[float]], dict[str, float], str]:
    """Cut a request's statistics out of a stored answer.

    Returns
    -------
    tuple of (dict, dict, str)
        Values by statistic, standard deviations, and the distribution of the noise.

    Raises
    ------
    ValueError
        If the request is not a block of it.
    """
    volume = read_volume(prepared.dataset, source)
    sd = None if volume is None else _derived_sd(prepared, volume)
    if volume is None or sd is None:
        raise ValueError("the request is not a block of this release")
    stored = json.loads(source.answer)["statistics"]
    values = {
        statistic.value: [stored[place.statistic.value]["values"][place.index] for place in places]
        for statistic, places in _places(prepared, volume).items()
    }
    return values, sd, volume.distribution


def _is_pure_block(design: Design, *, is_box: bool) -> bool:
    return is_box and not design.omitting


def _places(prepared: Prepared, volume: Volume) -> dict[Statistic, list[_Place]]:
    """Return where each entry of each statistic stands.

    Raises
    ------
    ValueError
        If one stands nowhere.
    """
    stored, asked = volume.design, prepared.plan.design
    terms = {term: i for i, term in enumerate(stored.terms)}
    targets = {term: i for i, term in enumerate(stored.targets)}
    width, count = len(stored.terms), len(stored.targets)

    def in_xtx(a: Term, b: Term) -> _Place:
        i, j = sorted((_at(terms, a), _at(terms, b)))
        return _Place(Statistic.XTX, i * width - i * (i - 1) // 2 + j - i)

    def in_xty(term: Term, target: Term) -> _Place:
        if target in targets and Statistic.XTY in volume.statistics:
            return _Place(Statistic.XTY, _at(terms, term) * count + targets[target])
        return in_xtx(term, target)

    def in_yty(target: Term) -> _Place:
        if target in targets and Statistic.YTY in volume.statistics:
            return _Place(Statistic.YTY, targets[target])
        return in_xtx(target, target)

    places: dict[Statistic, list[_Place]] = {}
    for part in prepared.plan.parts:
        match part.statistic:
            case Statistic.XTX:
                pairs = [(a, b) for i, a in enumerate(asked.terms) for b in asked.terms[i:]]
                places[part.statistic] = [in_xtx(a, b) for a, b in pairs]
            case Statistic.XTY:
                places[part.statistic] = [in_xty(term, target) for term in asked.terms for target in asked.targets]
            case Statistic.YTY:
                places[part.statistic] = [in_yty(target) for target in asked.targets]
            case Statistic.LAMBDA_MIN:
                if set(asked.terms) != set(stored.terms):
                    raise ValueError("the smallest eigenvalue of a block is another number")
                places[part.statistic] = [_Place(Statistic.LAMBDA_MIN, 0)]
    needed = {place.statistic for found in places.values() for place in found}
    if not needed <= volume.statistics:
        raise ValueError("the release does not hold such a statistic")
    return places


def _at(places: Mapping[Term, int], term: Term) -> int:
    if term not in places:
        raise ValueError("the release does not hold such a column")
    return places[term]


def _derived_sd(prepared: Prepared, volume: Volume) -> dict[str, float] | None:
    """Return the standard deviations of a block as an answer states them; None if it is none, or has mixed ones."""
    if not _is_pure_block(volume.design, is_box=volume.is_box):
        return None
    try:
        places = _places(prepared, volume)
    except ValueError:
        return None
    sd: dict[str, float] = {}
    for statistic, found in places.items():
        sources = {place.statistic for place in found}
        if len(sources) > 1:
            return None
        name = sources.pop()
        # The box has one scale for all of XᵀX.
        own = volume.sd["xtx_offdiagonal"] if name is Statistic.XTX else volume.sd[name.value]
        sd |= {"xtx_diagonal": own, "xtx_offdiagonal": own} if statistic is Statistic.XTX else {statistic.value: own}
    return sd


def _is_quiet_enough(sd: Mapping[str, float], prepared: Prepared, volume: Volume) -> bool:
    asked = prepared.noise_sd
    return volume.distribution == _distribution(prepared.plan.parts) and all(sd[name] <= asked[name] for name in sd)


def _distribution(parts: tuple[Part, ...]) -> str:
    return parts[0].distribution.value


def offers_as_json(offers: list[Offer]) -> list[dict[str, Any]]:
    """Return offers as JSON."""
    return [{"release": offer.release_id, "difference": offer.difference} for offer in offers]
