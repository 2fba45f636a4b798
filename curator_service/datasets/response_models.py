"""What is answered of datasets: their declarations."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.kit.wire import STRICT
from curator_service.privacy.accountant import AccountantName
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import MissingRule


class _Column(BaseModel):
    model_config = STRICT

    name: str
    unit: str | None
    missing: MissingRule


class NumericColumn(_Column):
    """A column of numbers, with its public bounds in its unit."""

    type: Literal["numeric"]
    lower: float
    upper: float


class LevelsColumn(_Column):
    """A category with its levels, or a boolean with its two, the false one first."""

    type: Literal["categorical", "boolean"]
    levels: list[str]


class DeclaredNumericColumn(NumericColumn):
    """A column of numbers, as a dataset declares it."""

    description: str
    whole: Annotated[bool, Field(description="Whether every value is a whole number, as counts are")] = False


class DeclaredLevelsColumn(LevelsColumn):
    """A category or a boolean, as a dataset declares it."""

    description: str


ColumnModel = Annotated[NumericColumn | LevelsColumn, Field(discriminator="type")]
_DeclaredColumn = Annotated[DeclaredNumericColumn | DeclaredLevelsColumn, Field(discriminator="type")]


class DatasetAnswer(BaseModel):
    """What is public of a dataset."""

    model_config = STRICT

    name: str
    description: str
    population: str
    same_people_as: Annotated[
        list[str], Field(description="Other populations that are declared to have people of it: the budgets add up")
    ] = []
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


class DatasetsAnswer(BaseModel):
    """The datasets that the caller may see."""

    model_config = STRICT

    datasets: list[DatasetAnswer]
