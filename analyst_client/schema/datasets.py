"""Datasets as a curator describes them in public."""

from dataclasses import dataclass

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, facts, join, quiet, table, untrusted
from analyst_client.schema.columns import Column, write_words
from analyst_client.schema.reading import Readable


@dataclass(frozen=True, repr=False)
class Dataset(Displayable, Readable):
    """Public description of a dataset.

    Attributes
    ----------
    name, description, population : str
    adjacency : str
        Neighbour relation: ``"add_remove"`` or ``"replace_one"``.
    row_capacity : int
        Most rows that the dataset may have; public.
    rows : int or None
        Number of rows, or of persons where one may have several, of all uploads added up; public only under
        ``replace_one``. A person in two uploads counts twice.
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
    version : int
        Of the rows: every cut begins one, whether anything has changed or not. 1 from a curator that has no versions.
    snapshot : str
        Commitment to this version, as receipts of its releases state it; empty from a curator that has no versions.
    since, until : str or None
        Moments at which this version began, and the next one does.
    ended, successor : str or None
        Moment at which the dataset ended, and the name of the one that took its place.
    same_people_as : tuple of str
        Other populations that are declared to have people of this dataset: for these people the budgets add up.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> dataset = client.dataset("flchain")
    >>> dataset.population, dataset.row_capacity, dataset.column("age").upper
    ('olmsted', 20000, 100.0)
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
    version: int = 1
    snapshot: str = ""
    since: str | None = None
    until: str | None = None
    ended: str | None = None
    successor: str | None = None
    same_people_as: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        """Return the column of this name. Raise `KeyError` when there is none."""
        return {column.name: column for column in self.columns}[name]

    def __repr__(self) -> str:
        """Show its name, and how many columns it has."""
        return f"<Dataset {self.name!r} of {self.population!r}: {len(self.columns)} columns>"

    def _view(self) -> View:
        return show_dataset(self)


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
    if dataset.same_people_as:
        stated.insert(1, ("same people as", join(write_words(dataset.same_people_as), quiet(": the budgets add up"))))
    if dataset.ended is not None:
        heir = "" if dataset.successor is None else join("; its successor is ", untrusted(dataset.successor))
        stated.append(("ended", join(untrusted(dataset.ended), heir)))
    elif dataset.until is not None:
        stated.append(("version", join(f"{dataset.version:,}", quiet(", until ", untrusted(dataset.until)))))
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
    return f"{column.lower:g} to {column.upper:g}" + (", whole" if column.whole else "")
