"""Views as LaTeX: tables with booktabs, in one float.

Every character of a name is text: none may begin a command, a formula, a comment or a cell.
"""

import re
from collections.abc import Iterable, Sequence

from analyst_client.display.model import Bar, Block, Facts, Folded, Inline, Table, View
from analyst_client.display.terminal import one_line, plain
from analyst_client.spelling import GLYPHS, SUPERSCRIPTS

COMMANDS = {"strong": r"\textbf{"}
GREEK = {letter: rf"$\{word}$" for letter, word in GLYPHS.items() if letter.isalpha() and len(word) > 1}
ESCAPES = (
    GREEK
    | {letter: rf"$^{{{digit}}}$" for letter, digit in SUPERSCRIPTS.items()}
    | {letter: rf"\{letter}" for letter in "{}$&#%_"}
    | {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
        ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}", '"': "''", "[": "{[}", "]": "{]}",
        "ε": r"$\varepsilon$", "ᵀ": r"$^{\top}$", "−": "$-$", "∞": r"$\infty$", "≤": r"$\leq$", "≥": r"$\geq$",
        "≠": r"$\neq$", "≈": r"$\approx$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "√": r"$\surd$",
        "→": r"$\to$", "°": r"$^{\circ}$", "…": r"\ldots{}", "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``",
        "”": "''", "�": "?",
    }
)  # fmt: skip
TOKEN = re.compile(
    "(?P<hat>[A-Za-z])\u0302"
    r"|(?P<number>(?<![\w.])\d+(?:\.\d+)?)e(?P<sign>[-+]?)0*(?P<power>\d+)(?!\w)"
    r"|(?P<minus>(?<![^\s(\[])-(?=[\d∞]))|" + "|".join(map(re.escape, ESCAPES))
)
"""A letter under a hat, a number with an exponent, a minus that a hyphen stands for, and what has a meaning."""
CODE = re.compile("|".join(map(re.escape, ESCAPES.keys() - {'"'})))
"""What has a meaning in a text that is typed again: its numbers and quotes stay as they are."""
LONG = 45
"""Characters of a cell beyond which it is a paragraph of its own, which is no wider than the page lets it be."""
WIDTHS = {Facts: 0.7, Table: 0.3}
COLUMNS = 5
"""Of a table at most; of one with more, letters and gaps are smaller, so that it fits the line of an article."""

LABEL = re.compile(r"[\w:./+-]+", re.ASCII)


def as_latex(view: View, caption: str | None = None, label: str | None = None) -> str:
    r"""Return a float, which needs ``\usepackage{booktabs}``.

    Its caption is that of the first table where none is stated. Letters that are neither Latin nor Greek need XeLaTeX
    or LuaLaTeX. Raise `ValueError` for a label that LaTeX could not read.
    """
    if label is not None and not LABEL.fullmatch(label):
        raise ValueError(f"a label has letters, digits and : . _ - / + alone, such as 'tab:age', not {label!r}")
    blocks = list(_flat(view))
    first = next((block for block in blocks if isinstance(block, Facts | Table)), None)
    tables = [write_table(block, first) for block in blocks if isinstance(block, Facts | Table)]
    said = [write(block) for block in blocks if not isinstance(block, Facts | Table)]
    lines = [r"\begin{table}", r"\centering"]
    title = first.caption if caption is None and first is not None else caption
    if title is not None:
        lines.append(rf"\caption{{{write(title)}}}")
    if label is not None:
        lines.append(rf"\label{{{label}}}")
    lines.append("\n\\par\\medskip\n".join(tables))
    if said:
        lines += ["\\par\\medskip", r"\begin{minipage}{\linewidth}\footnotesize", "\n\n".join(said), r"\end{minipage}"]
    return "\n".join([*lines, r"\end{table}", ""])


def _flat(blocks: Iterable[Block]) -> Iterable[Facts | Table | Inline]:
    """Yield tables, and what is said beside them."""
    for block in blocks:
        if isinstance(block, Folded):
            yield block.summary
            yield from _flat(block.blocks)
        elif isinstance(block, Facts | Table):
            yield block
        else:
            yield block.label if isinstance(block, Bar) else block.words


def write_table(block: Facts | Table, first: Facts | Table | None) -> str:
    """Write a table; the caption of the first one is the float's."""
    if isinstance(block, Facts):
        spec, head, total = "ll", [], -1
    else:
        spec = "".join("r" if j in block.numeric else "l" for j in range(len(block.heads)))
        head, total = [write_row(block.heads), r"\midrule"], block.total
    rows = [write_row(row, WIDTHS[type(block)]) for row in block.rows]
    body = [line for i, row in enumerate(rows) for line in ([r"\midrule"] * (i == total) + [row])]
    over = [] if block is first or not write(block.caption) else [rf"\textit{{{write(block.caption)}}}\\[2pt]"]
    inner = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", *head, *body, r"\bottomrule", r"\end{tabular}"]
    if len(spec) > COLUMNS:
        inner = [r"\begingroup\small\setlength{\tabcolsep}{3.5pt}", *inner, r"\endgroup"]
    return "\n".join([*over, *inner])


def write_row(cells: Sequence[Inline], width: float = 1.0) -> str:
    r"""Write a row of cells, each that is long in a part of the line.

    Examples
    --------
    >>> print(write_row(["a&b", "−0.25", "[−∞, 1]"]))
    a\&b & $-$0.25 & {[}$-$$\infty$, 1{]} \\
    """
    written = [write(cell) for cell in cells]
    for place, cell in enumerate(cells):
        if len(plain(cell)) > LONG:
            written[place] = rf"\parbox[t]{{{width}\linewidth}}{{\raggedright {written[place]}\strut}}"
    return " & ".join(written) + r" \\"


def write(words: Inline) -> str:
    r"""Write words; the items of a listing stand in one line.

    Examples
    --------
    >>> print(write("100% of x_1 <a> R̂"), write("−1.2e-06 ≤ µ²"))
    100\% of x\_1 \textless{}a\textgreater{} $\hat{R}$ $-$1.2$\times10^{-6}$ $\leq$ $\mu$$^{2}$
    """
    if isinstance(words, str):
        return TOKEN.sub(_escape, one_line(words))
    if words.kind == "swatch":
        return ""
    if words.kind == "code":
        text = "".join(map(str, words.parts))
        return rf"\texttt{{{CODE.sub(lambda found: ESCAPES[found[0]], one_line(text))}}}"
    inner = (", " if words.kind == "listing" else "").join(map(write, words.parts))
    return f"{COMMANDS[words.kind]}{inner}}}" if words.kind in COMMANDS else inner


def _escape(found: re.Match[str]) -> str:
    if found["hat"]:
        return rf"$\hat{{{found['hat']}}}$"
    if found["number"]:
        return rf"{found['number']}$\times10^{{{found['sign'].strip('+')}{found['power']}}}$"
    return "$-$" if found["minus"] else ESCAPES[found[0]]
