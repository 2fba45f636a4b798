"""HTML for notebooks: a plain string is text and gets escaped; only `Markup`, which is made here, is HTML.

Names, descriptions and reasons come from a server, so none of them may become a tag, an attribute, a formula or a
change of writing direction. There are no scripts and no addresses: what is shown can be read offline.
"""

import html
import math
import re
from collections.abc import Iterable, Sequence
from itertools import islice

ROWS_MAX = 100
"""Longest table that is shown; what follows is counted."""

# What no document may hold, or UTF-8 cannot say: controls, lone surrogates, noncharacters.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# Colours are the notebook's own, or translucent, so that one style serves light and dark. The class stands twice in
# each rule, because notebooks have rules for tables too.
STYLE = """
.curator-view.curator-view{color:inherit;font-size:.93em;line-height:1.45;max-width:64em;overflow-x:auto}
.curator-view.curator-view table{border:0;border-collapse:collapse;font-size:inherit;margin:0 0 .8em;
min-width:min(34em,100%);table-layout:auto}
.curator-view.curator-view caption{caption-side:top;color:inherit;font-weight:600;padding:0 0 .35em;text-align:left}
.curator-view.curator-view tr{background:none!important;border:0}
.curator-view.curator-view th,.curator-view.curator-view td{border:0;border-top:1px solid rgba(128,128,128,.28);
color:inherit;font-weight:400;max-width:44em;overflow-wrap:break-word;padding:.2em 1.4em .2em 0;text-align:left;
vertical-align:baseline;white-space:normal}
.curator-view.curator-view th:last-child,.curator-view.curator-view td:last-child{padding-right:0}
.curator-view.curator-view thead th,.curator-view.curator-view .quiet{opacity:.72}
.curator-view.curator-view tbody th{width:9em}
.curator-view.curator-view .number{font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}
.curator-view.curator-view .total>*{border-top-color:rgba(128,128,128,.75)}
.curator-view.curator-view p{margin:0 0 .8em}
.curator-view.curator-view ul{list-style:none;margin:0;padding:0}
.curator-view.curator-view code{background:none;border:0;color:inherit;font-size:.93em;overflow-wrap:anywhere;padding:0;
white-space:normal}
.curator-view.curator-view svg{display:block;height:.85em;margin:0 0 .8em;max-width:34em;width:100%}
.curator-view.curator-view .spent{background:#3f87c4;fill:#3f87c4}
.curator-view.curator-view .held{background:#d29a2f;fill:#d29a2f}
.curator-view.curator-view .left{background:rgba(128,128,128,.35);fill:rgba(128,128,128,.35)}
.curator-view.curator-view i{border-radius:.15em;display:inline-block;height:.7em;margin-right:.5em;width:.7em}
.curator-view.curator-view summary{cursor:pointer;margin:0 0 .4em}
"""
# A name may hold $…$, which notebooks typeset as a formula unless the element has one of the latter two.
CLASSES = "curator-view tex2jax_ignore mathjax_ignore"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(value: str) -> str:
    """Escape text for content and for quoted attributes; what cannot be printed becomes U+FFFD.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value))


def text(value: str) -> Markup:
    """Return text as HTML; what is HTML stays.

    Examples
    --------
    >>> text("a < b"), text(Markup("<hr/>"))
    ('a &lt; b', '<hr/>')
    """
    return value if isinstance(value, Markup) else Markup(escape(value))


def element(tag: str, *parts: str, **attributes: str) -> Markup:
    """Return an element; `class_` is the attribute ``class``.

    Examples
    --------
    >>> element("td", "a", element("b", "<"), class_="quiet")
    '<td class="quiet">a<b>&lt;</b></td>'
    """
    stated = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{stated}>{join(*parts)}</{tag}>")


def join(*parts: str, by: str = "") -> Markup:
    """Join parts, each text or HTML."""
    return Markup(text(by).join(map(text, parts)))


def said(value: str) -> Markup:
    """Return a server's words for use within a sentence, isolated so that they cannot turn its direction."""
    return element("bdi", value)


def code(value: str) -> Markup:
    """Return an id or a hash."""
    return element("code", element("bdi", value))


def quiet(*parts: str) -> Markup:
    """Return what is of less importance."""
    return element("span", *parts, class_="quiet")


def view(*parts: str) -> str:
    """Return a whole representation, in which nothing is typeset as a formula."""
    return str(element("div", Markup(f"<style>{STYLE}</style>"), *parts, class_=CLASSES))


def facts(caption: str, rows: Iterable[tuple[str, str]]) -> Markup:
    """Return a table of names and values."""
    lines = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("table", element("caption", caption), element("tbody", *lines))


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = (), total: int = -1
) -> Markup:
    """Return a table with a head; the first cell of a row is the row's own head.

    Parameters
    ----------
    caption : str
    heads : sequence of str
    rows : iterable of sequence of str
    numeric : iterable of int
        Columns of numbers.
    total : int
        The row under a stronger line, if any.
    """
    right = [{"class_": "number"} if i in set(numeric) else {} for i in range(len(heads))]
    head = [element("th", name, scope="col", **kind) for name, kind in zip(heads, right, strict=True)]
    listed = list(rows)
    lines = []
    for i, (first, *rest) in enumerate(islice(listed, ROWS_MAX)):
        cells = [element("td", cell, **kind) for cell, kind in zip(rest, right[1:], strict=True)]
        mark = {"class_": "total"} if i == total else {}
        lines.append(element("tr", element("th", first, scope="row"), *cells, **mark))
    if len(listed) > ROWS_MAX:
        more = f"… and {len(listed) - ROWS_MAX:,} more"
        lines.append(element("tr", element("td", quiet(more), colspan=str(len(heads)))))
    return element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *lines),
    )


def bar(parts: Sequence[tuple[str, float]], label: str) -> Markup:
    """Return a bar of parts of one whole, each a class and a fraction, with its meaning in words."""
    drawn, start = [element("title", label)], 0.0
    for kind, fraction in parts:
        width = min(max(fraction, 0.0), 1.0 - start)
        drawn.append(element("rect", class_=kind, x=f"{100 * start:.2f}", width=f"{100 * width:.2f}", height="10"))
        start += width
    return element("svg", *drawn, role="img", aria_label=label, viewBox="0 0 100 10", preserveAspectRatio="none")


def swatch(kind: str) -> Markup:
    """Return the key of a part of a bar, for the eye alone."""
    return element("i", class_=kind, aria_hidden="true")


def listing(items: Sequence[str]) -> Markup:
    """Return a list, as long as a table may be."""
    shown = [element("li", item) for item in items[:ROWS_MAX]]
    if len(items) > ROWS_MAX:
        shown.append(element("li", quiet(f"… and {len(items) - ROWS_MAX:,} more")))
    return element("ul", *shown)


def folded(summary: str, *parts: str) -> Markup:
    """Return what opens on demand."""
    return element("details", element("summary", summary), *parts)


def percent(share: float | None) -> str:
    """Write a share with two decimals, and none as nothing that is something.

    Examples
    --------
    >>> percent(0.13354), percent(1e-9), percent(0.999999), percent(0.0), percent(None)
    ('13.35%', '<0.01%', '>99.99%', '0.00%', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    if 0.0 < share < 5e-5:
        return "<0.01%"
    if 1.0 - 5e-5 <= share < 1.0:
        return ">99.99%"
    return f"{share:.2%}"


def number(value: float) -> str:
    """Write a number with four significant digits.

    Examples
    --------
    >>> number(1.0), number(1e-6), number(0.236704), number(math.inf)
    ('1', '1e-06', '0.2367', '∞')
    """
    return f"{value:.4g}" if math.isfinite(value) else "∞"


def aligned(values: Sequence[float]) -> list[str]:
    """Write numbers with the same decimals, so that the smallest keeps three digits.

    Examples
    --------
    >>> aligned([17.9, 4.25, 0.0])
    ['17.90', '4.25', '0.00']
    """
    smallest = min((abs(value) for value in values if value), default=1.0)
    if not smallest >= 1e-6 or not all(abs(value) < 1e9 for value in values):
        return [number(value) for value in values]
    decimals = max(0, 2 - math.floor(math.log10(smallest)))
    return [f"{value:,.{decimals}f}" for value in values]
