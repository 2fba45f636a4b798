"""Terms of designs as answers state them, for the documentation of the interface."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.kit.wire import STRICT, left_out


class ConstantTerm(BaseModel):
    """The constant."""

    model_config = STRICT

    kind: Literal["constant"]
    name: str


class NumericTerm(BaseModel):
    """A number, in scaled units: it was clipped to its bounds, `center` was taken off, and `scale` divides."""

    model_config = STRICT

    kind: Literal["numeric"]
    name: str
    column: str
    center: float
    scale: float
    unit: str | None


class BooleanTerm(BaseModel):
    """A boolean, 0 or 1."""

    model_config = STRICT

    kind: Literal["boolean"]
    name: str
    column: str


class LevelTerm(BaseModel):
    """A level of a category, 0 or 1."""

    model_config = STRICT

    kind: Literal["level"]
    name: str
    column: str
    level: str


class MissingTerm(BaseModel):
    """An indicator of missing values: 1 if the value is missing, else 0."""

    model_config = STRICT

    kind: Literal["missing"]
    name: str
    column: str


class BasisTerm(BaseModel):
    """A function of a number in scaled units: a Legendre polynomial, or a B-spline of the knots that are named."""

    model_config = STRICT

    kind: Literal["basis"]
    name: str
    column: str
    center: float
    scale: float
    place: int = Field(description="Which function of its basis, from 0")
    polynomial: list[int] = left_out()
    spline: list[list[float] | int] = left_out()
    natural_spline: list[list[float]] = left_out()


FactorModel = Annotated[NumericTerm | BooleanTerm | LevelTerm | MissingTerm | BasisTerm, Field(discriminator="kind")]


class ProductTerm(BaseModel):
    """A product of other terms."""

    model_config = STRICT

    kind: Literal["product"]
    name: str
    factors: list[FactorModel]


CodedTerm = ConstantTerm | NumericTerm | BooleanTerm | LevelTerm | MissingTerm | BasisTerm | ProductTerm
TargetModel = Annotated[NumericTerm | BooleanTerm, Field(discriminator="kind")]
