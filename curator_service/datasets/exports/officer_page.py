"""A page for the data-protection officer who answers a person: every figure with where it comes from."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from jinja2 import Environment

from curator_service.datasets.access import Access, Answer, Exposure
from curator_service.datasets.repository import Dataset
from curator_service.kit.rendering import make_environment
from curator_service.ledger.schemas import describe_spent
from curator_service.privacy.accountant import Accountant, Amount
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import UNITS_PER_ONE
from curator_service.privacy.design import MissingRule
from curator_service.privacy.guessing import EVEN, Limits, best_guess, number_up, percent_up

_PRIORS = (EVEN, Fraction(1, 10), Fraction(1, 100))
_FALSE_ALARMS = 0.05
_PROTECTED = {
    Adjacency.ADD_REMOVE: "whether one person's data are there or not; how many people there are is private",
    Adjacency.REPLACE_ONE: "whether one person's data are theirs or another's; how many people there are is public",
}
_FORMULAS = {
    "gdp": "µ² is the sum of the charges (µ-Gaussian differential privacy); best guess Φ(µ/2), for the best test of "
    "N(0, 1) against N(µ, 1) has both errors Φ(−µ/2). Dong, Roth and Su, JRSS B 84 (2022)",
    "zcdp": "ρ is the sum of the charges (zero-concentrated differential privacy); best guess (1 + δ(0; ρ))/2, with "
    "δ(ε; ρ) of Canonne, Kamath and Steinke, NeurIPS 2020, corollary 13: the tightest conversion that this curator "
    "has, and above the truth",
    "pure": "ε is the sum of the charges (pure differential privacy); best guess e^ε/(1 + e^ε), that of randomised "
    "response. Kairouz, Oh and Viswanath, ICML 2015",
}
_MISSING = {
    MissingRule.COMPLETE: "never missing",
    MissingRule.OMIT: "rows without it are left out of answers that ask for it",
    MissingRule.MIDPOINT: "a missing value counts as the middle of the range",
    MissingRule.INDICATOR: "that it is missing is counted as a value of its own",
}


class Count(NamedTuple):
    """Numbers of answers of a sort, their first and last dates, and their entries in the ledger."""

    charged: int
    free: int
    first: str
    last: str
    entries: str


@cache
def _environment() -> Environment:
    made = make_environment(__package__)
    made.globals |= {"PROTECTED": _PROTECTED, "FORMULAS": _FORMULAS, "MISSING": _MISSING}
    made.globals |= {"FALSE_ALARMS": _FALSE_ALARMS, "describe_spent": describe_spent, "number_up": number_up}
    made.globals |= {"count_by_kind": _count_by_kind, "count_by_dataset": _count_by_dataset, "bound": _bound}
    made.globals |= {"guesses": _guesses, "amount": _account, "odds": _odds}
    return made


def render_officer_page(access: Access, records: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    records : mapping of str to mapping
        What the record of processing says of each dataset that holds the person, by name.
    titles : mapping of str to str
        Kinds of release in words.
    """
    return _environment().get_template("officer.html").render(access=access, records=records, titles=titles)


def _count_by_kind(access: Access, dataset: Dataset) -> list[tuple[str, Count]]:
    answers = [
        answer
        for exposure in access.exposures
        for answer in exposure.answers
        if exposure.population.name == dataset.population and answer.dataset == dataset.name
    ]
    return [(kind, count) for (kind,), count in _count(answers, lambda answer: (answer.kind,))]


def _count_by_dataset(exposure: Exposure) -> list[tuple[tuple[str, bool], Count]]:
    """Count the answers of each dataset: those that concern the person, then the others."""
    found = _count(exposure.answers, lambda answer: (answer.dataset, not answer.concerns))
    return [((dataset, not other), count) for (dataset, other), count in found]


def _count(answers: Sequence[Answer], key: Callable[[Answer], tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], Count]]:
    found = []
    for name, of_name in groupby(sorted(answers, key=lambda answer: (*key(answer), answer.sequence)), key):
        group = list(of_name)
        charged = sum(not answer.is_free for answer in group)
        entries = write_ranges([answer.sequence for answer in group])
        found.append((name, Count(charged, len(group) - charged, group[0].time, group[-1].time, entries)))
    return found


def write_ranges(numbers: Sequence[int]) -> str:
    """Write increasing whole numbers, those that follow each other as a range.

    Examples
    --------
    >>> write_ranges([3, 4, 5, 9])
    '3–5, 9'
    """
    runs = [
        [number for _, number in run] for _, run in groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    ]
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _bound(bound: float) -> str:
    return str(bound).removesuffix(".0")


def _guesses(limits: Limits) -> list[str]:
    return [f"{percent_up(best_guess(limits, prior), 1)}%" for prior in _PRIORS]


def _odds(most: Amount) -> str:
    odds = math.exp(most.epsilon) + most.delta / _FALSE_ALARMS if most.epsilon < 700 else math.inf
    return f"{number_up(odds)} times what they were" if odds < math.inf else "without a bound"


def _account(accountant: Accountant, units: int) -> str:
    """Return an amount in the account's own number, exactly, and µ beside µ²."""
    whole, rest = divmod(units, UNITS_PER_ONE)
    exactly = f"{whole}.{rest:012}".rstrip("0").rstrip(".")
    beside = f" (µ = {number_up(math.sqrt(units / UNITS_PER_ONE))})" if accountant.notion == "mu" else ""
    return f"{accountant.symbol} = {exactly}{beside}"
