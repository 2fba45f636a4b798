"""Types of columns: each says how it is declared, read and described, and declaring its class registers it."""

from curator_service.datasets.columns import levels, numbers  # both register the types of the package

__all__ = ["levels", "numbers"]
