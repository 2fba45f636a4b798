"""Densities of posterior draws, with their intervals and their prior."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.arrays import FloatArray
from analyst_client.estimators.bayes import PosteriorFit
from analyst_client.plots.style import (
    NEUTRAL,
    Axes,
    Line2D,
    add_legend,
    add_line,
    axes_or_new,
    color_of,
    mark_zero,
    name_rows,
    percent,
    plain,
)

GRID = 1024
ROW_HEIGHT = 0.86


def posterior_density(
    draws: PosteriorFit | ArrayLike | Mapping[str, ArrayLike],
    names: str | Sequence[str] | None = None,
    prior_sd: float | Sequence[float] | Mapping[str, float] | None = None,
    interval: float = 0.95,
    ax: Axes | None = None,
    *,
    label: str = "",
    target: str | None = None,
) -> Axes:
    """Draw the densities of posterior draws, one row for each parameter.

    Parameters
    ----------
    draws : PosteriorFit, array-like of shape (n,), (chain, draw) or (chain, draw, P), or mapping of str to the former
        A Bayesian fit: its scaled coefficients beside the constant, with their priors. Or draws of one parameter, of P
        of them, or of several by name. Chains are taken together.
    names : str or sequence of str, optional
        Names of the P parameters; of a mapping, which to draw, in which order.
    prior_sd : float, sequence of float or mapping of str to float, optional
        Standard deviation of the normal prior around 0, for all parameters or for each.
    interval : float
        Probability of the interval that is marked, in (0, 1), with equal tails.
    ax : Axes, optional
        Default those of a new figure.
    label : str
        Name of the parameters, with their unit.
    target : str, optional
        Of a fit that has several.

    Returns
    -------
    Axes
        Rows of the same height: densities compare within a row, not between rows.

    Raises
    ------
    ValueError
        When shapes do not fit, a draw is not finite, or there are fewer than two.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client import BayesianRegression
    >>> from analyst_client.plots import posterior_density
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> fit = BayesianRegression(seed=1).fit(release)
    >>> [label.get_text() for label in posterior_density(fit).get_yticklabels()]
    ['age', 'sex[M]', 'creatinine', 'lambda']
    """
    if not 0.0 < interval < 1.0:
        raise ValueError(f"interval must be in (0, 1), not {interval!r}")
    if isinstance(draws, PosteriorFit):
        results = draws._results_of(target)
        drawn, first = draws._drawn_of(results), int(results.equations.has_constant)
        deviations = drawn.beta.reshape(-1, drawn.beta.shape[-1]).std(axis=0) / drawn.sd_ratio
        by_name = {name: drawn.beta[..., j] for j, name in enumerate(results.names) if j >= first}
        prior_sd = dict(zip(results.names, deviations.tolist(), strict=True)) if prior_sd is None else prior_sd
        draws, label = by_name, label or "scaled coefficients"
    rows = named_draws(draws, names)
    priors = named_priors(prior_sd, list(rows))
    ax = axes_or_new(ax, height=1.3 + max(1.4, 0.55 * len(rows)))
    tails = [(1.0 - interval) / 2.0, 0.5, (1.0 + interval) / 2.0]
    densities = {name: kernel_density(values) for name, values in rows.items()}
    shown = [
        np.quantile(values, [0.0025, 0.9975]) for values in rows.values()
    ]  # so that no single draw sets the limits
    left, right = min(low for low, _ in shown), max(high for _, high in shown)
    margin = 0.15 * (right - left) or 1.0
    left, right = float(left - margin), float(right + margin)
    mark_zero(ax, vertical=True)
    for row, (name, values) in enumerate(rows.items()):
        x, density = densities[name]
        wide = np.linspace(left, right, GRID)
        prior = normal_density(wide, priors[name]) if name in priors else np.zeros(1)
        height = ROW_HEIGHT / float(max(np.max(density), np.max(prior)))
        low, middle, high = np.quantile(values, tails)
        inside = (x >= low) & (x <= high)
        fill: dict[str, Any] = {"color": color_of(ax, 0), "linewidth": 0.0, "zorder": 1.0}
        ax.fill_between(x, row, row - height * density, alpha=0.15, **fill)
        ax.fill_between(x[inside], row, row - height * density[inside], alpha=0.3, **fill)
        add_line(ax, x, row - height * density, color=color_of(ax, 0), linewidth=1.4)
        if name in priors:
            add_line(ax, wide, row - height * prior, color=NEUTRAL, linewidth=1.2, linestyle=(0, (4, 2)))
        add_line(ax, [low, high], [row, row], color=color_of(ax, 0), linewidth=3.0, solid_capstyle="butt")
        add_line(ax, [middle], [row], color=color_of(ax, 0), marker="o", markersize=6)
    ax.set_xlim(left, right)
    ax.set_ylim(len(rows) - 0.75, -0.98)
    name_rows(ax, [plain(name) for name in rows])
    mark = f"{percent(interval)} intervals and medians"
    ax.set_xlabel(f"{plain(label, 60)}\n{mark}" if label else mark, parse_math=False)
    if priors:
        handles = [
            Line2D([], [], color=color_of(ax, 0), linewidth=1.4),
            Line2D([], [], color=NEUTRAL, linewidth=1.2, linestyle=(0, (4, 2))),
        ]
        add_legend(ax, handles, ["posterior", "prior"])
    return ax


def named_draws(draws: ArrayLike | Mapping[str, ArrayLike], names: str | Sequence[str] | None) -> dict[str, FloatArray]:
    """Return the draws of each parameter, chains taken together."""
    wanted = [names] if isinstance(names, str) else None if names is None else list(names)
    if isinstance(draws, Mapping):
        listed = {name: np.asarray(values, dtype=np.float64) for name, values in draws.items()}
        if wanted is not None:
            if any(name not in listed for name in wanted):
                raise ValueError(f"there are draws of {', '.join(map(repr, listed))} only")
            listed = {name: listed[name] for name in wanted}
        if any(values.ndim not in {1, 2} for values in listed.values()):
            raise ValueError("the draws of one parameter have the shape (n,) or (chain, draw)")
    else:
        array = np.asarray(draws, dtype=np.float64)
        if array.ndim not in {1, 2, 3}:
            raise ValueError(f"draws have the shape (n,), (chain, draw) or (chain, draw, P), not {array.shape}")
        count = array.shape[2] if array.ndim == 3 else 1
        if wanted is None:
            wanted = [""] if count == 1 else [f"parameter {j + 1}" for j in range(count)]
        if len(wanted) != count or len(set(wanted)) != count:
            raise ValueError(f"{count} parameter(s) need as many names, all different")
        listed = {name: array[..., j] if array.ndim == 3 else array for j, name in enumerate(wanted)}
    if not listed or any(values.size < 2 or not np.isfinite(values).all() for values in listed.values()):
        raise ValueError("a density needs at least two draws, all finite")
    return {name: values.ravel() for name, values in listed.items()}


def named_priors(
    prior_sd: float | Sequence[float] | Mapping[str, float] | None, names: Sequence[str]
) -> dict[str, float]:
    """Return the prior's deviation for each parameter that has one."""
    if prior_sd is None:
        return {}
    if isinstance(prior_sd, Mapping):
        found = {name: float(prior_sd[name]) for name in names if name in prior_sd}
    else:
        given = np.broadcast_to(np.asarray(prior_sd, dtype=np.float64), (len(names),))
        found = dict(zip(names, given.tolist(), strict=True))
    if not all(np.isfinite(sd) and sd > 0.0 for sd in found.values()):
        raise ValueError("prior_sd must be positive")
    return found


def normal_density(x: FloatArray, sd: float) -> FloatArray:
    """Return the density of a normal law around 0."""
    density: FloatArray = np.exp(-0.5 * (x / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
    return density


def kernel_density(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Estimate a density by Gaussian kernels, at `GRID` points.

    Parameters
    ----------
    values : ndarray of shape (n,)

    Returns
    -------
    x, density : ndarray of shape (GRID,)

    Notes
    -----
    Silverman's bandwidth :math:`0.9\min(s, \mathrm{IQR}/1.34)\,n^{-1/5}` [1]_, with values counted in the cells of the
    grid first, so that many draws take no more time. Equal values are given the width of a rounding error.

    References
    ----------
    .. [1] B. W. Silverman, "Density Estimation for Statistics and Data Analysis", 1986, section 3.4.

    Examples
    --------
    >>> x, density = kernel_density(np.array([-1.0, 0.0, 1.0]))
    >>> round(float(np.trapezoid(density, x)), 3), round(abs(float(x[np.argmax(density)])), 1)
    (1.0, 0.0)
    """
    low, high = float(np.min(values)), float(np.max(values))
    spread, quartiles = float(np.std(values, ddof=1)), np.quantile(values, [0.25, 0.75])
    robust = float(quartiles[1] - quartiles[0]) / 1.34
    width = 0.9 * min(spread, robust if robust > 0.0 else spread) * len(values) ** -0.2
    width = max(width, 1e-9 * (max(abs(low), abs(high)) or 1.0))
    x = np.linspace(low - 4.0 * width, high + 4.0 * width, GRID)
    step = x[1] - x[0]
    width = max(width, float(step))
    counts, _ = np.histogram(values, GRID, (x[0] - step / 2.0, x[-1] + step / 2.0))
    reach = min(int(np.ceil(5.0 * width / step)), (GRID - 1) // 2)
    kernel = normal_density(step * np.arange(-reach, reach + 1), width)
    return x, np.convolve(counts, kernel / np.sum(kernel), mode="same") / (len(values) * step)
