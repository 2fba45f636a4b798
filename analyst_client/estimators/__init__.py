"""Regressions fitted on releases, after scikit-learn's conventions."""

from analyst_client.estimators.adassp import AdaSSP
from analyst_client.estimators.bayes import BayesianRegression, RobustPrivateRegression
from analyst_client.estimators.empirical_bayes import EmpiricalBayes
from analyst_client.estimators.linear import LinearFit
from analyst_client.estimators.logistic import LogisticRegression
from analyst_client.estimators.poisson import PoissonRegression
from analyst_client.estimators.refined import RefinedRegression
from analyst_client.estimators.ridge import OLS, SSP, Ridge, RidgePath, ridge_path

__all__ = [
    "OLS",
    "SSP",
    "AdaSSP",
    "BayesianRegression",
    "EmpiricalBayes",
    "LinearFit",
    "LogisticRegression",
    "PoissonRegression",
    "RefinedRegression",
    "Ridge",
    "RidgePath",
    "RobustPrivateRegression",
    "ridge_path",
]
