"""Bodies of requests, whatever is asked: strict JSON, a cost, and a reservation."""

import json
import math
import re
import secrets
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any

from analyst_client.terms.expression import Expression
from analyst_client.terms.python import read_condition

KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,128}")


ROWS_MAX = 10**12
"""Rows that a dataset is taken to have at most."""


def check_expected_rows(rows: float | None) -> float | None:
    """Return a guess of the rows. Raise `ValueError` where it is no number of rows."""
    is_number = isinstance(rows, Real) and not isinstance(rows, bool)
    if rows is not None and not (is_number and 1 <= rows <= ROWS_MAX):
        raise ValueError(f"expected_rows is a number of rows from 1 to {ROWS_MAX:,}, not {rows!r}")
    return rows


def choose_key(idempotency_key: str | None) -> str:
    """Return the key of a request: a new random one, or the one that is given.

    Raises
    ------
    ValueError
        When that is none.
    """
    key = secrets.token_urlsafe(24) if idempotency_key is None else idempotency_key
    if not KEY_PATTERN.fullmatch(key):
        raise ValueError("idempotency_key must have 1 to 128 characters of A-Z, a-z, 0-9, _ and -")
    return key


def as_json(body: dict[str, Any]) -> bytes:
    """Write a body."""
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_write_moment)
    return text.encode("utf-8")


def _write_moment(value: object) -> str:
    """Write a time that has its zone as the wire does."""
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
    if isinstance(value, date):
        raise ValueError(  # noqa: TRY004 -- one kind of error for arguments
            f"{value!r} has no time zone: write datetime({value.year}, {value.month}, {value.day}, 23, 59, "
            f"tzinfo=timezone.utc), or '{value:%Y-%m-%d}T23:59:00Z'"
        )
    raise TypeError(f"a request holds texts, numbers, lists and mappings, and no {type(value).__name__}")


def price(
    epsilon: float | None, delta: float | None, mu: float | None, rho: float | None, *, pure: bool = False
) -> dict[str, float]:
    """Return the member ``price`` of the wire; `pure` allows epsilon without delta, which Laplace noise has.

    Examples
    --------
    >>> price(1.0, 1e-6, None, None)
    {'epsilon': 1.0, 'delta': 1e-06}
    """
    stated = {
        name: float(value) for name, value in (("epsilon", epsilon), ("mu", mu), ("rho", rho)) if value is not None
    }
    if not all(math.isfinite(value) for value in stated.values()):
        raise ValueError("a cost is a finite number")
    if len(stated) != 1:
        raise ValueError("state one cost: epsilon with delta, or mu, or rho")
    if "epsilon" in stated and delta is None and not pure:
        raise ValueError("state delta beside epsilon, such as delta=1e-6; only mechanism='laplace' does without")
    if delta is not None:
        if "epsilon" not in stated:
            raise ValueError("delta goes with epsilon: mu and rho have none")
        stated["delta"] = float(delta)
    return stated


def selection_members(where: str | Expression | None, weight: str | Expression | None) -> dict[str, Any]:
    """Return the members of the wire that say which rows count, and for how much.

    Examples
    --------
    >>> selection_members("sex == 'F'", None)
    {'where': {'in': ['sex', ['F']]}}
    """
    asked = {"where": where, "weight": weight}
    read = {name: read_condition(value) if isinstance(value, str) else value for name, value in asked.items()}
    return {name: value.to_json() for name, value in read.items() if value is not None}


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
