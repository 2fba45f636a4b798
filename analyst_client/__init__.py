"""Buy noisy sufficient statistics of a curator's data, and fit regressions on them locally.

>>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"], targets=["kappa"])
>>> AdaSSP().fit(release).coef_.round(3).tolist()
[0.3]
"""

from analyst_client._ledger import Checkpoint, LedgerPosition
from analyst_client.client import CuratorClient
from analyst_client.columns import Column, Term
from analyst_client.curators import Curators, PurchasePlan
from analyst_client.errors import (
    AuthenticationError,
    BudgetExceededError,
    CuratorError,
    DatasetClosedError,
    DatasetNotFoundError,
    EstimationError,
    EstimationWarning,
    JobEndedError,
    JobError,
    JobRunningError,
    JobVoidedError,
    KeyUntrustedError,
    LedgerError,
    LedgerForkedError,
    LedgerMemoryError,
    LedgerRestoredWarning,
    LedgerSealedError,
    PermissionDeniedError,
    ReceiptInvalidError,
    RequestFault,
    RequestInvalidError,
    ReservationEndedError,
    ReservationNotFoundError,
    ServiceError,
    ServiceUnavailableError,
    TransportError,
)
from analyst_client.estimators import OLS, SSP, AdaSSP, EmpiricalBayes, Ridge, RidgePath, ridge_path
from analyst_client.jobs import Job
from analyst_client.release import Release
from analyst_client.values import (
    Amount,
    Budget,
    Cost,
    Dataset,
    Noise,
    Offer,
    Quote,
    Receipt,
    ReleaseSummary,
    Reservation,
)
from analyst_client.verify import Verification

__all__ = [
    "OLS",
    "SSP",
    "AdaSSP",
    "Amount",
    "AuthenticationError",
    "Budget",
    "BudgetExceededError",
    "Checkpoint",
    "Column",
    "Cost",
    "CuratorClient",
    "CuratorError",
    "Curators",
    "Dataset",
    "DatasetClosedError",
    "DatasetNotFoundError",
    "EmpiricalBayes",
    "EstimationError",
    "EstimationWarning",
    "Job",
    "JobEndedError",
    "JobError",
    "JobRunningError",
    "JobVoidedError",
    "KeyUntrustedError",
    "LedgerError",
    "LedgerForkedError",
    "LedgerMemoryError",
    "LedgerPosition",
    "LedgerRestoredWarning",
    "LedgerSealedError",
    "Noise",
    "Offer",
    "PermissionDeniedError",
    "PurchasePlan",
    "Quote",
    "Receipt",
    "ReceiptInvalidError",
    "Release",
    "ReleaseSummary",
    "RequestFault",
    "RequestInvalidError",
    "Reservation",
    "ReservationEndedError",
    "ReservationNotFoundError",
    "Ridge",
    "RidgePath",
    "ServiceError",
    "ServiceUnavailableError",
    "Term",
    "TransportError",
    "Verification",
    "ridge_path",
]
