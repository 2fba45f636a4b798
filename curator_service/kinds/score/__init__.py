"""The kind ``score``."""
