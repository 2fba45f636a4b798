"""Designs as requests ask for them: features and targets of a dataset, checked and bounded."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from curator_service.datasets.repository import Dataset
from curator_service.kinds.features import at, order_features, read_column, read_feature
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.bases import FUNCTIONS_MAX
from curator_service.privacy.design import Column, Design, Feature, Term, count_terms, make_design

TERMS_MAX = 1000
NAMES_MAX = 500_000
"""Characters of the names of all terms: an answer states them with every term, and a basis or a cut in each of them."""


def read_design(
    dataset: Dataset,
    features: Sequence[object],
    targets: Sequence[object],
    *,
    intercept: bool,
    at_target: str = "/targets/{}",
) -> tuple[tuple[Feature, ...], tuple[Column, ...], Design]:
    """Return the features and targets that a request names, in their one order, and the design that they make.

    Parameters
    ----------
    features, targets : sequence of object
        As JSON has them.
    at_target : str
        Where a request has a target of some number.

    Raises
    ------
    RequestInvalid
    """
    declared, seen = dataset.manifest.by_name, dict[str, str]()

    def read(role: str, values: Sequence[object], reader: Callable[..., Feature]) -> tuple[Any, ...]:
        found = []
        for i, value in enumerate(values):
            place = at_target.format(i) if role == "targets" else f"/{role}/{i}"
            feature = at(place, partial(reader, value, declared))
            if seen.setdefault(feature.name, role) != role or feature in found:
                both = "is a feature and a target; it can be one of them"
                rule = "is named twice" if feature in found else both
                raise RequestInvalid.at(place, f"the column {feature.name!r} {rule}")
            found.append(feature)
        return tuple(found)

    read_features, read_targets = read("features", features, read_feature), read("targets", targets, read_column)
    for i, target in enumerate(read_targets):
        if target.is_level:
            raise RequestInvalid.at(at_target.format(i), f"the categorical column {target.name!r} cannot be a target")
    ordered, ordered_targets = order_features(read_features, declared), order_features(read_targets, declared)
    counts = [count_terms(feature, drop_first_level=intercept) for feature in ordered]
    if (terms := intercept + sum(counts)) > TERMS_MAX:  # before they are made
        raise RequestInvalid.at(
            "/features", f"the features make {terms} terms; at most {TERMS_MAX} are released together"
        )
    names = sum(len(feature.name) * count for feature, count in zip(ordered, counts, strict=True))
    if names > NAMES_MAX:
        rule = f"the names of terms take {names} characters; at most {NAMES_MAX} are written together"
        raise RequestInvalid.at("/features", f"{rule}. Ask for shorter expressions, or for fewer cut points or levels")
    design = make_design(ordered, ordered_targets, intercept=intercept)
    if (functions := count_functions(design.terms)) > FUNCTIONS_MAX:
        rule = f"the bases have {functions} functions; at most {FUNCTIONS_MAX} are computed together"
        raise RequestInvalid.at("/features", f"{rule}. Ask for fewer knots, or for a lower degree")
    return ordered, ordered_targets, design


def count_functions(terms: Iterable[Term]) -> int:
    """Return how many functions the bases of terms have, each basis of a number once."""
    fields = [term for one in terms for term in (one.factors or (one,))]
    return sum(basis.size for basis, _ in {(t.basis, t.column) for t in fields} if basis is not None)
