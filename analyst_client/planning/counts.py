"""The cost of a wanted accuracy of counts."""

from analyst_client.kinds.counts.quote import CountsQuote
from analyst_client.level import takes_level
from analyst_client.planning.prices import PriceScale
from analyst_client.schema.amounts import Cost


@takes_level
def price_for_error(quote: CountsQuote, error: float, level: float = 0.95) -> Cost:
    r"""Return what it costs that every cell of every table is within an error, with probability `level`.

    Parameters
    ----------
    quote : CountsQuote
        Of the same tables and shares, at any cost.
    error : float
        The wanted α, in rows.
    level : float
        The probability that no cell is farther from its exact count, in [0.5, 1).

    Returns
    -------
    Cost
        A plan, as the quote's curator would count it: ask for a quote at its ε, µ or ρ before you spend. Its
        `pure_epsilon` is the ε to ask for with Laplace noise.

    Raises
    ------
    ValueError
        When the error is not positive, or the quote states no cost to plan from.

    Notes
    -----
    `CountsQuote.largest_error` is proportional to the noise, which falls as one over µ, √ρ or the ε of Laplace noise.

    Examples
    --------
    >>> from analyst_client.planning import price_for_error
    >>> from analyst_client import Axis, CountsRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = CountsRequest([["sex", Axis("age", edges=[50, 60, 70, 100])]], epsilon=0.5, delta=1e-6)
    >>> round(price_for_error(client.quote("flchain", request), error=10.0).epsilon, 2)
    1.12
    """
    if not error > 0.0:
        raise ValueError(f"error must be positive, not {error!r}")
    return PriceScale(quote).cost(quote.largest_error(level) / error)
