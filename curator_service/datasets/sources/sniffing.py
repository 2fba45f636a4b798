"""How a CSV file seems to be written, for a draft of its manifest: a guess that a person reviews."""

import codecs
import csv
import io
import re
from contextlib import suppress
from pathlib import Path

from curator_service.datasets.manifest import CsvOptions
from curator_service.datasets.sources.streams import DigestedFile, Unpacked
from curator_service.privacy.sums import ROW_CAPACITY_MAX

_SNIFFED_BYTES = 2**22
_SNIFFED_LINES = 200
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ": "xz"}
_COMMA_NUMBER = re.compile(r"[-+]?\d+,\d+")
_POINT_NUMBER = re.compile(r"[-+]?\d+\.\d+")


def sniff(path: Path) -> CsvOptions:
    """Guess compression, encoding, separator, quote and decimal sign from the beginning of a file.

    Raises
    ------
    IngestError
        If it is no regular file, or is not whole.
    """
    with DigestedFile(path) as file:
        start = file.read(8) or b""
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "none")
    content = _read_start(path, compression)
    encoding, text = _decode(content)
    lines = [line for line in text.splitlines()[:_SNIFFED_LINES] if line.strip()]
    found = {"compression": compression, "encoding": encoding, **_guess_signs(lines)}
    return CsvOptions.model_validate(found)


def _read_start(path: Path, compression: str) -> bytes:
    with DigestedFile(path) as file:
        stream = file if compression == "none" else Unpacked(file, compression, ROW_CAPACITY_MAX, str(path))
        return io.BufferedReader(stream).read(_SNIFFED_BYTES)


def _decode(content: bytes) -> tuple[str, str]:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", content.decode("utf-16", errors="replace")
    with suppress(UnicodeDecodeError):  # what is cut off within a character is not an error
        return "utf-8", codecs.getincrementaldecoder("utf-8-sig")().decode(content)
    with suppress(UnicodeDecodeError):
        return "windows-1252", content.decode("windows-1252")
    return "latin-1", content.decode("latin-1")


def _guess_signs(lines: list[str]) -> dict[str, str]:
    quote = "'" if sum(map(_has_single_quotes, lines)) > len(lines) / 2 or _is_single_quoted(lines[:1]) else '"'
    widths = {sign: _count_fields(lines, sign, quote) for sign in ",;\t|"}
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
