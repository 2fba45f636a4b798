"""Answers on datasets: their declarations."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from curator_service.datasets.columns.base import ColumnDeclaration
from curator_service.datasets.repository import Dataset
from curator_service.datasets.schemas import render_column
from curator_service.kit.wire import Answer
from curator_service.privacy.accountant import PURE, AccountantName
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import MissingRule
from curator_service.privacy.row_maps import ROW_MAPS


def _is_empty(value: object) -> bool:
    return not value


class NumericColumn(Answer):
    """A column of numbers, with its public bounds in its unit."""

    name: str
    type: Literal["numeric"]
    unit: str | None
    lower: float
    upper: float
    missing: MissingRule


class LevelsColumn(Answer):
    """A category with its levels, or a boolean with its two, the false one first."""

    name: str
    type: Literal["categorical", "boolean"]
    unit: str | None
    levels: list[str]
    missing: MissingRule


class DeclaredNumericColumn(NumericColumn):
    """A column of numbers, as a dataset declares it."""

    description: str
    whole: Annotated[bool, Field(description="Whether every value is a whole number, as counts are")] = Field(
        False, exclude_if=_is_empty
    )


class DeclaredLevelsColumn(LevelsColumn):
    """A category or a boolean, as a dataset declares it."""

    description: str


ColumnModel = Annotated[NumericColumn | LevelsColumn, Field(discriminator="type")]
_DeclaredColumn = Annotated[DeclaredNumericColumn | DeclaredLevelsColumn, Field(discriminator="type")]


class DatasetAnswer(Answer):
    """The public facts of a dataset."""

    name: str
    description: str
    population: str
    same_people_as: Annotated[
        list[str], Field(description="Other populations that are declared to have people of it: the budgets add up")
    ] = Field([], exclude_if=_is_empty)
    adjacency: Adjacency
    accountant: AccountantName
    row_capacity: int
    rows_per_person: int
    rows: Annotated[int | None, Field(description="Rows, or persons; null where their number is private")]
    columns: list[_DeclaredColumn]
    kinds: list[str]
    row_maps: list[str]
    mechanisms: list[Mechanism]
    version: Annotated[int, Field(description="Of the rows; every cut begins one, whether anything has changed or not")]
    snapshot: Annotated[str, Field(description="The commitment to the rows of this version, as receipts state it")]
    since: Annotated[str | None, Field(description="When the version began; null while rows are renewed")]
    until: Annotated[str | None, Field(description="When the next one begins; null where the dataset has ended")]
    ended: Annotated[str | None, Field(description="When the dataset ended: its releases are served, and no others")]
    successor: Annotated[str | None, Field(description="The dataset that took its place")]

    @classmethod
    def of(cls, dataset: Dataset, rows: int | None, kinds: list[str], until: str) -> "DatasetAnswer":
        """State a dataset's public declaration.

        Parameters
        ----------
        rows : int or None
            How many rows or persons it has, where that is public.
        kinds : list of str
            Kinds of release that may be asked of it.
        until : str
            When its next version begins.
        """
        manifest = dataset.manifest
        return cls.model_construct(
            name=dataset.name,
            description=manifest.description,
            population=dataset.population,
            same_people_as=list(manifest.same_people_as),
            adjacency=dataset.adjacency,
            accountant=dataset.accountant.name,
            row_capacity=manifest.row_capacity,
            rows_per_person=manifest.rows_per_person,
            rows=rows,
            columns=[_declare(column) for column in manifest.columns],
            kinds=kinds,
            row_maps=list(ROW_MAPS),
            mechanisms=[Mechanism.LAPLACE] if dataset.accountant is PURE else [Mechanism.GAUSSIAN, Mechanism.LAPLACE],
            version=dataset.version,
            snapshot=dataset.commitment,
            since=dataset.cut_at or None,
            until=None if dataset.is_retired else until,
            ended=dataset.retired_at or None,
            successor=dataset.successor or None,
        )


def _declare(declared: ColumnDeclaration) -> DeclaredNumericColumn | DeclaredLevelsColumn:
    stated = render_column(declared.column) | {"description": declared.description}
    if declared.column.is_number:
        return DeclaredNumericColumn.model_construct(**stated, whole=declared.is_whole)
    return DeclaredLevelsColumn.model_construct(**stated)


class DatasetsAnswer(Answer):
    """The datasets that the caller may see."""

    items: ClassVar[str] = "datasets"
    datasets: list[DatasetAnswer]
