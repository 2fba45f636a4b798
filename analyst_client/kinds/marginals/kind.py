"""The kind of release itself: trees of counts, flat histograms and moments of single columns."""

from analyst_client.kinds.base import OwnKind
from analyst_client.kinds.marginals import KIND

MARGINALS = OwnKind(KIND, "MarginalsRelease", "MarginalsQuote")
