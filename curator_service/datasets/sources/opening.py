"""Which source a path is."""

from pathlib import Path

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources.base import Source
from curator_service.datasets.sources.csv import CsvSource


def open_source(path: Path, manifest: Manifest) -> Source:
    """Return the source that a path names.

    Raises
    ------
    IngestError
    """
    return CsvSource(path, manifest.csv_options)
