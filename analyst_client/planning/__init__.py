"""Planning: accuracy, power and cost before anything is spent."""

from analyst_client.planning.accuracy_plan import AccuracyPlan, epsilon_for, rows_for

__all__ = ["AccuracyPlan", "epsilon_for", "rows_for"]
