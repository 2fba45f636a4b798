"""Analyses of released statistics beside regressions."""
