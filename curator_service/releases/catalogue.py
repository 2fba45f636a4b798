"""Queries of the library's catalogue: listings, which releases hold a column, and how much each analyst has stored."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import chain
from operator import and_, itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json
from sqlalchemy import BigInteger, BindParameter, Double, bindparam, insert, select, tuple_, union_all
from sqlalchemy.dialects import postgresql, sqlite

from curator_service.datasets.repository import Dataset
from curator_service.datasets.visibility import collection_of
from curator_service.kinds.gram.listing import (
    NOISE_NAMES,
    Listing,
    noise_row,
    statistic_of,
)
from curator_service.kit.db import Connection, Statement
from curator_service.ledger.accounts.unit_of_work import Contradiction
from curator_service.releases.models import CHUNK, AnswerSpaceRow, ColumnHoldersRow, ListingRow, ReleaseRow
from curator_service.releases.repository import StoredRelease

_NAMED = 32
"""Columns that one statement names."""
_DECIDING = 8
"""Of more columns so many decide who may hold them all."""
_AT_ONCE = 8
"""Releases that are looked at together."""
FIRST_PAGE, _PAGE = 50, 250
_DIGITS = re.compile(f"[0-9a-f]{{1,{CHUNK // 4}}}")


@dataclass(frozen=True, slots=True)
class Holders:
    """The sequences of releases, as bits by chunk."""

    bits: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count them."""
        return sum(bits.bit_count() for bits in self.bits.values())

    def __contains__(self, sequence: int) -> bool:
        """Tell whether a release is among them."""
        chunk, place = divmod(sequence, CHUNK)
        return bool(self.bits.get(chunk, 0) >> place & 1)

    def newest_first(self) -> Iterator[int]:
        """Yield the sequences, the highest first."""
        for chunk in sorted(self.bits, reverse=True):
            bits = self.bits[chunk]
            while bits:
                place = bits.bit_length() - 1
                yield chunk * CHUNK + place
                bits ^= 1 << place


@dataclass(frozen=True, slots=True)
class Listed:
    """A release as the catalogue has it."""

    release_id: str
    sequence: int
    shelf: str
    listing: Listing


class ListedRelease(NamedTuple):
    """A stored release with the row of its listing: nothing but None where there is none."""

    id: str
    dataset_id: str
    sequence: int
    request_digest: str
    answer: str
    listing: tuple[Any, ...]


_NOISE = tuple(getattr(ListingRow, name) for name in NOISE_NAMES)
_LISTED = (ListingRow.release_id, ListingRow.sequence, ListingRow.shelf, ListingRow.summary, *_NOISE)
_SEQUENCE, _SHELF, _XTX = 1, 2, 5
_OF_COLLECTION = ListingRow.collection == bindparam("collection")
_MANY: list[BindParameter[Any]] = [bindparam(f"i{i}") for i in range(_NAMED)]
# The quietest of those that are as quiet as asked, in every statistic. No sum of theirs is larger: that finds the end.
_EXACT = Statement(
    select(ListingRow.release_id)
    .where(
        ListingRow.members == bindparam("members"),
        ListingRow.loudness <= bindparam("loudness", type_=Double),
        *(column <= bindparam(name, type_=Double) for name, column in zip(NOISE_NAMES, _NOISE, strict=True)),
    )
    .order_by(ListingRow.loudness, ListingRow.sequence)
    .limit(1)
)
_QUIETEST_OF_SHELF = Statement(
    select(ListingRow.xtx_offdiagonal, ListingRow.sequence)
    .where(
        ListingRow.shelf == bindparam("shelf"),
        ListingRow.xtx_offdiagonal <= bindparam("most", type_=Double),
        tuple_(ListingRow.xtx_offdiagonal, ListingRow.sequence)
        > tuple_(bindparam("after", type_=Double), bindparam("after_sequence", type_=BigInteger)),
    )
    .order_by(ListingRow.xtx_offdiagonal, ListingRow.sequence)
    .limit(bindparam("count"))
)
# Each by its own key: a list of them PostgreSQL may take for a filter, and read the whole collection.
_BY_SEQUENCE = Statement(
    union_all(*(select(*_LISTED).where(_OF_COLLECTION, ListingRow.sequence == place) for place in _MANY[:_AT_ONCE]))
)
_BY_ID = Statement(select(*_LISTED).where(ListingRow.release_id == bindparam("release")))
_SUMMARIES_OF_COLLECTION, _SUMMARIES_OF_DATASET = (
    Statement(
        select(ListingRow.sequence, ListingRow.summary)
        .where(which, ListingRow.sequence > bindparam("after"))
        .order_by(ListingRow.sequence)
        .limit(bindparam("count"))
    )
    for which in (_OF_COLLECTION, ListingRow.dataset_id == bindparam("dataset"))
)
_ROW = tuple(column.name for column in ListingRow.__table__.columns)
_PAGE_OF_LISTED = Statement(
    select(
        ReleaseRow.id,
        ReleaseRow.dataset_id,
        ReleaseRow.sequence,
        ReleaseRow.request_digest,
        ReleaseRow.answer,
        *ListingRow.__table__.columns,
    )
    .join(ListingRow, ListingRow.release_id == ReleaseRow.id, isouter=True)
    .where(ReleaseRow.population == bindparam("population"), ReleaseRow.sequence > bindparam("after"))
    .order_by(ReleaseRow.sequence)
    .limit(100)
)
_BEFORE_ALL = -(2**63)
_INSERT = Statement(insert(ListingRow))
_IN_COLLECTION = ColumnHoldersRow.collection == bindparam("collection")
_HOLDERS = Statement(
    select(ColumnHoldersRow.chunk, ColumnHoldersRow.bits).where(
        _IN_COLLECTION, ColumnHoldersRow.name.in_(_MANY[:_DECIDING])
    )
)
_HOLDERS_OF_CHUNK = Statement(
    select(ColumnHoldersRow.name, ColumnHoldersRow.bits).where(
        _IN_COLLECTION, ColumnHoldersRow.name.in_(_MANY), ColumnHoldersRow.chunk == bindparam("chunk")
    )
)
_HOLDERS_OF_ALL = Statement(
    select(ColumnHoldersRow.name, ColumnHoldersRow.bits).where(
        _IN_COLLECTION, ColumnHoldersRow.chunk == bindparam("chunk")
    )
)
_SPACE = Statement(
    select(AnswerSpaceRow.bytes).where(
        AnswerSpaceRow.population == bindparam("population"), AnswerSpaceRow.principal_id == bindparam("principal")
    )
)


class _SetBits(Statement):
    """Write the bits of a column's chunk."""

    def __init__(self) -> None:
        super().__init__(insert(ColumnHoldersRow))

    def _build(self, dialect: Any) -> Any:
        insertion = (sqlite if dialect.name == "sqlite" else postgresql).insert(ColumnHoldersRow)
        return insertion.on_conflict_do_update(
            index_elements=[ColumnHoldersRow.collection, ColumnHoldersRow.name, ColumnHoldersRow.chunk],
            set_={"bits": insertion.excluded.bits},
        )


class _AddSpace(Statement):
    """Count the bytes of an answer, unless they would be more than an analyst may have."""

    def __init__(self) -> None:
        super().__init__(insert(AnswerSpaceRow))

    def _build(self, dialect: Any) -> Any:
        insertion = (sqlite if dialect.name == "sqlite" else postgresql).insert(AnswerSpaceRow)
        return insertion.on_conflict_do_update(
            index_elements=[AnswerSpaceRow.population, AnswerSpaceRow.principal_id],
            set_={"bytes": AnswerSpaceRow.bytes + insertion.excluded.bytes},
            where=AnswerSpaceRow.bytes + insertion.excluded.bytes <= bindparam("most", type_=BigInteger),
        )


_SET_BITS, _ADD_SPACE = _SetBits(), _AddSpace()


def _named(values: Sequence[object], count: int = _NAMED) -> dict[str, object]:
    """Fill the places of a statement's list; what is left over names the first again."""
    return {f"i{i}": values[i] if i < len(values) else values[0] for i in range(count)}


@lru_cache(maxsize=1024)
def _bits(text: str) -> int:
    """Read the bits of a chunk; those of a full one never change, and reading the digits costs more than the query."""
    if _DIGITS.fullmatch(text) is None:
        raise Contradiction("the catalogue has bits that are not those of a chunk")
    return int(text, 16)


def find_exact(connection: Connection, members: str, asked: Listing) -> str | None:
    """Return the quietest release of exactly the entries that are asked which is nowhere noisier, or None."""
    most = {name: asked.sd.get(name, 0.0) for name in NOISE_NAMES}
    row = _EXACT.first(connection, members=members, loudness=asked.loudness, **most)
    return None if row is None else row[0]


def get_listed(connection: Connection, dataset: Dataset, release_id: str) -> Listed:
    """Return a release that the catalogue has just named."""
    row = _BY_ID.first(connection, release=release_id)
    assert row is not None
    return _listed(dataset, row)


def find_holders(connection: Connection, collection: str, columns: Collection[str]) -> Holders:
    """Return the releases, blocks of others aside, that hold the columns, in whatever role; by 8 of many."""
    names = sorted(columns)[:_DECIDING]
    found: dict[int, int] = {}
    counts: dict[int, int] = {}
    for chunk, bits in _HOLDERS.all(connection, collection=collection, **_named(names, _DECIDING)):
        found[chunk] = found.get(chunk, -1) & _bits(bits)
        counts[chunk] = counts.get(chunk, 0) + 1
    return Holders({chunk: bits for chunk, bits in found.items() if bits and counts[chunk] == len(names)})


def list_newest(connection: Connection, dataset: Dataset, collection: str, sequences: Sequence[int]) -> list[Listed]:
    """Return some releases by their sequences, the newest first."""
    rows = chain.from_iterable(_read_batches(connection, collection, sequences))
    return [_listed(dataset, row) for row in sorted(rows, key=itemgetter(_SEQUENCE), reverse=True)]


def iterate_sources(
    connection: Connection, dataset: Dataset, collection: str, sequences: Sequence[int], *, shelf: str, xtx_max: float
) -> Iterator[Listed]:
    """Yield those of a shelf, by their sequences, with no more noise in XᵀX; the quietest of each batch first."""
    for rows in _read_batches(connection, collection, sequences):
        found = [row for row in rows if row[_SHELF] == shelf and row[_XTX] <= xtx_max]
        for row in sorted(found, key=itemgetter(_XTX, _SEQUENCE)):
            yield _listed(dataset, row)


def _read_batches(connection: Connection, collection: str, sequences: Sequence[int]) -> Iterator[list[tuple[Any, ...]]]:
    for start in range(0, len(sequences), _AT_ONCE):
        batch = sequences[start : start + _AT_ONCE]
        places = {f"i{i}": batch[i] if i < len(batch) else None for i in range(_AT_ONCE)}
        yield _BY_SEQUENCE.all(connection, collection=collection, **places)


def iterate_shelf(connection: Connection, shelf: str, *, xtx_max: float) -> Iterator[list[int]]:
    """Yield pages of the sequences of a shelf, the quietest first, up to an amount of noise."""
    after, count = (-1.0, 0), FIRST_PAGE
    while rows := _QUIETEST_OF_SHELF.all(
        connection, shelf=shelf, most=xtx_max, after=after[0], after_sequence=after[1], count=count
    ):
        yield [sequence for _noise, sequence in rows]
        if len(rows) < count:
            return
        after, count = rows[-1], _PAGE


def list_summaries(
    connection: Connection, *, collection: str | None, dataset_id: str, after: int, count: int, bytes_max: int
) -> tuple[list[tuple[int, str]], bool]:
    """Return sequences and summaries of releases in order, and whether there may be more.

    Parameters
    ----------
    connection : Connection
    collection : str or None
        Of one reader; None for all of the dataset.
    dataset_id : str
    after, count : int
    bytes_max : int
        A page ends where its summaries are as long together.
    """
    page: list[tuple[int, str]] = []
    size = 0
    while len(page) < count and size < bytes_max:
        wanted = min(count - len(page), 50)
        last = page[-1][0] if page else after
        if collection is None:
            rows = _SUMMARIES_OF_DATASET.all(connection, dataset=dataset_id, after=last, count=wanted)
        else:
            rows = _SUMMARIES_OF_COLLECTION.all(connection, collection=collection, after=last, count=wanted)
        for sequence, summary in rows:
            if size >= bytes_max:
                return page, True
            page.append((sequence, summary))
            size += len(summary)
        if len(rows) < wanted:
            return page, False
    return page, True


def iterate_listed(connection: Connection, population: str) -> Iterator[ListedRelease]:
    """Yield every release of a population, in order, in pages, with its listing as it is stored."""
    after = _BEFORE_ALL
    while rows := _PAGE_OF_LISTED.all(connection, population=population, after=after):
        for release_id, dataset_id, sequence, digest, answer, *listing in rows:
            yield ListedRelease(release_id, dataset_id, sequence, digest, answer, tuple(listing))
            after = sequence


class Shelves:
    """Which releases hold each column, read a chunk at a time: releases that follow one another share it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._of_chunk = lru_cache(maxsize=64)(self._read_chunk)
        self._holding = lru_cache(maxsize=256)(self._find_holding)

    def hold(self, collection: str, sequence: int, columns: tuple[str, ...]) -> bool:
        """Tell whether a release is found by each of its columns."""
        chunk, place = divmod(sequence, CHUNK)
        return bool(self._holding(collection, chunk, columns) >> place & 1)

    def _find_holding(self, collection: str, chunk: int, columns: tuple[str, ...]) -> int:
        try:
            held = self._of_chunk(collection, chunk)
        except Contradiction:
            return 0
        return reduce(and_, (held.get(name, 0) for name in columns), -1)

    def _read_chunk(self, collection: str, chunk: int) -> dict[str, int]:
        rows = _HOLDERS_OF_ALL.all(self._connection, collection=collection, chunk=chunk)
        return {name: _bits(bits) for name, bits in rows}


def is_listed(found: tuple[Any, ...], own: tuple[Any, ...]) -> bool:
    """Tell whether the row of a listing is what it must be; an earlier version may have written a summary otherwise."""
    if found == own:
        return True
    *rest, summary = found
    try:
        return rest == [*own[:-1]] and bool(from_json(summary) == from_json(own[-1]))
    except (ValueError, TypeError):
        return False


def insert_listing(
    connection: Connection, dataset: Dataset, principal_id: str, release: StoredRelease, listing: Listing, summary: str
) -> None:
    """Add a release to the catalogue, in the unit of work that publishes it: the account is locked.

    Parameters
    ----------
    connection : Connection
    dataset : Dataset
    principal_id : str
        Who bought it.
    release : StoredRelease
    listing : Listing
        What it is.
    summary : str
        What a list shows of it.
    """
    collection = collection_of(dataset, principal_id)
    # A block stands on no shelf: nothing is cut out of it.
    shelf = listing.shelf(collection) if listing.derived_from is None else ""
    place = (release.id, dataset.id, collection, release.sequence, shelf, listing.members(collection))
    row = (*place, *noise_row(listing.sd), summary)
    _INSERT.execute(connection, **dict(zip(_ROW, row, strict=True)))
    if shelf:
        _note_columns(connection, collection, listing.columns, release.sequence)


def _note_columns(connection: Connection, collection: str, names: Sequence[str], sequence: int) -> None:
    chunk, place = divmod(sequence, CHUNK)
    held = _bits_of_chunk(connection, collection, chunk, names)
    _SET_BITS.execute_each(
        connection,
        (
            {"collection": collection, "name": name, "chunk": chunk, "bits": f"{held.get(name, 0) | 1 << place:x}"}
            for name in names
        ),
    )


def _bits_of_chunk(connection: Connection, collection: str, chunk: int, names: Sequence[str]) -> dict[str, int]:
    held: dict[str, int] = {}
    for start in range(0, len(names), _NAMED):
        batch = _named(names[start : start + _NAMED])
        rows = _HOLDERS_OF_CHUNK.all(connection, collection=collection, chunk=chunk, **batch)
        held |= {name: _bits(bits) for name, bits in rows}
    return held


def find_space(connection: Connection, population: str, principal_id: str) -> int:
    """Return how many bytes of answers an analyst has had stored, of one population."""
    row = _SPACE.first(connection, population=population, principal=principal_id)
    return 0 if row is None else row[0]


def add_space(connection: Connection, population: str, principal_id: str, size: int, most: int) -> bool:
    """Count an answer that is being stored; False if there is no space for it."""
    if size > most:
        return False
    added = _ADD_SPACE.changed(connection, population=population, principal_id=principal_id, bytes=size, most=most)
    return added == 1


def _listed(dataset: Dataset, row: Iterable[Any]) -> Listed:
    release_id, sequence, shelf, summary, *noise = row
    request = json.loads(summary)["request"]
    stated = set(request["statistics"])
    sd = {name: value for name, value in zip(NOISE_NAMES, noise, strict=True) if statistic_of(name) in stated}
    listing = Listing(request, dataset.manifest.by_name, _distribution(request), sd)
    return Listed(release_id, sequence, shelf, listing)


def _distribution(request: Mapping[str, Any]) -> str:
    return f"discrete_{request['mechanism']}"
