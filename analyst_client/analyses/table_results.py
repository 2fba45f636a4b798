"""Results of analyses of noisy tables: tests, and numbers with the sets that tests do not reject."""

import math
from dataclasses import dataclass

from analyst_client.analyses.quadrics import Pieces
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note, View, facts, number, percent, untrusted


@dataclass(frozen=True)
class Factor:
    """An axis of a contingency table.

    Attributes
    ----------
    name : str
        Column.
    levels : tuple of str
        Labels of its cells.
    edges : tuple of float or None
        Of a numeric column: one more than its cells.

    Examples
    --------
    >>> from analyst_client.analyses import Factor
    >>> Factor("age", ("[50, 60)", "[60, 100]"), (50.0, 60.0, 100.0)).levels
    ('[50, 60)', '[60, 100]')
    """

    name: str
    levels: tuple[str, ...]
    edges: tuple[float, ...] | None = None


@dataclass(frozen=True)
class TableTest(Displayable):
    """A χ² test on a noisy table.

    Attributes
    ----------
    name : str
    statistic : float
    dof : int
    pvalue : float
    privacy_share : float
        Share of the privacy noise in the variance that the statistic is measured by.

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> test = ContingencyTable([[30.2, 69.1], [14.8, 86.0]], 2.0).independence_test()
    >>> test.dof, round(test.pvalue, 4), round(test.privacy_share, 2)
    (1, 0.0102, 0.07)
    """

    name: str
    statistic: float
    dof: int
    pvalue: float
    privacy_share: float

    def _view(self) -> View:
        return (
            facts(
                untrusted(self.name),
                [
                    (f"χ²({self.dof})", number(self.statistic)),
                    ("p", number(self.pvalue)),
                    ("privacy", percent(self.privacy_share)),
                ],
            ),
            Note("The covariance holds the privacy noise; its share in it is stated as privacy."),
        )


@dataclass(frozen=True)
class Effect(Displayable):
    """A number that compares two groups, with the set of values that its test does not reject.

    Attributes
    ----------
    name : str
    value : float
        By the noisy cells as they are; nan where these give none.
    pieces : tuple of (float, float)
        The confidence set: one interval, or two where a gap alone is rejected. It may end at ∞, or be everything.
    level : float
        Coverage.

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> ratio = ContingencyTable([[30.2, 69.1], [14.8, 86.0]], 2.0).odds_ratio()
    >>> round(ratio.value, 2), round(ratio.low, 2), round(ratio.high, 2), 1.0 in ratio
    (2.54, 1.24, 5.28, False)
    """

    name: str
    value: float
    pieces: Pieces
    level: float

    @property
    def low(self) -> float:
        """Lower end of the set."""
        return self.pieces[0][0]

    @property
    def high(self) -> float:
        """Upper end of the set, which may be ∞."""
        return self.pieces[-1][1]

    def __contains__(self, value: float) -> bool:
        """Return whether a value is not rejected."""
        return any(low <= value <= high for low, high in self.pieces)

    def _view(self) -> View:
        held = " or ".join(f"{number(low)} to {number(high)}" for low, high in self.pieces)
        shown = number(self.value) if math.isfinite(self.value) else "–"
        return (facts(untrusted(self.name), [("estimate", shown), (f"{100.0 * self.level:g}% set", held)]),)
