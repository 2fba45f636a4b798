"""The kind of release itself: clipped gradients of a loss."""

from analyst_client.kinds.base import OwnKind
from analyst_client.kinds.score import KIND

SCORE = OwnKind(KIND, "ScoreRelease", "ScoreQuote")
