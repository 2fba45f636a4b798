"""Pages as HTML: whatever is text stays text."""

import html
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from curator_service.kit.html import Markup, element, escape, fill, join, page, said

TEXTS = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    ["<script>", "</p>", '" onload="x', "' x='", "{who}", "{0}", "&lt;", "<!--", "]]>", "\x00", "\ud800", "\u202e"]
)


class Words(HTMLParser):
    """The text of a page, and its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tags = "", list[str]()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(TEXTS)
def test_text_is_shown_as_it_is_and_becomes_no_element(text: str) -> None:
    shown = html.unescape(escape(text))
    found = Words(element("p", said(text), class_=text))
    assert found.tags == ["p", "bdi"]
    assert found.text == shown
    assert found.attributes == [("class", shown)]
    shown.encode()  # no half of a pair is left


@given(TEXTS, TEXTS)
def test_places_of_a_sentence_are_filled_once(one: str, other: str) -> None:
    filled = fill("<{one}> & {other}", one=one, other=other)
    assert html.unescape(filled) == f"<{html.unescape(escape(one))}> & {html.unescape(escape(other))}"


def test_markup_stays_and_a_separator_is_text() -> None:
    assert join([element("b", "x"), Markup("y")], " < ") == "<b>x</b> &lt; y"
    assert escape(Markup("<b>")) == "<b>"


def test_a_page_names_its_language_and_fetches_nothing() -> None:
    text = page("a < b", "p { color: red }", element("p", "x"), "y < z", language="de")
    assert text.startswith('<!DOCTYPE html>\n<html lang="de">')
    assert "<title>a &lt; b</title>" in text
    assert "default-src 'none'" in text
    assert "<p>x</p>\ny &lt; z" in text
