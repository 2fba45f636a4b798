"""Every template, filled with hostile text wherever a value may stand: none of it becomes markup or turns text."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from jinja2 import Environment, Undefined
from jinja2.defaults import DEFAULT_NAMESPACE

from curator_service.dashboard import rendering
from curator_service.datasets.exports import officer_page, patient_page
from curator_service.datasets.exports.patient_words import ENGLISH
from curator_service.evidence import check_page
from curator_service.kit.names import DECEIVING

ENVIRONMENTS = {
    "dashboard": rendering.environment(),
    "evidence": check_page._environment(),
    "officer": officer_page._environment(),
    "patient": patient_page._environment(),
}
PAGES = [
    (slice_, name)
    for slice_, made in ENVIRONMENTS.items()
    for name in made.list_templates(["html"])
    if slice_ in {"dashboard", "evidence"} or name == f"{slice_}.html"
]
TEXT = "<script>alert(1)</script>\" onmouseover=\"x\" ' onload='y' </bdi> \u202eevil\u2067 \u200f\x9b {0} {{ x }}"


class Hostile(str):
    """A text that also is any object, any list of two and any function, all of them hostile."""

    def __new__(cls, *_: Any, **__: Any) -> "Hostile":
        return super().__new__(cls, TEXT)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Hostile()

    def __getitem__(self, _: Any) -> Any:
        return Hostile()

    def __iter__(self) -> Any:
        return iter((Hostile(), Hostile()))

    def __call__(self, *_: Any, **__: Any) -> Any:
        return Hostile()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __truediv__ = __mod__ = __getitem__  # type: ignore[assignment]
    title = format = count = property(lambda _: Hostile())  # type: ignore[assignment]

    def __len__(self) -> int:
        return 20

    def __float__(self) -> float:
        return 1.5

    def __int__(self) -> int:
        return 2

    __index__ = __int__

    def __format__(self, _: str) -> str:
        return TEXT

    def __lt__(self, _: Any) -> bool:
        return True

    __gt__ = __le__ = __ge__ = __lt__


COUNTED = {"start": 20, "page_size": 20, "found": 90, "tokens": [(Hostile(), Hostile(), Hostile())]}
GIVEN = {"dashboard": COUNTED, "patient": {"words": ENGLISH}}
"""Values that a template reckons with or takes apart, and words that are this product's own."""


class Missing(Undefined):
    """Values missing from a template are hostile."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return Hostile()


class Tags(HTMLParser):
    """The elements of a page, their attributes, and all of its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.texts = set[str](), set[str](), list[str]()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.texts += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize(("slice_", "name"), PAGES)
def test_no_text_becomes_markup(slice_: str, name: str) -> None:
    made: Environment = ENVIRONMENTS[slice_].overlay(undefined=Missing, cache_size=0)
    own = {key: Hostile() for key in made.globals if key not in DEFAULT_NAMESPACE}
    page = made.get_template(name).render(own | GIVEN.get(slice_, {}))
    found = Tags(page)
    assert "alert(1)" in page or name in {"page.html", "parts.html", "macros.html"}
    assert "<script>alert" not in page
    assert not DECEIVING.search(page)
    assert not {"onmouseover", "onload"} & found.attributes
    assert ("script" in found.tags) <= (slice_ == "dashboard")
    if slice_ != "dashboard":
        assert not re.search(r"<[^>]*(src|href)=|url\(|@import", page)


@pytest.mark.parametrize("slice_", ENVIRONMENTS)
def test_no_template_turns_escaping_off(slice_: str) -> None:
    made = ENVIRONMENTS[slice_]
    assert made.autoescape is True
    for name in made.list_templates(["html"]):
        source = made.loader.get_source(made, name)[0]  # type: ignore[union-attr]
        assert re.search(r"\|\s*safe|autoescape|Markup|\{%\s*raw", source) is None, name
