"""From the JSON of a request to a canonical tree: equal expressions are one tree, whatever they are written like.

A column is its name, a number is a number, and everything else an object of one member: an operator, and the list of
its arguments. The canonical tree decides in which order operations are done, so equal trees give equal last digits.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from curator_service.privacy.design import Column
from curator_service.privacy.expressions.elementary import TINY
from curator_service.privacy.expressions.errors import ExpressionError
from curator_service.privacy.expressions.evaluate import bounds_of, levels_of
from curator_service.privacy.expressions.operators import LARGEST, OPERATORS, POWER_MAX
from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal, Type, count, sort_key, to_json

NODES_MAX, DEPTH_MAX = 200, 30
LISTED_MAX = 1000
_Place = tuple[str | int, ...]


def parse(value: object, columns: Mapping[str, Column]) -> Expression:
    """Return the canonical tree of an expression.

    Parameters
    ----------
    value : object
        As JSON gives it.
    columns : mapping of str to Column
        What is declared.

    Raises
    ------
    ExpressionError
        Naming the place, the rule and what would have worked.
    """
    tree = _Parser(columns).read(value, ())
    if count(tree) > NODES_MAX:
        raise ExpressionError(f"an expression has at most {NODES_MAX} columns, numbers and operators")
    # Answers state the canonical form, and what they state is read again: it must pass, and be the same.
    try:
        again = _Parser(columns).read(to_json(tree), ())
    except ExpressionError as error:
        raise ExpressionError(f"written in its canonical form it is beyond a limit: {error.rule}") from None
    assert again == tree, "a canonical expression is its own canonical form"
    return tree


class _Parser:
    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def read(self, value: object, place: _Place) -> Expression:
        if len(place) > 2 * DEPTH_MAX:
            raise ExpressionError(f"expressions are nested at most {DEPTH_MAX} deep", place)
        if isinstance(value, str):
            if value not in self._columns:
                raise ExpressionError(
                    f"the dataset declares no column {value[:60]!r}; it has {', '.join(self._columns)}", place
                )
            column = self._columns[value]
            if place and column.is_number and column.upper / 2 - column.lower / 2 < TINY:
                raise ExpressionError(f"the bounds of {value!r} are too near to each other to compute with it", place)
            if place and max(-column.lower, column.upper) > LARGEST:
                raise ExpressionError(
                    f"{value!r} may be above {LARGEST:g} in size, which nothing is computed of", place
                )
            return Leaf(column)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(value, place)
        if not isinstance(value, Mapping) or len(value) != 1:
            raise ExpressionError(
                "an expression is a column's name, a number, or an object of one member: an operator and the list of "
                "its arguments",
                place,
            )
        ((operator, arguments),) = value.items()
        if not isinstance(arguments, list):
            raise ExpressionError("an operator's arguments are a list", (*place, operator))
        return self._call(str(operator), arguments, (*place, str(operator)))

    def _call(self, operator: str, arguments: Sequence[object], place: _Place) -> Expression:
        try:
            return self._make(operator, arguments, place)
        except ExpressionError as error:
            raise ExpressionError(error.rule, error.place or place) from None

    def _make(self, operator: str, arguments: Sequence[object], place: _Place) -> Expression:
        if operator in _SPECIAL:
            least, what, make = _SPECIAL[operator]
            if len(arguments) != least:
                raise ExpressionError(f"{operator} takes {what}", place)
            return make(self, arguments, place)
        if operator in _SUGAR:
            least, combine = _SUGAR[operator]
            if len(arguments) != least:
                raise ExpressionError(f"{operator} takes {least} argument{'s' * (least > 1)}", place)
            return combine(self.several(arguments, Type.NUMBER, place))
        if operator not in OPERATORS:
            raise ExpressionError(
                f"there is no operator {operator[:40]!r}; there are {', '.join(OPERATOR_NAMES)}", place
            )
        rule = OPERATORS[operator]
        if len(arguments) not in rule.arguments:
            most = rule.arguments.stop - 1
            said = str(most) if rule.arguments.start == most else f"{rule.arguments.start} to {most}"
            raise ExpressionError(f"{operator} takes {said} argument{'s' * (said != '1')}", place)
        return _canonical(operator, self.several(arguments, rule.takes, place))

    def one(self, value: object, wanted: Type, place: _Place) -> Expression:
        """Read an argument of a type."""
        tree = self.read(value, place)
        _check_type(tree, wanted, place)
        return tree

    def several(self, values: Sequence[object], wanted: Type, place: _Place) -> list[Expression]:
        """Read arguments of one type."""
        return [self.one(value, wanted, (*place, i)) for i, value in enumerate(values)]


def read_number(value: object, place: _Place = ()) -> float:
    """Return a public number of a request. Raise `ExpressionError` where it is none, or has no use."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ExpressionError(f"a number is asked for, finite and at most {LARGEST:g} in size", place)
    if 0 < abs(value) < TINY:
        raise ExpressionError(f"a number other than 0 is at least {TINY:g} in size", place)
    return float(value) + 0.0  # minus zero is the same number, and would be another text


def _number(value: object, place: _Place = ()) -> Literal:
    return Literal(read_number(value, place))


def _check_type(tree: Expression, wanted: Type, place: _Place) -> None:
    if tree.type is wanted or (wanted is Type.NUMBER and tree.type is Type.TRUTH):
        return
    hints = {
        Type.NUMBER: "a category has no number: ask which level it is, as in {'in': ['sex', ['F']]}",
        Type.TRUTH: "a condition is asked for: a boolean, or a comparison such as {'less': ['age', 60]}",
        Type.LEVEL: "a category is asked for",
    }
    raise ExpressionError(hints[wanted], place)


def _find_levels(category: Expression, asked: object, place: _Place) -> list[str]:
    known = levels_of(category)
    if not isinstance(asked, list) or not asked or not all(level in known for level in asked):
        raise ExpressionError(f"levels are those that are declared: {', '.join(known[:20])}", place)
    return [level for level in known if level in asked]


def _in(parser: _Parser, arguments: Sequence[object], place: _Place) -> Expression:
    labelled = parser.read(arguments[0], (*place, 0))
    if isinstance(labelled, Leaf) and labelled.type is Type.TRUTH:  # by its labels, false and true
        found = _find_levels(labelled, arguments[1], (*place, 1))
        if len(found) == 1:
            return labelled if found == [labelled.column.levels[1]] else _not(labelled)
        raise ExpressionError("both labels are true for every row that has one; name one of them", (*place, 1))
    _check_type(labelled, Type.LEVEL, (*place, 0))
    return Call("in", (labelled,), tuple(_find_levels(labelled, arguments[1], (*place, 1))), Type.TRUTH)


def _reference(parser: _Parser, arguments: Sequence[object], place: _Place) -> Expression:
    category = parser.one(arguments[0], Type.LEVEL, (*place, 0))
    (level,) = _find_levels(category, [arguments[1]], (*place, 1))
    if level == levels_of(category)[0]:
        return category
    return Call("reference", (category,), (level,), Type.LEVEL)


def _missing(parser: _Parser, arguments: Sequence[object], place: _Place) -> Expression:
    if not isinstance(arguments[0], str):
        raise ExpressionError("missing takes the name of a column", (*place, 0))
    return Call("missing", (parser.read(arguments[0], (*place, 0)),), (), Type.TRUTH)


def _exponent(parser: _Parser, arguments: Sequence[object], place: _Place) -> Expression:
    exponent = read_number(arguments[1], (*place, 1))
    if exponent not in range(1, POWER_MAX + 1):
        raise ExpressionError(f"an exponent is a whole number from 1 to {POWER_MAX}", (*place, 1))
    return _power(parser.one(arguments[0], Type.NUMBER, (*place, 0)), int(exponent))


def _cut(parser: _Parser, arguments: Sequence[object], place: _Place) -> Expression:
    """Make a category of a number. The outer cut points are the bounds, and are filled in where they are left out."""
    number, asked, place = parser.one(arguments[0], Type.NUMBER, (*place, 0)), arguments[1], (*place, 1)
    lower, upper = bounds_of(number)
    if not isinstance(asked, list) or not 1 <= len(asked) <= LISTED_MAX:
        raise ExpressionError(f"cut points are a list of 1 to {LISTED_MAX} numbers", place)
    points = [read_number(point, place) for point in asked]
    inner = [point for point in points if point not in {lower, upper}]
    whole = [lower, *inner, upper]
    if not all(one < other for one, other in pairwise(whole)) or not inner:
        raise ExpressionError(f"cut points increase, and are between the bounds, {lower:g} and {upper:g}", place)
    return Call("cut", (number,), tuple(whole), Type.LEVEL)


_SPECIAL: Mapping[str, tuple[int, str, Callable[[_Parser, Sequence[object], _Place], Expression]]] = {
    "power": (2, "a number, and its exponent", _exponent),
    "cut": (2, "a number, and the list of its cut points", _cut),
    "in": (2, "a category, and a list of its levels", _in),
    "reference": (2, "a category, and one of its levels", _reference),
    "missing": (1, "the name of a column", _missing),
}
"""Operators with public parameters."""


def _canonical(operator: str, arguments: Sequence[Expression]) -> Expression:
    match operator:
        case "add":
            return _add(arguments)
        case "multiply":
            return _multiply(arguments)
        case "divide":
            return _divide(arguments)
        case "not":
            return _not(arguments[0])
    if OPERATORS[operator].commutes:
        found = [part for argument in arguments for part in _parts(operator, argument)]
        if operator != "equal":
            numbers = [part for part in found if isinstance(part, Literal)]
            found = list(dict.fromkeys(part for part in found if not isinstance(part, Literal)))
            if numbers:  # of a minimum or a maximum
                choose = min if operator == "minimum" else max
                found.append(choose(numbers, key=lambda number: number.value))
        arguments = sorted(found, key=sort_key)
        if len(arguments) == 1:
            return arguments[0]
    return _fold(Call(operator, tuple(arguments), (), OPERATORS[operator].gives))


def _parts(operator: str, tree: Expression) -> tuple[Expression, ...]:
    """Return the arguments of a call of the same operator: what groups them means nothing."""
    joins = isinstance(tree, Call) and tree.operator == operator and operator != "equal"
    return tree.arguments if joins else (tree,)  # type: ignore[union-attr]  # joins: it is a call


def _fold(call: Call) -> Expression:
    """Compute a call of numbers alone."""
    bounds_of(call)  # it may have none
    if not call.arguments or not all(isinstance(argument, Literal) for argument in call.arguments):
        return call
    if call.type is not Type.NUMBER:
        raise ExpressionError("a comparison of two numbers is the same for every row; name a column")
    rule = OPERATORS[call.operator]
    values = [np.array([argument.value]) for argument in call.arguments if isinstance(argument, Literal)]
    return _number(float(rule.compute(values, [bounds_of(a) for a in call.arguments], call.parameters)[0]))


def _add(arguments: Sequence[Expression]) -> Expression:
    """Add, with like terms collected."""
    weights: dict[Expression, list[float]] = {}
    constants: list[float] = []
    for part in (part for argument in arguments for part in _parts("add", argument)):
        if isinstance(part, Literal):
            constants.append(part.value)
            continue
        weight, rest = _take_factor(part)
        weights.setdefault(rest, []).append(weight)
    terms = [_scaled(math.fsum(found), rest) for rest, found in weights.items() if math.fsum(found)]
    if any(_parts("add", term) != (term,) for term in terms):  # what is left of 2 (a + b) - (a + b) is a sum
        return _add([*terms, *map(_number, constants)])
    constant = math.fsum(constants)
    if constant or not terms:
        terms.append(_number(constant))
    return _join("add", terms)


def _multiply(arguments: Sequence[Expression]) -> Expression:
    """Multiply, with like factors collected."""
    exponents: dict[Expression, int] = {}
    constants: list[float] = []
    for part in (part for argument in arguments for part in _parts("multiply", argument)):
        if isinstance(part, Literal):
            constants.append(part.value)
            continue
        base, exponent = _take_exponent(part)
        exponents[base] = exponents.get(base, 0) + exponent
    if 0 in constants:
        return _number(0.0)
    constant = math.prod(sorted(constants))
    if not constant:
        raise ExpressionError(f"the product of its numbers is below {TINY:g} in size, and not 0")
    factors = [_power(base, exponent) for base, exponent in exponents.items()]
    if constant != 1 or not factors:
        factors.append(_number(constant))
    return _join("multiply", factors)


def _join(operator: str, parts: Sequence[Expression]) -> Expression:
    if len(parts) == 1:
        return parts[0]
    return _fold(Call(operator, tuple(sorted(parts, key=sort_key))))


def _take_factor(tree: Expression) -> tuple[float, Expression]:
    """Return the constant factor of a product, and what is left."""
    if not isinstance(tree, Call) or tree.operator != "multiply":
        return 1.0, tree
    constants = [part.value for part in tree.arguments if isinstance(part, Literal)]
    rest = [part for part in tree.arguments if not isinstance(part, Literal)]
    return math.prod(constants), _join("multiply", rest)


def _scaled(weight: float, tree: Expression) -> Expression:
    return tree if weight == 1 else _multiply([_number(weight), tree])


def _take_exponent(tree: Expression) -> tuple[Expression, int]:
    if isinstance(tree, Call) and tree.operator == "power":
        return tree.arguments[0], int(tree.parameters[0])
    return tree, 1


def _power(base: Expression, exponent: int) -> Expression:
    base, inner = _take_exponent(base)
    if base.type is Type.TRUTH or exponent * inner == 1:
        return base
    if isinstance(base, Call) and base.operator == "multiply":
        return _multiply([base] * exponent)
    if exponent * inner > POWER_MAX:
        raise ExpressionError(f"powers are at most {POWER_MAX}: take a polynomial of it, or a logarithm first")
    return _fold(Call("power", (base,), (float(exponent * inner),)))


def _not(tree: Expression) -> Expression:
    """Negate, as far inside as it goes: what is missing stays missing on either side."""
    match tree:
        case Call("not", (inner,)):
            return inner
        case Call("less" | "less_equal" as operator, (one, other)):
            return Call({"less": "less_equal", "less_equal": "less"}[operator], (other, one), (), Type.TRUTH)
        case Call("and" | "or" as operator, arguments):
            return _canonical({"and": "or", "or": "and"}[operator], [_not(argument) for argument in arguments])
        case Call("in", (category,), levels) if len(levels) < len(levels_of(category)):
            rest = tuple(level for level in levels_of(category) if level not in levels)
            return Call("in", (category,), rest, Type.TRUTH)
    return Call("not", (tree,), (), Type.TRUTH)


def _divide(arguments: Sequence[Expression]) -> Expression:
    """Divide; a number whose reciprocal is a float is that factor."""
    divided, divisor = arguments
    if isinstance(divisor, Literal) and abs(math.frexp(divisor.value)[0]) == 0.5:
        return _multiply([divided, _number(1 / divisor.value)])
    return _fold(Call("divide", (divided, divisor)))


def _subtract(arguments: Sequence[Expression]) -> Expression:
    return _add([arguments[0], _scaled(-1.0, arguments[1])])


def _between(arguments: Sequence[Expression]) -> Expression:
    number, lower, upper = arguments
    return _canonical("and", [_canonical("less_equal", [lower, number]), _canonical("less_equal", [number, upper])])


_SUGAR: Mapping[str, tuple[int, Callable[[Sequence[Expression]], Expression]]] = {
    "subtract": (2, _subtract),
    "negate": (1, lambda arguments: _scaled(-1.0, arguments[0])),
    "greater": (2, lambda arguments: _canonical("less", arguments[::-1])),
    "greater_equal": (2, lambda arguments: _canonical("less_equal", arguments[::-1])),
    "not_equal": (2, lambda arguments: _not(_canonical("equal", arguments))),
    "between": (3, _between),
}
"""Other words for what operators say."""
OPERATOR_NAMES = tuple(sorted({*OPERATORS, *_SUGAR, *_SPECIAL}))
