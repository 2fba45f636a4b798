"""The cost of a wanted accuracy of counts."""

from analyst_client.kinds.counts.quote import CountsQuote
from analyst_client.planning.prices import PriceScale
from analyst_client.schema.amounts import Cost


def price_for_error(quote: CountsQuote, error: float, beta: float = 0.05) -> Cost:
    r"""Return what it costs that every cell of every table is within an error, with probability 1 − β.

    Parameters
    ----------
    quote : CountsQuote
        Of the same tables and shares, at any cost.
    error : float
        The wanted α, in rows.
    beta : float
        The probability that some cell is farther from its exact count.

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
    """
    if not error > 0.0:
        raise ValueError(f"error must be positive, not {error!r}")
    return PriceScale(quote).cost(quote.largest_error(beta) / error)
