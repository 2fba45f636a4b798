"""Local privacy: people perturb their own record before it leaves them, and nobody is trusted."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.local.comparison import QueryComparison as QueryComparison
    from analyst_client.local.comparison import compare_with_central as compare_with_central
    from analyst_client.local.estimates import answer_linear_queries as answer_linear_queries
    from analyst_client.local.estimates import contingency_table as contingency_table
    from analyst_client.local.estimates import estimate_means as estimate_means
    from analyst_client.local.estimates import estimate_shares as estimate_shares
    from analyst_client.local.participant import Participant as Participant
    from analyst_client.local.questions import Question as Question
    from analyst_client.local.questions import RandomizedResponse as RandomizedResponse
    from analyst_client.local.questions import UnaryEncoding as UnaryEncoding
    from analyst_client.local.regression import GradientDescent as GradientDescent
    from analyst_client.local.regression import linear_regression as linear_regression
    from analyst_client.local.reports import Reports as Reports
    from analyst_client.local.reports import read_reports as read_reports
    from analyst_client.local.surveys import Survey as Survey
    from analyst_client.local.surveys import find_survey as find_survey
    from analyst_client.local.surveys import give_report as give_report
    from analyst_client.local.surveys import survey_terms as survey_terms
    from analyst_client.local.vectors import GradientSampler as GradientSampler
    from analyst_client.local.vectors import LInfinitySampler as LInfinitySampler
    from analyst_client.local.vectors import MomentSampler as MomentSampler
    from analyst_client.local.vectors import PiecewiseMechanism as PiecewiseMechanism
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
