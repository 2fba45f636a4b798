"""Scaled coefficients to raw units."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.schema.columns import CONSTANT, Term
from analyst_client.schema.row_maps import row_map_named


def raw_units(terms: Sequence[Term], target: Term, row_map: str | None) -> tuple[FloatArray, FloatArray]:
    r"""Return L and l such that :math:`L\theta + l` are the intercept and the coefficients in raw units.

    Parameters
    ----------
    terms : sequence of Term
        D of them, the constant first if there is one.
    target : Term
    row_map : str or None
        Under ``"unit"``, and under ``"unit_xy"`` with a constant, the model is linear in the scaled terms over their
        norm, so the coefficients stay those of the scaled terms.

    Returns
    -------
    L : ndarray of shape (1 + D', D)
        D' terms beside the constant. A product of numbers is of raw ones where the model has its parts, such as age
        beside ``sex[M]:age``; elsewhere it is of numbers less their centers.
    l : ndarray of shape (1 + D',)

    Notes
    -----
    :math:`\beta'_j = \beta_j s_y/s_j` and :math:`\beta'_0 = c_y + s_y\beta_0 - \sum_j \beta'_j c_j`, with center
    :math:`c` and scale :math:`s` of each term and of the target (Kalaja 2020, equation 3.7). A product of terms is
    multiplied out, and each part goes to the term that it is of.

    Examples
    --------
    >>> L, l = raw_units([Term("(constant)", "constant"), Term("age", "numeric", "age", 50.0, 25.0)],
    ...     Term("y", "numeric", "y", 3.0, 5.0), "box")
    >>> (L @ [0.1, 0.2] + l).round(3).tolist()
    [1.5, 0.04]
    """
    first = int(terms[0].kind == "constant")
    if row_map_named(row_map).keeps_scale(has_constant=bool(first)):
        terms = [replace(term, center=0.0, scale=1.0, kind="scaled", factors=()) for term in terms]
    places = {leading(term): j for j, term in enumerate(terms)}
    L = np.zeros((1 + len(terms) - first, len(terms)))
    for j, term in enumerate(terms):
        parts = expand(term)
        if not first:  # what a constant would take is the intercept's, in the first row
            parts = {(): 0.0} | parts
        if any(key not in places and key for key in parts):  # without these terms a product stays of centred numbers
            parts = {leading(term): parts[leading(term)]}
        for key, factor in parts.items():
            L[places[key] + 1 - first if key else 0, j] += target.scale * factor
    constant = np.zeros(len(L))
    constant[0] = target.center
    return L, constant


Monomial = tuple[tuple[str, str], ...]
"""Names of what is multiplied, sorted: () is the constant."""


def leading(term: Term) -> Monomial:
    """Return the product of raw values that a term is of."""
    if term.kind == "constant":
        return ()
    return tuple(sorted((factor.kind, factor.name) for factor in term.factors or (term,)))


def expand(term: Term, *, powers: bool = False) -> dict[Monomial, float]:
    """Return a scaled term as a sum of products of raw values, each with its factor.

    Parameters
    ----------
    term : Term
    powers : bool
        Whether Legendre polynomials are multiplied out too.

    Examples
    --------
    >>> age = Term("age", "numeric", "age", 50.0, 25.0)
    >>> expand(Term("age:ill", "product", factors=(age, Term("ill", "boolean", "ill"))))
    {(('boolean', 'ill'),): -2.0, (('boolean', 'ill'), ('numeric', 'age')): 0.04}
    """
    found: dict[Monomial, float] = {(): 1.0}
    for factor in term.factors or (term,) * (term.kind != "constant"):
        parts = _expand_factor(factor, powers=powers)
        found = {
            tuple(sorted((*key, *other))): value * part for key, value in found.items() for other, part in parts.items()
        }
    return found


def _expand_factor(factor: Term, *, powers: bool) -> dict[Monomial, float]:
    basis = factor.basis
    if powers and basis is not None and basis.word == "polynomial":
        domain = [basis.center - basis.scale, basis.center + basis.scale]
        series = np.polynomial.Legendre.basis(basis.place + 1, domain=domain).convert(kind=np.polynomial.Polynomial)
        return {(("numeric", basis.column),) * k: float(value) for k, value in enumerate(series.coef) if value}
    shift = {(): -factor.center / factor.scale} if factor.center else {}
    return shift | {((factor.kind, factor.name),): 1.0 / factor.scale}


def raw_powers(terms: Sequence[Term], target: Term) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    r"""Return names, L and l such that :math:`L\theta + l` are coefficients of raw powers and of their products.

    Examples
    --------
    >>> terms = [Term("(constant)", "constant"), Term("age", "numeric", "age", 50.0, 25.0)]
    >>> names, L, l = raw_powers(terms, Term("y", "numeric", "y", 3.0, 5.0))
    >>> names, (L @ [0.1, 0.2] + l).round(3).tolist()
    (('(constant)', 'age'), [1.5, 0.04])
    """
    parts = [expand(term, powers=True) for term in terms]
    keys: list[Monomial] = [(), *dict.fromkeys(key for part in parts for key in part if key)]
    L = np.array([[target.scale * part.get(key, 0.0) for part in parts] for key in keys])
    constant = np.zeros(len(keys))
    constant[0] = target.center
    return tuple(map(_name, keys)), L, constant


def _name(key: Monomial) -> str:
    counts = Counter(name for _, name in sorted(key, key=lambda part: (part[0] != "numeric", part)))
    return ":".join(f"{name}^{count}" if count > 1 else name for name, count in counts.items()) or CONSTANT
