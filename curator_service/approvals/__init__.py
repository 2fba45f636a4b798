"""Decisions that need a second person: limits, and registrations of rows that are like others."""
