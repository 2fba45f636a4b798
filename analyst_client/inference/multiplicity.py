"""Several hypotheses at once: families of slopes, adjusted p-values, and the models fitted on a release."""

from collections.abc import Iterable
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.gram.release import Release

Family = Literal["fit", "release"]
"""Slopes that are tested together: those of one fit, or those of every fit that the columns of its release allow."""
FAMILIES = ("fit", "release")

_FITTED: "WeakKeyDictionary[Release, set[tuple[str, ...]]]" = WeakKeyDictionary()
"""The models that this process fitted on each release that it still holds: the target and the terms."""


def holm(pvalues: FloatArray) -> FloatArray:
    r"""Return Holm's adjusted p-values: the smallest levels at which each hypothesis is rejected beside the others.

    Parameters
    ----------
    pvalues : ndarray of shape (m,)
        Each valid by itself. They may depend on one another in any way.

    Returns
    -------
    ndarray of shape (m,)
        The probability that any true hypothesis has one below α is α at most.

    Notes
    -----
    With :math:`p_{(1)} \le \dots \le p_{(m)}` the k-th is :math:`\max_{i \le k}(m - i + 1)p_{(i)}`, at most 1 [1]_.

    References
    ----------
    .. [1] S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
       1979.

    Examples
    --------
    >>> holm(np.array([0.04, 0.01, 0.03])).round(2).tolist()
    [0.06, 0.03, 0.06]
    """
    order = np.argsort(pvalues)
    adjusted = np.empty(len(pvalues))
    adjusted[order] = np.maximum.accumulate(pvalues[order] * np.arange(len(pvalues), 0, -1))
    return np.minimum(adjusted, 1.0)


def count_slopes(release: Release) -> int:
    r"""Return how many slopes all fits on the columns of a release have.

    Notes
    -----
    With k features of D terms beside the constant each term is in :math:`2^{k-1}` models of each target. Where rows are
    not weighted, a feature of one term may be the target: the :math:`D - 1` other terms are in :math:`2^{k-2}` models
    of it each.
    """
    whole = release.original
    terms, features = len(whole.terms) - int(whole.has_constant), whole.feature_names
    slopes: int = len(whole.targets) * terms * (1 << max(len(features) - 1, 0))
    if whole.weights_rows or len(features) < 2:
        return slopes
    single = [term for term in whole.terms if term.kind in {"numeric", "boolean"} and term.column in features]
    return slopes + len(single) * (terms - 1) * (1 << (len(features) - 2))


def note_model(releases: Iterable[Release], target: str, terms: Iterable[str]) -> None:
    """Keep that a model was fitted on releases. The same model again counts once."""
    model = (target, *sorted(terms))
    for release in releases:
        _FITTED.setdefault(release.original, set()).add(model)


def count_models(release: Release) -> int:
    """Return how many different models this process has fitted on a release, as long as it holds it."""
    return len(_FITTED.get(release.original, ()))
