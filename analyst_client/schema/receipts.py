"""Receipts: entries of the ledger as they came. A receipt was not checked here: any shape of it is shown."""

from collections.abc import Mapping
from typing import Any, Self

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import (
    Block,
    Folded,
    Inline,
    View,
    code,
    facts,
    folded,
    join,
    percent,
    quiet,
    ratio,
    table,
    untrusted,
    write_json,
)
from analyst_client.schema.wire import Fields

COLUMNS_MAX = 12


TITLE = ("kind", "population", "epoch", "sequence")


LABELS = {
    "units": "amount",
    "posted": "charged so far",
    "pending": "held after it",
    "limit": "limit",
    "time": "time",
    "actor": "actor",
    "dataset": "dataset",
    "release": "release",
    "source": "cut out of",
    "reservation": "reservation",
    "project": "project",
}


AMOUNTS = frozenset({"units", "posted", "pending", "limit"})


class Receipt(Displayable, dict[str, Any]):
    """An entry of the ledger with its hash and signature: a dict of the members as they came, unchecked.

    `Release.verify` checks that of a release.

    Examples
    --------
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> release.receipt["population"], release.receipt["sequence"]
    ('olmsted', 5)
    """

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read from an answer."""
        return cls(fields.members)

    def _view(self) -> View:
        return show_receipt(self)


def show_receipt(receipt: Mapping[str, Any]) -> View:
    """Show an entry of the ledger."""
    return tuple(list_receipt(receipt, write_title(receipt)))


def fold_receipt(receipt: Mapping[str, Any]) -> Folded:
    """Show an entry of the ledger on demand."""
    return folded(write_title(receipt), *list_receipt(receipt, quiet("The ledger's entry")))


def write_title(receipt: Mapping[str, Any]) -> Inline:
    """Say which entry this is."""
    kind, population, epoch, sequence = (untrusted(write_json(receipt.get(name, "–"))) for name in TITLE)
    return join("Receipt: ", kind, " in the ledger of ", population, quiet(", epoch ", epoch, ", sequence ", sequence))


def list_receipt(receipt: Mapping[str, Any], caption: Inline) -> list[Block]:
    """Return the tables of a receipt."""
    mechanism = receipt.get("mechanism")
    parts = mechanism if isinstance(mechanism, list) and all(isinstance(part, dict) for part in mechanism) else []
    shown = {*LABELS, *TITLE, *(["mechanism"] if parts else [])}
    stated: list[tuple[Inline, Inline]] = [
        (label, write_member(receipt, name)) for name, label in LABELS.items() if name in receipt
    ]
    stated += [(name, code(write_json(value))) for name, value in receipt.items() if name not in shown]
    tables: list[Block] = [facts(caption, stated)]
    if parts:
        names = sorted(dict.fromkeys(name for part in parts for name in part), key=lambda name: name != "statistic")
        rows = [[write_json(part.get(name, "")) for name in names[:COLUMNS_MAX]] for part in parts]
        tables.append(table(quiet("Its mechanism, in lattice units"), names[:COLUMNS_MAX], rows))
    return tables


def write_member(receipt: Mapping[str, Any], name: str) -> Inline:
    """Write a member of a receipt: an amount as its share of the limit, with the ledger's own integer."""
    value = receipt[name]
    units = read_units(value) if name in AMOUNTS else None
    if units is None:
        return code(write_json(value)) if name in {"release", "source", "reservation"} else write_json(value)
    if name == "limit":
        return f"{units:,} units"
    return join(percent(ratio(units, read_units(receipt.get("limit")))), quiet(f" ({units:,} units)"))


def read_units(value: Any) -> int | None:
    """Read an amount as the ledger writes it; None where it is none."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 100 else None
