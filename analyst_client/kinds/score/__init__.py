"""Releases of the kind ``score``: the clipped gradient of a loss at posted coefficients, with noise."""

KIND = "score"
"""Name of the kind on the wire."""
SCORE, NORMS, MEAT = STATISTICS = ("score", "norms", "meat")
"""Statistics that can be released."""
LOSSES = ("linear", "logistic", "poisson")
