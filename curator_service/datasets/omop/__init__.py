"""Cohorts of an OMOP Common Data Model: a declaration becomes a query, and a manifest for a person to complete."""
