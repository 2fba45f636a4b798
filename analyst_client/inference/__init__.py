"""Uncertainty that includes the privacy noise: what a release says of the coefficients, and how surely."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.inference.contrasts import AnovaTable as AnovaTable
    from analyst_client.inference.estimates import Estimate as Estimate
    from analyst_client.inference.estimates import EstimateTable as EstimateTable
    from analyst_client.inference.prior import Prior as Prior
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
