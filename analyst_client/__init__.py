"""Request noisy sufficient statistics of a curator's data, and fit regressions on them locally.

Here are the names that most analyses need. Modules have these and the others: `kinds` (requests, quotes, releases),
`estimators`, `terms`, `analyses`, `inference` (estimates, priors), `refinement`, `planning`, `plots`, `schema`
(datasets, budgets, permits), `ledger`, `curators`, `local` (reports without a curator) and `errors`.

>>> from analyst_client import AdaSSP, Release
>>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"], targets=["kappa"])
>>> AdaSSP().fit(release).coef_.round(3).tolist()
[0.3]
"""

import sys
from typing import TYPE_CHECKING

from analyst_client._version import __version__ as __version__
from analyst_client.exports import export_lazily
from analyst_client.spelling import let_print

let_print(sys.stdout)  # print() raises for no value, whatever the terminal's encoding is

if TYPE_CHECKING:
    from analyst_client import analyses as analyses
    from analyst_client import curators as curators
    from analyst_client import errors as errors
    from analyst_client import estimators as estimators
    from analyst_client import inference as inference
    from analyst_client import kinds as kinds
    from analyst_client import ledger as ledger
    from analyst_client import local as local
    from analyst_client import planning as planning
    from analyst_client import plots as plots
    from analyst_client import refinement as refinement
    from analyst_client import schema as schema
    from analyst_client import terms as terms
    from analyst_client.admin import CuratorAdmin as CuratorAdmin
    from analyst_client.analyses.correlation import correlations as correlations
    from analyst_client.analyses.descriptions import describe as describe
    from analyst_client.analyses.descriptions import table_one as table_one
    from analyst_client.analyses.tables import ContingencyTable as ContingencyTable
    from analyst_client.analyses.ttest import ttest_ind as ttest_ind
    from analyst_client.client import CuratorClient as CuratorClient
    from analyst_client.curators import Curators as Curators
    from analyst_client.errors import BudgetExceededError as BudgetExceededError
    from analyst_client.errors import CuratorError as CuratorError
    from analyst_client.errors import EstimationError as EstimationError
    from analyst_client.errors import EstimationWarning as EstimationWarning
    from analyst_client.errors import RequestInvalidError as RequestInvalidError
    from analyst_client.errors import TransportError as TransportError
    from analyst_client.errors import UselessRequestError as UselessRequestError
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
    from analyst_client.kinds.counts.axes import Axis as Axis
    from analyst_client.kinds.counts.request import CountsRequest as CountsRequest
    from analyst_client.kinds.gram.release import Release as Release
    from analyst_client.kinds.marginals.items import Flat as Flat
    from analyst_client.kinds.marginals.items import Moments as Moments
    from analyst_client.kinds.marginals.items import Tree as Tree
    from analyst_client.kinds.marginals.request import MarginalsRequest as MarginalsRequest
    from analyst_client.planning.accuracy import expected_accuracy as expected_accuracy
    from analyst_client.planning.accuracy_plan import epsilon_for as epsilon_for
    from analyst_client.planning.assumptions import Assumptions as Assumptions
    from analyst_client.planning.dummy_data import dummy_twin as dummy_twin
    from analyst_client.schema.columns import Column as Column
    from analyst_client.terms.formulas import Model as Model
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
