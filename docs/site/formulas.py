"""Formulas and references of docstrings, as the site shows them: MathML, which browsers draw without a script."""

import re
from typing import Any

from griffe import Extension, Object
from latex2mathml.converter import convert

INLINE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^\.\. math::[ \n]+(.+?)(?=\n\n\S|\n\n *$|\Z)", re.MULTILINE | re.DOTALL)
# What Markdown would take for emphasis, code or an escape inside of a formula.
SPECIAL = str.maketrans({mark: f"&#{ord(mark)};" for mark in "*_`\\[]"})


def to_mathml(formula: str, *, display: str) -> str:
    r"""Return a LaTeX formula as one line of MathML that Markdown leaves alone.

    >>> to_mathml("R^2", display="inline").removeprefix('<math xmlns="http://www.w3.org/1998/Math/MathML" ')
    'display="inline"><mrow><msup><mi>R</mi><mn>2</mn></msup></mrow></math>'
    """
    return str(convert(" ".join(formula.split()), display=display)).translate(SPECIAL)


def to_markdown(text: str) -> str:
    """Return a docstring with reStructuredText's formulas, footnotes and references as Markdown."""
    text = BLOCK.sub(lambda found: to_mathml(found[1], display="block"), text)
    text = INLINE.sub(lambda found: to_mathml(found[1], display="inline"), text)
    text = re.sub(r"\[(\d+)\]_", r"\\[\1\\]", text)
    return re.sub(r"^( *)\.\. \[(\d+)\] ", r"\1- \\[\2\\] ", text, flags=re.MULTILINE)


class Formulas(Extension):
    """Rewrite each docstring when it was read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Replace the docstring's text."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
