"""Figures of the cost of privacy: a budget and its parts, and accuracy against ε."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst_client.display.model import percent, ratio
from analyst_client.kinds.gram.quote import Quote
from analyst_client.level import takes_level
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.power import power_table
from analyst_client.plots.style import (
    NEUTRAL,
    Axes,
    add_legend,
    add_line,
    axes_or_new,
    color_of,
    foreground,
    plain,
    plain_ticks,
)
from analyst_client.schema.accounts import Budget
from analyst_client.schema.amounts import Amount
from analyst_client.schema.quotes import AnyQuote

UNITS = {"gdp": "µ²", "zcdp": "ρ", "pure": "ε"}


def budget_bar(budget: Budget | AnyQuote, ax: Axes | None = None) -> Axes:
    """Draw a budget as one bar: what is spent, held and left, as shares of the account's own unit.

    Parameters
    ----------
    budget : Budget or Quote
        Of a quote, of any kind: its cost, as a share of the whole limit.
    ax : Axes, optional
        Default those of a new figure.

    Returns
    -------
    Axes
        With one bar, from 0 to the limit.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client.plots import budget_bar
    >>> from analyst_client.tutorial import recorded_client
    >>> budget_bar(recorded_client("methods").budget("flchain")).get_xlabel()
    'µ² of olmsted, of a limit of ε = 3, δ = 1e-06; shares add up, ε does not'
    """
    ax = axes_or_new(ax, height=1.4)
    is_quote = isinstance(budget, AnyQuote)
    parts = quote_parts(budget) if isinstance(budget, AnyQuote) else budget_parts(budget)
    colors = {"spent": color_of(ax, 0), "pending": "#E69F00", "this request": color_of(ax, 0)}
    handles, names, start = [], [], 0.0
    for name, (amount, share) in parts.items():
        alpha = 1.0 if name in colors else 0.35
        (bar,) = ax.barh(
            0.0, share, left=start, height=1.0, color=colors.get(name, NEUTRAL), alpha=alpha, linewidth=0.0
        )
        handles.append(bar)
        stated = amount is not None and (amount.units or is_quote)
        names.append(f"{name} {percent(share)}" + (f" (ε {write_epsilon(amount)})" if amount and stated else ""))
        start += share
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(-0.5, 0.5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    if isinstance(budget, AnyQuote):
        label = f"of the whole limit, whatever of it is spent; at δ = {budget.cost.delta:g}"
        ax.set_xlabel(label, parse_math=False)
        add_legend(ax, handles, names, small=True)
        return ax
    unit = UNITS.get(budget.accountant, "the account's unit")
    whole = f"ε = {write_epsilon(budget.limit)}, δ = {budget.limit.delta:g}"
    views = "" if budget.accountant == "pure" else "; shares add up, ε does not"
    ax.set_xlabel(f"{unit} of {plain(budget.population)}, of a limit of {whole}{views}", parse_math=False)
    add_legend(ax, handles, names, small=True)
    return ax


def quote_parts(quote: AnyQuote) -> dict[str, tuple[Amount | None, float]]:
    """Return the cost of a request and the rest of the limit."""
    share = min(quote.cost.share_of_budget, 1.0)
    return {"this request": (quote.cost, share), "all others": (None, 1.0 - share)}


def budget_parts(budget: Budget) -> dict[str, tuple[Amount | None, float]]:
    """Return each part of a budget with its share of the limit."""
    amounts = {"spent": budget.posted, "pending": budget.pending, "remaining": budget.remaining}
    shares = {name: ratio(amount.units, budget.limit.units) for name, amount in amounts.items()}
    stated = {name: share for name, share in shares.items() if share is not None}
    if len(stated) < len(shares):
        stated = {"spent": budget.share_spent, "pending": 0.0, "remaining": 1.0 - budget.share_spent}
    return {name: (amounts[name], share) for name, share in stated.items()}


def write_epsilon(amount: Amount) -> str:
    """Write ε, or that it is too large to be stated."""
    return f"{amount.epsilon:.4g}" if math.isfinite(amount.epsilon) else "not stated"


def privacy_accuracy_curve(
    epsilons: ArrayLike,
    half_lengths: ArrayLike | Mapping[str, ArrayLike],
    *,
    reference: float | None = None,
    quoted: tuple[float, float] | None = None,
    label: str = "half length of the interval",
    unit: str | None = None,
    delta: float | None = None,
    log: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw accuracy against ε.

    Parameters
    ----------
    epsilons : array-like of shape (n,)
        Positive.
    half_lengths : array-like of shape (n,), or mapping of str to such
        Expected half length of an interval, or another accuracy, at each ε; of several coefficients, by name.
        Infinite where nothing is bounded: a curve begins there with an arrow, and where none is finite the Axes are
        shaded.
    reference : float, optional
        The accuracy without privacy.
    quoted : (float, float), optional
        Pair of ε and accuracy of one request, such as one for which there is a quote.
    label : str
        Name of the accuracy.
    unit : str, optional
        Its unit.
    delta : float, optional
        The δ beside every ε.
    log : bool
        Draw the accuracy on a logarithmic axis too; False for one that may be 0 or negative, such as R².
    ax : Axes, optional
        Default those of a new figure.

    Returns
    -------
    Axes
        With ε on a logarithmic axis.

    Raises
    ------
    ValueError
        When lengths do not agree, or a number cannot stand on its axis.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client.plots import privacy_accuracy_curve
    >>> privacy_accuracy_curve([0.1, 0.3, 1.0], [0.4, 0.15, 0.06], reference=0.03).get_xscale()
    'log'
    """
    named = dict(half_lengths) if isinstance(half_lengths, Mapping) else {"": half_lengths}
    x = np.asarray(epsilons, dtype=np.float64)
    curves = {name: np.asarray(values, dtype=np.float64) for name, values in named.items()}
    if x.ndim != 1 or not len(x) or not np.all(np.isfinite(x) & (x > 0.0)):
        raise ValueError("epsilons must be positive numbers")
    if not curves or any(values.shape != x.shape for values in curves.values()):
        raise ValueError(f"there must be one half length for each of the {len(x)} epsilons")
    if any(np.isnan(values).any() or (log and np.any(values <= 0.0)) for values in curves.values()):
        raise ValueError("on a logarithmic axis all numbers must be positive, and none may be missing")
    if quoted is not None and not (0.0 < quoted[0] < math.inf and math.isfinite(quoted[1])):
        raise ValueError("both numbers of a quoted point must be finite, and its ε positive")
    order = np.argsort(x)
    ax = axes_or_new(ax)
    ax.set_xscale("log")
    if log:
        ax.set_yscale("log")
    handles = []
    for i, values in enumerate(curves.values()):
        finite = np.isfinite(values[order])
        found, drawn = x[order][finite], values[order][finite]
        handles += ax.plot(found, drawn, color=color_of(ax, i), linewidth=1.8)
        if len(found) and not finite[0]:
            add_line(ax, found[:1], drawn[:1], color=color_of(ax, i), marker="^", markersize=6)
    handles, names = handles if len(curves) > 1 else [], list(named) if len(curves) > 1 else []
    if reference is not None:
        handles.append(ax.axhline(reference, color=NEUTRAL, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1.0))
        names.append("without privacy")
    shade_unbounded(ax, x[order], np.array(list(curves.values()))[:, order])
    if quoted is not None:
        draw_quoted(ax, quoted)
    plain_ticks(ax.xaxis, *ax.get_xlim())
    if log:
        plain_ticks(ax.yaxis, *ax.get_ylim())
    ax.set_xlabel("ε" if delta is None else f"ε, at δ = {delta:g}")
    ax.set_ylabel(f"{plain(label, 60)} ({plain(unit, 16)})" if unit else plain(label, 60), parse_math=False)
    if handles:
        add_legend(ax, handles, names)
    return ax


@takes_level
def quote_accuracy_curve(
    quote: Quote,
    assumptions: Assumptions,
    parameter: str,
    *,
    epsilons: Sequence[float] | None = None,
    delta: float | None = None,
    level: float = 0.95,
    target: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the expected half length of an interval at each ε, with the quoted one marked.

    Parameters
    ----------
    quote : Quote
        The request, whose ε is marked.
    assumptions : Assumptions
        Of this quote's terms, targets and row map.
    parameter : str
        The coefficient.
    epsilons : sequence of float, optional
        Default 25 from a tenth to ten times the quoted ε.
    delta : float, optional
        Default that of the quote.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    target : str, optional
        One of the targets, if there are several.
    ax : Axes, optional
        Default those of a new figure.

    Returns
    -------
    Axes
        As of `privacy_accuracy_curve`.

    Raises
    ------
    ValueError
        When there is no such parameter, or a number makes no sense.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client import Assumptions
    >>> from analyst_client.plots import quote_accuracy_curve
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> quote_accuracy_curve(QUOTE, Assumptions.of(QUOTE, rows=7000, residual_sd=0.5), "age").get_ylabel()
    'half length of the interval of age'
    """
    quoted = quote.cost.pure_epsilon if quote.cost.pure_epsilon is not None else quote.cost.epsilon
    chosen = np.geomspace(0.1 * quoted, 10.0 * quoted, 25).tolist() if epsilons is None else list(epsilons)
    options: dict[str, Any] = {"delta": delta, "level": level, "target": target}
    lengths = power_table(parameter, [1.0], quote, assumptions, epsilons=chosen, **options).half_lengths
    (at_quoted,) = power_table(parameter, [1.0], quote, assumptions, epsilons=[quoted], **options).half_lengths
    return privacy_accuracy_curve(
        chosen,
        lengths,
        quoted=(quoted, float(at_quoted)) if math.isfinite(at_quoted) else None,
        label=f"half length of the interval of {parameter}",
        delta=quote.cost.delta if delta is None else delta,
        ax=ax,
    )


def shade_unbounded(ax: Axes, x: NDArray[np.float64], curves: NDArray[np.float64]) -> None:
    """Shade the small ε at which no curve, of shape (k, n), is finite."""
    nothing = ~np.isfinite(curves).any(axis=0)
    count = len(x) if nothing.all() else int(np.argmin(nothing))
    left, right = x[0] / 1.15, x[-1] * 1.15
    ax.set_xlim(left, right)
    if count:
        ax.axvspan(left, x[count - 1], color=NEUTRAL, alpha=0.18, linewidth=0.0, zorder=0.0)
        style: dict[str, Any] = {
            "rotation": "vertical",
            "va": "center",
            "ha": "center",
            "fontsize": "small",
            "clip_on": True,
        }
        middle = math.sqrt(left * x[count - 1])
        ax.text(middle, 0.5, "unbounded", transform=ax.get_xaxis_transform(), color=foreground(ax), **style)


def draw_quoted(ax: Axes, quoted: tuple[float, float]) -> None:
    """Mark one request, and write its numbers beside it."""
    epsilon, accuracy = quoted
    ax.plot([epsilon], [accuracy], color=color_of(ax, 1), linestyle="", marker="o", markersize=7, zorder=3.0)
    words = f"ε = {epsilon:.4g}: {accuracy:.3g}"
    ax.annotate(words, quoted, (7.0, 6.0), textcoords="offset points", color=foreground(ax), fontsize="small")
