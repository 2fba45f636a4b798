"""Differences of a stored release from a request that it covers, in words: a clause for each thing."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from curator_service.kinds.gram.listing import GramListing
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.row_maps import make_row_map

_NAMED_MAX = 5


def tell_difference(stored: GramListing, asked: GramListing, block_sd: Mapping[str, float] | None) -> str:
    """Say what is different in a stored release; empty where the two requests are the same.

    Parameters
    ----------
    stored : GramListing
        It holds every column of the request.
    block_sd : mapping of str to float, or None
        Standard deviations of what was asked, where it is a block of the release.

    Returns
    -------
    str
        Clauses about the release, joined by semicolons.

    Notes
    -----
    Whatever decides an answer has its clause here, so a release that is no answer to a request differs in one. The
    order of columns decides nothing.
    """
    return "; ".join(
        [
            *_in_columns(stored, asked),
            *_in_rows(stored, asked),
            *_in_statistics(stored, asked),
            *_in_noise(stored, asked, block_sd),
        ]
    )


def _in_columns(stored: GramListing, asked: GramListing) -> Iterator[str]:
    wanted = asked.features | asked.targets
    for role, other in (("feature", "target"), ("target", "feature")):
        held = [one.name for one in (stored.declared_features if role == "feature" else stored.declared_targets)]
        if more := [name for name in held if name not in wanted]:
            yield f"it also holds the {role if len(more) == 1 else f'{role}s'} {_names(more)}"
        if moved := [name for name in held if name in (asked.targets if role == "feature" else asked.features)]:
            are = f"is a {role} in it, not a {other}" if len(moved) == 1 else f"are {role}s in it, not {other}s"
            yield f"{_names(moved)} {are}"
    if stored.intercept and not asked.intercept:
        yield "it has a constant term"


def _in_rows(stored: GramListing, asked: GramListing) -> Iterator[str]:
    here, there = stored.request["rows"], asked.request["rows"]
    if here["map"] != there["map"]:
        yield f"its rows were mapped by {here['map']}, not by {there['map']}"
    elif here != there:
        yield f"its rows were mapped by {here['map']} with {_other_members(here, there)}"
    if here["map"] == there["map"] and not _is_weighted_alike(stored, asked):
        yield "its rows were weighted by other terms"
    for word, own, other in zip(("rows", "weights"), stored.selection_texts, asked.selection_texts, strict=True):
        if own != other:
            yield f"its {word} are {own}, not {other}"
    if more := sorted(stored.omitting - asked.omitting):
        yield f"rows that miss {_names(more, 'or')} were left out of it"
    if fewer := sorted(asked.omitting - stored.omitting):
        yield f"rows that miss {_names(fewer, 'or')} were not left out of it"


def _is_weighted_alike(stored: GramListing, asked: GramListing) -> bool:
    """Tell whether the same terms decide the weight of a row, under one map."""
    row_map = make_row_map(asked.request["rows"])
    if not row_map.weighs_terms:
        return True
    if row_map.weighs_constant:
        return stored.has_the_terms_of(asked)
    return stored.features == asked.features and stored.has_terms_of(asked)


def _in_statistics(stored: GramListing, asked: GramListing) -> Iterator[str]:
    held, wanted = stored.statistics, asked.statistics
    if missing := [s.value for s in Statistic if s in wanted - held]:
        yield f"it holds no {_names(missing, 'or')}"
    if more := [s.value for s in Statistic if s in held - wanted]:
        yield f"it also holds {_names(more)}"
    if Statistic.LAMBDA_MIN in held & wanted and not stored.has_the_terms_of(asked):
        yield "its lambda_min is that of other terms"


def _in_noise(stored: GramListing, asked: GramListing, block_sd: Mapping[str, float] | None) -> Iterator[str]:
    here, there = stored.request, asked.request
    same = {name for name in ("mechanism", "calibration", "statistics") if here[name] == there[name]}
    if "mechanism" not in same:
        yield f"its noise is {here['mechanism']}, not {there['mechanism']}"
    if "calibration" not in same:
        yield f"its noise was calibrated as {here['calibration']}, not as {there['calibration']}"
    if here["price"] != there["price"]:
        own, other = _numbers(here["price"], there["price"])
        yield f"its price was {own}, not {other}"
    # Where another thing differs as well, the split follows it unless it is stated.
    if len(same) == 3 and here["shares"] != there["shares"]:
        yield "its price was split in other shares"
    if "mechanism" in same and (found := _loudness(_comparable_sd(stored, asked, block_sd), asked.sd)):
        yield found


def _comparable_sd(
    stored: GramListing, asked: GramListing, block_sd: Mapping[str, float] | None
) -> Mapping[str, float]:
    """Return standard deviations of the same sums of the same rows as were asked; none where there are none."""
    if block_sd is not None:
        return block_sd
    if stored.request["rows"] != asked.request["rows"] or not stored.has_terms_of(asked):
        return {}
    other = set() if stored.has_the_terms_of(asked) else {"lambda_min"}
    other |= set() if asked.targets <= stored.targets else {"xty", "yty"}
    return {name: sd for name, sd in stored.sd.items() if name not in other}


def _loudness(held: Mapping[str, float], wanted: Mapping[str, float]) -> str:
    unlike = [name for name in wanted if name in held and not math.isclose(held[name], wanted[name], rel_tol=1e-6)]
    larger = {_statistic_of(name) for name in unlike if held[name] > wanted[name]}
    smaller = {_statistic_of(name) for name in unlike if held[name] < wanted[name]}
    everything = {_statistic_of(name) for name in wanted}
    said = []
    for found, word in ((larger, "larger"), (smaller, "smaller")):
        if found == everything and not (larger and smaller):
            said.append(word)
        elif found:
            said.append(f"{word} in {_names([s.value for s in Statistic if s.value in found])}")
    return f"its noise is {' and '.join(said)}" if said else ""


def _other_members(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Return what is different in two statements of one row map: numbers as they are, and the names of the rest."""
    unlike = [name for name in here if here[name] != there[name]]
    if all(isinstance(here[name], int | float) for name in unlike):
        return "{}, not {}".format(*_numbers({n: here[n] for n in unlike}, {n: there[n] for n in unlike}))
    return f"other values of {_names(unlike)}"


def _numbers(here: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[str, str]:
    """Return two groups of named numbers as text, in as many digits as tell them apart."""

    def said(members: Mapping[str, Any], digits: str) -> str:
        return " and ".join(f"{name} {float(value):{digits}}" for name, value in members.items())

    short = said(here, ".6g"), said(there, ".6g")
    return short if short[0] != short[1] else (said(here, ""), said(there, ""))


def _names(names: Iterable[str], word: str = "and") -> str:
    """Return names as a list in words, the first few by name."""
    listed = list(names)
    if len(listed) > _NAMED_MAX:
        listed = [*listed[: _NAMED_MAX - 1], f"{len(listed) - _NAMED_MAX + 1} more"]
    *first, last = listed
    return f"{', '.join(first)} {word} {last}" if first else last


def _statistic_of(name: str) -> str:
    """Return the statistic that a standard deviation is of."""
    return "xtx" if name.startswith("xtx_") else name
