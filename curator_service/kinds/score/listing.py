"""Listing of a ``score`` release: the release without its values."""

from functools import cached_property
from typing import Any

from curator_service.datasets.schemas import render_column
from curator_service.kinds.features import (
    list_derived,
    read_column,
    read_feature,
    read_selection,
    render_derived,
    state_selection,
)
from curator_service.kinds.listing import Listing
from curator_service.kinds.rendering import render_term
from curator_service.kinds.score.statistics import Statistic, output_of
from curator_service.privacy.design import Design, make_design
from curator_service.privacy.mechanism import Output
from curator_service.privacy.selection import Selection


class ScoreListing(Listing):
    """Listing of a release, or of a request for one: a design, its point, and its directions."""

    @cached_property
    def design(self) -> Design:
        """The terms, in order, and the target."""
        features = tuple(read_feature(value, self.declared) for value in self.request["features"])
        target = read_column(self.request["target"], self.declared)
        return make_design(features, (target,), intercept=bool(self.request["intercept"]))

    @cached_property
    def selection(self) -> Selection:
        """Rows that count, and their weights."""
        return read_selection(self.request.get("where"), self.request.get("weight"), self.declared)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every declared column that is read, in the manifest's order."""
        read = (*self.design.sources, *self.selection.columns)
        used = {name for column in read for name in column.reads}
        return tuple(name for name in self.declared if name in used)

    @property
    def count(self) -> int:
        """Number of directions."""
        return len(next(iter(self.request["directions"]["matrix"].values())))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Output of each statistic."""
        return tuple(output_of(Statistic(name), self.count) for name in self.request["statistics"])

    def describe(self) -> dict[str, Any]:
        """Return columns, terms and the target, in the order of the design."""
        design = self.design
        whole = {column.name: column for column in design.sources}
        return {
            "columns": [render_column(self.declared[name]) for name in self.columns],
            "terms": [render_term(term, whole) for term in design.terms],
            "target": render_term(design.targets[0], whole),
            **render_derived(list_derived((*design.sources, *self.selection.columns))),
        }

    @property
    def row_rule(self) -> list[Any]:
        """All that decides what a row contributes."""
        asked = [self.request[name] for name in ("loss", "target", "intercept", "coefficients", "directions")]
        features = sorted(feature.name for feature in self._features)
        return [self.kind, *asked, features, state_selection(self.selection)]

    @property
    def _features(self) -> list[Any]:
        return [read_feature(value, self.declared) for value in self.request["features"]]

    @property
    def entries(self) -> list[Any]:
        """Statistics, in whatever order."""
        return sorted(self.request["statistics"])
