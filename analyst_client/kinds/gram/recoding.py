"""Terms as linear functions of other terms of the same columns: other bounds, units and reference levels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.schema.columns import Column, Term

SAME = 1e-12
"""Largest difference, in scaled units, of bounds that count as the same: those that were converted are rounded."""
Atom = tuple[str, str]
"""Kind and name of a factor."""


def factors_of(term: Term) -> tuple[Term, ...]:
    """Return the terms that a term is the product of: itself where it is none, and nothing for the constant."""
    return () if term.kind == "constant" else term.factors or (term,)


def atom(factor: Term) -> Atom:
    """Return what tells a factor from others, whatever its bounds are."""
    return factor.kind, factor.name


def skeleton(term: Term) -> tuple[Atom, ...]:
    """Return what a term is of, whichever level it has."""
    return tuple(sorted(("level", str(f.column)) if f.kind == "level" else atom(f) for f in factors_of(term)))


def with_level(term: Term, column: str, level: str) -> Term:
    """Return the term with another level of a column."""
    parts = tuple(
        replace(f, name=f"{column}[{level}]", level=level) if f.kind == "level" and f.column == column else f
        for f in factors_of(term)
    )
    return replace(term, name=":".join(f.name for f in parts), factors=parts) if term.factors else parts[0]


def has_level(term: Term, column: str) -> str | None:
    """Return the level of a column that a term has, or None."""
    return next((f.level for f in factors_of(term) if f.kind == "level" and f.column == column), None)


class Coding:
    """The D terms of a release, as what others are linear functions of.

    Parameters
    ----------
    terms : sequence of Term
    columns : sequence of Column
        With the levels that the curator declares: no row has another one.
    """

    def __init__(self, terms: Sequence[Term], columns: Sequence[Column]) -> None:
        self._places = {self._key(factors_of(term)): j for j, term in enumerate(terms)}
        self._factors = {atom(factor): factor for term in terms for factor in factors_of(term)}
        self._columns = {column.name: column for column in columns}

    def matrix(self, wanted: Sequence[Term]) -> FloatArray:
        """Return T of shape (D', D): in every row each wanted term is T times these terms.

        Raise `ValueError` where one is no linear function of these terms.
        """
        T = np.zeros((len(wanted), len(self._places)))
        for i, term in enumerate(wanted):
            for j, weight in self._express(term).items():
                T[i, j] = weight
        return T

    def _express(self, term: Term) -> dict[int, float]:
        """Return a term as a sum of these: numbers moved to their own bounds and multiplied out, then levels."""
        products: dict[tuple[Term, ...], float] = {(): 1.0}
        for factor in factors_of(term):
            parts = self._rescaled(factor, term)
            products = {
                (*product, *part): weight * by for product, weight in products.items() for part, by in parts.items()
            }
        found: dict[int, float] = {}
        for product, weight in products.items():
            for j, by in self._levelled(product, term).items():
                found[j] = found.get(j, 0.0) + weight * by
        return found

    def _rescaled(self, factor: Term, term: Term) -> dict[tuple[Term, ...], float]:
        own = self._factors.get(atom(factor))
        if own is None or factor.kind == "level":
            return {(factor,): 1.0}
        if factor.basis is not None:
            if not _same_basis(own, factor):
                raise ValueError(_bounds_apart(term))
            return {(own,): 1.0}
        parts: dict[tuple[Term, ...], float] = {(own,): own.scale / factor.scale}
        shift = (own.center - factor.center) / factor.scale
        if abs(shift) > SAME * max(1.0, abs(own.center / factor.scale)):
            parts[()] = shift
        return parts

    def _levelled(self, product: tuple[Term, ...], term: Term) -> dict[int, float]:
        """Return a product as a sum of these terms; a level that has no term is the constant less the others."""
        if any(map(self._is_undeclared, product)):
            return {}
        place = self._places.get(self._key(product))
        if place is not None:
            return {place: 1.0}
        for i, factor in enumerate(product):
            if factor.kind != "level" or atom(factor) in self._factors:
                continue
            column = self._columns[str(factor.column)]
            if column.missing == "midpoint":
                raise ValueError(
                    f"a missing value of {column.name!r} counts as its reference level, which only the curator can "
                    "change: ask for it by reference(…)"
                )
            others = [with_level(factor, column.name, level) for level in column.levels if level != factor.level]
            if column.missing == "indicator":
                others.append(Term(f"{column.name}[missing]", "missing", column.name))
            before, behind = product[:i], product[i + 1 :]
            found = dict(self._levelled((*before, *behind), term))
            for other in others:
                for j, by in self._levelled((*before, other, *behind), term).items():
                    found[j] = found.get(j, 0.0) - by
            return found
        if not product:
            raise ValueError(f"other bounds or levels of {term.name!r} fit together only with a constant")
        raise ValueError(_bounds_apart(term))

    def _is_undeclared(self, factor: Term) -> bool:
        return factor.kind == "level" and factor.level not in self._columns[str(factor.column)].levels

    @staticmethod
    def _key(factors: Sequence[Term]) -> tuple[Atom, ...]:
        return tuple(sorted(map(atom, factors)))


def _same_basis(own: Term, other: Term) -> bool:
    assert own.basis is not None
    assert other.basis is not None
    one, two = own.basis, other.basis
    near = [abs(one.center - two.center), abs(one.scale - two.scale)]
    return one.parameters == two.parameters and max(near) <= SAME * (abs(one.center) + one.scale)


def _bounds_apart(term: Term) -> str:
    return (
        f"{term.name!r} is of other bounds or levels in another release, and no sum of its terms: cut or scale the "
        "column alike at every curator, as with minimum and maximum, or ask for the parts of a product too"
    )


def common_levels(codings: Sequence[Mapping[str, Column]]) -> dict[str, tuple[str, ...]]:
    """Return the levels of each category: those of the first release that has it, then others as they come.

    Raise `ValueError` where releases have none in common: they may be the same under other names.
    """
    found: dict[str, tuple[str, ...]] = {}
    for columns in codings:
        for column in columns.values():
            if column.type == "categorical":
                known = found.get(column.name, column.levels)
                if not set(known) & set(column.levels):
                    raise ValueError(
                        f"releases declare different levels of {column.name!r}: {', '.join(known)} and "
                        f"{', '.join(column.levels)}. release.rename(levels={{{column.name!r}: …}}) gives one name to "
                        "what is the same"
                    )
                found[column.name] = tuple(dict.fromkeys((*known, *column.levels)))
    return found


def with_levels(
    terms: Sequence[Term], columns: Mapping[str, Column], levels: Mapping[str, tuple[str, ...]]
) -> list[Term]:
    """Return the terms with those of levels that the columns do not declare, each behind its like."""
    listed = list(terms)
    for name, known in levels.items():
        for level in known:
            if name not in columns or level in columns[name].levels:
                continue
            like = next((has_level(term, name) for term in listed if has_level(term, name)), None)
            for term in [term for term in listed if like is not None and has_level(term, name) == like]:
                last = max(i for i, one in enumerate(listed) if skeleton(one) == skeleton(term))
                listed.insert(last + 1, with_level(term, name, level))
    return listed
