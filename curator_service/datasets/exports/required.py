"""Fields of a declaration that an export needs, and the text to write for a missing one."""

from collections.abc import Sequence
from dataclasses import dataclass

from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.repository import Dataset


class ExportError(ValueError):
    """A dataset's declaration lacks what an export needs; the message says what to write, for the admin."""


@dataclass(frozen=True, slots=True)
class Description:
    """Dataset that an export describes, with public values only.

    Attributes
    ----------
    dataset : Dataset
    catalogue : Catalogue
        The manifest's, or one that was given in its place.
    count : int or None
        Of rows or persons, where it is public.
    """

    dataset: Dataset
    catalogue: Catalogue
    count: int | None

    @property
    def name(self) -> str:
        """The dataset's."""
        return self.dataset.name

    @property
    def text(self) -> str:
        """Description of the dataset: the block's words, or else the manifest's."""
        return self.catalogue.description or self.dataset.manifest.description


_EXAMPLES = {
    "description": 'description = "Serum free light chains of residents of Olmsted County."',
    "identifier": 'identifier = "https://data.hospital.example/datasets/flchain"  # its own address, for good',
    "title": 'title = "Serum free light chains, Olmsted County"',
    "issued": "issued = 2026-03-01  # the day from which it is offered",
    "keywords": 'keywords = ["free light chains", "cohort"]',
    "provenance": 'provenance = "Leftover serum of routine care, 1995 to 2003, assayed in 2010."',
    "health_categories": 'health_categories = ["RQSH"]  # EHDS, Article 51(1): docs/catalogues.md lists them',
    "access_url": 'access_url = "https://data.hospital.example/access"  # where access is asked for',
    "licence": 'licence = "https://data.hospital.example/terms"  # of what is released',
    "publisher": 'publisher = { name = "University Hospital", url = "https://hospital.example" }',
    "contact": 'contact = { name = "Research data office", email = "data@hospital.example" }',
    "access_body": 'access_body = { name = "Health data access body", url = "https://hdab.example" }',
}


def check_complete(description: Description, export: str, names: Sequence[str]) -> None:
    """Refuse a declaration that lacks something, naming all that it lacks.

    Parameters
    ----------
    export : str
        What the export is called, for the message.
    names : sequence of str
        Fields of the catalogue block.

    Raises
    ------
    ExportError
    """
    held = {**dict(description.catalogue), "description": description.text}
    missing = [name for name in names if not held[name]]
    if missing:
        where = "under [catalogue], in the manifest or in a file for --catalogue, write, say,"
        lines = [f"dataset {description.name}: {export} also needs {', '.join(missing)}; {where}"]
        raise ExportError("\n".join(lines + [f"  {_EXAMPLES[name]}" for name in missing]))
