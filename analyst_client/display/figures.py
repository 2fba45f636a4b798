"""Figures of values: drawn by `analyst_client.plots`, which knows the values, and so is named and not imported here."""

from importlib import import_module
from typing import Any

PLOTS = "analyst_client.plots"


def draw(function: str, *args: Any, **options: Any) -> Any:
    """Call a function of `analyst_client.plots`. Raise `ImportError` where matplotlib is not installed."""
    return getattr(import_module(PLOTS), function)(*args, **options)
