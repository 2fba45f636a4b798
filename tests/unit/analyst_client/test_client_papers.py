"""Tables for papers: LaTeX, Markdown and HTML of one view, in which every name is text, whatever it holds."""

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from analyst_client import OLS, Column, Release, compare, tutorial
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note as Said
from analyst_client.display.model import (
    View,
    bar,
    code,
    facts,
    folded,
    listing,
    quiet,
    strong,
    swatch,
    table,
    untrusted,
)

HOSTILE = [
    r"100% \input{/etc/passwd} #1 $x^2$ & _y_ ~",
    "a|b|c",
    "<script>alert(1)</script>",
    "[click](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "`code` **bold** \\| \\",
    "two\nlines\r\n\\end{table}",
    "\u202eright to left\x07",
    "{unbalanced",
    "]: x",
]


class Shown(Displayable):
    def __init__(self, *view: Any) -> None:
        self.view: View = view

    def _view(self) -> View:
        return self.view


def everything(name: str) -> Shown:
    """Return a view in which a name stands wherever words do."""
    words = [name, untrusted(name), code(name), quiet(name), strong(name), listing([name, name])]
    return Shown(
        facts(name, [(name, one) for one in words]),
        bar([("spent", 0.5)], name),
        table(name, (name, "n"), [(one, "−1") for one in [*words, swatch("spent")]], numeric=[1], total=2),
        folded(name, Said(name), table("", (name,), [(name,)])),
        Said(name),
    )


def cells_of(latex: str) -> list[list[str]]:
    return [re.split(r"(?<!\\)&", line) for line in latex.splitlines() if line.endswith(r"\\")]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_latex_is_text(name: str) -> None:
    latex = everything(name).to_latex()
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", latex) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended) == sorted(["table", *["tabular"] * 3, "minipage"])
    bare = re.sub(r"\\[{}$&#%_\\]", "", latex)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[#%_~^\x07\u202e]", re.sub(r"\$[^$]*\$", "", bare))
    commands = {*re.findall(r"\\([A-Za-z]+)", latex)}
    assert commands <= {
        *("begin", "end", "centering", "caption", "toprule", "midrule", "bottomrule", "par", "medskip", "textit"),
        *("linewidth", "footnotesize", "textbf", "texttt", "textbackslash", "textless", "textgreater", "textbar"),
        *("textasciitilde", "textasciicircum", "textasciigrave", "parbox", "raggedright", "strut"),
    }
    widths = [len(cells) for cells in cells_of(latex)]
    assert widths == [2] * 14 + [1] * 2
    assert not re.search(r"\\\\\s*\[(?!2pt\])", latex)


def test_what_is_long_or_wide_fits_the_line_of_an_article() -> None:
    """A call is typed again as it stands: its numbers and quotes are not set."""
    call = "client.fit('age ~ sex', data='flchain', delta=1e-06, family=\"binomial\")"
    latex = Shown(facts("", [("the same as", code(call))]), table("", "abcdef", [list("123456")])).to_latex()
    set_as = r"\texttt{client.fit('age \textasciitilde{} sex', data='flchain', delta=1e-06, family=" + '"binomial")}'
    assert rf"\parbox[t]{{0.7\linewidth}}{{\raggedright {set_as}\strut}} \\" in latex
    assert latex.count(r"\begingroup\small\setlength{\tabcolsep}{3.5pt}") == latex.count(r"\endgroup") == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_markdown_is_text(name: str) -> None:
    markdown = everything(name).to_markdown()
    reader = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    tokens = reader.parse(markdown)
    inner = [token for block in tokens for token in (block.children or [])]
    kinds = {token.type for token in [*tokens, *inner]}
    assert kinds <= {
        *(
            f"{part}_{end}"
            for part in ("table", "thead", "tbody", "tr", "th", "td", "paragraph")
            for end in ("open", "close")
        ),
        *("inline", "text", "text_special", "strong_open", "strong_close", "entity"),
    }
    rows = [token for token in tokens if token.type == "tr_open"]
    assert len(rows) == 1 + 6 + 1 + 7 + 2
    shown = "".join(token.content for token in inner if token.type in {"text", "text_special"})
    wanted = re.sub(r"\s", " ", re.sub("[\u202e\x07]", "\ufffd", name)).strip()
    assert shown.count(wanted) >= 10


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_html_is_text(name: str) -> None:
    assert "<script" not in everything(name).to_html()
    assert everything(name).to_html() == everything(name)._repr_html_()


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("−0.25", "$-$0.25"),
        ("[−∞, ∞]", r"{[}$-$$\infty$, $\infty${]}"),
        ("-0.5 to -∞", r"$-$0.5 to $-$$\infty$"),
        ("−1.235e+06", r"$-$1.235$\times10^{6}$"),
        ("δ = 1e-06", r"$\delta$ = 1$\times10^{-6}$"),
        ("two-stage x1e-06", "two-stage x1e-06"),
        ("XᵀX, R², 10⁻⁶, R̂", r"X$^{\top}$X, R$^{2}$, 10$^{-}$$^{6}$, $\hat{R}$"),
        ("≤ 0.1 – …", r"$\leq$ 0.1 -- \ldots{}"),
        ("é ü", "é ü"),
    ],
)
def test_numbers_and_signs_are_set_as_they_are_read(text: str, latex: str) -> None:
    assert Shown(table("t", (text,), [])).to_latex().splitlines()[5] == latex + r" \\"


def test_a_fit_and_its_tables_have_all_three() -> None:
    columns = [Column.numeric("a_1 & b", 0, 10), Column.numeric("|x|", 0, 1)]
    xtx = [[900.0, 20.0, 10.0], [20.0, 120.0, 5.0], [10.0, 5.0, 300.0]]
    fit = OLS().fit(Release.from_arrays(xtx, [90.0, 60.0, 60.0], 90.0, features=columns, noise=2.0))
    for shown in (fit, fit.table(0.9), compare(fit)):
        latex = shown.to_latex(caption="50 % of a_1", label="tab:a_1")
        assert latex.splitlines()[2:4] == [r"\caption{50 \% of a\_1}", r"\label{tab:a_1}"]
        for word in ("Fieller", "privacy noise", "OLS()", "identification"):
            assert word not in shown.to_latex()
        with pytest.raises(ValueError, match="a label has letters, digits and"):
            shown.to_latex(label="}")
    assert fit.to_markdown() == fit.summary().to_markdown()
    assert fit.to_html() == fit.summary().to_html()
    latex = fit.table().to_latex()
    assert latex.count(r"a\_1 \& b & ") == 1
    assert r"\begin{tabular}{lrrrrrr}" in latex
    assert r"| \|x\| | " in fit.anova().to_markdown()


def test_a_fit_for_a_paper_is_its_coefficients_with_n_and_the_charge() -> None:
    client = tutorial.recorded_client("one_call")
    fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    head, *rows = cells_of(fit.to_latex(0.9))
    assert [cell.strip(" \\") for cell in head] == ["term", "estimate", "std err", r"90\% interval", "p"]
    age = fit.table(0.9)["age"]
    shown = rf"age & {age.value:.4g} & {age.std_error:.4g} & {{[}}{age.conf_low:.4g}, {age.conf_high:.4g}{{]}} & "
    assert f"\n{shown}" in fit.to_latex(0.9)
    assert len(rows) == 4
    below = fit.to_latex().partition(r"\footnotesize")[2].split(r"\end{minipage}")[0].split("\n\n")
    assert [line.strip().partition(":")[0] for line in below] == ["n", "privacy charged"]
    assert "refine(" in str(fit.summary())
    assert "refine(" not in fit.to_latex() + fit.to_markdown() + fit.to_html()
    assert "RefinedRegression" not in compare(small=fit).to_latex()
