"""Questions that a plan asks, and how it reads the histograms of norms in their answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from analyst_client.kinds.score.release import ScoreRelease

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


def histogram_share(n: float, cost: float, noise: float, dear: float) -> float:
    """Return the share of a price at which a histogram has noise of a part of n rows; 0 where that is too dear."""
    share = 1.0 / (cost * (noise * n) ** 2)
    return max(share, _SHARE_LEAST) if share < dear else 0.0


def norm_exceeded_by(release: ScoreRelease, norm: float, allowed: float) -> float | None:
    """Return the least edge of a histogram of norms that no more rows exceed than are allowed; None without one."""
    if release.norms is None:
        return None
    longer = np.cumsum(release.norms[::-1])[::-1][1:] <= allowed  # than each of the edges
    return norm * float(release.norm_edges[int(np.argmax(longer)) if longer.any() else -1])
