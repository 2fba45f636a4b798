"""Planning: accuracy, power and price before anything is paid."""

from analyst_client.planning.accuracy_plan import AccuracyPlan, epsilon_for, rows_for

__all__ = ["AccuracyPlan", "epsilon_for", "rows_for"]
