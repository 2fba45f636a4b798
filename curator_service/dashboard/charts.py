"""Figures as SVG, drawn here: bars of budgets and lines of what was left. Colours are the style sheet's, by class.

A figure is described in words, for whoever does not see it; numbers stand beside it as text.
"""

from collections.abc import Sequence

from curator_service.kit.html import Markup, element

WIDTH = 1000
"""Of every figure, in units of its own."""


def bar(limit: int, spent: int, held: int, highest: int, described: str) -> Markup:
    """Return the bar of a budget: spent, held, and where the highest limit was, if that was more.

    Parameters
    ----------
    limit, spent, held, highest : int
        Units.
    described : str
        The same in words.
    """
    whole = max(limit, highest, 1)
    places = [WIDTH * units / whole for units in (spent, spent + held, limit)]
    at_spent, at_held, at_limit = places
    parts = [
        element("title", described),
        _rect("bar-track", 0, at_limit),
        _rect("bar-held", at_spent, at_held - at_spent),
        # A charge is never invisible, however small.
        _rect("bar-spent", 0, max(at_spent, 4.0 if spent else 0.0)),
    ]
    if highest > limit:
        parts.append(_rect("bar-beyond", at_limit, WIDTH - at_limit))
    view = {"viewBox": f"0 0 {WIDTH} 20", "preserveAspectRatio": "none", "role": "img"}
    return element("svg", *parts, class_="bar", **view)


def line(points: Sequence[float], described: str, *, height: int = 260) -> Markup:
    """Return what was left over time, as a line with steps: between two charges nothing changes.

    Parameters
    ----------
    points : sequence of float
        Shares of the limit, from 0 to 1, at equal distances.
    described : str
        The same in words.
    height : int
    """
    inner = height - 20
    step = WIDTH / max(len(points) - 1, 1)
    places = [(step * i, 10 + inner * (1 - max(0.0, min(1.0, share)))) for i, share in enumerate(points)]
    path = "".join(f"{'H' if i else 'M'}{x:.1f}{'V' if i else ' '}{y:.1f}" for i, (x, y) in enumerate(places))
    view = {"viewBox": f"0 0 {WIDTH} {height}", "preserveAspectRatio": "none", "role": "img"}
    parts = [
        element("title", described),
        element("path", class_="line-floor", d=f"M0 {height - 10}H{WIDTH}"),
        element("path", class_="line-area", d=f"{path}V{height - 10}H0Z"),
        element("path", class_="line", d=path),
    ]
    return element("svg", *parts, class_="chart", **view)


def _rect(name: str, x: float, width: float) -> str:
    return element("rect", class_=name, x=f"{x:.1f}", y="0", width=f"{max(width, 0.0):.1f}", height="20")
