"""Surveys: reports of one question that people perturbed themselves, collected without a budget."""
