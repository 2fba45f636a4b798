"""Source of rows for a path."""

from pathlib import Path

from curator_service.datasets.manifest import CsvOptions
from curator_service.datasets.sources.base import IngestError, Source
from curator_service.datasets.sources.csv import CsvSource
from curator_service.datasets.sources.parquet import MAGIC, ParquetSource
from curator_service.kit.files import open_regular


def open_source(path: Path, options: CsvOptions) -> Source:
    """Return the source that a path names; a CSV file is written as `options` say.

    Raises
    ------
    IngestError
    """
    return CsvSource(path, options) if is_csv(path) else ParquetSource(path)


def is_csv(path: Path) -> bool:
    """Tell whether a path is read as CSV: it is no folder, and does not begin as Parquet does.

    Raises
    ------
    IngestError
        If it is neither a folder nor a regular file.
    """
    if path.is_dir():
        return False
    try:
        with open_regular(path) as file:
            return file.read(len(MAGIC)) != MAGIC
    except ValueError as error:
        raise IngestError(f"{path}: {error}") from None
