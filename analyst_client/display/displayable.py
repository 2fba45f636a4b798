"""Values that are tables: `print` writes them into a terminal, and a notebook draws them."""

from analyst_client.display.html import as_html
from analyst_client.display.latex import as_latex
from analyst_client.display.markdown import as_markdown
from analyst_client.display.model import View
from analyst_client.display.terminal import as_text


class Displayable:
    """A value with a view: its text and its HTML are made of the same tables."""

    def _view(self) -> View:
        raise NotImplementedError

    def __str__(self) -> str:
        """Return it as tables for a terminal."""
        return as_text(self._view())

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return as_html(self._view())

    def to_html(self) -> str:
        """Return the HTML that a notebook shows: an element with a style of its own."""
        return as_html(self._view())

    def _paper(self) -> View:
        """Return what a paper shows of it."""
        return self._view()

    def to_latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        r"""Return a table for LaTeX with ``\usepackage{booktabs}``; names are text, whatever they hold.

        Parameters
        ----------
        caption : str, optional
            Text. Default the table's own.
        label : str, optional
            Such as ``"tab:age"``, for ``\ref``. Default none.

        Returns
        -------
        str
            A float.

        Raises
        ------
        ValueError
            When LaTeX could not read the label.
        """
        return as_latex(self._paper(), caption, label)

    def to_markdown(self) -> str:
        """Return tables and paragraphs in Markdown; names are text, whatever they hold."""
        return as_markdown(self._view())
