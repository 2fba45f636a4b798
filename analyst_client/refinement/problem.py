"""The task of a refinement: a model, a price, and public numbers about the dataset."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analyst_client.kinds.gram.quote import Quote
from analyst_client.refinement.family import LOSSES
from analyst_client.refinement.places import Place
from analyst_client.schema.columns import Term
from analyst_client.terms.expression import Expression
from analyst_client.terms.functions import maximum, minimum


@dataclass(frozen=True)
class Field:
    """A feature or a target: what is asked, and its bounds where it is one number.

    Attributes
    ----------
    expression : Expression
    name : str
        Its name in answers.
    low, high : float or None
        Public bounds; None of what is no number, such as a category or a spline.
    """

    expression: Expression
    name: str
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, expression: Expression, name: str, terms: Sequence[Term]) -> "Field":
        """Read a field's bounds off the terms that it makes."""
        own = [term for term in terms if term.column == name and term.kind == "numeric"]
        if len(own) != 1:
            return cls(expression, name)
        return cls(expression, name, own[0].center - own[0].scale, own[0].center + own[0].scale)

    @property
    def is_number(self) -> bool:
        """True if the field is one number with bounds, which can be placed and clipped."""
        return self.low is not None

    def uncut(self, place: Place) -> Place:
        """Return a place with all of the bounds as its range."""
        assert self.low is not None
        assert self.high is not None
        return Place(place.center, place.scale, self.low, self.high)

    def cut(self, place: Place) -> Expression:
        """Return the field cut to the range of a place; as it is where the range is all of its bounds."""
        assert self.low is not None
        assert self.high is not None
        cut = self.expression
        if place.high < self.high:
            cut = minimum(cut, place.high)
        if place.low > self.low:
            cut = maximum(cut, place.low)
        return cut


@dataclass(frozen=True)
class Problem:
    """A model of one target, and what may be spent on it.

    Attributes
    ----------
    features : tuple of Field
    target : Field
    rows : float
        Public, or a guess.
    mu : float
        The whole price, as µ: under zCDP it is √(2ρ), and noise is nearly the same.
    family : str
        ``"gaussian"``, of a number; ``"binomial"``, of a boolean; ``"poisson"``, of a number that is not negative.
    offset : Field or None
        A number that is added to the index of counts, such as the logarithm of an exposure: its coefficient is 1.
    accountant : str
        ``"gdp"`` or ``"zcdp"``, in whose unit parts of the price add up.
    options : tuple of (str, object)
        What every request says beside: a condition, a weight, a project, a reservation.
    order : tuple of str
        Names of the features in the order of the call: a fit shows them so. Empty where that is the one of `features`.
    """

    features: tuple[Field, ...]
    target: Field
    rows: float
    mu: float
    accountant: str = "gdp"
    options: tuple[tuple[str, Any], ...] = ()
    family: str = "gaussian"
    offset: Field | None = None
    order: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, quote: Quote, features: Sequence[Expression], target: Expression, *, offset: bool = False, **members: Any
    ) -> "Problem":
        """Read a problem off a quote of its features, the last of which may be an offset, and its target.

        Raises
        ------
        ValueError
            When the target is not what the family is of.
        """
        family = members.get("family", "gaussian")
        if family not in LOSSES:
            raise ValueError(f"family is one of {', '.join(LOSSES)}, not {family!r}")
        fields = tuple(
            Field.of(expression, name, quote.terms)
            for expression, name in zip(features, quote.feature_names, strict=True)
        )
        (asked,) = quote.targets
        found = Field.of(target, asked.column or asked.name, [asked])
        if family == "binomial":
            if asked.kind != "boolean":
                raise ValueError(
                    f"a binomial refinement is of a boolean, and {asked.name!r} is none: it is {asked.kind}. Ask for a "
                    "condition, such as target=col('kappa') > 3, or for family='gaussian'"
                )
        elif not found.is_number:
            raise ValueError(
                f"a {family} refinement is of a number with bounds, and {asked.name!r} is none: it is {asked.kind}"
            )
        if family == "poisson" and (found.low or 0.0) < 0.0:
            raise ValueError(
                f"a poisson refinement is of counts, and the bounds of {asked.name!r} begin below 0: ask for "
                "family='gaussian'"
            )
        if not offset:
            return cls(fields, found, **members)
        if family != "poisson":
            raise ValueError(f"an offset is of counts, and this refinement is {family}")
        if not fields[-1].is_number:
            raise ValueError(f"an offset is a number with bounds, and {fields[-1].name!r} is none")
        return cls(fields[:-1], found, offset=fields[-1], **members)

    @property
    def regressors(self) -> tuple[Field, ...]:
        """The features, and the offset last."""
        return self.features if self.offset is None else (*self.features, self.offset)

    @property
    def asked(self) -> tuple[Field, ...]:
        """The regressors in the order of the call."""
        places = {name: place for place, name in enumerate(self.order)}
        return tuple(sorted(self.regressors, key=lambda field: places.get(field.name, len(places))))

    @property
    def numbers(self) -> tuple[Field, ...]:
        """The regressors that are one number with bounds."""
        return tuple(field for field in self.regressors if field.is_number)

    def paying(self, cost: float) -> dict[str, Any]:
        """Return the options of a request that costs so much of µ²."""
        price = {"mu": math.sqrt(cost)} if self.accountant == "gdp" else {"rho": cost / 2.0}
        return price | dict(self.options)

    def share_of(self, request: Any) -> float:
        """Return the share of the price that a request costs."""
        cost = request.mu**2 if request.mu is not None else 2.0 * request.rho
        return float(cost) / self.mu**2
