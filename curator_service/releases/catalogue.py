"""Queries of the library's catalogue: listings, which releases hold a column, and how much each analyst has stored."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import chain
from operator import and_ as both
from operator import attrgetter
from typing import Any, NamedTuple

from pydantic_core import from_json
from sqlalchemy import BigInteger, BindParameter, Double, and_, bindparam, insert, select, tuple_, union_all
from sqlalchemy.dialects import postgresql, sqlite

from curator_service.kinds.listing import Listing
from curator_service.kit.caches import cache_short
from curator_service.kit.db import Connection, Statement
from curator_service.ledger.accounts.unit_of_work import Contradiction
from curator_service.releases.models import CHUNK, AnswerSpaceRow, ColumnHoldersRow, ListingRow, ReleaseRow

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
    """A release as the catalogue has it: what its text says of its request and its noise, unread."""

    release_id: str
    sequence: int
    shelf: str
    least_sd: float
    summary: str
    noise: str

    @property
    def about(self) -> dict[str, Any]:
        """Its request and its noise."""
        try:
            request = json.loads(self.summary)["request"]
        except (ValueError, KeyError, TypeError):
            raise Contradiction("the catalogue has a summary that is none") from None
        return {"request": request, "noise": _read_noise(self.noise)}


class Place(NamedTuple):
    """Place of a release: its dataset, its collection, and its entry."""

    release_id: str
    dataset_id: str
    collection: str
    sequence: int


class ListedRelease(NamedTuple):
    """A stored release with the row of its listing: nothing but None where there is none."""

    id: str
    dataset_id: str
    sequence: int
    request_digest: str
    answer: str
    listing: tuple[Any, ...]


_LISTED = (
    ListingRow.release_id,
    ListingRow.sequence,
    ListingRow.shelf,
    ListingRow.least_sd,
    ListingRow.summary,
    ListingRow.noise,
)
_OF_COLLECTION = ListingRow.collection == bindparam("collection")
_MANY: list[BindParameter[Any]] = [bindparam(f"i{i}") for i in range(_NAMED)]
# The quietest first. None with a larger sum is quieter in every statistic: that finds the end.
_WITH_MEMBERS = Statement(
    select(ListingRow.loudness, ListingRow.sequence, ListingRow.release_id, ListingRow.noise)
    .where(
        ListingRow.members == bindparam("members"),
        ListingRow.loudness <= bindparam("most", type_=Double),
        tuple_(ListingRow.loudness, ListingRow.sequence)
        > tuple_(bindparam("after", type_=Double), bindparam("after_sequence", type_=BigInteger)),
    )
    .order_by(ListingRow.loudness, ListingRow.sequence)
    .limit(bindparam("count"))
)
_QUIETEST_OF_SHELF = Statement(
    select(ListingRow.least_sd, ListingRow.sequence)
    .where(
        ListingRow.shelf == bindparam("shelf"),
        ListingRow.least_sd <= bindparam("most", type_=Double),
        tuple_(ListingRow.least_sd, ListingRow.sequence)
        > tuple_(bindparam("after", type_=Double), bindparam("after_sequence", type_=BigInteger)),
    )
    .order_by(ListingRow.least_sd, ListingRow.sequence)
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
BEFORE_ALL = -(2**63)
"""Below every sequence."""
_INSERT = Statement(insert(ListingRow))
_IN_COLLECTION = and_(
    ColumnHoldersRow.collection == bindparam("collection"), ColumnHoldersRow.kind == bindparam("kind")
)
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
            index_elements=[
                ColumnHoldersRow.collection,
                ColumnHoldersRow.kind,
                ColumnHoldersRow.name,
                ColumnHoldersRow.chunk,
            ],
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


@cache_short(maxsize=1024)
def _read_noise(text: str) -> dict[str, Any]:
    """Read the noise of a listing; many have the same."""
    try:
        noise: dict[str, Any] = json.loads(text)
        if noise["sd"].keys() and type(noise["distribution"]) is str:
            return noise
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise Contradiction("the catalogue has noise that is none")


def find_exact(connection: Connection, members: str, asked: Listing, since: int = BEFORE_ALL) -> str | None:
    """Return the quietest release of exactly the entries that are asked which is nowhere noisier, or None.

    Those of a sequence above `since` come before all others.
    """
    after, count, earlier = (-1.0, 0), FIRST_PAGE, None
    while rows := _WITH_MEMBERS.all(
        connection, members=members, most=asked.loudness, after=after[0], after_sequence=after[1], count=count
    ):
        for loudness, sequence, release_id, noise in rows:
            try:
                is_quiet = asked.is_quiet_enough(_read_noise(noise)["sd"])
            except (KeyError, TypeError):
                raise Contradiction("the catalogue has noise of other statistics") from None
            if is_quiet and sequence > since:
                return str(release_id)
            if is_quiet and earlier is None:
                earlier = str(release_id)
            after = (loudness, sequence)
        if len(rows) < count:
            break
        count = _PAGE
    return earlier


def get_listed(connection: Connection, release_id: str) -> Listed:
    """Return a release that the catalogue has just named."""
    row = _BY_ID.first(connection, release=release_id)
    assert row is not None
    return Listed(*row)


def find_holders(connection: Connection, collection: str, asked: Listing) -> Holders:
    """Return releases of a kind, blocks of others aside, that hold the columns, in whatever role; by 8 of many."""
    names = sorted(asked.columns)[:_DECIDING]
    found: dict[int, int] = {}
    counts: dict[int, int] = {}
    for chunk, bits in _HOLDERS.all(connection, collection=collection, kind=asked.kind, **_named(names, _DECIDING)):
        found[chunk] = found.get(chunk, -1) & _bits(bits)
        counts[chunk] = counts.get(chunk, 0) + 1
    return Holders({chunk: bits for chunk, bits in found.items() if bits and counts[chunk] == len(names)})


def list_newest(connection: Connection, collection: str, sequences: Sequence[int]) -> list[Listed]:
    """Return some releases by their sequences, the newest first."""
    rows = chain.from_iterable(_read_batches(connection, collection, sequences))
    return sorted(rows, key=attrgetter("sequence"), reverse=True)


def iterate_sources(
    connection: Connection, collection: str, sequences: Sequence[int], *, shelf: str, most: float
) -> Iterator[Listed]:
    """Yield the given releases of a shelf with at most this least noise; the quietest of each batch first."""
    for rows in _read_batches(connection, collection, sequences):
        found = [row for row in rows if row.shelf == shelf and row.least_sd <= most]
        yield from sorted(found, key=attrgetter("least_sd", "sequence"))


def _read_batches(connection: Connection, collection: str, sequences: Sequence[int]) -> Iterator[list[Listed]]:
    for start in range(0, len(sequences), _AT_ONCE):
        batch = sequences[start : start + _AT_ONCE]
        places = {f"i{i}": batch[i] if i < len(batch) else None for i in range(_AT_ONCE)}
        yield [Listed(*row) for row in _BY_SEQUENCE.all(connection, collection=collection, **places)]


def iterate_shelf(connection: Connection, shelf: str, *, most: float) -> Iterator[list[int]]:
    """Yield pages of the sequences of a shelf, the quietest first, up to an amount of noise."""
    after, count = (-1.0, 0), FIRST_PAGE
    while rows := _QUIETEST_OF_SHELF.all(
        connection, shelf=shelf, most=most, after=after[0], after_sequence=after[1], count=count
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
    collection : str or None
        Of one reader; None for all of the dataset.
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
    after = BEFORE_ALL
    while rows := _PAGE_OF_LISTED.all(connection, population=population, after=after):
        for release_id, dataset_id, sequence, digest, answer, *listing in rows:
            yield ListedRelease(release_id, dataset_id, sequence, digest, answer, tuple(listing))
            after = sequence


class Shelves:
    """Releases that hold each column, read a chunk at a time: releases that follow one another share it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._of_chunk = lru_cache(maxsize=64)(self._read_chunk)
        self._holding = lru_cache(maxsize=256)(self._find_holding)

    def hold(self, collection: str, kind: str, sequence: int, columns: tuple[str, ...]) -> bool:
        """Tell whether a release is found by each of its columns."""
        chunk, place = divmod(sequence, CHUNK)
        return bool(self._holding(collection, kind, chunk, columns) >> place & 1)

    def _find_holding(self, collection: str, kind: str, chunk: int, columns: tuple[str, ...]) -> int:
        try:
            held = self._of_chunk(collection, kind, chunk)
        except Contradiction:
            return 0
        return reduce(both, (held.get(name, 0) for name in columns), -1)

    def _read_chunk(self, collection: str, kind: str, chunk: int) -> dict[str, int]:
        rows = _HOLDERS_OF_ALL.all(self._connection, collection=collection, kind=kind, chunk=chunk)
        return {name: _bits(bits) for name, bits in rows}


def make_row(release: Place, listing: Listing, least_sd: float, noise: str, summary: str) -> tuple[Any, ...]:
    """Return the row of a release's listing, as it is written and as it is held against what the chain says.

    Parameters
    ----------
    listing : Listing
        What it is.
    least_sd : float
        By the rules of its kind's library.
    noise, summary : str
        As its answer states them.
    """
    # A block stands on no shelf: nothing is cut out of it.
    shelf = listing.shelf(release.collection) if listing.derived_from is None else ""
    return (
        release.release_id,
        release.dataset_id,
        release.collection,
        release.sequence,
        shelf,
        listing.members(release.collection),
        least_sd,
        listing.loudness,
        noise,
        summary,
    )


def is_listed(found: tuple[Any, ...], own: tuple[Any, ...]) -> bool:
    """Tell whether the row of a listing is as it must be; an earlier version may have written JSON otherwise."""
    if found == own:
        return True
    try:
        return found[:-2] == own[:-2] and [from_json(text) for text in found[-2:]] == [
            from_json(text) for text in own[-2:]
        ]
    except (ValueError, TypeError):
        return False


def insert_listing(connection: Connection, row: tuple[Any, ...], listing: Listing) -> None:
    """Add a release to the catalogue, in the unit of work that publishes it: the account is locked."""
    values = dict(zip(_ROW, row, strict=True))
    _INSERT.execute(connection, **values)
    if values["shelf"]:
        _note_columns(connection, values["collection"], listing, values["sequence"])


def _note_columns(connection: Connection, collection: str, listing: Listing, sequence: int) -> None:
    chunk, place = divmod(sequence, CHUNK)
    shared, names = {"collection": collection, "kind": listing.kind, "chunk": chunk}, listing.columns
    held = _bits_of_chunk(connection, names, **shared)
    _SET_BITS.execute_each(
        connection,
        ({**shared, "name": name, "bits": f"{held.get(name, 0) | 1 << place:x}"} for name in names),
    )


def _bits_of_chunk(connection: Connection, names: Sequence[str], **shared: Any) -> dict[str, int]:
    held: dict[str, int] = {}
    for start in range(0, len(names), _NAMED):
        batch = _named(names[start : start + _NAMED])
        rows = _HOLDERS_OF_CHUNK.all(connection, **shared, **batch)
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
