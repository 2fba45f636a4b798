"""Requests of an analyst as bodies on the wire: the options that the caller set, and nothing else."""

import difflib
import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
ARGUMENT_SYNONYMS = {
    "eps": "epsilon",
    "y": "target",
    "x": "features",
    "columns": "features",
    "fit_intercept": "intercept",
}
"""Names that other libraries give to an argument."""
FORMULA_CHARACTERS = re.compile(r"[~+*:()^|\s]")
"""Characters of a formula, which no name of a column has."""

Rows: TypeAlias = str | Mapping[str, Any]


class ReleaseOptions(TypedDict, total=False):
    """What may be asked of a release beside its features; `CuratorClient.release` explains each."""

    target: str | None
    targets: Sequence[str] | None
    epsilon: float | None
    delta: float | None
    mu: float | None
    rho: float | None
    intercept: bool
    rows: Rows | None
    norm: float | None
    expected_rows: int | None
    statistics: Sequence[str] | None
    shares: Mapping[str, float] | None
    mechanism: str | None
    calibration: str | None
    fresh: bool
    project: str | None
    reservation: str | None


def release_body(
    features: Sequence[str],
    *,
    target: str | None = None,
    targets: Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    rho: float | None = None,
    intercept: bool = True,
    rows: Rows | None = None,
    norm: float | None = None,
    expected_rows: int | None = None,
    statistics: Sequence[str] | None = None,
    shares: Mapping[str, float] | None = None,
    mechanism: str | None = None,
    calibration: str | None = None,
    fresh: bool = False,
    project: str | None = None,
    reservation: str | None = None,
) -> bytes:
    """Write a request, with what the caller set and nothing else. Raise `ValueError` on a contradiction."""
    check_target(target)
    if target is not None and targets is not None:
        raise ValueError("give target or targets, not both")
    body: dict[str, Any] = {"kind": "gram", "features": as_columns(features, "features")}
    if target is not None or targets is not None:
        body["targets"] = as_columns([target] if target is not None else targets or (), "targets")
    body["price"] = price(epsilon, delta, mu, rho, pure=mechanism not in {None, "gaussian"})
    if not intercept:
        body["intercept"] = False
    if rows is not None or norm is not None:
        if expected_rows is not None:
            raise ValueError("expected_rows chooses a row map where none is named: leave out rows and norm, or it")
        body["rows"] = row_map(rows, norm)
    if expected_rows is not None:
        body["expected_rows"] = int(expected_rows)
    if statistics is not None:
        body["statistics"] = as_names(statistics, "statistics")
    if shares is not None:
        body["shares"] = {name: float(share) for name, share in shares.items()}
    chosen = {"mechanism": mechanism, "calibration": calibration, "project": project, "reservation": reservation}
    body |= {name: value for name, value in chosen.items() if value is not None}
    if fresh:
        body["fresh"] = True
    return as_json(body)


def reservation_body(
    epsilon: float | None,
    delta: float | None,
    mu: float | None,
    rho: float | None,
    *,
    expires_in_s: int,
    project: str | None,
) -> bytes:
    """Write a reservation. Raise `ValueError` on a contradiction."""
    if isinstance(expires_in_s, bool) or not isinstance(expires_in_s, int):
        raise ValueError("expires_in_s must be a whole number of seconds")  # noqa: TRY004 -- one kind of error for arguments
    # Epsilon alone is the currency of some populations; the curator knows of which.
    body: dict[str, Any] = {"price": price(epsilon, delta, mu, rho, pure=True), "expires_in_s": expires_in_s}
    return as_json(body if project is None else body | {"project": project})


def as_json(body: dict[str, Any]) -> bytes:
    """Write a body."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def as_names(names: Sequence[str], argument: str) -> list[str]:
    """Return a list of names; a lone string, whose letters would become names, is refused."""
    if isinstance(names, str):
        raise ValueError(f"{argument} must be a list of names: ask with {suggest_columns(names, argument)}")  # noqa: TRY004 -- one kind of error for arguments
    return [str(name) for name in names]


def as_columns(names: Sequence[str], argument: str) -> list[str]:
    """Return a list of names of a curator's columns; a term of a formula is none."""
    listed = as_names(names, argument)
    for name in listed:
        if FORMULA_CHARACTERS.search(name):
            raise ValueError(
                f"{argument} must be names of columns, and {name!r} is none: "
                f"ask with {suggest_columns(name, argument)}. "
                "What is made of columns, a product or a logarithm, is released where the hospital declares it as one"
            )
    return listed


def suggest_columns(formula: str, argument: str) -> str:
    """Return the arguments that name the columns of a formula.

    Examples
    --------
    >>> suggest_columns("kappa ~ age + log(sex)", "features")
    "features=['age', 'sex'], target='kappa'"
    >>> suggest_columns("age:sex", "features")
    "features=['age', 'sex']"
    """
    left, tilde, right = formula.rpartition("~")
    call = r"[A-Za-z_.][\w.]*(?=\()"  # of a function, which is no column
    names = re.findall(r"[A-Za-z][\w.-]*", re.sub(call, "", right))
    found = f"{argument}={list(dict.fromkeys(names))!r}"
    explained = re.findall(r"[A-Za-z][\w.-]*", re.sub(call, "", left)) if tilde else []
    return f"{found}, target={explained[0]!r}" if explained else found


def check_target(target: object) -> None:
    """Refuse what is no name of one column. Raise `ValueError`."""
    if target is None or isinstance(target, str):
        return
    listed = list(target) if isinstance(target, list | tuple) else []
    if listed and all(isinstance(name, str) for name in listed):
        several = "; several are asked for with targets=[…], and a fit without target fits all of them"
        raise ValueError(f"target is one name, such as target={listed[0]!r}{several}")
    raise ValueError("target is the name of one column: no values are given, as the curator holds them")


def suggests_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function say which argument was meant where it does not know one. Raise `TypeError` as Python does."""
    known = [name for name, of in inspect.signature(function).parameters.items() if of.kind is not of.VAR_KEYWORD]
    if len(known) < len(inspect.signature(function).parameters):
        known += ReleaseOptions.__annotations__

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in kwargs.items():
            if name not in known:
                meant = ARGUMENT_SYNONYMS.get(name.lower()) or next(
                    iter(difflib.get_close_matches(name, known, 1)), None
                )
                likely = meant in known
                hint = f": did you mean {meant}={value!r}?" if likely else f"; it has {', '.join(known[1:])}"
                raise TypeError(f"{function.__name__}() has no argument {name!r}{hint}")
        return function(*args, **kwargs)

    return checked


def price(
    epsilon: float | None, delta: float | None, mu: float | None, rho: float | None, *, pure: bool = False
) -> dict[str, float]:
    """Return the price as on the wire; `pure` allows epsilon without delta, which Laplace noise has.

    Examples
    --------
    >>> price(1.0, 1e-6, None, None)
    {'epsilon': 1.0, 'delta': 1e-06}
    """
    stated = {
        name: float(value) for name, value in (("epsilon", epsilon), ("mu", mu), ("rho", rho)) if value is not None
    }
    if not all(math.isfinite(value) for value in stated.values()):
        raise ValueError("a price is a finite number")
    if len(stated) != 1:
        raise ValueError("state one price: epsilon with delta, or mu, or rho")
    if "epsilon" in stated and delta is None and not pure:
        raise ValueError("state delta beside epsilon, such as delta=1e-6; only mechanism='laplace' does without")
    if delta is not None:
        if "epsilon" not in stated:
            raise ValueError("delta goes with epsilon: mu and rho have none")
        stated["delta"] = float(delta)
    return stated


def row_map(rows: Rows | None, norm: float | None) -> dict[str, Any]:
    """Return the row map as on the wire; a norm alone is the ball's."""
    chosen: dict[str, Any] = {"map": rows or "ball"} if rows is None or isinstance(rows, str) else dict(rows)
    if norm is not None:
        if chosen.get("map") != "ball" or "norm" in chosen:
            raise ValueError("norm goes with rows='ball', once")
        chosen["norm"] = float(norm)
    return chosen
