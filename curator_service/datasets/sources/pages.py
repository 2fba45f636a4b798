"""Declarations of the pages of a Parquet file, checked before any of them is unpacked for its values.

A footer may say anything of a column; what is unpacked follows from the headers of its pages. A text of a dictionary,
or one that shares its beginning with the one before it, takes a few bits of a file for each row: how long it may be
bounds how many rows can be read at once.

The headers are structures of Thrift's compact protocol [1]_.

References
----------
.. [1] "Parquet: format", https://parquet.apache.org/docs/file-format/.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

_HEADER_BYTES = 2**9
_HEADER_BYTES_MAX = 2**16
"""Of the statistics of a page, which are cut off by whoever writes them."""
_DEPTH_MAX = 8
_EMPTY_PAGES_MAX = 1000
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
_TYPE, _UNPACKED, _PACKED = 1, 2, 3
_DETAILS = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
"""Where the details of a kind of page are in its header."""
_ENCODING = {_DATA: 2, _DICTIONARY: 2, _DATA_V2: 4}
_SIZES = {1: 0, 2: 0, 3: 1, 7: 8}
"""Of booleans, which are their types, bytes and floats."""
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
"""Those whose frames are the same everywhere."""


class PagesUnreadable(Exception):
    """The pages of a column are not what Parquet has."""


@dataclass(frozen=True, slots=True)
class ChunkPages:
    """Bounds on what one column in one row group takes when it is read.

    Attributes
    ----------
    unpacked : int
        Bytes of its dictionary and of its largest page: what lies in memory at once.
    row : int
        Bytes of text that a row takes: of the longest that may be shared, where texts share bytes of a page, and in
        the mean of a page where each lies there whole.
    longest : int
        Bytes of the longest text of a dictionary that was unpacked.
    """

    unpacked: int
    row: int
    longest: int


@dataclass(frozen=True, slots=True)
class _Page:
    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int
    place: int

    @property
    def held(self) -> int:
        """Bytes that it takes in memory: a small page may be longer as it is packed."""
        return max(self.unpacked, self.packed)


def look_through(descriptor: int, chunk: Any, has_texts: bool, unpacked_max: int) -> ChunkPages:
    """Walk from header to header.

    Parameters
    ----------
    descriptor : int
        Of the file.
    chunk : ColumnChunkMetaData
    has_texts : bool
        Whether its values are of any length.
    unpacked_max : int
        Bytes of a dictionary of texts that is unpacked, to find the longest.

    Raises
    ------
    PagesUnreadable
    """
    dictionary = largest = row = known = 0
    for page in _iterate_pages(descriptor, chunk):
        if page.kind == _DICTIONARY:
            dictionary = max(dictionary, page.held)
            if has_texts:
                is_small = page.held <= unpacked_max
                longest = _find_longest(descriptor, page, chunk.compression) if is_small else None
                row = max(row, page.held if longest is None else longest)
                known = max(known, longest or 0)
        else:
            largest = max(largest, page.held)
            if has_texts:
                are_shared = page.encoding == _DELTA_BYTE_ARRAY
                row = max(row, page.held if are_shared else page.held // max(page.values, 1))
    return ChunkPages(dictionary + largest, row, known)


def _iterate_pages(descriptor: int, chunk: Any) -> Iterator[_Page]:
    place = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < place:
        place = chunk.dictionary_page_offset
    end, values, empty = place + chunk.total_compressed_size, 0, 0
    while values < chunk.num_values:
        page = _read_header(descriptor, place)
        place = page.place + page.packed
        if place > end:
            raise PagesUnreadable
        if page.kind in {_DATA, _DATA_V2}:
            values += page.values
        empty += not page.values
        if empty > _EMPTY_PAGES_MAX or values > chunk.num_values:
            raise PagesUnreadable
        yield page


def _read_header(descriptor: int, place: int) -> _Page:
    for size in (_HEADER_BYTES, _HEADER_BYTES_MAX):
        try:
            header, length = _read_struct(os.pread(descriptor, size, place), 0, 0)
        except IndexError:
            continue
        except (OSError, OverflowError):
            break
        kind = header.get(_TYPE)
        details = header.get(_DETAILS.get(kind, -1)) if isinstance(kind, int) else {}
        details = details if isinstance(details, dict) else {}
        encoding = details.get(_ENCODING.get(kind, -1), 0) if isinstance(kind, int) else 0
        numbers = (header.get(_UNPACKED), header.get(_PACKED), details.get(1, 0), encoding)
        unpacked, packed, values, encoding = (n if isinstance(n, int) else -1 for n in numbers)
        if not isinstance(kind, int) or min(unpacked, packed, values, encoding) < 0:
            break
        return _Page(kind, unpacked, packed, values, encoding, place + length)
    raise PagesUnreadable


def _read_struct(content: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the integers and structures of a structure, and where it ends; the rest is passed over.

    Raises
    ------
    IndexError
        If it goes on beyond the content.
    PagesUnreadable
    """
    if depth > _DEPTH_MAX:
        raise PagesUnreadable
    found: dict[int, Any] = {}
    field = 0
    while (head := content[at]) != 0:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _read_integer(content, at)
        found[field], at = _read_value(content, at, head & 15, depth)
    return found, at + 1


def _read_value(content: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == 12:
        return _read_struct(content, at, depth + 1)
    if kind in {4, 5, 6}:
        return _read_integer(content, at)
    if kind in _SIZES:
        return None, at + _SIZES[kind]
    if kind == 8:
        length, at = _read_varint(content, at)
        return None, at + length
    if kind in {9, 10}:
        return None, _pass_list(content, at, depth)
    raise PagesUnreadable


def _pass_list(content: bytes, at: int, depth: int) -> int:
    if depth > _DEPTH_MAX:
        raise PagesUnreadable
    head, at = content[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _read_varint(content, at)
    kind = head & 15
    for _ in range(count):
        at = at + 1 if kind in {1, 2} else _read_value(content, at, kind, depth + 1)[1]
        if at > len(content):
            raise IndexError
    return at


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 64:
        byte, at = content[at], at + 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise PagesUnreadable


def _read_integer(content: bytes, at: int) -> tuple[int, int]:
    number, at = _read_varint(content, at)
    return number >> 1 ^ -(number & 1), at


def _find_longest(descriptor: int, page: _Page, compression: str) -> int | None:
    """Return how long the longest text of a dictionary is; None if only Arrow can unpack it."""
    try:
        content = os.pread(descriptor, page.packed, page.place)
        if compression in _CODECS:
            content = pa.decompress(content, page.unpacked, _CODECS[compression], asbytes=True)
        elif compression != "UNCOMPRESSED":
            return None
    except (pa.ArrowException, OSError, ValueError):
        raise PagesUnreadable from None
    longest = at = 0
    if (first := int.from_bytes(content[:4], "little")) and len(content) % (first + 4) == 0:
        lengths = np.frombuffer(content, np.uint8).reshape(-1, first + 4)[:, :4]
        if (lengths == lengths[0]).all():  # as identifiers often are
            return first
    end, read = len(content), struct.Struct("<I").unpack_from
    while at < end - 3:
        length = read(content, at)[0]
        at += 4 + length
        longest = max(longest, length)
    return longest
