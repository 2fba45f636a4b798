"""What a ``gram`` release is without its values."""

from functools import cached_property
from typing import Any

from curator_service.datasets.schemas import render_column
from curator_service.kinds.gram.statistics import Statistic, output_of
from curator_service.kinds.listing import Listing
from curator_service.privacy.design import Column, ColumnType, Design, Term, TermKind, make_design, omits_rows
from curator_service.privacy.mechanism import Output
from curator_service.privacy.row_maps import make_row_map


class GramListing(Listing):
    """What a release is, or what a request asks it to be: columns, their roles, and the map of their rows."""

    @cached_property
    def features(self) -> frozenset[str]:
        """The columns whose terms are those of XᵀX."""
        return frozenset(self.request["features"])

    @cached_property
    def targets(self) -> frozenset[str]:
        """The columns of Xᵀy."""
        return frozenset(self.request["targets"])

    @cached_property
    def statistics(self) -> frozenset[Statistic]:
        """What is released."""
        return frozenset(Statistic(name) for name in self.request["statistics"])

    @cached_property
    def omitting(self) -> frozenset[str]:
        """Columns whose missing value takes the whole row out."""
        return frozenset(
            name
            for names, as_target in ((self.features, False), (self.targets, True))
            for name in names
            if omits_rows(self.declared[name], as_target=as_target)
        )

    @property
    def intercept(self) -> bool:
        """Whether there is a constant, beside which each category leaves out its first level."""
        return bool(self.request["intercept"])

    def has_terms_of(self, other: "GramListing") -> bool:
        """Tell whether every term of another one is among these."""
        return other.features <= self.features and self._is_coded_for(other)

    def covers(self, other: "GramListing") -> bool:
        """Tell whether it holds every column of another one, in whatever role, and its constant and levels."""
        return other.features | other.targets <= self.features | self.targets and self._is_coded_for(other)

    def _is_coded_for(self, other: "GramListing") -> bool:
        if self.intercept == other.intercept:
            return True
        return self.intercept and not any(self.declared[name].type is ColumnType.CATEGORICAL for name in other.features)

    def has_the_terms_of(self, other: "GramListing") -> bool:
        """Tell whether the terms are the same."""
        return self.features == other.features and self.intercept == other.intercept

    @property
    def design(self) -> Design:
        """The terms, in order."""
        targets = tuple(self.declared[name] for name in self.request["targets"])
        return make_design(self.declared_features, targets, intercept=self.intercept)

    @property
    def declared_features(self) -> tuple[Column, ...]:
        """The declarations of its features, in order."""
        return tuple(self.declared[name] for name in self.request["features"])

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, features first."""
        return (*self.request["features"], *self.request["targets"])

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What leaves of each statistic."""
        return tuple(output_of(Statistic(name), self.design) for name in self.request["statistics"])

    def describe(self) -> dict[str, Any]:
        """Return columns and terms; they stand in the request's own order, which was not always the manifest's."""
        features, design = self.declared_features, self.design
        return {
            "features": [render_column(column) for column in features],
            "terms": [_render_term(term, features) for term in design.terms],
            "targets": [_render_term(term, ()) for term in design.targets],
        }

    @property
    def row_rule(self) -> list[Any]:
        """What decides how much each row counts for, and what its coded values become.

        An entry of any statistic is a sum over rows of the product of two mapped values. A mapped value depends on its
        own coded value, on whether the row counts, and on the row's weight. Whether it counts is decided by the columns
        that omit rows, as a set. The weight is 1 under the box, and follows from the squared norm of the terms
        otherwise: an exact sum of integers, so the same in any order of them. Targets have no part in it, under any
        map. So two requests of one shelf have equal integers wherever they have the same two columns, whatever else
        either holds.
        """
        rows = self.request["rows"]
        shaping = [sorted(self.request["features"]), self.request["intercept"]]
        return [rows, shaping if make_row_map(rows).weighs_terms else [], sorted(self.omitting)]

    @property
    def entries(self) -> list[Any]:
        """Columns by role, the constant, and statistics, in whatever order."""
        columns = [sorted(self.request["features"]), sorted(self.request["targets"]), self.request["intercept"]]
        return [*columns, sorted(self.request["statistics"])]


def _render_term(term: Term, features: tuple[Column, ...]) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": term.name, "kind": term.kind}
    if term.column is not None:
        rendered["column"] = term.column
    if term.kind is TermKind.NUMERIC:
        rendered |= {"center": term.center, "scale": term.scale, "unit": term.unit}
    if term.level is not None:
        rendered["level"] = next(c for c in features if c.name == term.column).levels[term.level]
    return rendered
