"""Buy noisy sufficient statistics of a curator's data, and fit regressions on them locally.

>>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"], targets=["kappa"])
>>> AdaSSP().fit(release).coef_.round(3).tolist()
[0.3]
"""

from analyst_client.client import CuratorClient
from analyst_client.columns import Column, Term
from analyst_client.errors import (
    AuthenticationError,
    BudgetExceededError,
    CuratorError,
    DatasetClosedError,
    DatasetNotFoundError,
    EstimationError,
    EstimationWarning,
    PermissionDeniedError,
    RequestFault,
    RequestInvalidError,
    ServiceError,
    ServiceUnavailableError,
    TransportError,
)
from analyst_client.estimators import OLS, SSP, AdaSSP, Ridge
from analyst_client.release import Release
from analyst_client.values import Amount, Budget, Cost, Dataset, Noise, Quote, ReleaseSummary
from analyst_client.verify import Verification

__all__ = [
    "OLS",
    "SSP",
    "AdaSSP",
    "Amount",
    "AuthenticationError",
    "Budget",
    "BudgetExceededError",
    "Column",
    "Cost",
    "CuratorClient",
    "CuratorError",
    "Dataset",
    "DatasetClosedError",
    "DatasetNotFoundError",
    "EstimationError",
    "EstimationWarning",
    "Noise",
    "PermissionDeniedError",
    "Quote",
    "Release",
    "ReleaseSummary",
    "RequestFault",
    "RequestInvalidError",
    "Ridge",
    "ServiceError",
    "ServiceUnavailableError",
    "Term",
    "TransportError",
    "Verification",
]
