"""Releases of the kind ``gram``: noisy sufficient statistics of a linear regression."""

KIND = "gram"
"""Name of the kind on the wire."""
