"""How a page of evidence looks: its style, tables of facts and of figures, moments, and texts of others."""

from collections.abc import Sequence

from curator_service.evidence import words
from curator_service.kit.html import Markup, element, escape, join, said

LEVELS_SHOWN = 12
"""Most levels or names that a line shows."""
STYLE = """
@page { size: A4; margin: 15mm; }
:root { color-scheme: light dark; --ink: #1b1b1b; --quiet: #4a5057; --paper: #fff; --line: #c3c9ce; --mark: #0b4f7d;
  --panel: #eef3f7; --judge: #7a4300; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --quiet: #a9b1b8; --paper: #14181c; --line: #3a434b; --mark: #7db8e0; --panel: #1d252c;
    --judge: #f0b866; } }
body { background: var(--paper); color: var(--ink); font: 10.5pt/1.5 "Source Sans 3", "Segoe UI", "Helvetica Neue",
  Arial, "Liberation Sans", sans-serif; margin: 0 auto; max-width: 58em; padding: 1.5em; overflow-wrap: break-word; }
h1 { font-size: 19pt; font-weight: 600; line-height: 1.25; margin: 0 0 .2em; }
h2 { border-top: 2px solid var(--mark); font-size: 13pt; font-weight: 600; margin: 1.9em 0 .5em; padding-top: .5em; }
h3 { font-size: 10.5pt; font-weight: 600; margin: 1.2em 0 .3em; }
p, ul, table, pre { margin: 0 0 .8em; }
ul { padding-left: 1.3em; }
li { margin-bottom: .3em; }
table { border-collapse: collapse; width: 100%; }
caption { caption-side: top; font-weight: 600; padding: .4em 0 .3em; text-align: left; }
th, td { border-top: 1px solid var(--line); font-weight: 400; padding: .3em 1.1em .3em 0; text-align: left;
  vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
thead th { border-top: 0; color: var(--quiet); vertical-align: bottom; }
.facts th { color: var(--quiet); width: 11em; }
.figure { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.quiet { color: var(--quiet); }
.lead { background: var(--panel); border-left: 5px solid var(--mark); padding: .8em 1.1em; }
.lead p { margin: 0; }
.lead p + p { margin-top: .5em; }
.lead strong { color: var(--mark); font-weight: 600; }
.judge { color: var(--judge); font-weight: 600; white-space: nowrap; }
.answered { white-space: nowrap; }
time { white-space: nowrap; }
code, pre { font: .88em/1.45 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
pre { background: var(--panel); padding: .7em .9em; white-space: pre-wrap; }
tr, h2, h3, .lead { break-inside: avoid; }
h2, h3, caption { break-after: avoid; }
thead { display: table-header-group; }
@media print { body { font-size: 9pt; max-width: none; padding: 0; } h2 { margin-top: 1.4em; }
  .lead, pre { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
@media screen and (max-width: 40em) { body { padding: 1em; } h1 { font-size: 16pt; }
  table, tbody, tr, th, td, caption { display: block; width: auto; }
  thead { height: 1px; overflow: hidden; position: absolute; clip-path: inset(50%); }
  tr { border-top: 1px solid var(--line); padding: .45em 0; } th, td { border: 0; padding: .05em 0; }
  .facts th { width: auto; } tbody th { font-weight: 600; } .figure { text-align: left; white-space: normal; }
  td[data-head]::before { color: var(--quiet); content: attr(data-head) ": "; } }
"""


def join_names(names: Sequence[str]) -> Markup:
    """Return names with commas between, and how many more there are."""
    shown = [said(name) for name in names[:LEVELS_SHOWN]]
    more = len(names) - len(shown)
    return join([*shown, escape(f"and {more} more")] if more > 0 else shown)


def show_time(moment: str) -> Markup:
    """Return a moment of the ledger for people."""
    return element("time", moment.replace("T", " ").replace("Z", " UTC"), datetime=moment)


def show_declared(text: str) -> Markup:
    """Return a text that somebody else wrote, or that there is none."""
    return said(text) if text else element("span", words.UNDECLARED, class_="quiet")


def facts_table(rows: Sequence[tuple[str, str]]) -> Markup:
    """Return facts as a table of two columns."""
    lines = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("table", element("tbody", *lines), class_="facts")


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, figures: Sequence[int] = ()) -> Markup:
    """Return a table; on a narrow screen each cell says under which head it stands."""
    kinds = [{"class_": "figure"} if i in figures else {} for i in range(len(heads))]
    head = [element("th", name, scope="col", **kind) for name, kind in zip(heads, kinds, strict=True)]
    lines = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(
                element("td", cell, **kind, **{"data-head": name})
                for cell, name, kind in zip(row[1:], heads[1:], kinds[1:], strict=True)
            ),
        )
        for row in rows
    ]
    title = [element("caption", caption)] if caption else []
    return element("table", *title, element("thead", element("tr", *head)), element("tbody", *lines))
