"""Guess of the format of a CSV file, for a draft of its manifest that a person reviews."""

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from curator_service.datasets.manifest import CsvOptions
from curator_service.datasets.sources.base import MalformedSource
from curator_service.datasets.sources.streams import DigestedFile, Unpacked, cut_lines, is_utf8
from curator_service.privacy.sums import ROW_CAPACITY_MAX

_SNIFFED_BYTES = 2**22
_SNIFFED_LINES = 200
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ": "xz"}
_COMMA_NUMBER = re.compile(r"[-+]?\d+,\d+")
_POINT_NUMBER = re.compile(r"[-+]?\d+\.\d+")
_SEPARATORS = ",;\t|:"
_FOREIGN = {
    " ": "spaces", "^": "'^'", "~": "'~'", "#": "'#'", "!": "'!'", "*": "'*'", "§": "'§'", "¦": "'¦'",
    "\x01": "the sign U+0001", "\x1e": "the sign U+001E", "\x1f": "the sign U+001F",
}  # fmt: skip
"""Signs that separate fields elsewhere, and in no manifest."""
_FOREIGN_SHARE = 0.9
SEPARATORS = (*_SEPARATORS, *_FOREIGN)
"""Signs that separate fields somewhere."""


def sniff(path: Path, header: Sequence[str] | None = None) -> CsvOptions:
    """Guess encoding and compression from the whole file, separator, quote and decimal sign from its beginning.

    Parameters
    ----------
    header : sequence of str, optional
        Of a file without one.

    Raises
    ------
    IngestError
        If it is no regular file, or not whole, or if its fields seem separated by a sign that no manifest declares.
    """
    with DigestedFile(path) as file:
        start = file.read(8) or b""
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "none")
    content = _look_through(path, compression)
    lines = [line for line in content.text.splitlines()[:_SNIFFED_LINES] if line.strip()]
    signs = _guess_signs(lines)
    if signs["separator"] not in "".join(lines[:1]) and (foreign := _find_foreign(lines)):
        known = ", ".join(map(repr, _SEPARATORS))
        raise MalformedSource(
            f"{path}: the fields seem separated by {foreign}, and a manifest knows {known} alone; write the file anew "
            "with one of these"
        )
    found = {"compression": compression, "encoding": content.encoding, "header": header or None, **signs}
    return CsvOptions.model_validate(found)


@dataclass(frozen=True, slots=True)
class _Content:
    """The encoding of a file, and the text that it begins with."""

    encoding: str
    text: str


def _look_through(path: Path, compression: str) -> _Content:
    """Find the encoding of most lines that are not plain ASCII, wherever in the file they are."""
    start, lines_utf8, lines_other, is_windows = b"", 0, 0, True
    with DigestedFile(path) as file:
        stream = file if compression == "none" else Unpacked(file, compression, ROW_CAPACITY_MAX, str(path))
        for block in cut_lines(stream):
            start += block if len(start) < _SNIFFED_BYTES else b""
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                if len(start) >= _SNIFFED_BYTES:
                    break
                continue
            if block.isascii():
                continue
            for line in block.split(b"\n"):
                if line.isascii():
                    continue
                if is_utf8(line):
                    lines_utf8 += 1
                else:
                    lines_other += 1
                    is_windows = is_windows and _is_windows(line)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _Content("utf-16", start.decode("utf-16", errors="replace"))
    if lines_utf8 >= lines_other:
        return _Content("utf-8", start.decode("utf-8-sig", errors="replace"))
    encoding = "windows-1252" if is_windows else "latin-1"
    return _Content(encoding, start.decode(encoding, errors="replace"))


def _is_windows(line: bytes) -> bool:
    try:
        line.decode("windows-1252")
    except UnicodeDecodeError:
        return False
    return True


def _find_foreign(lines: list[str]) -> str:
    """Return how a sign is called that nearly every line has as often as the first one; nothing if there is none."""
    for sign, called in _FOREIGN.items():
        counts = [len(re.findall(f"{re.escape(sign)}+", line.strip(" "))) for line in lines]
        if len(lines) > 1 and counts[0] and counts.count(counts[0]) >= _FOREIGN_SHARE * len(lines):
            return called
    return ""


def _guess_signs(lines: list[str]) -> dict[str, str]:
    quote = "'" if sum(map(_has_single_quotes, lines)) > len(lines) / 2 or _is_single_quoted(lines[:1]) else '"'
    widths = {sign: _count_fields(lines, sign, quote) for sign in _SEPARATORS}
    separator = max(widths, key=lambda sign: widths[sign])
    fields = [field for line in lines[1:] for field in line.split(separator)]
    commas, points = (sum(bool(sign.fullmatch(field.strip(" \"'"))) for field in fields) for sign in _DECIMALS)
    decimal = "," if separator != "," and commas > points else "."
    return {"separator": separator, "quote": quote, "decimal": decimal}


_DECIMALS = (_COMMA_NUMBER, _POINT_NUMBER)


def _has_single_quotes(line: str) -> bool:
    return '"' not in line and bool(re.search(r"(?:^|[,;\t|])'[^']*'(?:$|[,;\t|])", line))


def _is_single_quoted(lines: list[str]) -> bool:
    return any(map(_has_single_quotes, lines))


def _count_fields(lines: list[str], separator: str, quote: str) -> tuple[float, int]:
    """Return how many lines have the header's number of fields, beyond one, and that number."""
    try:
        rows = list(csv.reader(lines, delimiter=separator, quotechar=quote))
    except csv.Error:
        return 0.0, 0
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows) / len(rows), width) if width > 1 else (0.0, 0)
