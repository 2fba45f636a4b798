"""A steward's declaration of a cohort in an OMOP CDM: its people and its columns.

The query is made of what is here alone. Names and labels have letters, digits and a few signs, and everything else is a
whole number or one of a few words: nothing of it can end a statement or a text of SQL.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints, model_validator

from curator_service.datasets.columns.texts import Name, Text
from curator_service.datasets.manifest import COLUMNS_MAX, load_toml
from curator_service.kit.names import NAME_PATTERN
from curator_service.privacy.sums import ROW_CAPACITY_MAX

DAYS_MAX = 100_000
"""Further from an index date than any event of a person."""
PERSON, AGE, SEX = "person_id", "age", "sex"
_STRICT = ConfigDict(extra="forbid", frozen=True)
Concept = Annotated[StrictInt, Field(ge=1, lt=2**31)]
"""A concept's number; 0 stands for no concept that matches."""
Concepts = Annotated[tuple[Concept, ...], Field(min_length=1, max_length=1000)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
"""What needs no quotes in SQL, so that a database may fold its letters as it folds its tables'."""
Days = Annotated[StrictInt, Field(ge=-DAYS_MAX, le=DAYS_MAX)]
Label = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class Cohort(BaseModel):
    """The people: the entries of a cohort, of each person the first or the last one."""

    model_config = _STRICT

    id: Annotated[StrictInt, Field(ge=0, lt=2**63)]
    table: Identifier = "cohort"
    cohort_schema: Identifier | None = Field(None, alias="schema")
    index_date: Literal["first", "last"] = "first"
    observed_days: Annotated[StrictInt, Field(ge=0, le=DAYS_MAX)] | None = None


class Feature(BaseModel):
    """A column: what the records of some concepts, on some days around the index date, come down to."""

    model_config = _STRICT

    name: Name
    concept_ids: Concepts
    descendants: bool = True
    window_days: tuple[Days, Days]
    value: str
    description: Text = ""

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.window_days[0] > self.window_days[1]:
            raise ValueError("window_days is the first day and the last one, both counted from the index date")
        return self


class Event(Feature):
    """The presence or the number of records."""

    value: Literal["any", "count"] = "any"


class Visit(Feature):
    """The presence or the number of visits that begin."""

    value: Literal["any", "count"] = "count"


class Measurement(Feature):
    """A value that was measured: the last, the first, or the mean of all."""

    descendants: bool = False
    value: Literal["last", "first", "mean"]
    unit: Text | None = None
    unit_concept_ids: Concepts | None = None


class Declaration(BaseModel):
    """A cohort of an OMOP CDM, and the columns of a dataset."""

    model_config = _STRICT

    name: Name
    population: Name | None = None
    row_capacity: int | None = Field(None, ge=1, le=ROW_CAPACITY_MAX)
    cdm_schema: Identifier | None = Field(None, alias="schema")
    cohort: Cohort
    sex: Annotated[dict[Label, Concept], Field(min_length=2, max_length=100)] = {"F": 8532, "M": 8507}
    measurement: tuple[Measurement, ...] = ()
    condition: tuple[Event, ...] = ()
    drug: tuple[Event, ...] = ()
    procedure: tuple[Event, ...] = ()
    observation: tuple[Event, ...] = ()
    visit: tuple[Visit, ...] = ()

    @property
    def features(self) -> tuple[tuple[str, Feature], ...]:
        """Each kind of record with a column of it, in the order of the fields."""
        kinds = ("measurement", "condition", "drug", "procedure", "observation", "visit")
        return tuple((kind, feature) for kind in kinds for feature in getattr(self, kind))

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [PERSON, AGE, SEX, *(feature.name for _, feature in self.features)]
        folded = [name.casefold() for name in names]
        for name in names:
            if folded.count(name.casefold()) > 1:
                raise ValueError(f"the column {name!r} is there twice; databases take letters of either case for one")
        if len(names) > COLUMNS_MAX:
            raise ValueError(f"more than {COLUMNS_MAX} columns")
        if len(set(self.sex.values())) < len(self.sex):
            raise ValueError("the concepts of sex must differ from each other")
        return self


def load_declaration(path: Path) -> Declaration:
    """Read a declaration.

    Raises
    ------
    ManifestError
        Naming the file, the place and the rule.
    """
    return load_toml(path, Declaration)
