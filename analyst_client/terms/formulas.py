"""Formulas as R and statsmodels write them, to the features of a request."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analyst_client.schema.columns import TRUTHS, Column
from analyst_client.terms.expression import COLUMN, EqualKnots, Expression, col
from analyst_client.terms.functions import interaction
from analyst_client.terms.python import (
    FormulaError,
    mask_calls,
    mask_keywords,
    no_column,
    no_level,
    read_condition,
    read_python,
    show_place,
)

_TRUTHS = frozenset({
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "between", "in", "missing", "and", "or",
    "not",
})  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A regression as R and statsmodels write it, and the rows that it is of. Needs the extra ``formula``.

    Parameters
    ----------
    formula : str
        Such as ``"log(kappa + 1) ~ poly(age, 3) * sex + bs(creatinine, df=4)"``: ``+ : * ** - .`` and ``0`` as usual;
        ``log exp sqrt abs min max cut C poly bs ns I``, comparisons and arithmetic of Python within functions.
    condition, weight : Expression or None
        As `where` and `weighted` set them.

    Examples
    --------
    >>> Model("kappa ~ age").where("sex == 'F'").where("age >= 60")
    Model('kappa ~ age') where (sex in ['F']) & (age >= 60.0)
    """

    formula: str
    condition: Expression | None = None
    weight: Expression | None = None

    def where(self, condition: "str | Expression") -> "Model":
        """Return the same model of the rows in which a condition is true, beside those that it has."""
        read = read_condition(condition) if isinstance(condition, str) else condition
        return replace(self, condition=read if self.condition is None else self.condition & read)

    def weighted(self, weight: "str | Expression") -> "Model":
        """Return the same model with rows counted by a number in [0, 1], in place of the weight that it has."""
        return replace(self, weight=read_condition(weight) if isinstance(weight, str) else weight)

    def __repr__(self) -> str:
        """Show the formula, and the rows."""
        rows = "" if self.condition is None else f" where {self.condition!r}"
        return f"Model({self.formula!r}){rows}" + ("" if self.weight is None else f" weighted by {self.weight!r}")

    def read(self, columns: Sequence[Column]) -> "ReadModel":
        """Return what to ask for, of a dataset with these columns.

        Raises
        ------
        FormulaError
            When the formula means nothing, or means something else to R than a request says.
        ImportError
            Without the extra ``formula``.
        """
        found = read_formula(self.formula, columns)
        options: dict[str, Any] = dict(found.options)
        if self.condition is not None:
            options["where"] = self.condition
        if self.weight is not None:
            options["weight"] = self.weight
        return replace(found, options=options)


@dataclass(frozen=True)
class ReadModel:
    """A formula as a request has it.

    Attributes
    ----------
    formula : str
    features : tuple of Expression
    options : mapping
        Targets, and the intercept where there is none.
    places : mapping of str to tuple of int
        Of each feature and target, by its pointer in the request, where it stands in the formula.
    """

    formula: str
    features: tuple[Expression, ...]
    options: Mapping[str, Any]
    places: Mapping[str, tuple[int, int]]

    def locate(self, pointer: str) -> str | None:
        """Show the part of the formula that a member of the request comes from."""
        place = self.places.get("/".join(pointer.split("/")[:3]))
        return None if place is None else show_place(self.formula, *place)


def read_formula(formula: str, columns: Sequence[Column]) -> ReadModel:
    """Read a formula; see `Model`."""
    parser = _load()
    by_name = {column.name: column for column in columns}
    try:
        readable, known = mask_keywords(mask_calls(formula)), {"__formulaic_variables_available__": list(by_name)}
        parsed = parser(readable, context=known)
    except Exception as error:
        raise _syntax(error, formula) from None
    sides = parsed._structure
    if not sides.keys() <= {"root", "lhs", "rhs"} or any(isinstance(side, tuple) for side in sides.values()):
        raise FormulaError("a formula has one part on each side of ~", formula)
    left, right = list(sides.get("lhs", ())), list(sides.get("rhs", sides.get("root", ())))
    read = _Reader(formula, by_name)
    targets = [read.one(term) for term in left]
    intercept = any(str(term) == "1" for term in right)
    features = [read.one(term) for term in right if str(term) not in {"0", "1"}]
    if not features:
        raise FormulaError("a formula names a column that explains", formula)
    _check_margins(features, intercept, by_name, formula)
    options: dict[str, Any] = {"targets": [target.expression for target in targets]} if targets else {}
    places = {f"/features/{i}": one.place for i, one in enumerate(features)}
    places |= {f"/targets/{i}": one.place for i, one in enumerate(targets)}
    whole = tuple(one.expression for one in features)
    return ReadModel(formula, whole, options | ({} if intercept else {"intercept": False}), places)


@dataclass(frozen=True)
class _Read:
    """A term of a formula: its factors, what it is asked for as, and where it stands."""

    factors: tuple[Expression, ...]
    place: tuple[int, int]

    @property
    def expression(self) -> Expression:
        return self.factors[0] if len(self.factors) == 1 else interaction(*self.factors)


class _Reader:
    """Reads terms of a formula."""

    def __init__(self, formula: str, columns: Mapping[str, Column]) -> None:
        self._formula, self._columns = formula, columns

    def one(self, term: Any) -> _Read:
        """Return what a parsed term asks for."""
        read = [self._factor(factor) for factor in term.factors]
        starts, stops = zip(*(place for _, place in read), strict=True)
        return _Read(tuple(expression for expression, _ in read), (min(starts), max(stops)))

    def _factor(self, factor: Any) -> tuple[Expression, tuple[int, int]]:
        start, stop = self._place(factor)
        text = self._formula[start:stop]
        if text[:1] in {"`", "."}:  # a name as it is; every other column, by its name
            if factor.expr not in self._columns:
                raise FormulaError(no_column(factor.expr, list(self._columns)), self._formula, start, stop)
            return col(factor.expr), (start, stop)
        if text[:1] == "{":
            start, text = start + 1, text[1:]
        found = read_python(text, self._formula, start, list(self._columns))
        if re.match(r"C\s*\(", text) and _kind(found, self._columns) == "number":
            rule = f"{found!r} is a number, and would be one slope: as levels it is {self._as_levels(found)}"
            raise FormulaError(f"{rule}, and as a slope {found!r}", self._formula, start, stop)
        try:
            return as_term(found, self._columns), (start, stop)
        except ValueError as error:
            raise FormulaError(str(error), self._formula, start, stop) from None

    def _as_levels(self, number: Expression) -> str:
        """Write a category of a number, of three equal parts of its bounds where it is a column that has any."""
        column = self._columns.get(str(number.parameters[0])) if number.operator == COLUMN else None
        if column is None or column.lower is None or column.upper is None:
            return f"cut({number!r}, [60, 70])"
        points = [float(f"{column.lower + k * (column.upper - column.lower) / 3.0:.3g}") for k in (1, 2)]
        return f"cut({number!r}, {points})"

    def _place(self, factor: Any) -> tuple[int, int]:
        token = factor.token
        if token is None or token.source_start is None or token.source_end is None:
            start = self._formula.rindex(".")  # which stands for every other column
            return start, start + 1
        return token.source_start, token.source_end + 1


def _check_margins(features: Sequence[_Read], intercept: bool, columns: Mapping[str, Column], formula: str) -> None:
    """Refuse a formula to which R gives another set of terms than a request has.

    R codes a category in a term by differences from its first level where the rest of the term is in the model, and by
    all levels elsewhere. A request codes by differences beside a constant, and by all levels without one.
    """
    spanned = {frozenset[str]()} if intercept else set[frozenset[str]]()
    for one in sorted(features, key=lambda read: len(read.factors)):
        keys = [json.dumps(factor.to_json()) for factor in one.factors]
        if frozenset(keys) in spanned:
            raise FormulaError("this stands twice in the formula", formula, *one.place)
        kinds = [_kind(factor, columns) for factor in one.factors]
        for i, kind in enumerate(kinds):
            margin = frozenset(keys[:i] + keys[i + 1 :])
            rest = " and ".join(repr(factor) for j, factor in enumerate(one.factors) if j != i) or "the constant"
            coded = f"{one.factors[i]!r} is coded by differences from its first level"
            if kind != "number" and margin not in spanned and (intercept or kind == "boolean"):
                within = f"here, which needs {rest} in the model: write {'*'.join(map(repr, one.factors))}"
                raise FormulaError(f"{coded} {within if margin else 'and needs the constant'}", formula, *one.place)
            if kind == "category" and margin in spanned and not intercept:
                rule = f"without a constant every level of {one.factors[i]!r} has a term, beside {rest} too many"
                raise FormulaError(f"{rule}: write it with the constant", formula, *one.place)
        spanned.add(frozenset(keys))
        if not intercept and all(kind == "category" for kind in kinds):
            spanned.add(frozenset())  # its terms add up to the constant


def _kind(factor: Expression, columns: Mapping[str, Column]) -> str:
    if factor.operator == COLUMN:
        declared = columns[factor.parameters[0]].type
        return {"categorical": "category", "boolean": "boolean"}.get(declared, "number")
    if factor.operator in {"cut", "reference"}:
        return "category"
    return "boolean" if factor.operator in _TRUTHS else "number"


def as_declared(expression: Expression, columns: Mapping[str, Column]) -> Expression:
    """Return an expression in the terms of declared columns.

    Knots are placed at equal distances between bounds, and a boolean without labels of its own is at the words that a
    file has for false and true.

    Raises
    ------
    ValueError
        When no bounds are declared of what a spline is of, or a column equals a name that is no column.
    """
    if _is_of_two_columns(expression):
        left, right = (str(argument.parameters[0]) for argument in expression.arguments)
        if left in columns and right not in columns:
            raise ValueError(no_level(left, right, list(columns)))
    arguments = tuple(as_declared(argument, columns) for argument in expression.arguments)
    parameters = tuple(
        _between(part.count, expression, columns) if isinstance(part, EqualKnots) else part
        for part in expression.parameters
    )
    if expression.operator == "in" and (column := columns.get(str(arguments[0]))) is not None:
        parameters = (tuple(dict.fromkeys(map(column.label, parameters[0]))),)
    return Expression(expression.operator, arguments, parameters)


def as_term(expression: Expression, columns: Mapping[str, Column]) -> Expression:
    """Return a feature or a target in the terms of declared columns: a boolean at its label is itself, or its opposite.

    So a curator answers it. Raise `ValueError` as `as_declared` does.
    """
    declared = as_declared(expression, columns)
    column = columns.get(str(declared.arguments[0])) if declared.operator == "in" else None
    if column is None or column.type != "boolean":
        return declared
    opposite = dict(
        zip(column.levels or ("false", "true"), (~declared.arguments[0], declared.arguments[0]), strict=True)
    )
    (level, *others) = declared.parameters[0]
    return declared if others else opposite.get(level, declared)


def _is_of_two_columns(expression: Expression) -> bool:
    """Return whether this compares two columns, of which one may be a level without its quotes."""
    is_equal = expression.operator in {"equal", "not_equal"}
    return is_equal and all(argument.operator == COLUMN for argument in expression.arguments)


def needs_declared(expressions: Sequence[object]) -> bool:
    """Return whether `as_declared` may change one of these."""
    nodes = [node for one in expressions if isinstance(one, Expression) for node in one.nodes()]
    levels = {level.lower() for node in nodes if node.operator == "in" for level in node.parameters[0]}
    return bool(levels & TRUTHS.keys()) or any(
        _is_of_two_columns(node) or any(isinstance(part, EqualKnots) for part in node.parameters) for node in nodes
    )


def _between(count: int, spline: Expression, columns: Mapping[str, Column]) -> tuple[float, ...]:
    argument = spline.arguments[0]
    column = columns.get(argument.parameters[0]) if argument.operator == COLUMN else None
    if column is None or column.lower is None or column.upper is None:
        raise ValueError(f"df places knots between declared bounds, and {argument!r} has none: give knots=[…]")
    width = (column.upper - column.lower) / (count + 1)
    return tuple(column.lower + width * (k + 1) for k in range(count))


def _load() -> Any:
    try:
        from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415 -- an extra
    except ImportError:
        raise ImportError(
            "formulas need the extra 'formula': pip install 'dp-curator-client[formula]'. Without it a list of "
            "features says the same, with the functions of analyst_client.terms"
        ) from None
    return DefaultFormulaParser().get_terms


def _syntax(error: Exception, formula: str) -> FormulaError:
    """Return what the parser says, with the place that it marks."""
    lines = str(error).splitlines() or [""]
    rule, marked = lines[0], lines[-1]
    found = re.search(r"⧛\x1b\[[0-9;]*m(.*?)\x1b\[0m⧚", marked)
    place = (found.start(), found.start() + len(found[1])) if found else (0, len(formula))
    return FormulaError(f"this is no formula: {rule.rstrip('.') or type(error).__name__}", formula, *place)
