"""Bytes of a file as they are read: digested, unpacked within public bounds, and the same to the end."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from curator_service.datasets.sources.base import IngestError, look_of
from curator_service.kit.files import open_regular

_READ_BYTES = 2**18
_XZ_MEMORY_BYTES = 2**28
"""A forged file may ask for 4 GiB to be unpacked."""
ROW_BYTES_MAX = 2**16
"""Unpacked bytes for each row of the declared capacity; beyond 16 MiB, and beyond this, a file is refused."""
_FREE_BYTES = 2**24
RATIO_MAX = 250
"""Unpacked bytes for each packed one; tables are packed to a hundredth at best."""
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)


class Changed(Exception):
    """A file is not, or no longer, what it was."""


class Digested(io.RawIOBase):
    """Bytes that are digested as they are read.

    Parameters
    ----------
    expected : tuple of int and str, optional
        How many bytes another reading had read, and their digest: reading others raises `Changed`.
    """

    def __init__(self, expected: tuple[int, str] | None = None) -> None:
        super().__init__()
        self._expected = expected
        self._digest = hashlib.sha256()
        self.count = 0

    def _take(self, buffer: Any) -> int:
        raise NotImplementedError

    @property
    def share(self) -> float | None:
        """Share that was read, if it is known."""
        return None

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read, and digest what was read."""
        taken = self._take(buffer)
        view = memoryview(buffer)[:taken]
        if self._expected is not None and self.count + taken >= self._expected[0]:
            rest = self._expected[0] - self.count
            self._digest.update(view[:rest])
            if self._digest.hexdigest() != self._expected[1]:
                raise Changed
            self._digest.update(view[rest:])
            self._expected = None
        else:
            self._digest.update(view)
        self.count += taken
        return taken

    @property
    def state(self) -> tuple[int, str]:
        """Number of bytes read, and their digest."""
        return self.count, self._digest.hexdigest()

    def finish(self) -> str:
        """Read what is left, and return the digest of all.

        Raises
        ------
        Changed
            If they are not what they were.
        """
        while self.read(_READ_BYTES):
            pass
        if self._expected is not None:
            raise Changed
        return self._digest.hexdigest()


class DigestedFile(Digested):
    """A regular file that is digested as it is read.

    Parameters
    ----------
    expected : tuple of int and str, optional
        As of `Digested`.

    Raises
    ------
    IngestError
        If it is no regular file.
    """

    def __init__(self, path: Path, expected: tuple[int, str] | None = None) -> None:
        super().__init__(expected)
        try:
            self._file = open_regular(path)
        except ValueError as error:
            raise IngestError(f"{path}: {error}") from None
        self._look = look_of(os.fstat(self._file.fileno()))
        self._size = max(os.fstat(self._file.fileno()).st_size, 1)

    def _take(self, buffer: Any) -> int:
        return os.readv(self._file.fileno(), [buffer])

    @property
    def share(self) -> float | None:
        """Share that was read."""
        return min(self.count / self._size, 1.0)

    def finish(self) -> str:
        """Read what is left, and return the digest of all.

        Raises
        ------
        Changed
            If somebody wrote into the file meanwhile.
        """
        digest = super().finish()
        if look_of(os.fstat(self._file.fileno())) != self._look:
            raise Changed
        return digest

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_file"):
            self._file.close()
        super().close()


def cut_lines(stream: "_Reader", size: int = 2**22) -> Iterator[bytes]:
    """Yield blocks of whole lines; a line of more than two blocks is cut.

    Parameters
    ----------
    stream : file
    size : int
        Bytes of a block.
    """
    carried = b""
    while raw := stream.read(size):
        block = carried + raw
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) > 2 * size:
            cut = len(block)
        carried = block[cut:]
        if cut:
            yield block[:cut]
    if carried:
        yield carried


def is_utf8(line: bytes) -> bool:
    """Tell whether bytes are UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


class SoundLines(io.RawIOBase):
    """The lines of a stream; one that is in another encoding than the others is left blank, and told.

    Parameters
    ----------
    encoding : str
        UTF-8, or one in which every byte is a sign: there a line that is UTF-8 and not ASCII is another encoding's.
    tell : callable
        Called with the number of each such line.
    """

    def __init__(self, stream: io.RawIOBase, encoding: str, tell: Callable[[int], None]) -> None:
        super().__init__()
        self._blocks = cut_lines(stream)
        self._encoding, self._tell = encoding, tell
        self._held, self._line = memoryview(b""), 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is left of lines in the encoding."""
        if not self._held:
            self._held = memoryview(self._blank(next(self._blocks, b"")))
        taken = min(len(buffer), len(self._held))
        buffer[:taken] = self._held[:taken]
        self._held = self._held[taken:]
        return taken

    def _blank(self, block: bytes) -> bytes:
        lines = block.split(b"\n")
        for place, line in enumerate(() if block.isascii() else lines):
            if not line.isascii() and is_utf8(line) is not (self._encoding == "utf-8"):
                lines[place] = b""
                self._tell(self._line + place + 1)
        self._line += len(lines) - 1
        return b"\n".join(lines)


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Unpacked(io.RawIOBase):
    """The content of a packed file, within bounds that are public.

    Parameters
    ----------
    label : str
        For messages.
    """

    def __init__(self, packed: DigestedFile, compression: str, row_capacity: int, label: str) -> None:
        super().__init__()
        self._packed = packed
        self._compression = compression
        self._label = label
        self._bytes_max = _FREE_BYTES + row_capacity * ROW_BYTES_MAX
        self._count = 0
        self._held = b""
        self._reader = _open_reader(packed, compression)

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Unpack.

        Raises
        ------
        IngestError
            If the file is damaged, or a bomb.
        """
        try:
            content = self._reader.read(min(len(buffer), _READ_BYTES))
        except _BROKEN:
            raise IngestError(f"{self._label}: not whole, or not packed with {self._compression}") from None
        self._count += len(content)
        if self._count > min(self._bytes_max, _FREE_BYTES + RATIO_MAX * self._packed.count):
            raise IngestError(
                f"{self._label}: more is unpacked than a table of row_capacity rows needs: {ROW_BYTES_MAX} bytes for "
                f"each, or {RATIO_MAX} times the packed file"
            )
        buffer[: len(content)] = content
        return len(content)


def _open_reader(packed: DigestedFile, compression: str) -> _Reader:
    match compression:
        case "gzip":
            return gzip.GzipFile(fileobj=io.BufferedReader(packed), mode="rb")
        case "zstd":
            return pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd")  # type: ignore[no-any-return]
        case "bz2":
            return _Decompressor(packed, bz2.BZ2Decompressor)
        case _:
            return _Decompressor(packed, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES))


class _Decompressor:
    """Content that `bz2` or `lzma` unpacks, one stream behind another."""

    def __init__(self, packed: DigestedFile, make: Any) -> None:
        self._packed, self._make, self._one = packed, make, make()

    def read(self, size: int, /) -> bytes:
        while True:
            if self._one.eof:
                rest = self._one.unused_data or self._packed.read(_READ_BYTES)
                if not rest:
                    return b""
                self._one = self._make()
            else:
                rest = self._packed.read(_READ_BYTES) if self._one.needs_input else b""
                if self._one.needs_input and not rest:
                    raise EOFError
            content: bytes = self._one.decompress(rest, size)
            if content:
                return content
