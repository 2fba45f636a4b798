"""Exports of datasets for catalogues and data-protection officers, from public declarations."""
