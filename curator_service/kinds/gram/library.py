"""Answers from a stored ``gram`` release, and the way to cut them out of it.

A release holds a request if it is of the same shelf (`GramListing.row_rule`: equal rows and weights) and holds every
entry that is asked, in whatever order its columns stand.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from curator_service.kinds.gram.differences import tell_difference
from curator_service.kinds.gram.listing import GramListing
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.design import Term

NOISE_NAMES = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")
"""The standard deviations that an answer states, in their fixed order."""


class GramLibrary:
    """Rules of the library for sufficient statistics; see `base.LibraryRules`."""

    extras: ClassVar[tuple[str, ...]] = ()

    def least_sd(self, stored: GramListing) -> float:
        """Return that of XᵀX, which every release that answers a request for it has."""
        return stored.sd.get("xtx_offdiagonal", 0.0)

    def most_sd(self, asked: GramListing) -> float:
        """Return that of XᵀX, if it is asked."""
        return asked.sd.get("xtx_offdiagonal", math.inf)

    def covers(self, stored: GramListing, asked: GramListing) -> bool:
        """Tell whether a release holds every column, in any role, and its constant and levels."""
        return stored.covers(asked)

    def block_sd(self, stored: GramListing, asked: GramListing) -> dict[str, float] | None:
        """Return the standard deviations of a block; None where one of its statistics is not held."""
        parts = _find_parts(asked, stored)
        if parts is None:
            return None
        sd = _sd_of_parts(stored, parts)
        return {name: sd[name] for name in NOISE_NAMES if name in sd}

    def cut(self, stored: GramListing, asked: GramListing, statistics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the values of a block, by statistic."""
        parts = _find_parts(asked, stored)
        assert parts is not None
        places = _places(asked, stored, parts)
        return {
            statistic.value: {
                "values": [statistics[parts[statistic].value]["values"][place] for place in places[statistic]]
            }
            for statistic in Statistic
            if statistic in parts
        }

    def tell_difference(self, stored: GramListing, asked: GramListing, block_sd: Mapping[str, float] | None) -> str:
        """Say what is different in a stored release; see `differences`."""
        return tell_difference(stored, asked, block_sd)


def _find_parts(asked: GramListing, stored: GramListing) -> dict[Statistic, Statistic] | None:
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


def _places(
    asked: GramListing, stored: GramListing, parts: Mapping[Statistic, Statistic]
) -> dict[Statistic, list[int]]:
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


def _sd_of_parts(stored: GramListing, parts: Mapping[Statistic, Statistic]) -> dict[str, float]:
    """Return the standard deviations of a block as an answer states them."""
    sd: dict[str, float] = {}
    for statistic, part in parts.items():
        if statistic is Statistic.XTX:  # a diagonal entry stays one, whatever is left out
            sd |= {name: stored.sd[name] for name in ("xtx_diagonal", "xtx_offdiagonal")}
        else:
            # A target among the terms is a block under the box alone, which has one scale for all of XᵀX.
            sd[statistic.value] = stored.sd["xtx_offdiagonal" if part is Statistic.XTX else part.value]
    return sd
