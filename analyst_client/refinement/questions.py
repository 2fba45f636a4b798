"""Questions that a plan asks, and how it reads the histograms of norms in their answers."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.schema.columns import Term, term_json
from analyst_client.schema.wire import Fields

BITS = 20
"""Of posted numbers: as many as matter, and few enough for a plan that is followed again to post the same."""
_SHARE_LEAST = 0.01


@dataclass(frozen=True)
class Question:
    """A request to be quoted, for nothing, or to be paid for.

    Attributes
    ----------
    request : Request
    is_quote : bool
    """

    request: Any
    is_quote: bool = False


class Coding(NamedTuple):
    """The coding of a model's columns, in the order of the request; a plan asks a quote for it."""

    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    feature_names: tuple[str, ...]

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read one that was saved."""
        return cls(fields.each("terms", Term.read), fields.each("targets", Term.read), fields.texts("features"))

    def to_json(self) -> dict[str, Any]:
        """Return it to be saved."""
        terms, targets = ([term_json(term) for term in listed] for listed in (self.terms, self.targets))
        return {"terms": terms, "targets": targets, "features": list(self.feature_names)}


def histogram_share(n: float, cost: float, noise: float, dear: float) -> float:
    """Return the share of a price at which a histogram has noise of a part of n rows; 0 where that is too dear."""
    share = 1.0 / (cost * (noise * n) ** 2)
    return max(share, _SHARE_LEAST) if share < dear else 0.0


def norm_exceeded_by(release: ScoreRelease, norm: float, allowed: float, sure: float = 0.0) -> float | None:
    """Return the least edge of a histogram of norms that no more rows exceed than are allowed; None without one.

    They do where they are more by `sure` deviations of the histogram's noise.
    """
    if release.norms is None:
        return None
    longer = np.cumsum(release.norms[::-1])[::-1][1:]  # than each of the edges
    longer = longer - sure * (release.noise.norms or 0.0) * np.sqrt(np.arange(len(longer), 0, -1))
    few = longer <= allowed
    return norm * float(release.norm_edges[int(np.argmax(few)) if few.any() else -1])
