"""A rule of permits from outside of the package: no release under the permit costs more than an amount."""

from typing import Annotated, Self

from pydantic import Field

from curator_service.entries.rules import Asked, Rule


class AtMost(Rule[Annotated[int, Field(ge=1)]]):
    """No release costs more units than these."""

    name = "at_most"
    meaning = "Units that a release may cost"

    @classmethod
    def of_text(cls, text: str) -> Self:
        return cls(int(text))

    @property
    def text(self) -> str:
        return f"{self.root}"

    def allows(self, asked: Asked) -> bool:
        return asked.units <= self.root

    def is_wider_than(self, before: Self) -> bool:
        return self.root > before.root
