"""The spectrum of a noisy matrix, and what a penalty makes of coefficients."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.adassp import xtx_scale
from analyst_client.estimators.linalg import noise_norm_quantile, spectral_scale
from analyst_client.estimators.linear import LinearFit
from analyst_client.estimators.ridge import RidgePath
from analyst_client.kinds.gram.release import Release
from analyst_client.plots.style import (
    NEUTRAL,
    ON_LIGHT,
    Artist,
    Axes,
    FixedLocator,
    Line2D,
    MaxNLocator,
    NullLocator,
    add_legend,
    axes_or_new,
    color_of,
    foreground,
    mark_zero,
    percent,
    plain,
    plain_ticks,
    write_tick,
)
from analyst_client.schema.columns import Term

NAMED_LINES = 8
"""Most coefficients of a path that have a colour and a name."""


def noisy_spectrum(source: Release | LinearFit, ax: Axes | None = None, *, failure_probability: float = 0.05) -> Axes:
    r"""Draw the eigenvalues of the noisy XᵀX beside those that noise alone would have.

    Parameters
    ----------
    source : Release or LinearFit
        Of a fit on several releases, the pooled matrix.
    ax : Axes, optional
        Default those of a new figure.
    failure_probability : float
        Chance that the noise moves an eigenvalue further than the dashed lines, in (0, 1).

    Returns
    -------
    Axes
        With the D eigenvalues by rank, the largest first.

    Raises
    ------
    EstimationError
        When a release holds no XᵀX, or does not state its noise.
    ValueError
        When `failure_probability` is not in (0, 1).

    Notes
    -----
    Noise of deviation σ alone has its eigenvalues within :math:`\pm2\sigma\sqrt D`, the shaded band, as D grows. By
    Weyl's inequality it moves none of those of the exact matrix further than its own norm, which is above the dashed
    lines with the stated probability: see `analyst_client.estimators.linalg.noise_norm_quantile`. A direction whose
    eigenvalue lies between them may hold no information at all.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client.plots import noisy_spectrum
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> noisy_spectrum(release).get_ylabel()
    'eigenvalue of noisy XᵀX (rows)'
    """
    if not 0.0 < failure_probability < 1.0:
        raise ValueError(f"failure_probability must be in (0, 1), not {failure_probability!r}")
    matrix, sigma = matrix_of(source)
    eigenvalues = np.asarray(np.linalg.eigvalsh(matrix)[::-1], dtype=np.float64)
    d = len(eigenvalues)
    edge, bound = 2.0 * sigma * np.sqrt(d), noise_norm_quantile(sigma, d, failure_probability)
    ax = axes_or_new(ax)
    handles: list[Artist] = []
    names: list[str] = []
    ranks = np.arange(1, d + 1)
    for name, chosen, color, marker in (
        ("positive", eigenvalues > 0.0, color_of(ax, 0), "o"),
        ("not positive", eigenvalues <= 0.0, color_of(ax, 1), "X"),
    ):
        if chosen.any():
            style: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "markersize": 6.0,
                "linestyle": "",
                "zorder": 2.0,
            }
            handles += ax.plot(ranks[chosen], eigenvalues[chosen], **style)
            names.append(f"{np.sum(chosen):,} {name}")
    if sigma > 0.0:
        handles.append(ax.axhspan(-edge, edge, color=NEUTRAL, alpha=0.22, linewidth=0.0, zorder=0.0))
        names.append(f"noise alone: ±2σ√D = ±{edge:.3g}")
        dashed: dict[str, Any] = {"color": NEUTRAL, "linewidth": 1.0, "linestyle": (0, (5, 3)), "zorder": 1.0}
        handles += [ax.axhline(end, **dashed) for end in (-bound, bound)][1:]
        names.append(f"noise moves none further ({percent(1.0 - failure_probability)}): ±{bound:.3g}")
    stretch(ax, eigenvalues, edge, bound)
    ax.set_xlim(0.4, d + 0.6)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlabel("rank")
    ax.set_ylabel(f"eigenvalue of {'noisy ' if sigma > 0.0 else ''}XᵀX (rows)")
    add_legend(ax, handles, names)
    return ax


def stretch(ax: Axes, eigenvalues: FloatArray, edge: float, bound: float) -> None:
    """Make the axis linear within the noise and logarithmic beyond; logarithmic where there is no noise."""
    low, high = float(eigenvalues[-1]), float(eigenvalues[0])
    if edge > 0.0:
        low, high = min(low, -bound), max(high, bound)
    elif low > 0.0:
        ax.set_yscale("log")
        ax.set_ylim(low / 1.6, high * 1.6)
        plain_ticks(ax.yaxis, *ax.get_ylim())
        return
    mark_zero(ax, vertical=False)
    linear = edge if edge > 0.0 else max(1e-9 * max(-low, high), 1e-300)
    ax.set_yscale("symlog", linthresh=linear, linscale=0.6)
    ax.set_ylim(1.6 * low if low < 0.0 else -linear, 1.6 * high if high > 0.0 else linear)
    ticks = powers(linear, 1.6 * high)
    ax.yaxis.set_major_locator(FixedLocator([*(-t for t in reversed(powers(linear, -1.6 * low))), 0.0, *ticks]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda value, _: write_tick(value))


def powers(low: float, high: float) -> list[float]:
    """Return round numbers from low to high for a logarithmic axis.

    Examples
    --------
    >>> powers(60.0, 900.0), powers(0.5, 90_000.0)
    ([100.0, 200.0, 500.0], [1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    if not high > low:
        return []
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1.0, 2.0, 5.0) if high / low < 30.0 else (1.0, 3.0) if high / low < 1e3 else (1.0,)
    step = max(1, len(decades) // 8)
    return [factor * 10.0**k for k in decades[::step] for factor in factors if low <= factor * 10.0**k <= high]


def matrix_of(source: Release | LinearFit) -> tuple[FloatArray, float]:
    """Return the noisy XᵀX and the σ that sets the norm of its noise."""
    if isinstance(source, LinearFit):
        source._check_fitted()
        equations = source.results_[0].equations
        for site in equations.sites:
            noise_scale(site.release)
        return equations.xtx, xtx_scale(equations)
    source = source.as_released
    if source.xtx is None:
        raise EstimationError("a spectrum needs XᵀX: ask for the statistic 'xtx'")
    return source.xtx, noise_scale(source)


def noise_scale(release: Release) -> float:
    """Return the σ that sets the norm of a release's noise. Raise `EstimationError` where it is not stated."""
    noise = release.noise
    if noise.xtx_diagonal is None or noise.xtx_offdiagonal is None:
        raise EstimationError("a spectrum needs the noise of XᵀX, which this release does not state")
    return spectral_scale(noise.xtx_diagonal, noise.xtx_offdiagonal)


def ridge_path_plot(path: RidgePath, ax: Axes | None = None, *, terms: Sequence[Term] = ()) -> Axes:
    """Draw ridge coefficients along their path of penalties.

    Parameters
    ----------
    path : RidgePath
        The coefficients at each penalty.
    ax : Axes, optional
        Default those of a new figure.
    terms : sequence of Term
        Terms of the release, as `Release.terms`: each coefficient is then multiplied with half the range of its term,
        so that they compare. Default raw units.

    Returns
    -------
    Axes
        With a mark at the penalty that predicts sites left out best, where the path is of several releases.

    Raises
    ------
    ValueError
        When `terms` lacks a term of the path.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client.estimators import ridge_path
    >>> from analyst_client.plots import ridge_path_plot
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> ridge_path_plot(ridge_path(release)).get_xlabel()
    'penalty (units of the scaled XᵀX: rows)'
    """
    scales = {term.name: term.scale for term in terms}
    absent = [name for name in path.term_names if terms and name not in scales]
    if absent:
        raise ValueError(f"the path has the term(s) {', '.join(map(repr, absent))}, of which terms= does not tell")
    drawn = path.coef * np.array([scales.get(name, 1.0) for name in path.term_names])
    ax = axes_or_new(ax)
    mark_zero(ax, vertical=False)
    if np.all(path.penalties > 0.0):
        ax.set_xscale("log")
        ax.margins(x=0.02)
    else:
        positive = path.penalties[path.penalties > 0.0]
        ax.set_xscale("symlog", linthresh=float(positive.min()) if len(positive) else 1.0)
    order = np.argsort(path.penalties)
    largest = np.argsort(-np.max(np.abs(drawn), axis=0), kind="stable")[:NAMED_LINES]
    named = sorted(largest.tolist(), key=lambda j: -drawn[order[0], j])
    for j in range(drawn.shape[1]):
        if j not in named:
            ax.plot(path.penalties[order], drawn[order, j], color=NEUTRAL, linewidth=0.8, alpha=0.7)
    handles = [
        ax.plot(path.penalties[order], drawn[order, j], color=color_of(ax, i), linestyle=dashes(i), linewidth=1.6)[0]
        for i, j in enumerate(named)
    ]
    names = [plain(path.term_names[j], 28) for j in named]
    if drawn.shape[1] > len(named):
        handles.append(Line2D([], [], color=NEUTRAL, linewidth=0.8))
        names.append(f"{drawn.shape[1] - len(named):,} smaller ones")
    if np.isfinite(path.errors).any():
        best = float(path.penalties[int(np.nanargmin(path.errors))])
        ax.axvline(best, color=NEUTRAL, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1.0)
        note = f"predicts sites left out best: {best:.3g}"
        style: dict[str, Any] = {
            "textcoords": "offset points",
            "fontsize": "small",
            "rotation": "vertical",
            "color": foreground(ax),
        }
        ax.annotate(note, (best, 0.5), (4.0, 0.0), xycoords=ax.get_xaxis_transform(), va="center", **style)
    if ax.get_xscale() == "log":
        plain_ticks(ax.xaxis, *ax.get_xlim())
    ax.set_xlabel("penalty (units of the scaled XᵀX: rows)")
    ax.set_ylabel("coefficient × half of the term's range" if terms else "coefficient, in raw units")
    add_legend(ax, handles, names)
    return ax


def dashes(series: int) -> str | tuple[int, tuple[int, ...]]:
    """Return the stroke of a series, so that lines of one colour differ."""
    return "-" if series < len(ON_LIGHT) else (0, (6, 2, 1, 2))
