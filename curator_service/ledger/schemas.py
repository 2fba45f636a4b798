"""Prices as they are asked, and words for amounts that were spent."""

from typing import Annotated, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from curator_service.kit.wire import STRICT, Positive, is_absent
from curator_service.privacy.accountant import PURE, Accountant, Price
from curator_service.privacy.conversions import DELTA_MIN, EPSILON_MAX


class PriceModel(BaseModel):
    """The price that the analyst offers: (ε, δ), or µ, or ρ, or, for Laplace noise, ε alone."""

    model_config = STRICT

    epsilon: Annotated[Positive, Field(le=EPSILON_MAX)] | None = Field(None, exclude_if=is_absent)
    delta: Annotated[float, Field(ge=0, lt=1)] | None = Field(None, exclude_if=is_absent)
    mu: Annotated[Positive, Field(le=1000)] | None = Field(None, exclude_if=is_absent)
    rho: Annotated[Positive, Field(le=500_000)] | None = Field(None, exclude_if=is_absent)

    @field_validator("delta", mode="after")
    @classmethod
    def _read_no_delta(cls, delta: float | None) -> float | None:
        """Read a delta of 0, as accounts of pure epsilon state it, as none."""
        if delta is not None and 0 < delta < float(DELTA_MIN):
            raise ValueError("delta must be at least 1e-15, or left out where noise is Laplace")
        return delta or None

    @model_validator(mode="after")
    def _check_one_notion(self) -> Self:
        given = {name for name in ("epsilon", "delta", "mu", "rho") if getattr(self, name) is not None}
        if given not in ({"epsilon", "delta"}, {"epsilon"}, {"mu"}, {"rho"}):
            raise ValueError(
                "state the price as epsilon with delta, or as mu, or as rho; for Laplace noise also as epsilon"
            )
        return self

    @property
    def price(self) -> Price:
        """The price as the privacy core reads it."""
        return Price(self.epsilon, self.delta, self.mu, self.rho)


VIEW_DELTA = 1e-6
"""The δ at which ε of an account is shown, where nobody says another."""
SPENT_NOTE = "Spent is a sum of charges. It bounds what was learnt so far under pure alone."
"""For tables of several populations."""


def describe_spent(accountant: Accountant) -> str:
    """Explain the bound on learning by a sum of charges (docs/privacy.md, "What an amount spent says")."""
    if accountant is PURE:
        return "The sum of the charges is also a bound on what was learnt so far."
    return (
        "The sum of the charges is no bound on what was learnt so far: an analyst who decides by the answers when to "
        "stop can have learnt more. The highest limit is the bound."
    )
