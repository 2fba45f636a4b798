"""Numbers, costs and shares as a reader of a plan sees them."""

import math
from typing import TYPE_CHECKING, Any

from analyst_client.errors import EstimationError
from analyst_client.inference.summary import number
from analyst_client.schema.amounts import Cost

if TYPE_CHECKING:
    import pandas as pd


def price_text(cost: Cost, *, in_full: bool = False) -> str:
    """Return a cost as text: its ε, and in full its µ or ρ and its δ.

    Examples
    --------
    >>> price_text(Cost(0.2367, 0.028, 1.0, 1e-6), in_full=True)
    'ε = 1 (µ = 0.237, δ = 1e-06)'
    """
    if cost.pure_epsilon is not None:
        return f"a pure ε = {figures(cost.pure_epsilon)}"
    if not in_full:
        return f"ε = {figures(cost.epsilon)}"
    own = f"µ = {figures(cost.mu)}" if cost.mu is not None else f"ρ = {figures(cost.rho or 0.0)}"
    return f"ε = {figures(cost.epsilon)} ({own}, δ = {cost.delta:g})"


def figures(value: float) -> str:
    """Return a number with three significant digits.

    Examples
    --------
    >>> figures(0.12345), figures(1234.5)
    ('0.123', '1,230')
    """
    if value == 0.0 or not math.isfinite(value):
        return number(value)
    digits = 2 - math.floor(math.log10(abs(value)))
    if digits <= 0:
        return f"{round(value, digits):,.0f}"
    return f"{value:.3g}" if digits > 7 else f"{value:.{digits}f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.0712), percent(0.954), percent(0.0012)
    ('7.1 %', '95 %', '0.12 %')
    """
    return f"{100.0 * share:.2g} %" if share < 0.095 else f"{100.0 * share:.0f} %"


def rounded_up(count: float) -> str:
    """Return a number of rows, rounded up to three significant digits.

    Examples
    --------
    >>> rounded_up(12341.2), rounded_up(7.0)
    ('12,400', '7')
    """
    step = 10.0 ** max(math.floor(math.log10(count)) - 2, 0)
    return f"{math.ceil(count / step) * step:,.0f}"


def frame(columns: dict[str, Any]) -> "pd.DataFrame":
    """Return a data frame. Raise `EstimationError` without pandas."""
    try:
        import pandas as pd  # noqa: PLC0415 -- not in the base install
    except ImportError:
        raise EstimationError("data frames need pandas: pip install pandas") from None
    return pd.DataFrame(columns)
