"""Releases of the kind ``score``: the clipped gradient of a loss at posted coefficients, with noise."""

KIND = "score"
"""Name of the kind on the wire."""
SCORE, NORMS, MEAT = STATISTICS = ("score", "norms", "meat")
"""What may be released."""
LOSSES = ("linear", "logistic", "poisson")
