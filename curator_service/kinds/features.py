"""Features as requests name them: columns, expressions, bases and interactions, from JSON and back."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypeAliasType

from curator_service.datasets.response_models import LevelsColumn, NumericColumn
from curator_service.datasets.schemas import render_column
from curator_service.kit.problems import RequestInvalid, escape_pointer
from curator_service.privacy.bases import Basis, Polynomial, Spline, check_basis
from curator_service.privacy.design import Column, Curve, Feature, Interaction, columns_of
from curator_service.privacy.expressions import DerivedColumn, ExpressionError, derive_column, parse, read_number
from curator_service.privacy.expressions.elementary import TINY
from curator_service.privacy.expressions.parse import DEPTH_MAX, OPERATOR_NAMES
from curator_service.privacy.selection import Selection

_DEPTH_READ = 2 * DEPTH_MAX + 10
"""What is deeper is refused when it is parsed."""


def _check_shape(value: object) -> object:
    is_call = isinstance(value, dict) and len(value) == 1 and all(isinstance(one, list) for one in value.values())
    if not is_call and not isinstance(value, str):
        raise ValueError("a column's name, or an object of one member: an operator, and the list of its arguments")
    return _as_doubles(value)


def _as_doubles(value: Any, depth: int = 0) -> Any:
    """Return JSON with whole numbers that its canonical text has no integers for (RFC 8785) as the floats they are."""
    match value:
        case dict() if depth < _DEPTH_READ:
            return {name: _as_doubles(one, depth + 1) for name, one in value.items()}
        case list() if depth < _DEPTH_READ:
            return [_as_doubles(one, depth + 1) for one in value]
        case int() if 2**53 <= abs(value) <= 10**100:
            return float(value)
    return value


FeatureModel = Annotated[
    Any,
    BeforeValidator(_check_shape),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "description": "A declared column"},
                {
                    "type": "object",
                    "description": "An operator, and its arguments: names of columns, numbers and other expressions",
                    "additionalProperties": {"type": "array", "items": {}},
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            ],
            "examples": [{"log": [{"add": ["creatinine", 1]}]}],
        }
    ),
]
"""A declared column by its name, or what is computed from some: read by `read_feature`, which says what is wrong."""


_OPERATOR = "|".join(sorted({*OPERATOR_NAMES, "interaction", "natural_spline", "polynomial", "spline"}))
StatedFeature = TypeAliasType(
    "StatedFeature",
    "str | float | Annotated[dict[Annotated[str, Field(pattern=f'^({_OPERATOR})$')], "
    "list[StatedFeature | list[float] | list[str]]], Field(min_length=1, max_length=1, "
    "json_schema_extra={'additionalProperties': False})]",
)
"""A feature as answers state it: requests are read more loosely, and refused with better words."""


class DerivedNumericColumn(NumericColumn):
    """Numbers that are computed from declared columns, row by row."""

    expression: StatedFeature


class DerivedLevelsColumn(LevelsColumn):
    """A category or a boolean that is computed from declared columns, row by row."""

    expression: StatedFeature


DerivedModel = Annotated[DerivedNumericColumn | DerivedLevelsColumn, Field(discriminator="type")]

_F = TypeVar("_F", bound=Feature)
FACTORS_MAX = 4
SELECTING = ("where", "weight")
"""Members of a request that say which rows count, and for how much."""


def read_feature(value: object, declared: Mapping[str, Column]) -> Feature:
    """Return the feature that a request names.

    Parameters
    ----------
    value : object
        As JSON gives it, canonical or not.

    Raises
    ------
    ExpressionError
    """
    match value:
        case {"interaction": list(factors)}:
            return _interaction(factors, declared)
        case {"polynomial": list()} | {"spline": list()} | {"natural_spline": list()}:
            return _curve(value, declared)
    return read_column(value, declared)


def read_column(value: object, declared: Mapping[str, Column]) -> Column:
    """Return the column that a request names, or computes; raise `ExpressionError`."""
    return derive_column(parse(value, declared))


def state_feature(feature: Feature) -> Any:
    """Return the canonical JSON of a feature."""
    match feature:
        case Interaction(factors):
            return {"interaction": [state_feature(factor) for factor in factors]}
        case Curve(column, basis):
            ((word, parameters),) = state_basis(basis).items()
            return {word: [state_feature(column), *parameters]}
        case DerivedColumn():
            return feature.state()
        case Column():
            return feature.name


def state_basis(basis: Basis) -> dict[str, list[Any]]:
    """Return the word of a basis, and its parameters."""
    if isinstance(basis, Polynomial):
        return {"polynomial": [basis.degree]}
    knots = list(basis.knots)
    return {"natural_spline": [knots]} if basis.natural else {"spline": [knots, basis.degree]}


def order_features(features: Sequence[_F], declared: Mapping[str, Column]) -> tuple[_F, ...]:
    """Return features in their one order: declared columns in that of the manifest, then others by name."""
    place = {name: i for i, name in enumerate(declared)}
    return tuple(sorted(features, key=lambda feature: (place.get(feature.name, len(place)), feature.name)))


def read_selection(where: object, weight: object, declared: Mapping[str, Column]) -> Selection:
    """Return which rows count, and for how much.

    Raises
    ------
    RequestInvalid
    """
    condition = None if where is None else at("/where", lambda: _condition(where, declared))
    factor = None if weight is None else at("/weight", lambda: _weight(weight, declared))
    return Selection(condition, factor)


def state_selection(selection: Selection) -> dict[str, Any]:
    """Return the members of a canonical request that a selection has."""
    named = {"where": selection.where, "weight": selection.weight}
    return {name: state_feature(column) for name, column in named.items() if column is not None}


def at(pointer: str, read: Any) -> Any:
    """Read a part of a request; raise `RequestInvalid` at its place where it means nothing."""
    try:
        return read()
    except ExpressionError as error:
        raise RequestInvalid.at("/".join([pointer, *map(escape_pointer, error.place)]), error.rule) from None


def list_derived(columns: Sequence[Column]) -> tuple[DerivedColumn, ...]:
    """Return those that are computed, each once."""
    return tuple(dict.fromkeys(column for column in columns if isinstance(column, DerivedColumn)))


def render_derived(columns: Sequence[DerivedColumn]) -> dict[str, Any]:
    """Return what answers state of derived columns; nothing where there are none."""
    rendered = [render_column(column) | {"expression": column.state()} for column in columns]
    return {"derived": rendered} if rendered else {}


def _interaction(values: Sequence[object], declared: Mapping[str, Column]) -> Interaction:
    if not 2 <= len(values) <= FACTORS_MAX:
        raise ExpressionError(f"an interaction is of 2 to {FACTORS_MAX} features", ("interaction",))
    factors: list[Column | Curve] = []
    for i, value in enumerate(values):
        try:
            factor = read_feature(value, declared)
        except ExpressionError as error:
            raise ExpressionError(error.rule, ("interaction", i, *error.place)) from None
        if isinstance(factor, Interaction):
            raise ExpressionError("an interaction of interactions is one of all their features", ("interaction", i))
        factors.append(factor)
    names = [column.name for factor in factors for column in columns_of(factor)]
    if len(set(names)) != len(names):
        rule = "each column stands in it once; multiply a column by itself for its square"
        raise ExpressionError(rule, ("interaction",))
    return Interaction(order_features(factors, declared))


def _curve(value: Any, declared: Mapping[str, Column]) -> Curve:
    ((word, arguments),) = value.items()
    places = {"polynomial": (2,), "spline": (2, 3), "natural_spline": (2,)}[word]
    if len(arguments) not in places:
        what = "its degree" if word == "polynomial" else "the list of its knots"
        raise ExpressionError(f"{word} takes a number and {what}", (word,))
    try:
        column = read_column(arguments[0], declared)
    except ExpressionError as error:
        raise ExpressionError(error.rule, (word, 0, *error.place)) from None
    if not column.is_number:
        raise ExpressionError(f"a basis is of a number, and {column.name} is a {column.type}", (word, 0))
    try:
        basis = _basis(word, arguments[1:])
        check_basis(basis, column.lower, column.upper)
    except ValueError as error:
        raise ExpressionError(str(error), (word, 1)) from None
    return Curve(column, basis)


def _basis(word: str, parameters: Sequence[object]) -> Basis:
    if word == "polynomial":
        return Polynomial(_whole(parameters[0], "a polynomial's degree"))
    knots = parameters[0]
    if not isinstance(knots, list):
        raise ExpressionError("knots are a list of numbers")
    degree = _whole(parameters[1], "a spline's degree") if len(parameters) > 1 else 3
    return Spline(tuple(map(read_number, knots)), degree, word == "natural_spline")


def _whole(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -100 < value < 100 or value % 1:
        raise ValueError(f"{what} is a small whole number")
    return int(value)


def _condition(value: object, declared: Mapping[str, Column]) -> Column:
    column = read_column(value, declared)
    if not column.is_truth:
        raise ExpressionError("a condition is asked for: a boolean, or a comparison such as {'less': ['age', 60]}")
    return column


def _weight(value: object, declared: Mapping[str, Column]) -> Column:
    column = read_column(value, declared)
    if column.is_truth:  # a row counts where it is true
        column = read_column({"subtract": [1, {"not": [value]}]}, declared)
    is_number = column.is_number and column.upper - column.lower >= TINY
    if not is_number or column.lower < 0 or column.upper > 1:
        raise ExpressionError(
            f"a weight is a number whose bounds lie between 0 and 1; {column.name} has {column.lower:g} and "
            f"{column.upper:g}. Divide it by its upper bound"
        )
    return column
