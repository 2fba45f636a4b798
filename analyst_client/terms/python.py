"""Text of Python to expressions: the factors of a formula, and conditions such as ``"sex == 'F' and age >= 60"``.

The text is parsed and never run.
"""

import ast
import keyword
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from analyst_client.error_base import CuratorError
from analyst_client.meant import say_meant
from analyst_client.terms import functions as known
from analyst_client.terms.expression import Expression, as_expression, call, col, log

Translated = Expression | str | list[Any]


class FormulaError(CuratorError, ValueError):
    """A formula or a condition that means nothing; it shows the place.

    Attributes
    ----------
    rule : str
    text : str
    start, stop : int
        The place in the text.

    Examples
    --------
    >>> from analyst_client.errors import FormulaError
    >>> from analyst_client.tutorial import recorded_client
    >>> try:
    ...     recorded_client("methods").quote("flchain", ["age"], target="kappa", where="age >", epsilon=0.1, delta=1e-6)
    ... except FormulaError as error:
    ...     print(error)
    this is no expression of Python
        age >
        ^^^^^
    """

    def __init__(self, rule: str, text: str, start: int = 0, stop: int | None = None) -> None:
        self.rule, self.text, self.start, self.stop = rule, text, start, len(text) if stop is None else stop
        super().__init__(f"{rule}\n{show_place(text, self.start, self.stop)}")

    def __reduce__(self) -> "tuple[type[FormulaError], tuple[str, str, int, int]]":
        """Pickle what it was made of."""
        return FormulaError, (self.rule, self.text, self.start, self.stop)


def show_place(text: str, start: int, stop: int) -> str:
    """Show a place in a text of one line.

    Examples
    --------
    >>> print(show_place("kappa ~ agee", 8, 12))
        kappa ~ agee
                ^^^^
    """
    return f"    {text}\n    {' ' * start}{'^' * max(stop - start, 1)}"


def read_condition(text: str, columns: Sequence[str] | None = None) -> Expression:
    """Return the expression of a text, such as ``"age >= 60 and sex == 'F'"``.

    Parameters
    ----------
    text : str
    columns : sequence of str, optional
        Names that there are. Default any.

    Raises
    ------
    FormulaError
    """
    return read_python(text, text, 0, columns)


def read_python(source: str, text: str, offset: int, columns: Sequence[str] | None) -> Expression:
    """Return the expression of a part of a text that begins at an offset; raise `FormulaError`."""
    lead = len(source) - len(source.lstrip())
    try:
        tree = _parse(source.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        rule = f"this is no expression of Python{_suggest(source)}"
        raise FormulaError(rule, text, offset + lead, offset + len(source.rstrip())) from None
    found = _Translator(text, offset + lead, columns, source.strip()).read(tree)
    if not isinstance(found, Expression):
        raise FormulaError("this is no column or function of one", text, offset, offset + len(source))
    return found


def _parse(source: str) -> ast.expr:
    return ast.parse(_as_python(source), mode="eval").body


_HIDDEN = {ord("-"): "ʗ", ord("."): "ʖ"}


def _as_python(source: str) -> str:
    """Return a text, as long as it was, in which names in backquotes are read too."""
    return mask_keywords(_outside_texts("`([^`]*)`", lambda name: f"({name[1].translate(_HIDDEN)})", source))


def mask_calls(formula: str) -> str:
    """Return a formula, as long as it was, in which Python can read names in backquotes within a function's brackets.

    Examples
    --------
    >>> mask_calls("`a.b` ~ log(`c`) + (`d`)")
    '`a.b` ~ log((c)) + (`d`)'
    """
    calls: list[bool] = []

    def write(found: re.Match[str]) -> str:
        text = found[0]
        if text == ")":
            del calls[-1:]
        elif text.endswith("("):
            calls.append(len(text) > 1 or any(calls))
        elif calls and calls[-1]:
            return f"({text[1:-1].translate(_HIDDEN)})"
        return text

    return _outside_texts(r"`[^`]*`|\w*\(|\)", write, formula)


_SPELLINGS = {
    "^": "**", "<>": "!=", "&&": "and", "||": "or", "&": "and", "|": "or", "!": "not ", "=": "==",
    "AND": "and", "OR": "or", "NOT": "not", "IN": "in",
}  # fmt: skip
"""Operators of R, SQL and pandas, as a condition writes them."""
_OPERATOR = r"(?<![<>=!])=(?!=)|<>|&&|\|\||[&|^]|!(?!=)|\b(?:AND|OR|NOT|IN)\b"


def _outside_texts(pattern: str, write: Callable[[re.Match[str]], str], source: str) -> str:
    """Replace a pattern, but not within quotes."""
    parts = re.split(r"""('[^']*'|"[^"]*")""", source)
    return "".join(part if k % 2 else re.sub(pattern, write, part) for k, part in enumerate(parts))


def _suggest(source: str, operators: str = _OPERATOR) -> str:
    """Return a hint at the same text with operators as a condition writes them; nothing where it is none either."""
    meant = _outside_texts(operators, lambda found: _SPELLINGS[found[0]], source.strip())
    try:
        _parse(meant)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return "" if meant == source.strip() else f": write {meant}"


def no_column(name: str, columns: Sequence[str]) -> str:
    """Say that there is no such column, and which was probably meant."""
    return f"the dataset has no column {name!r}{say_meant(name, columns)}"


def no_level(left: str, name: str, columns: Sequence[str]) -> str:
    """Say that a column is compared with a name that is no column, and how its level is written."""
    return f"{no_column(name, columns)}. A level has quotes: write {left} == {name!r}"


_MEANT = {"and", "or", "not", "in", "is", "if", "else", "for", "True", "False", "None"}
_MASKED = {"ʘ" + word[1:]: word for word in keyword.kwlist if word not in _MEANT}


def mask_keywords(text: str) -> str:
    """Return a text, as long as it was, in which columns that are called as a word of Python can be read.

    Examples
    --------
    >>> mask_keywords("lambda > 3 and sex == 'F'")
    "ʘambda > 3 and sex == 'F'"
    """
    words = "|".join(_MASKED.values())
    return re.sub(rf"(?<![\w'\"`])({words})(?![\w'\"`])", lambda found: "ʘ" + found[1][1:], text)


def _abs(x: Any) -> Expression:
    return abs(as_expression(x))


def _category(x: Any, contrast: Any = None) -> Expression:
    return as_expression(x) if contrast is None else known.reference(x, contrast)


def _missing(x: Any) -> Expression:
    return as_expression(x).is_missing()


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "log": log, "log1p": lambda x: log(as_expression(x) + 1),
    "log2": lambda x: log(x) / math.log(2), "log10": lambda x: log(x) / math.log(10),
    "exp": known.exp, "sqrt": known.sqrt, "abs": _abs,
    "min": known.minimum, "minimum": known.minimum, "pmin": known.minimum,
    "max": known.maximum, "maximum": known.maximum, "pmax": known.maximum,
    "I": as_expression, "Q": col, "C": _category, "Treatment": lambda reference: reference, "relevel": known.reference,
    "reference": known.reference, "cut": known.cut, "missing": _missing, "isna": _missing,
    "poly": known.poly, "polynomial": known.poly, "bs": known.bs, "spline": known.bs,
    "ns": known.ns, "cr": known.ns, "natural_spline": known.ns, "interaction": known.interaction,
    "between": lambda x, low, high: as_expression(x).between(low, high),
}  # fmt: skip
_SCALING = {"scale", "center", "standardize", "zscore"}
_METHODS = {"isin": "isin", "between": "between", "isna": "is_missing", "is_missing": "is_missing"}
_SIGNS: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: lambda value: value, ast.Invert: lambda value: ~as_expression(value),
    ast.Not: lambda value: ~as_expression(value),
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.In: lambda x, levels: x.isin(levels),
    ast.NotIn: lambda x, levels: ~x.isin(levels),
}  # fmt: skip


class _Translator:
    """Reads one tree; faults show their place in the whole text."""

    def __init__(self, text: str, offset: int, columns: Sequence[str] | None, source: str) -> None:
        self._text, self._offset, self._columns, self._source = text, offset, columns, source
        self._bytes = _as_python(source).encode()

    def _place(self, node: Any) -> tuple[int, int]:
        """Return where a node stands in the source; a tree counts bytes."""
        return len(self._bytes[: node.col_offset].decode()), len(self._bytes[: node.end_col_offset].decode())

    def fault(self, rule: str, node: Any) -> FormulaError:
        start, stop = self._place(node)
        return FormulaError(rule, self._text, self._offset + start, self._offset + stop)

    def _is_bare_join(self, node: ast.expr) -> bool:
        """Return whether this is & or |, without parentheses around it."""
        start, stop = self._place(node)
        is_join = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr)
        return is_join and not (self._source[:start].rstrip()[-1:] == "(" and self._source[stop:].lstrip()[:1] == ")")

    def read(self, node: ast.expr) -> Any:
        """Return an expression; a number, a text or a list of them where it is one."""
        try:
            return self._read(node)
        except FormulaError:
            raise
        except RecursionError:
            raise self.fault("this is too deep", node) from None
        except (ValueError, TypeError, AttributeError, OverflowError, ZeroDivisionError) as error:
            raise self.fault(str(error), node) from None

    def _read(self, node: ast.expr) -> Any:
        found: Any
        match node:
            case ast.Constant(value) if isinstance(value, str | int | float):
                found = int(value) if isinstance(value, bool) else value
            case ast.Name() | ast.Attribute():
                found = self._column(ast.unparse(node), node)
            case ast.List(items) | ast.Tuple(items) | ast.Set(items):
                found = [self.read(item) for item in items]
            case ast.UnaryOp(op, operand) if type(op) in _SIGNS:
                found = _SIGNS[type(op)](self.read(operand))
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                found = _OPERATORS[type(op)](self.read(left), self.read(right))
            case ast.BinOp(_, ast.BitXor(), _):
                meant = _suggest(self._source[slice(*self._place(node))], r"\^")
                raise self.fault(f"^ is no power here{meant}", node)
            case ast.BoolOp(op, values):
                name = "and" if isinstance(op, ast.And) else "or"
                found = reduce(lambda one, other: call(name, one, other), map(self.read, values))
            case ast.Compare(left, ops, comparators):
                found = self._compare(node, [left, *comparators], ops)
            case ast.Call(function, arguments, keywords):
                found = self._call(function, arguments, keywords, node)
            case _:
                rule = "this is no part of an expression: columns, numbers, operators and functions are"
                raise self.fault(rule, node)
        return found

    def _column(self, name: str, node: ast.expr) -> Expression:
        name = _MASKED.get(name, name).replace("ʗ", "-").replace("ʖ", ".")
        if self._columns is not None and name not in self._columns:
            raise self.fault(no_column(name, self._columns), node)
        return col(name)

    def _compare(self, whole: ast.expr, nodes: Sequence[ast.expr], ops: Sequence[ast.cmpop]) -> Expression:
        if any(map(self._is_bare_join, nodes)):
            rule = "& and | bind more tightly than a comparison, as in Python: put each comparison in parentheses"
            raise self.fault(f"{rule}, or{_suggest(self._source, '[&|]').removeprefix(':')}", whole)
        for left, op, right in zip(nodes, ops, nodes[1:], strict=False):
            if isinstance(left, ast.Name) and isinstance(right, ast.Name) and isinstance(op, ast.Eq | ast.NotEq):
                self._check_level(left, right)
        values = [self.read(node) for node in nodes]
        found = []
        for left, op, right, node in zip(values, ops, values[1:], nodes[1:], strict=False):
            if isinstance(op, ast.Eq | ast.NotEq) and isinstance(node, ast.Constant) and isinstance(node.value, bool):
                truth = as_expression(left)
                found.append(truth if node.value == isinstance(op, ast.Eq) else ~truth)
                continue
            if type(op) not in _COMPARISONS:
                raise self.fault("this comparison is not known", node)
            one, other = (
                (right, left) if isinstance(left, str) and isinstance(op, ast.Eq | ast.NotEq) else (left, right)
            )
            found.append(_COMPARISONS[type(op)](as_expression(one), other))
        return as_expression(reduce(operator.and_, found))

    def _check_level(self, column: ast.Name, level: ast.Name) -> None:
        """Raise `FormulaError` where a column is compared with a level that lacks its quotes."""
        if self._columns is not None and column.id in self._columns and level.id not in self._columns:
            raise self.fault(no_level(column.id, level.id, self._columns), level)

    def _call(
        self, function: ast.expr, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword], node: ast.expr
    ) -> Any:
        given = [self.read(argument) for argument in arguments]
        named = {str(keyword.arg): self.read(keyword.value) for keyword in keywords}
        if isinstance(function, ast.Attribute):
            if isinstance(function.value, ast.Name) and function.value.id in {"np", "numpy", "math"}:
                return self._apply(function.attr, given, named, function)
            if function.attr in _METHODS:
                return getattr(as_expression(self.read(function.value)), _METHODS[function.attr])(*given, **named)
        if isinstance(function, ast.Name):
            return self._apply(function.id, given, named, function)
        raise self.fault("this is no function that a curator computes", node)

    def _apply(self, name: str, given: list[Any], named: dict[str, Any], node: ast.expr) -> Any:
        if name in _SCALING:
            raise self.fault(
                f"{name} is not needed: terms are scaled by the declared bounds, coefficients are raw", node
            )
        if name not in FUNCTIONS:
            raise self.fault(f"there is no function {name!r}; there are {', '.join(sorted(FUNCTIONS))}", node)
        return FUNCTIONS[name](*given, **named)
