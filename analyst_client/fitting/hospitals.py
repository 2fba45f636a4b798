"""One model of several hospitals: one way for all of them, by public numbers, and at each its own price."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import CuratorError, UselessRequestError
from analyst_client.estimators.base import Fit
from analyst_client.estimators.empirical_bayes import EmpiricalBayes
from analyst_client.fitting.buying import buy_choice, check_yes, read_question
from analyst_client.fitting.choice import Choice, rank
from analyst_client.fitting.question import FitOptions, Question
from analyst_client.fitting.ways import (
    Way,
    find_refined,
    find_released,
    pure_options,
    refining_options,
    releasing_options,
)
from analyst_client.inference.combined import common_terms
from analyst_client.kinds.gram.request import Asked
from analyst_client.planning.refining import FITS
from analyst_client.refinement.holding import recurs
from analyst_client.refinement.together import Named


class Buyers(Protocol):
    """What a choice asks of `Curators`."""

    @property
    def clients(self) -> Any: ...  # noqa: D102 -- see `Curators`

    @property
    def refine(self) -> Any: ...  # noqa: D102 -- see `Curators`

    @property
    def plan(self) -> Any: ...  # noqa: D102 -- see `Curators`


def fit_hospitals(
    curators: Buyers,
    data: Mapping[str, str],
    asked: Asked,
    options: FitOptions,
    price: Mapping[str, Any],
    named: Named,
    *,
    max_epsilon: float | None,
    yes: bool,
    even_so: bool,
    progress: bool,
) -> Fit:
    """Choose the way, confirm it, buy it at each hospital and fit; see `Curators.fit`."""
    check_yes(yes)
    if all(price.get(unit) is None for unit in ("epsilon", "mu", "rho")):
        raise ValueError(
            "state a price, which each hospital charges: epsilon=1.0; or epsilon='left' for all that is left"
        )
    questions, families = {}, {}
    for name, own in data.items():
        with named(name):
            questions[name] = read_question(curators.clients[name], own, asked, options, price, None, {})
            families[name], why = questions[name].family
    family, *others = dict.fromkeys(families.values())
    if others:
        said = ", ".join(f"{one} at {name}" for name, one in families.items())
        raise ValueError(f"the target is declared differently: {said}. Say family=")
    common_terms([question.quote.terms for question in questions.values()])
    ways, refused = _find_ways(curators, questions, named)
    places = list(questions.values())
    found = Choice(
        places[0].text,
        ", ".join(f"{question.data} at {name}" for name, question in questions.items()),
        f"{family}, {why}",
        sum(question.rows for question in places),
        tuple(ways),
        tuple(refused),
    )
    return buy_choice(rank(found, even_so=even_so), max_epsilon=max_epsilon, yes=yes, progress=progress)


def _find_ways(curators: Buyers, questions: Mapping[str, Question], named: Named) -> tuple[list[Way], list[str]]:
    """Return the ways that all hospitals have, and reasons for which others are none."""
    datasets, first = {name: question.data for name, question in questions.items()}, next(iter(questions.values()))
    data: Any = datasets
    if len(set(datasets.values())) == 1 and len(datasets) == len(curators.clients):  # a name alone asks all
        data = first.data
    family = first.family[0]

    def refine(progress: bool) -> Fit:
        each = {name: refining_options(question) for name, question in questions.items()}
        return FITS[family]().fit(curators.refine(data, first.asked, each=each, even_so=True, progress=progress))

    def release(_: bool) -> Fit:
        each = {name: releasing_options(question) for name, question in questions.items()}
        return EmpiricalBayes().fit(curators.plan(data, first.asked, each=each).buy(even_so=True))

    def call(method: str, *, refined: bool) -> str:
        more = {name: {} if refined else pure_options(question) for name, question in questions.items()}
        written = {name: question.write_arguments(more[name], refined=refined) for name, question in questions.items()}
        return f"curators.{method}({', '.join([repr(data), *_write_each(written)])})"

    offered: list[tuple[str, Callable[[Question], Iterator[Way]], str, Callable[[bool], Fit]]] = [
        ("a refinement", find_refined, f"{FITS[family].__name__}().fit({call('refine', refined=True)})", refine)
    ]
    if family == "gaussian":
        offered.append(
            ("one release", find_released, f"EmpiricalBayes().fit({call('plan', refined=False)}.buy())", release)
        )
    ways, refused = [], []
    for kind, find, written, buy in offered:
        found = {}
        try:
            for name, question in questions.items():
                with named(name):
                    (found[name],) = find(question)
        except UselessRequestError:
            raise
        except CuratorError as error:  # which names its place
            if not recurs(error):
                raise  # it may be the way that is paid already
            refused.append(f"{kind} at each hospital: {error}")
            continue
        except ValueError as error:
            refused.append(f"{kind} at each hospital: at {name}: {error}")
            continue
        ways.append(_together(f"{kind} at each hospital", written, found, buy))
    return ways, refused


def _together(name: str, call: str, places: Mapping[str, Way], buy: Callable[[bool], Fit]) -> Way:
    """Return the way of all hospitals: their information adds up."""
    ways = list(places.values())
    costs = [way.cost for way in ways if way.cost is not None]
    return Way(
        name,
        call,
        max(costs, key=lambda cost: cost.epsilon, default=None),
        all(way.affordable for way in ways),
        _add([way.half_lengths for way in ways]),
        _add([way.without_privacy for way in ways]),
        math.fsum(way.duration_s for way in ways),
        all(way.begun for way in ways),
        tuple(f"at {place}: {reason}" for place, way in places.items() for reason in way.useless),
        buy,
        places,
    )


def _add(lengths: list[FloatArray]) -> FloatArray:
    with np.errstate(divide="ignore"):
        whole: FloatArray = 1.0 / np.sqrt(np.sum([1.0 / length**2 for length in lengths], axis=0))
    return whole


def _write_each(written: Mapping[str, list[str]]) -> list[str]:
    """Return arguments that are the same everywhere, and those that differ in ``each``."""
    (listed, *_), *_ = written.values()
    common = [one for one in next(iter(written.values()))[1:] if all(one in others for others in written.values())]
    each = []
    for name, arguments in written.items():
        own = [one.partition("=") for one in arguments[1:] if one not in common]
        if own:
            each.append(f"{name!r}: {{{', '.join(f'{key!r}: {value}' for key, _, value in own)}}}")
    return [listed, *common, *([f"each={{{', '.join(each)}}}"] if each else [])]
