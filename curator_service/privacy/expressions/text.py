"""An expression as a person reads it: two that differ are never one text."""

import json
from collections.abc import Callable, Mapping

from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal

_BETWEEN = {
    "add": " + ", "multiply": " * ", "divide": " / ", "less": " < ", "less_equal": " <= ", "equal": " == ",
    "and": " & ", "or": " | ",
}  # fmt: skip


def write(tree: Expression) -> str:
    """Return the text of an expression, with brackets around all that has an operator between.

    Names of columns have no spaces, brackets or quotes, so a text says which tree it is of.
    """
    match tree:
        case Leaf(column):
            return column.name
        case Literal(value):
            return write_number(value)
        case Call(operator, arguments) if operator in _BETWEEN:
            return f"({_BETWEEN[operator].join(map(write, arguments))})"
        case Call(operator, (argument,)) if operator in _AROUND:
            return _AROUND[operator](write(argument), tree)
        case Call():
            parts = [_unwrap(write(argument)) for argument in tree.arguments]
            return f"{tree.operator}({', '.join([*parts, *map(_write_parameter, tree.parameters)])})"


def _unwrap(text: str) -> str:
    """Leave out the brackets around a whole argument: commas and brackets of the call delimit it."""
    return text[1:-1] if text.startswith("(") else text


def _write_parameter(parameter: float | str) -> str:
    if isinstance(parameter, str):
        return json.dumps(parameter, ensure_ascii=False)
    return write_number(parameter)


def write_number(value: object) -> str:
    """Return the shortest text that is this float."""
    return repr(value).removesuffix(".0")


_AROUND: Mapping[str, Callable[[str, Call], str]] = {
    "power": lambda inner, tree: f"({inner} ** {int(tree.parameters[0])})",
    "not": lambda inner, _: f"(~ {inner})",
    "in": lambda inner, tree: f"({inner} in [{', '.join(map(_write_parameter, tree.parameters))}])",
}
