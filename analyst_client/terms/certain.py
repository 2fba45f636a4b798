"""Expressions that are equal in every row, and conditions that hold in none, from declarations alone.

An expression becomes a polynomial with exact coefficients, over atoms: values of columns, their levels, comparisons,
and functions of polynomials. Rules that hold in every row bring it into one form, so equal polynomials are equal in
every row. The converse does not hold: a function that no rule knows is an atom of its own, of which nothing is claimed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise, product
from typing import NamedTuple

from analyst_client.schema.columns import Column
from analyst_client.terms.expression import COLUMN, NUMBER, Expression
from analyst_client.terms.values import write_number

Atom = tuple[str, ...]
Monomial = tuple[tuple[Atom, int], ...]
Polynomial = dict[Monomial, Fraction]
Interval = tuple[float, float]
ONE: Monomial = ()
SIZE_MAX = 200
"""Monomials of a polynomial; one that would have more is a new atom."""
SLACK = 1e-9
"""By how much rounding may move what is computed, in its size."""
STEPS = 2**30
"""Steps in which a curator keeps a number, from the middle of its bounds to an end."""
DECIMALS_MOST = 150
"""Decimals, and powers of ten, to which a curator reads numbers; beyond these, as it keeps them."""
ENDLESS: Interval = (-math.inf, math.inf)
MINUS, _ZERO = Fraction(-1), Fraction(0)
_NUMBERS = frozenset({"number", "made", "log"})


class Form(NamedTuple):
    """A polynomial, and bounds of it."""

    polynomial: Polynomial
    low: float
    high: float

    @property
    def constant(self) -> Fraction | None:
        """Its value, where it is the same in every row."""
        rest = [monomial for monomial in self.polynomial if monomial != ONE]
        return None if rest else self.polynomial.get(ONE, _ZERO)


def constant(value: float | Fraction) -> Form:
    """Return a number."""
    return Form({ONE: Fraction(value)} if value else {}, float(value), float(value))


def scaled(form: Form, factor: Fraction) -> Form:
    """Return a multiple."""
    ends = sorted((float(factor) * form.low, float(factor) * form.high)) if factor else (0.0, 0.0)
    return Form({m: c * factor for m, c in form.polynomial.items()} if factor else {}, *ends)


def add(one: Form, other: Form) -> Form:
    """Return a sum."""
    found = dict(one.polynomial)
    for monomial, coefficient in other.polynomial.items():
        total = found.pop(monomial, _ZERO) + coefficient
        if total:
            found[monomial] = total
    return Form(found, one.low + other.low, one.high + other.high)


def subtract(one: Form, other: Form) -> Form:
    """Return a difference."""
    return add(one, scaled(other, MINUS))


def opposite(truth: Form) -> Form:
    """Return whether a condition does not hold."""
    return _as_truth(subtract(constant(1), truth))


def multiply(one: Form, other: Form) -> Form:
    """Return a product."""
    found: Polynomial = {}
    for (m, a), (n, b) in product(one.polynomial.items(), other.polynomial.items()):
        monomial = join(m, n)
        if monomial is not None and (total := found.pop(monomial, _ZERO) + a * b):
            found[monomial] = total
    ends = [_times(a, b) for a in (one.low, one.high) for b in (other.low, other.high)]
    return Form(found, min(ends), max(ends))


def join(one: Monomial, other: Monomial) -> Monomial | None:
    """Return the product of two monomials; None where it is 0 in every row.

    A truth is its own square. A category is at one level. Of two thresholds that a number reaches the higher one says
    both.
    """
    if not one or not other:
        return one or other
    powers = dict(one)
    for atom, power in other:
        if atom[0] in _NUMBERS:
            powers[atom] = powers.get(atom, 0) + power
        elif atom[0] == "level" and any(a[:2] == atom[:2] and a != atom for a in powers):
            return None
        elif atom[0] == "from":
            rival = next((a for a in powers if a[:2] == atom[:2]), atom)
            powers.pop(rival, None)
            powers[max(rival, atom, key=_threshold)] = 1
        else:
            powers[atom] = 1
    return tuple(sorted((atom, power) for atom, power in powers.items() if power))


def _threshold(atom: Atom) -> tuple[float, bool]:
    return float.fromhex(atom[2]), atom[3] == ">"


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b  # also of an infinite one


def _text(polynomial: Polynomial) -> str:
    return repr(sorted((monomial, str(coefficient)) for monomial, coefficient in polynomial.items()))


@dataclass
class Facts:
    """Facts that hold in every row that counts.

    Attributes
    ----------
    columns : mapping of str to Column
        As they are declared, by name.
    ranges : dict of Atom to (float, float)
        Narrower ones than are declared.
    levels : dict of str to tuple of str
        Levels of a category that occur, where not all do.
    present : set of str
        Columns of which no value is missing.
    """

    columns: Mapping[str, Column]
    ranges: dict[Atom, Interval] = field(default_factory=dict)
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)

    def copy(self) -> "Facts":
        """Return the same, to be added to."""
        return Facts(self.columns, dict(self.ranges), dict(self.levels), set(self.present))

    def is_present(self, name: str) -> bool:
        """Return whether no value of a column is missing."""
        return name in self.present or self.columns[name].missing == "complete"

    def atom(self, atom: Atom, low: float = 0.0, high: float = 1.0) -> Form:
        """Return an atom, which is a number where it has one value alone."""
        found = self.ranges.get(atom, (low, high))
        low, high = max(low, found[0]), min(high, found[1])
        return constant(low) if low == high else Form({((atom, 1),): Fraction(1)}, low, high)

    def presence(self, names: Sequence[str]) -> Form:
        """Return 1 where none of these columns misses its value, else 0."""
        here = (constant(1) if self.is_present(name) else self.atom(("here", name)) for name in names)
        return reduce(multiply, here, constant(1))

    def read(self, expression: Expression) -> Form:
        """Return the form of a number or a condition, in rows that miss nothing of it."""
        name, parameters = expression.operator, expression.parameters
        if name == NUMBER:
            return constant(parameters[0])
        if name == COLUMN:
            return self._column(parameters[0])
        if name == "missing":
            return opposite(self.presence(expression.columns))
        if name == "in":
            return self._is_in(expression)
        found = [self.read(argument) for argument in expression.arguments]
        if name == "power":
            return self._power(found[0], int(parameters[0]))
        return _COMPUTE[name](self, found) if name in _COMPUTE else self._made(name, found, parameters)

    def levels_of(self, expression: Expression) -> dict[str, Form]:
        """Return the levels of a category, each as a condition."""
        if expression.operator == "reference":
            return self.levels_of(expression.arguments[0])
        if expression.operator == "cut":
            number, points = self.read(expression.arguments[0]), expression.parameters[0]
            reached = [constant(1), *(self.compare(constant(p), number) for p in points[1:-1]), constant(0)]
            names = [f"{write_number(low)} to {write_number(high)}" for low, high in pairwise(points)]
            return {
                name: _as_truth(subtract(one, other))
                for name, (one, other) in zip(names, pairwise(reached), strict=True)
            }
        column = expression.parameters[0]
        declared = self.columns[column].levels
        *free, last = self.levels.get(column, declared)
        found = {level: self.atom(("level", column, level)) for level in free}
        found[last] = _as_truth(reduce(subtract, found.values(), constant(1)))
        return {level: found.get(level, constant(0)) for level in declared}

    def compare(self, one: Form, other: Form, *, strict: bool = False) -> Form:
        """Return whether a number is at most another; below it where that is `strict`."""
        apart, exact = subtract(other, one), _is_plain(one, other)
        slack = 0.0 if exact else SLACK * max(abs(end) for end in (*one[1:], *other[1:]))
        if apart.constant is not None:
            return constant(apart.constant > 0 if strict else apart.constant >= 0)
        low, high = apart.low - slack, apart.high + slack
        if low > 0.0 or (exact and not strict and low == 0.0):
            return constant(1)
        if high < 0.0 or (exact and strict and high == 0.0):
            return constant(0)
        first, leading = min((m, c) for m, c in apart.polynomial.items() if m != ONE)
        if leading < 0:  # one way to write a comparison and its opposite
            return opposite(self.compare(other, one, strict=not strict))
        if exact:
            limit = float(-apart.polynomial.get(ONE, _ZERO))
            return self.atom(("from", repr(first), limit.hex(), ">" if strict else "≥"))
        return self.atom(("true", "<" if strict else "≤", _text(apart.polynomial)))

    def equal(self, one: Form, other: Form) -> Form:
        """Return whether two numbers are equal."""
        apart = subtract(other, one)
        if apart.constant is not None:
            return constant(apart.constant == 0)
        exact = _is_plain(one, other)
        slack = 0.0 if exact else SLACK * max(abs(end) for end in (*one[1:], *other[1:]))
        if apart.low > slack or apart.high < -slack or (exact and not self._is_kept(one, other)):
            return constant(0)
        return self.atom(("true", "=", min(_text(apart.polynomial), _text(scaled(apart, MINUS).polynomial))))

    def _is_kept(self, one: Form, other: Form) -> bool:
        """Return whether a column can equal a number: a curator rounds a column to a fixed number of steps."""
        number, value = (other, one.low) if one.constant is not None else (one, other.low)
        ((atom, _),) = next(monomial for monomial in number.polynomial if monomial != ONE)
        column = self.columns[atom[1]]
        if column.lower is None or column.upper is None:
            return True
        lower, upper = column.lower, column.upper
        # The curator reads a number at so many decimals that its lattice tells them apart.
        step = (upper / 2.0 - lower / 2.0) / STEPS
        if max(abs(lower), abs(upper)) * 2.0**-45 > step:
            return True
        decimals = -(Decimal(1.1 * step).adjusted() + 1)
        if abs(decimals) > DECIMALS_MOST:
            return True
        power = float(f"1e{abs(decimals)}")
        kept = round(value * power) / power if decimals >= 0 else round(value / power) * power
        return value in (kept, lower, upper)

    def _column(self, name: str) -> Form:
        column = self.columns[name]
        if column.type == "numeric":
            low, high = (column.lower, column.upper)
            return self.atom(("number", name), -math.inf if low is None else low, math.inf if high is None else high)
        return self.atom(("true", name))

    def _is_in(self, expression: Expression) -> Form:
        of, levels = expression.arguments[0], expression.parameters[0]
        if of.operator == COLUMN and self.columns[of.parameters[0]].type == "boolean":
            true, (no, yes) = self.read(of), self.columns[of.parameters[0]].levels
            conditions = {no: opposite(true), yes: true}
        else:
            conditions = self.levels_of(of)
        return _as_truth(reduce(add, (conditions[level] for level in levels if level in conditions), constant(0)))

    def _made(self, name: str, found: Sequence[Form], parameters: object = (), ends: Interval = ENDLESS) -> Form:
        texts = [_text(form.polynomial) for form in found]
        texts = sorted(texts) if name in {"minimum", "maximum"} else texts
        kind = "true" if name in TRUTHS else "made"
        return self.atom((kind, name, *texts, repr(parameters)), *((0.0, 1.0) if kind == "true" else ends))

    def _times(self, one: Form, other: Form) -> Form:
        """Return a product, as an atom where it has too many monomials."""
        if len(one.polynomial) * len(other.polynomial) > SIZE_MAX:
            ends = multiply(Form({}, *one[1:]), Form({}, *other[1:]))[1:]
            return self._made("multiply", [one, other], (), ends)
        return multiply(one, other)

    def _power(self, base: Form, exponent: int) -> Form:
        form = reduce(self._times, [base] * exponent)
        low, high = sorted(math.prod([end] * exponent) for end in base[1:])  # infinite where ** would raise an error
        if exponent % 2 == 0 and base.low <= 0.0 <= base.high:
            low = 0.0
        return form._replace(low=max(form.low, low), high=min(form.high, high))

    def _both(self, one: Form, other: Form) -> Form:
        return _as_truth(self._times(one, other))

    def _either(self, one: Form, other: Form) -> Form:
        return opposite(self._both(opposite(one), opposite(other)))

    def _divide(self, one: Form, other: Form) -> Form:
        if not (other.low > 0.0 or other.high < 0.0):
            return self._made("divide", [one, other])
        inverse = (1.0 / other.high, 1.0 / other.low)
        if len(other.polynomial) == 1:
            ((monomial, coefficient),) = other.polynomial.items()
            powers = tuple((atom, -power) for atom, power in monomial)
            if all(atom[0] in _NUMBERS for atom, _ in powers):
                return multiply(one, Form({powers: 1 / coefficient}, *inverse))
        return multiply(one, self._made("inverse", [other], (), inverse))

    def _log(self, form: Form) -> Form:
        if form.low <= 0.0:
            return self._made("log", [form])
        ends = math.log(form.low), math.log(form.high)
        if len(form.polynomial) == 1:
            ((monomial, factor),) = form.polynomial.items()
            if factor > 0 and all(a[0] == "number" and self._column(a[1]).low > 0.0 for a, _ in monomial):
                parts = [constant(math.log(factor))]
                parts += [
                    scaled(self.atom(("log", *a), math.log(of.low), math.log(of.high)), Fraction(power))
                    for a, power in monomial
                    for of in [self._column(a[1])]
                ]
                return reduce(add, parts)._replace(low=ends[0], high=ends[1])
        return self._made("log", [form], (), ends)

    def _increasing(self, name: str, form: Form, function: Callable[[float], float], low: float, high: float) -> Form:
        known = low <= form.low and form.high <= high
        return self._made(name, [form], (), (function(form.low), function(form.high)) if known else ENDLESS)

    def _absolute(self, form: Form) -> Form:
        if form.low >= 0.0:
            return form
        if form.high <= 0.0:
            return scaled(form, MINUS)
        return self._made("absolute", [form], (), (0.0, max(-form.low, form.high)))

    def _extreme(self, name: str, found: Sequence[Form]) -> Form:
        """Return a minimum or a maximum without the arguments that never decide it."""
        sign = 1.0 if name == "minimum" else -1.0
        bounds = [sorted((sign * form.low, sign * form.high)) for form in found]
        least = min(high for _, high in bounds)
        decides = [high for _, high in bounds].index(least)
        kept = {
            _text(form.polynomial): form
            for j, (form, (low, _)) in enumerate(zip(found, bounds, strict=True))
            if low < least or j == decides
        }
        if len(kept) == 1:
            return next(iter(kept.values()))
        low, high = sorted((sign * min(low for low, _ in bounds), sign * least))
        return self._made(name, list(kept.values()), (), (low, high))

    # Facts that follow from a condition

    def restrict(self, condition: Expression) -> bool:
        """Take in that a condition holds. Return False where it holds in no row."""
        if condition.operator == "and":
            return all(self.restrict(one) for one in condition.arguments)
        if condition.operator == "or":
            branches = [self.copy() for _ in condition.arguments]
            held = [b for b, one in zip(branches, condition.arguments, strict=True) if b.restrict(one)]
            self._take_hull(held)
            return bool(held)
        form = self.read(condition)
        if form.constant is not None:
            holds = form.constant == 1
        else:
            holds = True
            for truth, value in ((form, 1.0), (opposite(form), 0.0)):
                if len(truth.polynomial) == 1 and next(iter(truth.polynomial.values())) == 1:
                    monomial = next(iter(truth.polynomial))
                    self.ranges |= {atom: (value, value) for atom, _ in monomial} if len(monomial) == 1 else {}
        self.present |= set() if is_decided_by_one(condition) else set(decisive(condition))
        return holds and self._narrow(condition)

    def _take_hull(self, branches: Sequence["Facts"]) -> None:
        if not branches:
            return
        self.present = set.intersection(*(branch.present for branch in branches))
        common = set.intersection(*(set(branch.ranges) for branch in branches))
        for atom in common:
            lows, highs = zip(*(branch.ranges[atom] for branch in branches), strict=True)
            self.ranges[atom] = min(lows), max(highs)
        for name in set.intersection(*(set(branch.levels) for branch in branches)):
            found = {level for branch in branches for level in branch.levels[name]}
            self.levels[name] = tuple(level for level in self.columns[name].levels if level in found)

    def _narrow(self, condition: Expression) -> bool:
        """Narrow ranges of columns by one comparison. Return False where nothing is left of one."""
        operator, arguments = condition.operator, condition.arguments
        if operator == "not" and arguments[0].operator in _OPPOSITE:
            return self._narrow(Expression(_OPPOSITE[arguments[0].operator], arguments[0].arguments))
        if operator == "between":
            number, low, high = map(self.read, arguments)
            return self._keep_above(low, number) and self._keep_above(number, high)
        if operator == "in" and condition.columns and arguments[0].operator != "cut":
            name = condition.columns[0]
            if self.columns[name].type == "categorical":
                before = self.levels.get(name, self.columns[name].levels)
                left = tuple(level for level in before if level in condition.parameters[0])
                self.levels |= {name: left} if left else {}
                return bool(left)
        if operator == "in" and arguments[0].operator == "cut":
            points = arguments[0].parameters[0]
            names = [f"{write_number(low)} to {write_number(high)}" for low, high in pairwise(points)]
            places = [names.index(level) for level in condition.parameters[0]]
            number = self.read(arguments[0].arguments[0])
            low, high = constant(points[min(places)]), constant(points[max(places) + 1])
            return self._keep_above(low, number) and self._keep_above(number, high)
        if operator in {"less", "less_equal", "greater", "greater_equal", "equal"}:
            one, other = map(self.read, arguments)
            if operator.startswith("greater"):
                one, other = other, one
            return self._keep_above(one, other) and (operator != "equal" or self._keep_above(other, one))
        return True

    def _keep_above(self, one: Form, other: Form) -> bool:
        """Narrow the ranges of what two numbers are sums of, the first being at most the second."""
        apart, exact = subtract(other, one), _is_plain(one, other)
        parts = {monomial[0][0]: c for monomial, c in apart.polynomial.items() if monomial != ONE}
        if any(len(m) != 1 or m[0][1] != 1 or m[0][0][0] not in _NUMBERS for m in apart.polynomial if m != ONE):
            return True
        rest = {atom: sum(_high(self, a, c) for a, c in parts.items() if a != atom) for atom in parts}
        whole = float(apart.polynomial.get(ONE, _ZERO))
        size = max((abs(end) for end in (*one[1:], *other[1:]) if math.isfinite(end)), default=0.0)
        for atom, coefficient in parts.items():
            low, high = self.range_of(atom)
            bound = -(whole + rest[atom]) / float(coefficient)
            if not math.isfinite(bound):
                continue
            slack = 0.0 if exact else SLACK * max(size / abs(float(coefficient)), abs(bound))
            low, high = (max(low, bound - slack), high) if coefficient > 0 else (low, min(high, bound + slack))
            if low > high:
                return False
            self.ranges[atom] = low, high
        return True

    def range_of(self, atom: Atom) -> Interval:
        """Return bounds of a number."""
        if atom[0] == "log":
            of = self._column(atom[2])
            low, high = math.log(of.low), math.log(of.high)
        elif atom[0] == "number":
            of = self._column(atom[1])
            low, high = of.low, of.high
        else:
            low, high = ENDLESS
        found = self.ranges.get(atom, (low, high))
        return max(low, found[0]), min(high, found[1])


def _high(facts: Facts, atom: Atom, coefficient: Fraction) -> float:
    low, high = facts.range_of(atom)
    return max(float(coefficient) * low, float(coefficient) * high)


def _is_plain(one: Form, other: Form) -> bool:
    """Return whether one is a column as it is and the other a number, so that nothing is rounded."""
    number, value = (other, one) if one.constant is not None else (one, other)
    if value.constant is not None and len(number.polynomial) == 1:
        ((monomial, coefficient),) = number.polynomial.items()
        return coefficient == 1 and len(monomial) == 1 and monomial[0][0][0] == "number" and monomial[0][1] == 1
    return False


def _as_truth(form: Form) -> Form:
    low, high = (0.0, 1.0) if form.constant is None else (float(form.constant),) * 2
    return Form(form.polynomial, low, high)


def decisive(expression: Expression) -> tuple[str, ...]:
    """Return the columns of which a missing value may make an expression missing."""
    if expression.operator == "missing":
        return ()
    if expression.operator == COLUMN:
        return (expression.parameters[0],)
    return tuple(dict.fromkeys(name for argument in expression.arguments for name in decisive(argument)))


def is_decided_by_one(expression: Expression) -> bool:
    """Return True if there is an ``and`` or an ``or``: one side may decide it where the other is missing."""
    return any(node.operator in {"and", "or"} for node in expression.nodes())


TRUTHS = frozenset({
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "between", "in", "missing", "and", "or",
    "not",
})  # fmt: skip
"""Operators that give a condition."""
_OPPOSITE = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"}


_COMPUTE: Mapping[str, Callable[[Facts, Sequence[Form]], Form]] = {
    "add": lambda _, x: reduce(add, x),
    "subtract": lambda _, x: add(x[0], scaled(x[1], MINUS)),
    "negate": lambda _, x: scaled(x[0], MINUS),
    "multiply": lambda facts, x: reduce(facts._times, x),
    "divide": lambda facts, x: facts._divide(x[0], x[1]),
    "absolute": lambda facts, x: facts._absolute(x[0]),
    "minimum": lambda facts, x: facts._extreme("minimum", x),
    "maximum": lambda facts, x: facts._extreme("maximum", x),
    "log": lambda facts, x: facts._log(x[0]),
    "exp": lambda facts, x: facts._increasing("exp", x[0], math.exp, -300.0, 300.0),
    "sqrt": lambda facts, x: facts._increasing("sqrt", x[0], math.sqrt, 0.0, math.inf),
    "less": lambda facts, x: facts.compare(x[0], x[1], strict=True),
    "less_equal": lambda facts, x: facts.compare(x[0], x[1]),
    "greater": lambda facts, x: facts.compare(x[1], x[0], strict=True),
    "greater_equal": lambda facts, x: facts.compare(x[1], x[0]),
    "equal": lambda facts, x: facts.equal(x[0], x[1]),
    "not_equal": lambda facts, x: opposite(facts.equal(x[0], x[1])),
    "between": lambda facts, x: facts._both(facts.compare(x[1], x[0]), facts.compare(x[0], x[2])),
    "and": lambda facts, x: reduce(facts._both, x),
    "or": lambda facts, x: reduce(facts._either, x),
    "not": lambda _, x: opposite(x[0]),
}
