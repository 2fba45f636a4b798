"""What an analyst asks, as the body of a request: what the caller set, and nothing else."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

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
    if target is not None and targets is not None:
        raise ValueError("give target or targets, not both")
    body: dict[str, Any] = {"kind": "gram", "features": as_names(features, "features")}
    if target is not None or targets is not None:
        body["targets"] = [target] if target is not None else as_names(targets or (), "targets")
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
        raise ValueError(f"{argument} must be a list of names, such as [{names!r}]")  # noqa: TRY004 -- one kind of error for arguments
    return [str(name) for name in names]


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
