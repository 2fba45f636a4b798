"""Releases of the kind ``counts``: noisy joint histograms of one to three columns."""

KIND = "counts"
"""Name of the kind on the wire."""
