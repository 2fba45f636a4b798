"""Weights of terms, by their names, as requests state them: to combinations and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from curator_service.kit.problems import RequestInvalid, escape_pointer
from curator_service.privacy.combinations import Combinations, check_weights
from curator_service.privacy.design import Design, Term


def read_coefficients(weights: Mapping[str, int], bits: int, design: Design, place: str) -> Combinations:
    """Return one combination of a design's terms, which may have no weights but zeros; see `read_combinations`."""
    if any(weights.values()):
        return read_combinations({name: [weight] for name, weight in weights.items()}, bits, design, place)
    _check_names(weights, [term.name for term in design.terms], place)
    return Combinations(((0,),) * len(design.terms), 0)


def state_coefficients(combinations: Combinations, terms: Sequence[Term]) -> dict[str, Any]:
    """Return the canonical members of one combination: see `state_combinations`."""
    stated = state_combinations(combinations, terms)
    return {"bits": stated["bits"], "weights": {name: weight for name, (weight,) in stated["matrix"].items()}}


_SHOWN = 60
"""Characters of a name in a message: what was sent is not sent back at length."""


def read_combinations(matrix: Mapping[str, Sequence[int]], bits: int, design: Design, place: str) -> Combinations:
    """Return combinations of a design's terms.

    Raises
    ------
    RequestInvalid
        If a term is not one of the design's, lists differ in length, or weights are none, or too large.
    """
    names = [term.name for term in design.terms]
    _check_names(matrix, names, place)
    count = len(next(iter(matrix.values())))
    for name, weights in matrix.items():
        if len(weights) != count:
            uneven = f"{len(weights)} numbers, where the first term has {count}: one a combination"
            raise RequestInvalid.at(f"{place}/{escape_pointer(name)}", uneven)
    rows = tuple(tuple(matrix.get(name, (0,) * count)) for name in names)
    if (rule := check_weights(rows)) is not None:
        raise RequestInvalid.at(place, rule)
    return Combinations(rows, bits)


def state_combinations(combinations: Combinations, terms: Sequence[Term]) -> dict[str, Any]:
    """Return the canonical members of combinations: the fewest bits, and no term that has nothing but zeros."""
    weights, bits = combinations.weights, combinations.bits
    while bits and not any(weight % 2 for row in weights for weight in row):
        weights, bits = tuple(tuple(weight // 2 for weight in row) for row in weights), bits - 1
    named = {term.name: list(row) for term, row in zip(terms, weights, strict=True) if any(row)}
    return {"bits": bits, "matrix": named}


def _check_names(named: Iterable[str], names: Sequence[str], place: str) -> None:
    for name in named:
        if name not in names:
            rule = f"the features make no term {name[:_SHOWN]!r}; they make {_some(names)}"
            raise RequestInvalid.at(f"{place}/{escape_pointer(name[:_SHOWN])}", rule)


def _some(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(name[:_SHOWN] for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} others"
