"""The version of this library, the same as in curator_service: see docs/releasing.md."""

__version__ = "0.1.0"
