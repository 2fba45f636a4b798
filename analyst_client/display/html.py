"""Views as HTML for notebooks. There are no scripts and no addresses: what is shown can be read offline.

A plain string is text and gets escaped; only `Markup`, which is made here, is HTML. No word of a server may become a
tag, an attribute, a formula or a change of writing direction.
"""

import html
from itertools import islice

from analyst_client.display.model import ROWS_MAX, UNPRINTABLE, Bar, Block, Facts, Folded, Inline, Note, Table, View

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


ELEMENTS: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    "untrusted": (("bdi", {}),),  # isolated, so that it cannot turn the direction of the sentence
    "code": (("bdi", {}), ("code", {})),
    "quiet": (("span", {"class_": "quiet"}),),
    "strong": (("b", {}),),
    "listing": (("ul", {}),),
}
"""The elements of each kind of words, the inmost first."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def as_html(view: View) -> str:
    """Return a whole representation, in which nothing is typeset as a formula."""
    return str(element("div", Markup(f"<style>{STYLE}</style>"), *map(write_block, view), class_=CLASSES))


def escape(value: str) -> str:
    """Escape text for content and for quoted attributes; what cannot be printed becomes U+FFFD.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value))


def element(tag: str, *parts: Inline, **attributes: str) -> Markup:
    """Return an element; `class_` is the attribute ``class``.

    Examples
    --------
    >>> element("td", "a", element("b", "<"), class_="quiet")
    '<td class="quiet">a<b>&lt;</b></td>'
    """
    stated = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{stated}>{''.join(map(write_inline, parts))}</{tag}>")


def write_inline(words: Inline) -> Markup:
    """Return words as HTML; what is HTML stays.

    Examples
    --------
    >>> from analyst_client.display.model import strong
    >>> write_inline("a < b"), write_inline(strong("a"))
    ('a &lt; b', '<b>a</b>')
    """
    if isinstance(words, Markup):
        return words
    if isinstance(words, str):
        return Markup(escape(words))
    if words.kind == "swatch":
        return element("i", class_=str(words.parts[0]), aria_hidden="true")
    inner = Markup(
        "".join(element("li", part) if words.kind == "listing" else write_inline(part) for part in words.parts)
    )
    for tag, attributes in ELEMENTS.get(words.kind, ()):
        inner = element(tag, inner, **attributes)
    return inner


def write_block(block: Block) -> Markup:
    """Return a block as HTML."""
    if isinstance(block, Facts):
        lines = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in block.rows]
        return element("table", element("caption", block.caption), element("tbody", *lines))
    if isinstance(block, Table):
        return write_table(block)
    if isinstance(block, Bar):
        return write_bar(block)
    if isinstance(block, Folded):
        return element("details", element("summary", block.summary), *map(write_block, block.blocks))
    assert isinstance(block, Note)
    return element("p", block.words)


def write_table(block: Table) -> Markup:
    """Return the HTML of a table with a header row."""
    right = [{"class_": "number"} if i in block.numeric else {} for i in range(len(block.heads))]
    head = [element("th", name, scope="col", **kind) for name, kind in zip(block.heads, right, strict=True)]
    lines = []
    for i, (first, *rest) in enumerate(islice(block.rows, ROWS_MAX)):
        cells = [element("td", cell, **kind) for cell, kind in zip(rest, right[1:], strict=True)]
        mark = {"class_": "total"} if i == block.total else {}
        lines.append(element("tr", element("th", first, scope="row"), *cells, **mark))
    if len(block.rows) > ROWS_MAX:
        more = element("span", f"… and {len(block.rows) - ROWS_MAX:,} more", class_="quiet")
        lines.append(element("tr", element("td", more, colspan=str(len(block.heads)))))
    return element(
        "table",
        element("caption", block.caption),
        element("thead", element("tr", *head)),
        element("tbody", *lines),
    )


def write_bar(block: Bar) -> Markup:
    """Return a bar of parts of one whole."""
    drawn, start = [element("title", block.label)], 0.0
    for kind, width in block.parts:
        drawn.append(element("rect", class_=kind, x=f"{100 * start:.2f}", width=f"{100 * width:.2f}", height="10"))
        start += width
    return element("svg", *drawn, role="img", aria_label=block.label, viewBox="0 0 100 10", preserveAspectRatio="none")
