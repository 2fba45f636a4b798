"""Releases of the kind ``marginals``: where single numeric columns are, and how spread, with noise."""

KIND = "marginals"
"""Name of the kind on the wire."""
