"""Requests, quotes and releases: a folder for each kind, and how an answer is read by its kind."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.kinds.counts.axes import Axis as Axis
    from analyst_client.kinds.counts.quote import CountsQuote as CountsQuote
    from analyst_client.kinds.counts.release import CountsRelease as CountsRelease
    from analyst_client.kinds.counts.request import CountsRequest as CountsRequest
    from analyst_client.kinds.counts.table import Table as Table
    from analyst_client.kinds.gram.coding import Coded as Coded
    from analyst_client.kinds.gram.quote import Noise as Noise
    from analyst_client.kinds.gram.quote import Quote as Quote
    from analyst_client.kinds.gram.release import Release as Release
    from analyst_client.kinds.gram.rows import CombinedRows as CombinedRows
    from analyst_client.kinds.gram.statistics import NoisyStatistics as NoisyStatistics
    from analyst_client.kinds.marginals.histogram import Histogram as Histogram
    from analyst_client.kinds.marginals.items import Flat as Flat
    from analyst_client.kinds.marginals.items import Moments as Moments
    from analyst_client.kinds.marginals.items import Tree as Tree
    from analyst_client.kinds.marginals.quote import MarginalsQuote as MarginalsQuote
    from analyst_client.kinds.marginals.recentring import Recentring as Recentring
    from analyst_client.kinds.marginals.release import MarginalsRelease as MarginalsRelease
    from analyst_client.kinds.marginals.request import MarginalsRequest as MarginalsRequest
    from analyst_client.kinds.published import PublishedAnswer as PublishedAnswer
    from analyst_client.kinds.request import PricedRequest as PricedRequest
    from analyst_client.kinds.score.posted import ScoreNoise as ScoreNoise
    from analyst_client.kinds.score.quote import ScoreQuote as ScoreQuote
    from analyst_client.kinds.score.release import ScoreRelease as ScoreRelease
    from analyst_client.kinds.score.request import ScoreRequest as ScoreRequest
    from analyst_client.schema.quotes import AnyQuote as AnyQuote
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
