"""Fits that are refined: several releases of one curator as measurements of one pair XᵀX, Xᵀy."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.refinement.background import RefinementJob as RefinementJob
    from analyst_client.refinement.refinement import Refinement as Refinement
    from analyst_client.refinement.rules import GeneralizedRules as GeneralizedRules
    from analyst_client.refinement.rules import RefinementRules as RefinementRules
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
