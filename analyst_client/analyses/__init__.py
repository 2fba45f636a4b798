"""Descriptions, tests and models of the moments or the cells of a stored release, at no further cost."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.analyses.components import PrincipalComponents as PrincipalComponents
    from analyst_client.analyses.components import principal_components as principal_components
    from analyst_client.analyses.correlation import correlations as correlations
    from analyst_client.analyses.correlation import partial_correlations as partial_correlations
    from analyst_client.analyses.descriptions import describe as describe
    from analyst_client.analyses.descriptions import table_one as table_one
    from analyst_client.analyses.discriminants import LinearDiscriminants as LinearDiscriminants
    from analyst_client.analyses.discriminants import linear_discriminants as linear_discriminants
    from analyst_client.analyses.indirect_effects import mediation as mediation
    from analyst_client.analyses.instruments import two_stage_least_squares as two_stage_least_squares
    from analyst_client.analyses.meta import meta_analysis as meta_analysis
    from analyst_client.analyses.paths import ElasticNetPath as ElasticNetPath
    from analyst_client.analyses.paths import enet_path as enet_path
    from analyst_client.analyses.paths import lasso_path as lasso_path
    from analyst_client.analyses.roc import RocCurve as RocCurve
    from analyst_client.analyses.roc import roc_curve as roc_curve
    from analyst_client.analyses.standardized import standardized_coefficients as standardized_coefficients
    from analyst_client.analyses.survival import EventRates as EventRates
    from analyst_client.analyses.survival import SurvivalCurves as SurvivalCurves
    from analyst_client.analyses.survival import event_rates as event_rates
    from analyst_client.analyses.survival import kaplan_meier as kaplan_meier
    from analyst_client.analyses.survival import log_rank_test as log_rank_test
    from analyst_client.analyses.table_results import Effect as Effect
    from analyst_client.analyses.table_results import Factor as Factor
    from analyst_client.analyses.table_results import TableTest as TableTest
    from analyst_client.analyses.tables import ContingencyTable as ContingencyTable
    from analyst_client.analyses.ttest import ttest_ind as ttest_ind
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
