"""The public names. `analyst_client` has all of them, and imports them when the first one is asked for."""

from analyst_client.admin import CuratorAdmin
from analyst_client.analyses.components import PrincipalComponents, principal_components
from analyst_client.analyses.correlation import correlations, partial_correlations
from analyst_client.analyses.describe import describe, table_one
from analyst_client.analyses.discriminants import LinearDiscriminants, linear_discriminants
from analyst_client.analyses.instruments import two_stage_least_squares
from analyst_client.analyses.mediation import mediation
from analyst_client.analyses.meta import meta_analysis
from analyst_client.analyses.paths import ElasticNetPath, enet_path, lasso_path
from analyst_client.analyses.roc import RocCurve, roc_curve
from analyst_client.analyses.standardized import standardized_coefficients
from analyst_client.analyses.survival import EventRates, SurvivalCurves, event_rates, kaplan_meier, log_rank_test
from analyst_client.analyses.table_results import Effect, Factor, TableTest
from analyst_client.analyses.tables import ContingencyTable
from analyst_client.analyses.ttest import ttest_ind
from analyst_client.client import CuratorClient
from analyst_client.curators import Curators, PurchasePlan
from analyst_client.errors import (
    AnswerSpaceError,
    AuthenticationError,
    BoundsWarning,
    BudgetExceededError,
    ConflictError,
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
    PermitExpiredError,
    PermitNeededError,
    ReceiptInvalidError,
    RequestFault,
    RequestInvalidError,
    ReservationEndedError,
    ReservationNotFoundError,
    ServiceError,
    ServiceUnavailableError,
    TokenExpiryWarning,
    TransportError,
    UselessRequestError,
)
from analyst_client.estimators import (
    OLS,
    SSP,
    AdaSSP,
    BayesianRegression,
    EmpiricalBayes,
    LogisticRegression,
    PoissonRegression,
    RefinedRegression,
    Ridge,
    RidgePath,
    RobustPrivateRegression,
    ridge_path,
)
from analyst_client.inference.contrasts import AnovaTable
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.prior import Prior
from analyst_client.kinds.counts.axes import Axis
from analyst_client.kinds.counts.quote import CountsQuote
from analyst_client.kinds.counts.release import CountsRelease
from analyst_client.kinds.counts.request import CountsRequest
from analyst_client.kinds.counts.table import Table
from analyst_client.kinds.gram.quote import Noise, Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.marginals.histogram import Histogram
from analyst_client.kinds.marginals.items import Flat, Moments, Tree
from analyst_client.kinds.marginals.quote import MarginalsQuote
from analyst_client.kinds.marginals.recentring import Recentring
from analyst_client.kinds.marginals.release import MarginalsRelease
from analyst_client.kinds.marginals.request import MarginalsRequest
from analyst_client.kinds.score.posted import ScoreNoise
from analyst_client.kinds.score.quote import ScoreQuote
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.ledger.checkpoints import Checkpoint, LedgerPosition
from analyst_client.ledger.verification import Verification
from analyst_client.planning.accuracy import Accuracy, expected_accuracy
from analyst_client.planning.accuracy_plan import AccuracyPlan, epsilon_for, rows_for
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.counts import price_for_error
from analyst_client.planning.dummy_data import dummy_twin
from analyst_client.planning.power import PowerTable, power_table, sample_size_table
from analyst_client.planning.refining import RefinementQuote
from analyst_client.planning.rehearsal import rehearse
from analyst_client.refinement.background import RefinementJob
from analyst_client.refinement.refinement import Refinement
from analyst_client.refinement.rules import GeneralizedRules, RefinementRules
from analyst_client.schema.accounts import Budget, Reservation
from analyst_client.schema.amounts import Amount, Cost
from analyst_client.schema.columns import Column, DerivedColumn, Term
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.identity import Identity
from analyst_client.schema.jobs import Job
from analyst_client.schema.permits import Permit, Proposal
from analyst_client.schema.quotes import Offer, ReleaseSummary
from analyst_client.schema.receipts import Receipt
from analyst_client.terms.formulas import Model
from analyst_client.terms.python import FormulaError

__all__ = [
    "OLS",
    "SSP",
    "Accuracy",
    "AccuracyPlan",
    "AdaSSP",
    "Amount",
    "AnovaTable",
    "AnswerSpaceError",
    "Assumptions",
    "AuthenticationError",
    "Axis",
    "BayesianRegression",
    "BoundsWarning",
    "Budget",
    "BudgetExceededError",
    "Checkpoint",
    "Column",
    "CombinedRows",
    "ConflictError",
    "ContingencyTable",
    "Cost",
    "CountsQuote",
    "CountsRelease",
    "CountsRequest",
    "CuratorAdmin",
    "CuratorClient",
    "CuratorError",
    "Curators",
    "Dataset",
    "DatasetClosedError",
    "DatasetNotFoundError",
    "DerivedColumn",
    "Effect",
    "ElasticNetPath",
    "EmpiricalBayes",
    "Estimate",
    "EstimateTable",
    "EstimationError",
    "EstimationWarning",
    "EventRates",
    "Factor",
    "Flat",
    "FormulaError",
    "GeneralizedRules",
    "Histogram",
    "Identity",
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
    "LinearDiscriminants",
    "LogisticRegression",
    "MarginalsQuote",
    "MarginalsRelease",
    "MarginalsRequest",
    "Model",
    "Moments",
    "Noise",
    "Offer",
    "PermissionDeniedError",
    "Permit",
    "PermitExpiredError",
    "PermitNeededError",
    "PoissonRegression",
    "PowerTable",
    "PrincipalComponents",
    "Prior",
    "Proposal",
    "PurchasePlan",
    "Quote",
    "Receipt",
    "ReceiptInvalidError",
    "Recentring",
    "RefinedRegression",
    "Refinement",
    "RefinementJob",
    "RefinementQuote",
    "RefinementRules",
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
    "RocCurve",
    "ScoreNoise",
    "ScoreQuote",
    "ScoreRelease",
    "ScoreRequest",
    "ServiceError",
    "ServiceUnavailableError",
    "SurvivalCurves",
    "Table",
    "TableTest",
    "Term",
    "TokenExpiryWarning",
    "TransportError",
    "Tree",
    "UselessRequestError",
    "Verification",
    "correlations",
    "describe",
    "dummy_twin",
    "enet_path",
    "epsilon_for",
    "event_rates",
    "expected_accuracy",
    "kaplan_meier",
    "lasso_path",
    "linear_discriminants",
    "log_rank_test",
    "mediation",
    "meta_analysis",
    "partial_correlations",
    "power_table",
    "price_for_error",
    "principal_components",
    "rehearse",
    "ridge_path",
    "roc_curve",
    "rows_for",
    "sample_size_table",
    "standardized_coefficients",
    "table_one",
    "ttest_ind",
    "two_stage_least_squares",
]
