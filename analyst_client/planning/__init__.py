"""Planning: accuracy, power and cost before anything is spent."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.planning.accuracy import Accuracy as Accuracy
    from analyst_client.planning.accuracy import expected_accuracy as expected_accuracy
    from analyst_client.planning.accuracy_plan import AccuracyPlan as AccuracyPlan
    from analyst_client.planning.accuracy_plan import epsilon_for as epsilon_for
    from analyst_client.planning.accuracy_plan import rows_for as rows_for
    from analyst_client.planning.assumptions import Assumptions as Assumptions
    from analyst_client.planning.counts import price_for_error as price_for_error
    from analyst_client.planning.dummy_data import dummy_twin as dummy_twin
    from analyst_client.planning.power import PowerTable as PowerTable
    from analyst_client.planning.power import power_table as power_table
    from analyst_client.planning.power import sample_size_table as sample_size_table
    from analyst_client.planning.refining import RefinementQuote as RefinementQuote
    from analyst_client.planning.rehearsal import rehearse as rehearse
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
