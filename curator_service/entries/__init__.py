"""Entries of the chains: one class for each kind, which says what it has and moves the account itself."""

from curator_service.entries import amounts, recovery, rows, sessions, terms

__all__ = ["amounts", "recovery", "rows", "sessions", "terms"]
