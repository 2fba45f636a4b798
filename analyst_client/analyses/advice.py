"""Notes of a table: warnings of the fit behind it, and a cheaper request with the same noise."""

import math

from analyst_client.display.model import number, percent
from analyst_client.estimators.ridge import OLS
from analyst_client.inference.caveats import weight_notes
from analyst_client.inference.estimates import warned
from analyst_client.kinds.gram.release import Release

WORTH = 0.5
"""Part of the price below which another request is named."""


def fit_notes(*fits: OLS, level: float) -> tuple[str, ...]:
    """Return what the summaries of fits say of weighted rows and warn of, each once."""
    weighted = dict.fromkeys(note for fit in fits for note in weight_notes(fit.results_[0]))
    return (*weighted, *warned(text for fit in fits for text in fit.caveats(level)))


def counts_advice(release: Release, tables: int, what: str) -> tuple[str, ...]:
    r"""Return a note if counts of rows in cells, with equally small noise, would have cost much less.

    Parameters
    ----------
    release : Release
    tables : int
        K, tables that a request of counts would have.
    what : str
        Their cells in words.

    Notes
    -----
    Another person changes one cell of each table by 1, or two where neighbours replace one another: K tables move by
    :math:`\sqrt{2K}` at most, and noise of deviation σ in each cell costs at most :math:`\mu = \sqrt{2K}/\sigma`.
    """
    cost, sd = release.cost, release.noise.xtx_offdiagonal
    if not tables or not sd or cost is None or not cost.mu or "gaussian" not in release.noise.distribution:
        return ()
    mu = math.sqrt(2.0 * tables) / sd
    part = (mu / cost.mu) ** 2
    if part > WORTH:
        return ()
    return (
        f"{what}: a request of counts, CountsRequest([…], mu={number(mu)}), would tell these with noise as small for "
        f"{percent(part)} of what this release cost, or with less noise for as much.",
    )
