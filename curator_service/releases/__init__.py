"""Releases: quote, charge, perturb, publish, fetch again."""
