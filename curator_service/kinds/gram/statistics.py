"""Statistics of a ``gram`` release."""

from enum import StrEnum

from curator_service.privacy.design import Design
from curator_service.privacy.mechanism import Output, Packing


class Statistic(StrEnum):
    """The statistics, in the order in which they are drawn and sent."""

    XTX = "xtx"
    XTY = "xty"
    YTY = "yty"
    LAMBDA_MIN = "lambda_min"


def output_of(statistic: Statistic, design: Design) -> Output:
    """Return what leaves of a statistic of a design of D terms and T targets."""
    terms, targets = len(design.terms), len(design.targets)
    match statistic:
        case Statistic.XTX:
            return Output(statistic, (terms, terms), Packing.UPPER)
        case Statistic.XTY:
            return Output(statistic, (terms, targets))
        case Statistic.YTY:
            return Output(statistic, (targets,))
        case Statistic.LAMBDA_MIN:
            return Output(statistic, ())
