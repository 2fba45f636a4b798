"""Members of requests of every kind: the rows that count, the cost, and the project that pays."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from analyst_client.schema.requests import as_json, price, selection_members
from analyst_client.terms.expression import Expression


@dataclass(frozen=True, kw_only=True, repr=False)
class PricedRequest(ABC):
    """Options of a request of any kind. A request is checked when it is made.

    Parameters
    ----------
    where : str or Expression, optional
        Condition on a row, such as ``"sex == 'F' and age >= 60"``. Default all rows count.
    weight : str or Expression, optional
        A number with bounds in [0, 1] by which a row counts. Default 1.
    epsilon, delta, mu, rho : float, optional
        The cost of all that is asked together: `epsilon` with `delta`, or `mu`, or `rho`; with Laplace noise also
        `epsilon` alone.
    mechanism : str, optional
        ``"gaussian"``, the default, or ``"laplace"``.
    fresh : bool
        Draw new noise, and be charged again, even if the same request was answered before.
    project : str, optional
        Label under which the charge is counted.
    reservation : str, optional
        Id of the reservation that is charged.

    Raises
    ------
    ValueError
        When the options contradict each other, or one makes no sense.
    """

    where: str | Expression | None = None
    weight: str | Expression | None = None
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None
    mechanism: str | None = None
    fresh: bool = False
    project: str | None = None
    reservation: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        self.to_json()

    def __repr__(self) -> str:
        """Show the members that were given, the positional ones first."""
        said = [field for field in fields(self) if getattr(self, field.name) is not field.default]
        said.sort(key=lambda field: bool(field.kw_only))
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in said)
        return f"{type(self).__name__}({shown})"

    @property
    @abstractmethod
    def members(self) -> dict[str, Any]:
        """Members of the body: the options that were set, and nothing else. Sequences are read once."""

    def to_json(self) -> bytes:
        """Return the body of the request."""
        return as_json(self.members)

    @property
    def shared_members(self) -> dict[str, Any]:
        """Members of the body that every kind has. Raise `ValueError` when no cost is stated."""
        body = selection_members(self.where, self.weight)
        pure = self.mechanism not in {None, "gaussian"}
        body["price"] = price(self.epsilon, self.delta, self.mu, self.rho, pure=pure)
        names = ("mechanism", "project", "reservation")
        body |= {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return body | ({"fresh": True} if self.fresh else {})


def share_members(shares: Sequence[float] | None, parts: int, part: str) -> dict[str, Any]:
    """Return the member ``shares`` of parts of equal standing. Raise `ValueError` when it has not one for each part."""
    if shares is None:
        return {}
    listed = [float(share) for share in shares]
    if len(listed) != parts:
        raise ValueError(f"shares has one number for each {part}: {parts}, not {len(listed)}")
    return {"shares": listed}
