"""Lists that administrators see, as tables; and spending as CSV and JSON lines."""

import base64
import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import singledispatch
from typing import Any, Generic, TypeVar, overload

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, number, percent, table, untrusted
from analyst_client.display.terminal import plain
from analyst_client.ledger.keys import CuratorKey
from analyst_client.schema.administration import Account, Held, Person, Spent, Token
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.permits import Permit, Proposal
from analyst_client.schema.sessions import HeldSession

T = TypeVar("T")
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Signs, of full width too, that must not begin a cell: a spreadsheet would take it for a formula."""


@dataclass(frozen=True, repr=False)
class Listing(Displayable, Sequence[T], Generic[T]):
    """Things of one kind, as a sequence that shows itself as a table.

    Attributes
    ----------
    title : str
    items : tuple
    """

    title: str
    items: tuple[T, ...]

    def __iter__(self) -> Iterator[T]:
        """Iterate over them."""
        return iter(self.items)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        """Return one of them, or some."""
        return self.items[place]

    def __repr__(self) -> str:
        """Show what they are, and how many."""
        return plain(f"<{self.title}: {len(self.items)}>")

    def _view(self) -> View:
        rows = [make_row(item) for item in self.items]
        heads = list(rows[0]) if rows else ["nothing"]
        return (table(self.title, heads, [list(row.values()) for row in rows]),)


@singledispatch
def make_row(item: Any) -> dict[str, Inline]:
    """Return what a table shows of something, by the heads of its columns."""
    raise TypeError(item)


@make_row.register
def _of_account(item: Account) -> dict[str, Inline]:
    row: dict[str, Inline] = {"population": untrusted(item.population)}
    for name in ("limit", "highest_limit", "posted", "remaining"):
        row[name.replace("_", " ") + " ε"] = number(getattr(item, name).epsilon)
    return row | {"spent and held": percent(item.share_spent)}


@make_row.register
def _of_spending(item: Spent) -> dict[str, Inline]:
    row: dict[str, Inline] = {"population": untrusted(item.population)}
    row |= {name: untrusted(text) for name, text in item.group.items()}
    return row | {"charges": f"{item.charges:,}", "ε": number(item.spent.epsilon), "δ": number(item.spent.delta)}


@make_row.register
def _of_permit(item: Permit) -> dict[str, Inline]:
    return {
        "permit": item.id,
        "project": untrusted(item.project),
        "people": untrusted(", ".join(item.people)),
        "datasets": untrusted(", ".join(item.datasets)),
        "until": f"ended {item.ended_at}" if item.ended_at else item.expires_at or "no end",
    }


@make_row.register
def _of_proposal(item: Proposal) -> dict[str, Inline]:
    return {
        "proposal": item.id,
        "about": item.scope or "limit",
        "population": untrusted(item.population),
        "state": item.state,
        "reason": untrusted(item.reason),
        "decision": untrusted(item.decision),
    }


@make_row.register
def _of_token(item: Token) -> dict[str, Inline]:
    return {
        "token": item.id,
        "name": untrusted(item.name),
        "may act as": ", ".join(item.roles) + (", only to look" if item.read_only else ""),
        "used": (item.last_used_at or "")[:10],
        "expires": item.expires_at[:10],
        "revoked": (item.revoked_at or "")[:10],
    }


@make_row.register
def _of_person(item: Person) -> dict[str, Inline]:
    return {
        "name": untrusted(item.name),
        "shown as": untrusted(item.shown_name),
        "e-mail": untrusted(item.email or ""),
        "roles": ", ".join(item.roles),
        "signs in at": untrusted(item.issuer or "the curator"),
    }


@make_row.register
def _of_held(item: Held) -> dict[str, Inline]:
    return {
        "id": item.id,
        "holder": untrusted(item.holder),
        "dataset": untrusted(item.dataset),
        "held ε": number(item.remaining.epsilon),
        "until": item.expires_at or "it is done",
    }


@make_row.register
def _of_session(item: HeldSession) -> dict[str, Inline]:
    return {
        "id": item.id,
        "holder": untrusted(item.holder),
        "dataset": untrusted(item.dataset),
        "yes left": f"{item.positives_left:,}",
        "answered": f"{item.answered:,}",
        "ε": number(item.cost.epsilon),
    }


@make_row.register
def _of_key(item: CuratorKey) -> dict[str, Inline]:
    public_key = base64.b64encode(item.public_key).decode()
    return {"key": item.key_id, "public key": public_key, "endorsed by": item.previous or "nobody: it is the first"}


@make_row.register
def _of_dataset(item: Dataset) -> dict[str, Inline]:
    return {
        "dataset": untrusted(item.name),
        "population": untrusted(item.population),
        "columns": f"{len(item.columns):,}",
        "ended": item.ended or "",
    }


def write_csv(found: Sequence[Spent], by: Sequence[str]) -> str:
    """Return spending as CSV (RFC 4180) in which no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["population", *by, "charges", "units", "epsilon", "delta", "mu", "rho"])
    for one in found:
        numbers = [getattr(one.spent, name) for name in ("units", "epsilon", "delta", "mu", "rho")]
        cells = [one.population, *(one.group[name] for name in by), one.charges, *map(_finite, numbers)]
        writer.writerow(["" if cell is None else _safe(str(cell)) for cell in cells])
    return text.getvalue()


def write_jsonl(found: Sequence[Any]) -> str:
    """Return things as a line of JSON each."""
    return "".join(f"{json.dumps(to_json(one), ensure_ascii=False, allow_nan=False)}\n" for one in found)


def to_json(value: Any) -> Any:
    """Return something as JSON has it; a number that is not finite as null."""
    if isinstance(value, Listing):
        return [to_json(one) for one in value]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return to_json(asdict(value))
    if isinstance(value, Mapping):
        return {name: to_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else _finite(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _safe(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_DANGEROUS) else cell
