"""Figures as SVG, drawn here: bars of budgets and lines of what was left. Colours are the style sheet's, by class.

A figure is described in words, for whoever does not see it; numbers stand beside it as text.
"""

from collections.abc import Sequence

from markupsafe import Markup

WIDTH = 1000
"""Of every figure, in units of its own."""
_FIGURE = Markup('<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"><title>{}</title>{}</svg>')
_RECT = Markup('<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="20"></rect>')
_PATH = Markup('<path class="{}" d="{}"></path>')


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
        _rect("bar-track", 0, at_limit),
        _rect("bar-held", at_spent, at_held - at_spent),
        # A charge is never invisible, however small.
        _rect("bar-spent", 0, max(at_spent, 4.0 if spent else 0.0)),
    ]
    if highest > limit:
        parts.append(_rect("bar-beyond", at_limit, WIDTH - at_limit))
    return _FIGURE.format("bar", WIDTH, 20, described, Markup("").join(parts))


def line(points: Sequence[float], described: str, *, height: int = 260) -> Markup:
    """Return what was left over time, as a line with steps: between two charges nothing changes.

    Its page writes the axes around it, as text: from 0 to 100 % of the limit, and the first and the last month.

    Parameters
    ----------
    points : sequence of float
        Shares of the limit, from 0 to 1, at equal distances.
    described : str
        The same in words.
    """
    inner = height - 20
    step = WIDTH / max(len(points) - 1, 1)
    places = [(step * i, 10 + inner * (1 - max(0.0, min(1.0, share)))) for i, share in enumerate(points)]
    path = "".join(f"{'H' if i else 'M'}{x:.1f}{'V' if i else ' '}{y:.1f}" for i, (x, y) in enumerate(places))
    parts = [
        _PATH.format("line-floor", f"M0 {height - 10}H{WIDTH}"),
        _PATH.format("line-area", f"{path}V{height - 10}H0Z"),
        _PATH.format("line", path),
    ]
    return _FIGURE.format("chart", WIDTH, height, described, Markup("").join(parts))


def trace(shares: Sequence[float | None], described: str, *, height: int = 160) -> Markup:
    """Return a line of samples at equal distances, with a gap where there is none.

    Its page writes the axes around it, as text.

    Parameters
    ----------
    shares : sequence of float or None
        Of the highest number of the axis, from 0 to 1.
    described : str
        The same in words.
    """
    step, floor, path, area, start = WIDTH / max(len(shares), 1), height - 10, "", "", -1.0
    for i, share in enumerate([*shares, None]):
        if share is not None:
            y = 10 + (height - 20) * (1 - max(0.0, min(1.0, share)))
            drawn = f"{f'M{step * i:.1f} ' if start < 0 else 'V'}{y:.1f}H{step * (i + 1):.1f}"
            start = step * i if start < 0 else start
            path, area = path + drawn, area + drawn
        elif start >= 0:
            area, start = f"{area}V{floor}H{start:.1f}Z", -1.0
    parts = [
        _PATH.format("line-floor", "".join(f"M0 {10 + (height - 20) * i // 2}H{WIDTH}" for i in range(3))),
        _PATH.format("line-area", area),
        _PATH.format("line", path),
    ]
    return _FIGURE.format("chart", WIDTH, height, described, Markup("").join(parts))


def _rect(name: str, x: float, width: float) -> Markup:
    return _RECT.format(name, x, max(width, 0.0))
