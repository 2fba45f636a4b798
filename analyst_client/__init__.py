"""Buy noisy sufficient statistics of a curator's data, and fit regressions on them locally.

>>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"], targets=["kappa"])
>>> AdaSSP().fit(release).coef_.round(3).tolist()
[0.3]
"""

from analyst_client._ledger import Checkpoint, LedgerPosition
from analyst_client.accuracy import Accuracy, expected_accuracy
from analyst_client.assumptions import Assumptions
from analyst_client.client import CuratorClient
from analyst_client.columns import Column, Term
from analyst_client.curators import Curators, PurchasePlan
from analyst_client.errors import (
    AuthenticationError,
    BoundsWarning,
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
from analyst_client.estimators import (
    OLS,
    SSP,
    AdaSSP,
    BayesianRegression,
    EmpiricalBayes,
    LogisticRegression,
    Ridge,
    RidgePath,
    RobustPrivateRegression,
    ridge_path,
)
from analyst_client.inference.prior import Prior
from analyst_client.jobs import Job
from analyst_client.planning import AccuracyPlan, epsilon_for, rows_for
from analyst_client.power import PowerTable, power_table, sample_size_table
from analyst_client.rehearsal import rehearse
from analyst_client.release import Release
from analyst_client.twin import dummy_twin
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
    "Accuracy",
    "AccuracyPlan",
    "AdaSSP",
    "Amount",
    "Assumptions",
    "AuthenticationError",
    "BayesianRegression",
    "BoundsWarning",
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
    "LogisticRegression",
    "Noise",
    "Offer",
    "PermissionDeniedError",
    "PowerTable",
    "Prior",
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
    "RobustPrivateRegression",
    "ServiceError",
    "ServiceUnavailableError",
    "Term",
    "TransportError",
    "Verification",
    "dummy_twin",
    "epsilon_for",
    "expected_accuracy",
    "power_table",
    "rehearse",
    "ridge_path",
    "rows_for",
    "sample_size_table",
]
