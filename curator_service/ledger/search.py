"""Entries of a chain by what they say: the newest first, within a window, whatever their number."""

import json
import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Text, bindparam, func, select, text

from curator_service.kit.db import Connection, Statement
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.models import FREQUENT_KINDS, IS_RARE, LedgerEntryRow

_SELECTIVE = ("source", "session", "dataset_id", "dataset", "permit", "actor", "time", "kind")
"""Members by which entries are looked for, those that fewest entries share first."""
NEEDLES = len(_SELECTIVE)
WINDOW = 50_000
"""Entries that one page looks through at most: whoever wants more goes on from there. An index leads to rare kinds."""


_NOTHING = {"kind": "unreadable", "actor": "", "time": "", "units": "0"}
"""Members that pages take for granted, of an entry that says none of them."""
_PATTERN = re.compile(r"[*?\[]")
"""Signs of a pattern of SQLite's, of which each stands for itself in brackets."""


_ENTRY = (LedgerEntryRow.sequence, LedgerEntryRow.payload, LedgerEntryRow.entry_hash, LedgerEntryRow.signature)
_OF_CHAIN = LedgerEntryRow.population == bindparam("population")
_BEFORE = LedgerEntryRow.sequence < bindparam("before", type_=BigInteger)

_FIND_BEFORE = Statement(select(*_ENTRY).where(_OF_CHAIN, _BEFORE).order_by(LedgerEntryRow.sequence.desc()).limit(1))


class _ListContaining(Statement):
    """List entries whose text contains every one of some texts, the newest first."""

    def __init__(self, needles: int, *, is_rare: bool) -> None:
        super().__init__(select(*_ENTRY))
        self._needles = needles
        self._rare = [text(IS_RARE)] if is_rare else []

    def _build(self, dialect: Any) -> Any:
        needles = [bindparam(f"needle{i}", type_=Text) for i in range(self._needles)]
        payload = LedgerEntryRow.payload
        # Of what each database has, the fastest that tells upper from lower case.
        contains: list[ColumnElement[Any]] = [
            payload.op("GLOB")(needle) if dialect.name == "sqlite" else func.strpos(payload, needle) > 0
            for needle in needles
        ]
        within = LedgerEntryRow.sequence >= bindparam("floor", type_=BigInteger)
        chosen = select(*_ENTRY).where(_OF_CHAIN, _BEFORE, within, *self._rare, *contains)
        return chosen.order_by(LedgerEntryRow.sequence.desc()).limit(bindparam("count"))


_LIST_CONTAINING, _LIST_RARE = (
    [_ListContaining(needles, is_rare=is_rare) for needles in range(NEEDLES + 1)] for is_rare in (False, True)
)


def list_entries_that_say(
    connection: Connection, population: str, said: Sequence[tuple[str, str]], *, before: int, count: int
) -> tuple[list[tuple[StoredEntry, dict[str, Any]]], int | None]:
    """Return entries by what they say, the newest first, with their payloads.

    Parameters
    ----------
    said : sequence of (str, str)
        Members among those of `_SELECTIVE`, and their texts; of a time how it begins.
    before : int
        The sequence before which to look.

    Returns
    -------
    list of (StoredEntry, dict)
    int or None
        Before which sequence to go on; None where there is nothing more.
    """
    # The database looks for the first in every text, and for the others where it found that.
    needles = [_write(name, text) for name, text in sorted(said, key=lambda one: _SELECTIVE.index(one[0]))]
    if connection.dialect.name == "sqlite":
        needles = ["*" + _PATTERN.sub("[\\g<0>]", needle) + "*" for needle in needles]
    asked = {f"needle{i}": needle for i, needle in enumerate(needles)}
    is_rare = any(name == "kind" and text not in FREQUENT_KINDS for name, text in said)
    statement = (_LIST_RARE if is_rare else _LIST_CONTAINING)[len(said)]
    floor = 0 if is_rare else max(before - WINDOW, 0)
    found: list[tuple[StoredEntry, dict[str, Any]]] = []
    while len(found) < count:
        page = statement.all(connection, population=population, before=before, floor=floor, count=count + 1, **asked)
        for row in page:
            entry = StoredEntry(*row)
            payload = read_payload(entry)
            # A member of a member may look like one of the entry itself.
            if all(_says(payload, name, text) for name, text in said):
                found.append((entry, payload))
        if len(page) <= count:
            break
        before = page[-1][0]
    if len(found) > count:
        return found[:count], found[count - 1][0].sequence
    return found, floor if floor > 1 else None


def read_payload(entry: StoredEntry) -> dict[str, Any]:
    """Return what an entry says; of one that was changed beyond reading, that it says nothing."""
    try:
        payload = json.loads(entry.payload_text)
    except (ValueError, RecursionError):
        payload = None
    said = payload if isinstance(payload, dict) else {}
    said = _NOTHING | {name: value for name, value in said.items() if value is not None}
    return said if all(isinstance(said[name], str) for name in _NOTHING) else {**_NOTHING}


def read_units(text: Any) -> int:
    """Return an amount of units of an entry; of a text that was changed into something else, none."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 19 else 0


def _write(name: str, text: str) -> str:
    """Return a member as canonical JSON has it."""
    written = f'"{name}":{json.dumps(text, ensure_ascii=False)}'
    return written[:-1] if name == "time" else written


def _says(payload: dict[str, Any], name: str, text: str) -> bool:
    return str(payload.get(name, ""))[: len(text)] == text if name == "time" else payload.get(name) == text


def find_entry_before(connection: Connection, population: str, sequence: int) -> StoredEntry | None:
    """Return the entry that an entry follows, or None: a reconciliation leaves sequences out."""
    row = _FIND_BEFORE.first(connection, population=population, before=sequence)
    return None if row is None else StoredEntry(*row)
