"""Views as Markdown, with the tables of GitHub's. No name is a link, a formula, an element or a cell of its own."""

import re
from collections.abc import Iterator, Sequence

from analyst_client.display.model import Bar, Block, Facts, Folded, Inline, Table, View
from analyst_client.display.terminal import one_line

ESCAPES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "://": "&#58;//"} | {letter: f"\\{letter}" for letter in r"\`*_|$~"}
ESCAPED = re.compile(r"://|[<>&\\`*_|$~]|\](?=[(\[:])")
"""What has a meaning; a bracket that closes has one only before another."""


def as_markdown(view: View) -> str:
    """Return tables and paragraphs."""
    return "\n\n".join(paragraph for block in view for paragraph in write_block(block)) + "\n"


def write_block(block: Block) -> Iterator[str]:
    """Write the paragraphs of a block."""
    if isinstance(block, Folded):
        yield write(block.summary)
        for inner in block.blocks:
            yield from write_block(inner)
    elif isinstance(block, Facts | Table):
        if caption := write(block.caption):
            yield f"**{caption}**"
        heads: Sequence[Inline] = ("", "") if isinstance(block, Facts) else block.heads
        numeric = frozenset() if isinstance(block, Facts) else block.numeric
        rule = "|".join(" ---: " if j in numeric else " --- " for j in range(len(heads)))
        yield "\n".join([write_row(heads), f"|{rule}|", *map(write_row, block.rows)])
    else:
        yield write(block.label if isinstance(block, Bar) else block.words)


def write_row(cells: Sequence[Inline]) -> str:
    r"""Write a row of cells.

    Examples
    --------
    >>> print(write_row(["sex[M]", "a|b", "[−1, ∞]", "< 0.001"]))
    | sex[M] | a\|b | [−1, ∞] | &lt; 0.001 |
    """
    return f"| {' | '.join(map(write, cells))} |"


def write(words: Inline) -> str:
    r"""Write words; the items of a listing stand in one line.

    Examples
    --------
    >>> print(write("[a](b) <i> x_1*y"))
    [a\](b) &lt;i&gt; x\_1\*y
    """
    if isinstance(words, str):
        return ESCAPED.sub(lambda found: ESCAPES.get(found[0], f"\\{found[0]}"), one_line(words))
    if words.kind == "swatch":
        return ""
    inner = (", " if words.kind == "listing" else "").join(map(write, words.parts))
    return f"**{inner}**" if words.kind == "strong" else inner
