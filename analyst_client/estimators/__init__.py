"""Regressions fitted on releases, after scikit-learn's conventions."""

from analyst_client.estimators.adassp import AdaSSP
from analyst_client.estimators.base import LinearFit
from analyst_client.estimators.ridge import OLS, SSP, Ridge

__all__ = ["OLS", "SSP", "AdaSSP", "LinearFit", "Ridge"]
