"""Helpers of the dashboard's templates: files of the style; numbers, moments and spans of time for people."""

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from curator_service.dashboard.glossary import Words
from curator_service.dashboard.sessions import FRESH, IDLE, LIFETIME
from curator_service.identity.policy import Action
from curator_service.kit.names import make_visible
from curator_service.kit.rendering import make_environment

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
LEADING = 5
"""Digits of a number that are set off from the rest, which is there to the last one."""


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Return the files that pages load, with their media types, by name."""
    return {path.name: (path.read_bytes(), MEDIA_TYPES[path.suffix]) for path in STATIC.iterdir()}


@cache
def address_of(name: str) -> str:
    """Return the address of a file, which changes with its content."""
    return f"/admin/static/{name}?{hashlib.sha256(assets()[name][0]).hexdigest()[:16]}"


def write_number(value: float | str | None, absent: str = "–") -> Markup:
    """Return a number to its last digit, as the interface of `/v1` states it; what comes after the first few is small.

    Examples
    --------
    >>> write_number(0.25)
    Markup('<span class="number">0.25</span>')
    >>> write_number(0.123456789)
    Markup('<span class="number">0.12345<small>6789</small></span>')
    """
    if value is None:
        return Markup('<span class="number">{}</span>').format(absent)
    text = make_visible(value) if isinstance(value, str) else repr(value)
    whole, point, digits = text.partition(".")
    if "e" in text or len(digits) <= LEADING + 1:
        return Markup('<span class="number">{}</span>').format(text)
    head, tail = f"{whole}{point}{digits[:LEADING]}", digits[LEADING:]
    return Markup('<span class="number">{}<small>{}</small></span>').format(head, tail)


def write_brief(value: float | str | None, absent: str = "–") -> str:
    """Return a number to two digits, of which all are elsewhere; a text as it is.

    Examples
    --------
    >>> [write_brief(value) for value in (0.685016392, 1.0, 0.00054, 12.3, 1234.5)]
    ['0.69', '1', '0.00054', '12', '1,200']
    """
    if value is None or isinstance(value, str):
        return absent if value is None else make_visible(value)
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"


def write_moment(text: str | None) -> Markup:
    """Return a moment, as people read it."""
    if not text:
        return Markup("–")
    text = make_visible(text)
    shown = text.replace("T", " ").removesuffix("Z")
    return Markup('<time datetime="{}">{}<small> UTC</small></time>').format(text, shown)


def write_json(content: Any) -> str:
    """Return JSON to be read: text, which is escaped like any other."""
    return json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True)


def write_note(text: str) -> Markup:
    """Return a note of a version: what its text sets in code or bold is so here.

    Examples
    --------
    >>> write_note("**New**: `a < b`")
    Markup('<b>New</b>: <code>a &lt; b</code>')
    """
    parts = []
    for part in re.split(r"(`[^`]+`|\*\*.+?\*\*)", text):
        tag = "code" if part.startswith("`") else "b" if part.startswith("**") else ""
        shown = make_visible(part.strip("`*") if tag else part)
        parts.append(Markup("<{0}>{1}</{0}>").format(tag, shown) if tag else escape(shown))
    return Markup("").join(parts)


def write_percent(share: float) -> str:
    """Return a share in percent to two digits; no digit is the interface's, and only all of it is 100.

    Examples
    --------
    >>> [write_percent(share) for share in (0.6732, 0.0488, 0.00004, 0.9999, 1.0)]
    ['67 %', '4.9 %', '<0.1 %', '>99 %', '100 %']
    """
    if 0 < share < 0.001:
        return "<0.1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def write_span(span: timedelta) -> str:
    """Return a span of time in words.

    Examples
    --------
    >>> write_span(timedelta(minutes=30)), write_span(timedelta(hours=8))
    ('30 minutes', '8 hours')
    """
    minutes = span // timedelta(minutes=1)
    return f"{minutes // 60} hours" if minutes % 60 == 0 else f"{minutes} minutes"


def days_until(text: str, now: str) -> int:
    """Return how many whole days are left until a moment."""
    return (datetime.fromisoformat(text) - datetime.fromisoformat(now)).days


@cache
def environment() -> Environment:
    """Return the environment of the templates."""
    made = make_environment(__package__)
    made.filters |= {"number": write_number, "brief": write_brief, "moment": write_moment, "json": write_json}
    made.filters |= {"percent": write_percent, "note": write_note, "span": write_span}
    made.globals |= {"Action": Action, "address_of": address_of, "days_until": days_until}
    made.globals |= {"FRESH": FRESH, "IDLE": IDLE, "LIFETIME": LIFETIME}
    return made


def render(template: str, /, **values: Any) -> str:
    """Return a page as HTML."""
    return environment().get_template(template).render(**values, words=Words())


def spread(names: Iterable[str]) -> str:
    """Return names with commas between them."""
    return ", ".join(names)
