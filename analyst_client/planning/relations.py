"""Exact linear relations of the terms of a request, from declarations alone."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise, product
from typing import Any

from analyst_client.kinds.gram.quote import Quote
from analyst_client.planning.assumed_moments import rows_of
from analyst_client.schema.columns import COMBINATION, CONSTANT, Basis, Column, DerivedColumn, Term
from analyst_client.schema.row_maps import row_map_named
from analyst_client.terms.certain import (
    ONE,
    Atom,
    Facts,
    Form,
    Monomial,
    constant,
    decisive,
    is_decided_by_one,
    join,
    multiply,
    opposite,
    subtract,
)
from analyst_client.terms.expression import Expression, col

Row = dict[Monomial, int]
"""A polynomial with coefficients modulo a prime."""
PRIME = 2**61 - 1
"""Polynomials that differ are equal modulo it with a probability of some 10⁻¹⁸."""
TERMS_MAX = 400
"""Terms of a request from which on relations are not looked for: it would take longer than a quote."""
PRODUCT_MAX = 5000
"""Monomials of a product of terms; a longer one is a new atom."""


def find_relations(quote: Quote, facts: Facts) -> tuple[list[str], list[str]]:
    """Return exact linear relations of the terms of a request, and those of its targets with them."""
    is_plain = row_map_named(rows_of(quote)["map"]).is_plain
    if quote.combined or any(term.kind == COMBINATION for term in quote.terms) or len(quote.terms) > TERMS_MAX:
        return [], []
    known: dict[str, Column] = dict(facts.columns) | {column.name: column for column in quote.columns}
    targets = [term.name for term in quote.targets]
    used = {name for term in quote.terms for name in term.columns}
    for name in (*used, *targets):
        column = known[name]
        omits = column.missing == "omit" or (column.missing == "indicator" and name in targets)
        if omits and not (isinstance(column, DerivedColumn) and is_decided_by_one(column.expression)):
            facts.present |= set(_reads(column))
    terms = Terms(known, facts)
    # The maps that divide rows leave the constant as it is, or take its place: what holds beside it is lost.
    kept = [term for term in quote.terms if is_plain or term.kind != "constant"]
    base = Base()
    found: dict[tuple[Any, tuple[str, ...]], list[str]] = {}
    for term in kept:
        others = base.add(term.name, terms.row(term))
        if others is not None:
            beside = tuple(other for other in others if other != CONSTANT)
            found.setdefault((term.column, beside), []).append(term.name)
    related = [f"{_say(names, beside)}: leave out {feature}" for (feature, beside), names in found.items()]
    if not is_plain:
        return related, []
    explained = []
    for target in quote.targets:
        row = terms.row(target)
        others = base.add(target.name, row, keep=False)
        if others is not None or set(row) <= {ONE}:
            explained.append("the target " + _say([target.name], [name for name in others or () if name != CONSTANT]))
    return related, explained


def _say(names: Sequence[str], others: Sequence[str]) -> str:
    """Say that terms are a linear function of others, or constant if there are none."""
    listed, are = ", ".join(names), "is" if len(names) == 1 else "are"
    if not others:
        return f"{listed} {are} the same in every row that counts"
    return f"{listed} {are} an exact linear function of {', '.join(others)}"


class Base:
    """Independent polynomials, one by one; arithmetic is modulo a prime, and exact."""

    def __init__(self) -> None:
        self._rows: list[tuple[Monomial, Row, dict[str, int]]] = []

    def add(self, name: str, row: Row, *, keep: bool = True) -> list[str] | None:
        """Add a polynomial; return the names that it is a linear function of, or None where there are none."""
        left, made_of = dict(row), {name: 1}
        for monomial, other, parts in self._rows:
            factor = left.get(monomial, 0)
            if factor:
                _subtract(left, other, factor)
                _subtract(made_of, parts, factor)
        if not left:
            return [other for other in made_of if other != name]
        if keep:
            pivot = min(left)
            inverse = pow(left[pivot], -1, PRIME)
            scaled = {m: c * inverse % PRIME for m, c in left.items()}
            self._rows.append((pivot, scaled, {n: c * inverse % PRIME for n, c in made_of.items()}))
        return None


def _subtract(left: dict[Any, int], other: Mapping[Any, int], factor: int) -> None:
    for key, coefficient in other.items():
        value = (left.get(key, 0) - factor * coefficient) % PRIME
        if value:
            left[key] = value
        else:
            left.pop(key, None)


class Terms:
    """Terms as a curator codes them, as polynomials."""

    def __init__(self, columns: Mapping[str, Column], facts: Facts) -> None:
        self._columns, self._facts = columns, facts
        self._pieces: dict[Basis, tuple[list[Row], list[Row]]] = {}

    def row(self, term: Term) -> Row:
        """Return the scaled values of a term: 0 where a value is missing, but for its flag."""
        if term.kind == "constant":
            return {ONE: 1}
        if term.factors:
            rows = [self.row(factor) for factor in term.factors]
            large = math.prod(map(len, rows)) > PRODUCT_MAX
            return _atom(("made", "term", term.name)) if large else reduce(_multiply, rows)
        return self._plain_row(term)

    def _plain_row(self, term: Term) -> Row:
        column, facts = self._columns[term.columns[0]], self._facts
        reads = _reads(column)
        here = facts.presence(reads)
        is_decided = isinstance(column, DerivedColumn) and is_decided_by_one(column.expression)
        if is_decided and here.constant != 1:
            return _atom(("made", term.kind, term.name))
        if term.kind in {"missing", "level"}:
            known = None if term.kind == "missing" else facts.levels_of(expression_of(column))[str(term.level)]
            return _modulo(opposite(here) if known is None else multiply(known, here))
        value = facts.read(expression_of(column))
        if term.basis is not None:
            return _multiply(self._basis_row(term.basis, value), _modulo(here))
        row = _modulo(value)
        if term.kind == "numeric":
            row = _scaled(row, term.center, term.scale)
        return _multiply(row, _modulo(here))

    def _basis_row(self, basis: Basis, value: Form) -> Row:
        """Return a function of a basis; of a number that is no column nor a function of one it is an atom."""
        if not _is_plain(value):
            return _atom(("made", basis.word, basis.column, repr(basis.parameters), str(basis.place)))
        if basis.word == "polynomial":
            return _legendre(_scaled(_modulo(value), basis.center, basis.scale), basis.place + 1)
        whole = basis._replace(place=0)
        knots, degree = (*basis.parameters, 3)[:2]
        if whole not in self._pieces:
            self._pieces[whole] = _spans_and_powers(value, knots, degree, self._facts)
        spans, powers = self._pieces[whole]
        found: Row = {}
        for span, coefficients in _functions(whole, tuple(knots), degree)[basis.place].items():
            piece: Row = {}
            for power, coefficient in zip(powers, coefficients, strict=True):
                _subtract(piece, power, -coefficient)
            _subtract(found, _multiply(spans[span], piece), -1)
        return found


def _reads(column: Column) -> tuple[str, ...]:
    return decisive(column.expression) if isinstance(column, DerivedColumn) else (column.name,)


def expression_of(column: Column) -> Expression:
    """Return what a column is computed as."""
    return column.expression if isinstance(column, DerivedColumn) else col(column.name)


def _residue(number: Any) -> int:
    numerator, denominator = number.as_integer_ratio()
    return int(numerator * pow(denominator, -1, PRIME) % PRIME)


def _modulo(form: Form) -> Row:
    found = {monomial: _residue(c) for monomial, c in form.polynomial.items()}
    return {monomial: c for monomial, c in found.items() if c}


def _atom(atom: Atom) -> Row:
    return {((atom, 1),): 1}


def _multiply(one: Row, other: Row) -> Row:
    found: Row = {}
    for (m, a), (n, b) in product(one.items(), other.items()):
        monomial = join(m, n)
        if monomial is not None:
            _subtract(found, {monomial: a}, -b)
    return found


def _is_plain(value: Form) -> bool:
    """Return whether a number is one atom, so that its powers and thresholds are atoms' too."""
    return value.constant is not None or list(value.polynomial.values()) == [1]


def _scaled(row: Row, center: float, scale: float) -> Row:
    inverse = pow(_residue(scale), -1, PRIME)
    _subtract(row, {ONE: 1}, _residue(center))
    return {monomial: c * inverse % PRIME for monomial, c in row.items()}


def _spans_and_powers(value: Form, knots: Sequence[float], degree: int, facts: Facts) -> tuple[list[Row], list[Row]]:
    """Return a condition for each pair of neighbouring knots, true between them, and powers of the number."""
    reached = [constant(1), *(facts.compare(constant(knot), value) for knot in knots), constant(0)]
    x, powers = _modulo(value), [{ONE: 1}]
    for _ in range(degree):
        powers.append(_multiply(powers[-1], x))
    return [_modulo(subtract(one, other)) for one, other in pairwise(reached)], powers


def _legendre(x: Row, degree: int) -> Row:
    """Return a polynomial by the recurrence (k + 1) P_{k+1} = (2k + 1) x P_k − k P_{k−1}."""
    before, now = {ONE: 1}, x
    for k in range(1, degree):
        following = {m: (2 * k + 1) * c for m, c in _multiply(x, now).items()}
        _subtract(following, before, k)
        before, now = now, {m: c * pow(k + 1, -1, PRIME) % PRIME for m, c in following.items()}
    return now


@lru_cache(maxsize=32)
def _functions(basis: Basis, knots: tuple[float, ...], degree: int) -> list[dict[int, list[int]]]:
    """Return the functions of a spline: by span, their coefficients there, by powers of the number.

    By the recurrence of Cox and de Boor, in raw units; a natural spline shares functions as `basis_values` does.
    """
    ends = basis.center - basis.scale, basis.center + basis.scale
    t = [_residue(knot) for knot in (*[ends[0]] * (degree + 1), *knots, *[ends[1]] * (degree + 1))]
    functions: list[dict[int, list[int]]] = [{i - degree: [1]} if t[i] != t[i + 1] else {} for i in range(len(t) - 1)]
    for k in range(1, degree + 1):
        higher = []
        for i in range(len(functions) - 1):
            pieces: dict[int, list[int]] = {}
            for place, low, high in ((i, t[i], t[i + k]), (i + 1, t[i + k + 1], t[i + 1])):
                if low == high:
                    continue
                inverse = pow(high - low, -1, PRIME)
                for span, coefficients in functions[place].items():
                    whole = pieces.setdefault(span, [0] * (k + 1))
                    for j, c in enumerate(coefficients):  # times (x − low)/(high − low)
                        whole[j + 1] = (whole[j + 1] + c * inverse) % PRIME
                        whole[j] = (whole[j] - c * inverse * low) % PRIME
            higher.append(pieces)
        functions = higher
    if basis.word == "natural_spline":
        raw = [ends[0]] * 4 + list(knots) + [ends[1]] * 4
        for _ in range(2):
            near, far = (_residue(raw[j + 3]) - _residue(raw[j]) for j in (1, 2))
            share = far * pow(near + far, -1, PRIME) % PRIME
            first, second = _mix(functions[0], functions[1], share), _mix(functions[2], functions[1], 1 - share)
            functions = [first, second, *functions[3:]][::-1]
            raw = [-knot for knot in raw[::-1]]
    return functions


def _mix(one: Mapping[int, list[int]], other: Mapping[int, list[int]], share: int) -> dict[int, list[int]]:
    spans = {*one, *other}
    none = [0] * len(next(iter((one or other).values())))
    return {
        span: [(a + share * b) % PRIME for a, b in zip(one.get(span, none), other.get(span, none), strict=True)]
        for span in sorted(spans)
    }
