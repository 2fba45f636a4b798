"""Accounts: the unit of work, and reservations."""
