"""Regressions fitted on releases, after scikit-learn's conventions."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.estimators.adassp import AdaSSP as AdaSSP
    from analyst_client.estimators.bayes import BayesianRegression as BayesianRegression
    from analyst_client.estimators.bayes import RobustPrivateRegression as RobustPrivateRegression
    from analyst_client.estimators.comparison import compare as compare
    from analyst_client.estimators.empirical_bayes import EmpiricalBayes as EmpiricalBayes
    from analyst_client.estimators.loading import load_fit as load_fit
    from analyst_client.estimators.logistic import LogisticRegression as LogisticRegression
    from analyst_client.estimators.poisson import PoissonRegression as PoissonRegression
    from analyst_client.estimators.refined import RefinedRegression as RefinedRegression
    from analyst_client.estimators.ridge import OLS as OLS
    from analyst_client.estimators.ridge import SSP as SSP
    from analyst_client.estimators.ridge import Ridge as Ridge
    from analyst_client.estimators.ridge import RidgePath as RidgePath
    from analyst_client.estimators.ridge import ridge_path as ridge_path
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
