"""Kernels of this kind whose sums are known: trees, flat histograms, moments, computed columns, and weights."""

from curator_service.datasets.engines.conformance import COLUMNS, read_known_sums
from curator_service.kinds.features import read_column, read_selection
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.marginals.marginals import Flat, Moments, Tree
from curator_service.kinds.marginals.schema import KIND
from curator_service.privacy.design import Column


def _columns(*columns: object) -> tuple[Column, ...]:
    return tuple(read_column(column, COLUMNS) for column in columns)


KERNELS = {
    "tree": MarginalsKernel((Tree(_columns("omitted", "decimals"), 4),)),
    "flat": MarginalsKernel((Flat(_columns("ties", "centred"), 7),)),
    "moments": MarginalsKernel((Moments(_columns("omitted", "flagged", "ties", "decimals")),)),
    "selected": MarginalsKernel(
        (Moments(_columns("centred", {"log": ["decimals"]})), Tree(_columns("flagged"), 2)),
        read_selection({"not": [{"less": ["ties", "centred"]}]}, None, COLUMNS),
    ),
    "weighted": MarginalsKernel(
        (Flat(_columns("decimals"), 5), Moments(_columns("omitted", "flagged", "ties")), Tree(_columns("ties"), 3)),
        read_selection({"missing": ["omitted"]}, {"absolute": ["centred"]}, COLUMNS),
    ),
    "weighted moments": MarginalsKernel(
        (Moments(_columns("flagged", "centred", {"multiply": ["ties", "centred"]})),),
        read_selection(None, {"minimum": [{"absolute": ["flagged"]}, 0.9]}, COLUMNS),
    ),
}
CONFORMANCE = read_known_sums(__file__, KIND, KERNELS)
"""What every engine must give."""
