"""Requests in words, for people who read no JSON: what was asked, of which rows.

They are made of a request as it stands in a stored answer, whose digest its entry signs, and of nothing else.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from curator_service.privacy.expressions.text import write_number

_SIGNS = {"add": " + ", "multiply": " × ", "divide": " / ", "interaction": " × "}
_COMPARED = {"less": ("<", ">"), "less_equal": ("≤", "≥"), "equal": ("is", "is")}
"""Of a comparison how it is said, and with its sides exchanged: a number stands behind what it bounds."""
_JOINED = frozenset({"and", "or"})
_SAID = _JOINED | {"not", "in", *_COMPARED}
_SIGNED = _SAID | {"power", *_SIGNS}
"""What stands in brackets within something else: of two questions no two have the same words."""
_WORD = re.compile(r"(?!(and|or|not|is)$)[\w.+-]+")


def write_asked(asked: Any) -> str:
    """Return a column, or what is computed of columns, as a person writes it.

    Examples
    --------
    >>> write_asked({"less": [6.0, {"log": ["kappa"]}]}), write_asked({"polynomial": ["age", 2]})
    ('log(kappa) > 6', 'polynomial(age, 2)')
    >>> write_asked({"and": [{"in": ["sex", ["F"]]}, {"not": ["smoker"]}, {"less": ["age", 70]}]})
    'sex is F and not smoker and age < 70'
    """
    if isinstance(asked, Mapping) and len(asked) == 1:
        ((operator, parts),) = asked.items()
        return _write_call(operator, parts if isinstance(parts, Sequence) and not isinstance(parts, str) else [parts])
    if isinstance(asked, str):
        return asked
    if isinstance(asked, bool) or asked is None:
        return json.dumps(asked)
    if isinstance(asked, int | float):
        return write_number(float(asked))
    if isinstance(asked, Sequence):
        return ", ".join(map(write_asked, asked))
    return json.dumps(asked, ensure_ascii=False)


def _write_call(operator: str, parts: Sequence[Any]) -> str:
    match operator, parts:
        case (("less" | "less_equal" | "equal"), [first, _]):
            signs, is_number = _COMPARED[operator], isinstance(first, int | float)
            sides = [_within(part, _SAID) for part in parts]
            text = f" {signs[is_number]} ".join(reversed(sides) if is_number else sides)
        case "and", _:
            text = " and ".join(_within(part, _JOINED | ({"in"} if _has_levels(part) else set())) for part in parts)
        case "or", _:
            text = " or ".join(_within(part, _JOINED | {"in"}) for part in parts)
        case "not", [one]:
            text = f"not {_within(one, _SAID)}"
        case "in", [base, [*levels]]:
            text = f"{_within(base, _SAID)} is {' or '.join(map(_write_level, levels))}"
        case "power", [base, exponent]:
            text = f"{_within(base, _SIGNED)}^{_within(exponent, _SIGNED)}"
        case _ if operator in _SIGNS:
            text = _SIGNS[operator].join(_within(part, _SIGNED) for part in parts)
        case _:
            text = f"{operator}({', '.join(map(write_asked, parts))})"
    return text


def _has_levels(asked: Any) -> bool:
    """Return whether a column is asked to have one of several levels."""
    match asked:
        case {"in": [_, [_, _, *_]]}:
            return True
    return False


def _write_level(level: Any) -> str:
    """Return a level, in quotation marks where it is more than a word."""
    is_plain = not isinstance(level, str) or _WORD.fullmatch(level)
    return write_asked(level) if is_plain else json.dumps(level, ensure_ascii=False)


def _within(asked: Any, bracketed: Collection[str]) -> str:
    """Return a part of something, in brackets if it is one of some operators."""
    text = write_asked(asked)
    operator = next(iter(asked)) if isinstance(asked, Mapping) and len(asked) == 1 else ""
    return f"({text})" if operator in bracketed else text


def list_asked(asked: Iterable[Any]) -> str:
    """Return columns as a list in words.

    Examples
    --------
    >>> list_asked(["age", "sex", {"log": ["kappa"]}])
    'age, sex and log(kappa)'
    """
    texts = [_within(one, _JOINED) for one in asked]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else "nothing"


def describe_rows(request: Mapping[str, Any]) -> str:
    """Return which rows count, and with which weights: a clause, or nothing where all count alike."""
    where = f", of rows with {write_asked(request['where'])}" if "where" in request else ""
    return where + (f", each row weighted by {write_asked(request['weight'])}" if "weight" in request else "")


def describe_model(request: Mapping[str, Any], targets: Sequence[Any]) -> str:
    """Return targets and features of a model, in words."""
    features = request.get("features", [])
    constant = "" if request.get("intercept", True) else ", without a constant"
    return f"{list_asked(targets)} on {list_asked(features) if features else 'a constant alone'}{constant}"


def write_formula(request: Mapping[str, Any], targets: Sequence[Any]) -> str:
    """Return the formula of a model."""
    terms = [_within(one, _SIGNED) for one in request.get("features", [])]
    terms += [] if request.get("intercept", True) else ["0"]
    left = [_within(one, {*_SIGNS, *_JOINED}) for one in targets]
    return f"{' + '.join(left)} ~ {' + '.join(terms) or '1'}"
