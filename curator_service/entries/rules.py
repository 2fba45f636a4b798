"""Rules of a permit, beside its people, datasets, limit and end. A rule is a class, and declaring it registers it."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from curator_service.kit.wire import Name


class Asked(NamedTuple):
    """A release, as rules see it: its kind, the dataset's name, and its cost in the account's units."""

    kind: str
    dataset: str
    units: int


T = TypeVar("T")


class Rule(RootModel[T]):
    """A rule: what it holds is JSON of texts, whole numbers, lists and objects.

    Attributes
    ----------
    name : str
        By which terms and entries have it.
    meaning : str
        For whoever writes one.
    """

    model_config = ConfigDict(frozen=True, strict=True)
    name: ClassVar[str]
    meaning: ClassVar[str]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Register a rule."""
        if "name" in vars(cls) and RULES.setdefault(cls.name, cls) is not cls:
            raise TypeError(f"a rule {cls.name!r} is declared already")

    @classmethod
    @abstractmethod
    def of_text(cls, text: str) -> Self:
        """Read it from a field of a form. Raise `ValueError` where it is none."""

    @property
    @abstractmethod
    def text(self) -> str:
        """It, for people and for that field."""

    @abstractmethod
    def allows(self, asked: Asked) -> bool:
        """Tell whether a release may be charged under it."""

    @abstractmethod
    def is_wider_than(self, before: Self) -> bool:
        """Tell whether it allows anything that it did not allow before."""


RULES: dict[str, type[Rule[Any]]] = {}
"""Every rule that was declared, by its name."""


class Kinds(Rule[Annotated[list[Name], Field(min_length=1, max_length=100)]]):
    """Releases of some kinds alone are charged."""

    name = "kinds"
    meaning = "Kinds of release that may be bought, with commas between; threshold for threshold sessions"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read it from names with commas between."""
        return cls(text.replace(",", " ").split())

    @property
    def text(self) -> str:
        """The names, with commas between."""
        return ", ".join(self.root)

    def allows(self, asked: Asked) -> bool:
        """Tell whether a release is of one of the kinds."""
        return asked.kind in self.root

    def is_wider_than(self, before: Self) -> bool:
        """Tell whether there is a kind more."""
        return not {*self.root} <= {*before.root}


def read_rules(stated: Mapping[str, Any] | None) -> dict[str, Rule[Any]]:
    """Read rules by their names.

    Raises
    ------
    ValueError
        If one is not declared, or not one to the letter.
    """
    unknown = (stated or {}).keys() - RULES.keys()
    if unknown:
        raise ValueError(f"there is no rule {min(unknown)!r}; rules are {', '.join(sorted(RULES))}")
    return {name: _read(RULES[name], value) for name, value in (stated or {}).items()}


def describe_rules(stated: Mapping[str, Any] | None) -> dict[str, str]:
    """Return rules as texts for people, by their names: of a row, which may be from a curator that has other rules."""
    described = {}
    for name, value in (stated or {}).items():
        try:
            described[name] = read_rules({name: value})[name].text
        except ValueError:
            described[name] = f"not known here: {json.dumps(value, ensure_ascii=False)}"
    return described


def _read(kind: type[Rule[Any]], value: Any) -> Rule[Any]:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        said = error.errors(include_input=False, include_url=False)[0]["msg"]
        raise ValueError(f"this is no rule {kind.name!r}: {said}") from None


def find_broken(rules: Mapping[str, Rule[Any]], asked: Asked) -> Rule[Any] | None:
    """Return a rule that does not allow what is asked, or None."""
    return next((rule for rule in rules.values() if not rule.allows(asked)), None)


def is_wider(after: Mapping[str, Rule[Any]], before: Mapping[str, Rule[Any]]) -> bool:
    """Tell whether rules allow anything that the ones before did not."""
    return any(name not in after or after[name].is_wider_than(rule) for name, rule in before.items())


class DescribedRules:
    """Describes rules as JSON: those that were declared by when the document is made."""

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe them."""
        members: dict[str, Any] = {
            name: (rule.model_fields["root"].annotation, Field(None, description=rule.meaning))
            for name, rule in RULES.items()
        }
        model = create_model("PermitRules", __config__=ConfigDict(extra="forbid"), **members)
        described: JsonSchemaValue = handler(TypeAdapter(list[model]).core_schema)
        return dict(described["items"])


def _check(stated: dict[str, Any]) -> dict[str, Any]:
    read_rules(stated)
    return stated


Rules = Annotated[dict[str, Any], AfterValidator(_check), DescribedRules()]
