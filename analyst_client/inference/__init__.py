"""Uncertainty that includes the privacy noise: what a release says of the coefficients, and how surely."""
