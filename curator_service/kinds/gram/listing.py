"""Listing of a ``gram`` release: the release without its values."""

from functools import cached_property
from typing import Any

from curator_service.datasets.schemas import render_column
from curator_service.kinds.combining import read_combinations
from curator_service.kinds.features import (
    list_derived,
    read_column,
    read_feature,
    read_selection,
    render_derived,
    state_selection,
)
from curator_service.kinds.gram.statistics import Statistic, output_of
from curator_service.kinds.listing import Listing
from curator_service.kinds.rendering import render_term
from curator_service.privacy.design import (
    Column,
    Design,
    Feature,
    columns_of,
    combine_terms,
    feature_terms,
    make_design,
)
from curator_service.privacy.mechanism import Output
from curator_service.privacy.row_maps import make_row_map
from curator_service.privacy.selection import Selection


class GramListing(Listing):
    """Listing of a release, or of a request for one: columns, their roles, and the map of their rows."""

    @cached_property
    def declared_features(self) -> tuple[Feature, ...]:
        """Its features, in order."""
        return tuple(read_feature(value, self.declared) for value in self.request["features"])

    @cached_property
    def declared_targets(self) -> tuple[Column, ...]:
        """Its targets, in order."""
        return tuple(read_column(value, self.declared) for value in self.request["targets"])

    @cached_property
    def selection(self) -> Selection:
        """Rows that count, and their weights."""
        return read_selection(self.request.get("where"), self.request.get("weight"), self.declared)

    @property
    def selection_texts(self) -> tuple[str, str]:
        """Rows that count, and their weights, in words."""
        where, weight = self.selection.where, self.selection.weight
        return "all" if where is None else f"those with {where.name}", "1" if weight is None else weight.name

    @cached_property
    def features(self) -> frozenset[str]:
        """Names of the features with terms in XᵀX."""
        return frozenset(feature.name for feature in self.declared_features)

    @cached_property
    def targets(self) -> frozenset[str]:
        """The columns of Xᵀy."""
        return frozenset(target.name for target in self.declared_targets)

    @cached_property
    def statistics(self) -> frozenset[Statistic]:
        """Statistics of the release."""
        return frozenset(Statistic(name) for name in self.request["statistics"])

    @property
    def omitting(self) -> frozenset[str]:
        """Columns whose missing value takes the whole row out."""
        return self.design.omitting

    @property
    def intercept(self) -> bool:
        """True if there is a constant: each category then leaves out its first level."""
        return bool(self.request["intercept"])

    def has_terms_of(self, other: "GramListing") -> bool:
        """Tell whether every term of another one is among these."""
        return other.features <= self.features and self._is_coded_for(other)

    def covers(self, other: "GramListing") -> bool:
        """Tell whether it holds every column of another one, in any role, and its constant and levels."""
        return other.features | other.targets <= self.features | self.targets and self._is_coded_for(other)

    def _is_coded_for(self, other: "GramListing") -> bool:
        if self.intercept == other.intercept:
            return True
        return self.intercept and not any(map(_leaves_out, other.declared_features))

    def has_the_terms_of(self, other: "GramListing") -> bool:
        """Tell whether the terms are the same."""
        return self.features == other.features and self.intercept == other.intercept

    @cached_property
    def design(self) -> Design:
        """The terms, in order."""
        design = make_design(self.declared_features, self.declared_targets, intercept=self.intercept)
        rows = self.request["rows"]
        if rows["map"] != "linear":
            return design
        return combine_terms(design, read_combinations(rows["matrix"], rows["bits"], design, "/rows/matrix"))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every declared column that it reads, in the order of features, targets, condition and weight."""
        read = (
            *(c for f in self.declared_features for c in columns_of(f)),
            *self.declared_targets,
            *self.selection.columns,
        )
        return tuple(dict.fromkeys(name for column in read for name in column.reads))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Output of each statistic."""
        return tuple(output_of(Statistic(name), self.design) for name in self.request["statistics"])

    def describe(self) -> dict[str, Any]:
        """Return columns and terms; they stand in the request's own order, which was not always the manifest's."""
        design = self.design
        whole = {column.name: column for column in design.sources}
        columns = tuple(feature for feature in self.declared_features if isinstance(feature, Column))
        derived = list_derived((*design.sources, *self.selection.columns))
        computed = derived or len(columns) < len(self.declared_features)
        read = {"columns": [render_column(self.declared[name]) for name in self.columns]} if computed else {}
        combined = [render_term(term, whole) for term in design.combined]
        return {
            "features": [render_column(column) for column in columns],
            "terms": [render_term(term, whole) for term in design.terms],
            **({"combined": combined} if combined else {}),
            "targets": [render_term(term, whole) for term in design.targets],
            **read,
            **render_derived(derived),
        }

    @property
    def row_rule(self) -> list[Any]:
        """Rule for the weight of each row, and for its coded values.

        An entry of any statistic is a sum over rows of the product of two mapped values. A mapped value depends on its
        own coded value, on whether the row counts, and on the row's weight. Whether it counts is decided by the columns
        that omit rows, as a set. The weight is 1 under the box, and follows from the squared norm of the terms
        otherwise: an exact sum of integers, so the same in any order of them. Targets have no part in it, under any
        map. So two requests of one shelf have equal integers wherever they have the same two columns, whatever else
        either holds.
        """
        rows = self.request["rows"]
        shaping = [sorted(self.features), self.request["intercept"]]
        rule = [rows, shaping if make_row_map(rows).weighs_terms else [], sorted(self.omitting)]
        return [*rule, state_selection(self.selection)] if self.selection else rule

    @property
    def entries(self) -> list[Any]:
        """Columns by role, the constant, and statistics, in whatever order."""
        columns = [sorted(self.features), sorted(self.targets), self.request["intercept"]]
        return [*columns, sorted(self.request["statistics"])]


def _leaves_out(feature: Feature) -> bool:
    """Tell whether a feature leaves out a term beside a constant: a category its first level, a spline a function."""
    return feature_terms(feature, drop_first_level=True) != feature_terms(feature, drop_first_level=False)
