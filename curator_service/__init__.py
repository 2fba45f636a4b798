"""The trusted curator: holds rows and budgets, releases noisy sufficient statistics."""

__version__ = "0.1.0"  # the same as in analyst_client, see docs/releasing.md
