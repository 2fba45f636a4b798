"""A model as it was asked, read once: its family, its price, and the free quote of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypedDict

import numpy as np

from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.request import Asked
from analyst_client.refinement.buying import is_whole
from analyst_client.refinement.family import LOSSES
from analyst_client.schema.accounts import Budget
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.requests import check_expected_rows, price
from analyst_client.terms.expression import Expression
from analyst_client.terms.formulas import Model
from analyst_client.terms.writing import write_python


class FitOptions(TypedDict, total=False):
    """Options of `CuratorClient.fit` that decide what is asked, beside its price."""

    target: str | Expression | None
    family: str | None
    offset: str | Expression | None
    where: str | Expression | None
    weights: str | Expression | None
    expected_rows: float | None
    project: str | None


class Buyer(Protocol):
    """What a choice asks of a `CuratorClient`."""

    @property
    def quote(self) -> Any: ...  # noqa: D102 -- see `CuratorClient`

    @property
    def release(self) -> Any: ...  # noqa: D102 -- see `CuratorClient`

    @property
    def fetch_release(self) -> Any: ...  # noqa: D102 -- see `CuratorClient`

    @property
    def reservation(self) -> Any: ...  # noqa: D102 -- see `CuratorClient`

    @property
    def reservations(self) -> Any: ...  # noqa: D102 -- see `CuratorClient`

    @property
    def _read_refinement(self) -> Any: ...

    def dataset(self, name: str) -> Dataset: ...  # noqa: D102 -- see `CuratorClient`

    def budget(self, name: str) -> Budget: ...  # noqa: D102 -- see `CuratorClient`


@dataclass(frozen=True, eq=False)
class Question:
    """A model of one curator's dataset, with a price.

    Attributes
    ----------
    client : Buyer
    declared : Dataset
    asked : sequence, str or Model
        The features or the formula, as they were typed.
    options : mapping
        Those of `FitOptions` that were stated.
    price : mapping of str to float
        As a request states it.
    """

    client: Buyer
    declared: Dataset
    asked: Asked
    options: Mapping[str, Any]
    price: Mapping[str, float]

    @classmethod
    def read(
        cls,
        client: Buyer,
        data: str,
        asked: Asked,
        options: FitOptions,
        stated: Mapping[str, float | None],
    ) -> "Question":
        """Ask for the declarations, and complete the price: δ is that of the population's account.

        Raises
        ------
        ValueError
            When the price contradicts itself.
        CuratorError
            See `analyst_client.errors`.
        """
        declared = client.dataset(data)
        given = {name: value for name, value in stated.items() if value is not None}
        if set(given) == {"epsilon"} and declared.accountant != "pure":
            given["delta"] = client.budget(data).delta
        pure, names = declared.accountant == "pure", ("epsilon", "delta", "mu", "rho")
        given = price(*(given.get(name) for name in names), pure=pure)
        kept = {name: value for name, value in options.items() if value is not None}
        return cls(client, declared, asked, kept, given)

    @property
    def data(self) -> str:
        """Name of the dataset."""
        return self.declared.name

    @cached_property
    def model(self) -> dict[str, Any]:
        """Options that every request of the model says: its target, its rows and their weights."""
        names = {"target": "target", "where": "where", "weights": "weight"}
        return {name: self.options[own] for own, name in names.items() if own in self.options}

    @cached_property
    def quote(self) -> Quote:
        """Of one release, with each row in its box. Free."""
        options: dict[str, Any] = self.model | {"rows": "box"} | dict(self.price)
        if self.declared.accountant == "pure":
            options["mechanism"] = "laplace"
        quoted: Quote = self.client.quote(self.data, self.asked, **options)
        if not quoted.targets:
            raise ValueError("a fit is of a target: name it, as in 'kappa ~ age' or target='kappa'")
        return quoted

    @cached_property
    def family(self) -> tuple[str, str]:
        """The family of the target, and why it is that.

        A boolean is binomial; a number that is declared whole and begins at 0 is a count; all else is gaussian.
        """
        stated = self.options.get("family")
        if stated is not None:
            if stated not in LOSSES:
                raise ValueError(f"family is one of {', '.join(LOSSES)}, not {stated!r}")
            return stated, "as stated"
        target, *others = self.quote.targets
        if target.kind == "boolean" and not others:
            return "binomial", f"as {target.name} is true or false"
        expression = self.quote.expressions.get(target.name)
        from_zero = target.kind == "numeric" and target.center == target.scale
        if from_zero and not others and expression is not None and is_whole(expression, self.declared):
            return "poisson", f"as {target.name} is declared a whole number from 0: family='gaussian' is of its mean"
        return "gaussian", f"as {target.name} is a number" if target.kind == "numeric" else f"as {target.name} is coded"

    @cached_property
    def rows(self) -> float:
        """Rows that are public, or stated, or guessed: a quarter of the capacity."""
        known = (
            check_expected_rows(self.options.get("expected_rows"))
            or self.declared.rows
            or self.declared.row_capacity / 4.0
        )
        return float(known)

    @property
    def text(self) -> str:
        """The model, as it was typed."""
        if isinstance(self.asked, str | Model):
            return self.asked if isinstance(self.asked, str) else self.asked.formula
        return f"{', '.join(target.name for target in self.quote.targets)} ~ {' + '.join(map(str, self.asked))}"

    def at(self, **stated: float) -> "Question":
        """Return the same question at another price."""
        return Question(self.client, self.declared, self.asked, self.options, stated)

    def write_call(self, method: str, more: Mapping[str, Any], *, refined: bool = False) -> str:
        """Write the call of a method of the client that asks the same."""
        return f"client.{method}({', '.join([repr(self.data), *self.write_arguments(more, refined=refined)])})"

    def write_arguments(self, more: Mapping[str, Any], *, refined: bool = False) -> list[str]:
        """Write the arguments of such a call: the features, and then those with names."""
        asked, said = self.asked, dict(self.model)
        if isinstance(asked, Model):
            said |= {"where": asked.condition, "weight": asked.weight}
            asked = asked.formula
        said |= {name: self.options.get(name) for name in ("project",)} | dict(more)
        if refined:
            said |= {"family": self.family[0], "offset": self.options.get("offset")}
            said["expected_rows"] = self.options.get("expected_rows")
        said |= self.price
        written = [f"{name}={_write(value)}" for name, value in said.items() if value is not None]
        listed = repr(asked) if isinstance(asked, str) else f"[{', '.join(map(_write, asked))}]"
        return [listed, *written]


def _write(value: object) -> str:
    if isinstance(value, Expression):
        return write_python(value)
    return repr(value.item() if isinstance(value, np.generic) else value)
