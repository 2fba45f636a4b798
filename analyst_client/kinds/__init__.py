"""Kinds of release: one folder for each, and how an answer is read by its kind."""
