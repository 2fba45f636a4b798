"""The kind marginals: counts by equal bins, and moments, of single columns."""
