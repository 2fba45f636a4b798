"""Permits: who may spend which part of a budget, on what, for what purpose, and until when."""
