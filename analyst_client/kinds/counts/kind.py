"""The kind of release itself: noisy joint histograms."""

from analyst_client.kinds.base import OwnKind
from analyst_client.kinds.counts import KIND

COUNTS = OwnKind(KIND, "CountsRelease", "CountsQuote")
