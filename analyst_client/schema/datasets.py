"""Datasets as a curator describes them in public."""

from dataclasses import dataclass

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, facts, join, quiet, table, untrusted
from analyst_client.schema.columns import Column, write_words
from analyst_client.schema.wire import Fields


@dataclass(frozen=True, repr=False)
class Dataset(Displayable):
    """Public description of a dataset.

    Attributes
    ----------
    name, description, population : str
    adjacency : str
        Neighbour relation: ``"add_remove"`` or ``"replace_one"``.
    row_capacity : int
        Most rows that the dataset may have; public.
    rows : int or None
        Number of stored rows, or of persons where one may have several; public only under ``replace_one``.
    columns : tuple of Column
    kinds : tuple of str
        Names of the kinds of release that are offered.
    row_maps : tuple of str
        Row maps that are offered.
    accountant : str
        Unit of the population's account: ``"gdp"`` (µ²), ``"zcdp"`` (ρ) or ``"pure"`` (ε).
    mechanisms : tuple of str
        Kinds of noise that are offered.
    rows_per_person : int
        Most rows of one person that count.
    """

    name: str
    description: str
    population: str
    adjacency: str
    row_capacity: int
    rows: int | None
    columns: tuple[Column, ...]
    kinds: tuple[str, ...]
    row_maps: tuple[str, ...]
    accountant: str
    mechanisms: tuple[str, ...]
    rows_per_person: int

    def column(self, name: str) -> Column:
        """Return the column of this name. Raise `KeyError` when there is none."""
        return {column.name: column for column in self.columns}[name]

    def __repr__(self) -> str:
        """Show its name, and how many columns it has."""
        return f"<Dataset {self.name!r} of {self.population!r}: {len(self.columns)} columns>"

    def _view(self) -> View:
        return show_dataset(self)

    @classmethod
    def read(cls, fields: Fields) -> "Dataset":
        """Read from an answer."""
        return cls(
            fields.text("name"),
            fields.text("description"),
            fields.text("population"),
            fields.text("adjacency"),
            fields.integer("row_capacity"),
            fields.optional("rows", fields.integer),
            fields.each("columns", Column.read),
            fields.texts("kinds"),
            fields.texts("row_maps"),
            fields.text("accountant"),
            fields.texts("mechanisms"),
            fields.integer("rows_per_person"),
        )


def show_dataset(dataset: "Dataset") -> View:
    """Show what is public of a dataset, and its columns."""
    rows = f"at most {dataset.row_capacity:,}"
    if dataset.rows is not None:
        rows = f"{dataset.rows:,}, {rows}"
    if dataset.rows_per_person != 1:
        rows += f"; of one person at most {dataset.rows_per_person:,} count"
    stated: list[tuple[Inline, Inline]] = [
        ("population", dataset.population),
        ("account", join(untrusted(dataset.accountant), quiet(", neighbours by "), untrusted(dataset.adjacency))),
        ("rows", rows),
        ("noise", write_words(dataset.mechanisms)),
        ("row maps", write_words(dataset.row_maps)),
    ]
    if dataset.description:
        stated.insert(0, ("description", dataset.description))
    heads = ("column", "type", "values", "unit", "missing", "description")
    columns = [
        (column.name, column.type, write_values(column), column.unit or "", column.missing, column.description)
        for column in dataset.columns
    ]
    return (
        facts(join("Dataset ", untrusted(dataset.name)), stated),
        table(f"Columns ({len(columns):,})", heads, columns),
    )


def write_values(column: "Column") -> Inline:
    """Say which values a column takes."""
    if column.type != "numeric":
        return write_words(column.levels)
    if column.lower is None or column.upper is None:
        return "any"
    return f"{column.lower:g} to {column.upper:g}"
