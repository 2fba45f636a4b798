"""The catalogue block of a manifest: what is said of a dataset as a whole, for catalogues and data-protection officers.

All of it is public, and nothing of it is read off rows. Every field may be left out; an export names what it lacks.
"""

import re
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

_EHDS = "http://data.europa.eu/eli/reg/2025/327/oj"
"""The regulation on the European Health Data Space, for whose catalogue HealthDCAT-AP describes datasets."""
_WEB_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?")
_EMAIL = re.compile(r"[A-Za-z0-9.!$'*+/=_~-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")


def _check_url(text: str) -> str:
    if not _WEB_ADDRESS.fullmatch(text):
        raise ValueError("this is a web address, such as https://data.hospital.example/kidney, without a fragment (#)")
    return text


def _check_email(text: str) -> str:
    if not _EMAIL.fullmatch(text):
        raise ValueError("this is an e-mail address, such as data@hospital.example")
    return text


def _check_place(text: str) -> str:
    return text if re.fullmatch(r"[A-Z]{3}", text) else _check_url(text)


def _check_date(value: Any) -> Any:
    if isinstance(value, (int, float)):
        raise ValueError("this is a date, such as 2026-03-01")  # noqa: TRY004 -- pydantic reports ValueErrors
    return value


Line = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\p{Cc}\p{Zl}\p{Zp}]*$")]
Paragraph = Annotated[
    str, StringConstraints(min_length=1, max_length=2000, pattern=r"^(?:[^\p{Cc}\p{Zl}\p{Zp}]|\n|\t)*$")
]
Url = Annotated[str, StringConstraints(max_length=500), AfterValidator(_check_url)]
Email = Annotated[str, StringConstraints(max_length=254), AfterValidator(_check_email)]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_-]{1,62}$")]
"""A concept's code within an authority's list."""
Language = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
Place = Annotated[str, StringConstraints(max_length=500), AfterValidator(_check_place)]
"""A country's code of three letters, or the address of another place."""
Date = Annotated[date, BeforeValidator(_check_date)]
_MANY = 50
HealthCategory = Literal[
    "EHRS", "DIOH", "NRPE", "RPDG", "HRAD", "HGPD", "HPML", "PGEH", "WELA",
    "IDHP", "PHDR", "MRMR", "EHCT", "EMRD", "RMMD", "RQSH", "EINS",
]  # fmt: skip
"""Regulation (EU) 2025/327, Article 51(1), (a) to (q), in their order."""


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Organisation(_Declared):
    """Somebody who answers for something, and how to reach them."""

    name: Line
    email: Email | None = None
    url: Url | None = None

    @model_validator(mode="after")
    def _check_reachable(self) -> Self:
        if self.email is None and self.url is None:
            raise ValueError("an organisation needs an email or a url at which it is reached")
        return self


class Period(_Declared):
    """A span of time, open where an end is not said; the comment says what dates cannot."""

    start: Date | None = None
    end: Date | None = None
    comment: Paragraph | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.start is None and self.end is None and self.comment is None:
            raise ValueError("a period needs a start, an end or a comment")
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ValueError("the start of a period must not be after its end")
        return self


class Catalogue(_Declared):
    """DCAT-AP 3.0 and HealthDCAT-AP members of a dataset that is not public, and a record of processing beside them."""

    identifier: Url | None = Field(None, description="The dataset's own address, for good.")
    title: Line | None = None
    description: Paragraph | None = Field(None, description="In place of the manifest's own.")
    issued: Date | None = Field(None, description="When it was published: chosen, not the moment of a registration.")
    keywords: tuple[Line, ...] = Field((), max_length=_MANY)
    themes: tuple[Code, ...] = Field(("HEAL",), min_length=1, max_length=_MANY)
    languages: tuple[Language, ...] = Field((), max_length=_MANY)
    spatial: tuple[Place, ...] = Field((), max_length=_MANY)
    temporal: Period | None = None
    population_coverage: Paragraph | None = Field(None, description="Who the people are.")
    provenance: Paragraph | None = Field(None, description="How the rows came about.")
    health_categories: tuple[HealthCategory, ...] = Field((), max_length=_MANY)
    health_themes: tuple[Code, ...] = Field((), max_length=_MANY)
    coding_systems: tuple[Code, ...] = Field((), max_length=_MANY)
    access_rights: Literal["non-public", "restricted", "public"] = "non-public"
    access_url: Url | None = Field(None, description="Where access is asked for.")
    licence: Url | None = Field(None, description="The terms under which releases are used.")
    legislation: tuple[Url, ...] = Field((_EHDS,), min_length=1, max_length=_MANY)
    legal_basis: Paragraph | None = None
    purpose: Paragraph | None = None
    retention: Period | None = None
    controller: Organisation | None = Field(None, description="Who decides on the rows (GDPR, Article 4(7)).")
    publisher: Organisation | None = None
    contact: Organisation | None = None
    access_body: Organisation | None = Field(None, description="The health data access body (EHDS, Article 55).")
