"""Figures of what was fitted, released and spent. Needs matplotlib: the extra ``plots``.

Every function takes results and an Axes, draws, and returns the Axes; without one it makes a figure. None fits, fetches
or changes matplotlib's settings, so a style that is in force, light or dark, stays in force.
"""

from analyst_client.plots.curves import roc_plot, survival_plot
from analyst_client.plots.forest import coefficient_forest, estimate_forest
from analyst_client.plots.histogram import histogram
from analyst_client.plots.matrices import noisy_spectrum, ridge_path_plot
from analyst_client.plots.posterior import posterior_density
from analyst_client.plots.spending import budget_bar, privacy_accuracy_curve, quote_accuracy_curve

__all__ = [
    "budget_bar",
    "coefficient_forest",
    "estimate_forest",
    "histogram",
    "noisy_spectrum",
    "posterior_density",
    "privacy_accuracy_curve",
    "quote_accuracy_curve",
    "ridge_path_plot",
    "roc_plot",
    "survival_plot",
]
