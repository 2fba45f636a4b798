"""Descriptions, tests and models of the moments or the cells of a stored release, at no further cost."""
