"""Which source a path is."""

from pathlib import Path

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources.base import IngestError, Source
from curator_service.datasets.sources.csv import CsvSource
from curator_service.datasets.sources.parquet import MAGIC, ParquetSource
from curator_service.kit.files import open_regular


def open_source(path: Path, manifest: Manifest) -> Source:
    """Return the source that a path names: Parquet by its first bytes, or a folder; else CSV.

    Raises
    ------
    IngestError
    """
    if path.is_dir():
        return ParquetSource(path)
    try:
        with open_regular(path) as file:
            is_parquet = file.read(len(MAGIC)) == MAGIC
    except ValueError as error:
        raise IngestError(f"{path}: {error}") from None
    return ParquetSource(path) if is_parquet else CsvSource(path, manifest.csv_options)
