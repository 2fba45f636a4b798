"""Amounts and accounts as JSON: the account's integer first, its views beside it."""

import math
from typing import Any

from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import Amount


def render_amount(amount: Amount) -> dict[str, Any]:
    """Return an amount as JSON: the account's integer as a string, and its views."""
    return {
        "units": str(amount.units),
        "mu": amount.mu,
        "rho": amount.rho,
        "epsilon": amount.epsilon if math.isfinite(amount.epsilon) else None,
        "delta": amount.delta,
    }


def render_budget(population: Population) -> dict[str, Any]:
    """Return an account as JSON: the account's unit first, (ε, δ), µ and ρ beside it."""
    return {
        "population": population.name,
        "accountant": population.accountant.name,
        "adjacency": population.adjacency,
        "delta": population.delta,
        "limit": render_amount(population.view(population.limit)),
        "posted": render_amount(population.view(population.posted)),
        "pending": render_amount(population.view(population.pending)),
        "remaining": render_amount(population.view_remaining()),
        "share_spent": (population.posted + population.pending) / population.limit,
    }
