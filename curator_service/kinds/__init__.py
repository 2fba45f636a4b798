"""Kinds of release."""
