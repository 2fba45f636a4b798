"""The explicit ways to a fit, each with what it should tell by public numbers, what it costs and how it is bought.

What is expected is told of made-up rows: normal columns that fill a fourth of their bounds to each side, of correlation
0.2, of which half of the target is explained. No released number takes part: of what is stored its terms, its scales
and its price do.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import CuratorError, UselessRequestError
from analyst_client.estimators.base import Fit
from analyst_client.estimators.empirical_bayes import EmpiricalBayes
from analyst_client.estimators.logistic import LogisticRegression
from analyst_client.fitting.question import Question
from analyst_client.kinds.gram import KIND as GRAM
from analyst_client.kinds.gram.coding import Coded
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.score import KIND as SCORE
from analyst_client.planning.accuracy_plan import STRENGTH_MAX
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.expectation import Expectation
from analyst_client.planning.prices import PriceScale
from analyst_client.planning.refining import FITS, quote_refinement
from analyst_client.planning.useless import NORMAL
from analyst_client.refinement.buying import check_space
from analyst_client.refinement.holding import recurs
from analyst_client.refinement.practice import CORRELATION, EXPLAINED, REACH
from analyst_client.refinement.progress import Progress
from analyst_client.schema.amounts import Cost
from analyst_client.schema.columns import stored_columns


def buys_nothing(_: bool) -> Fit:
    """Raise `NotImplementedError`: what a way is where it is a record."""
    raise NotImplementedError("this is the record of a choice: its call does the same")


@dataclass(frozen=True, eq=False)
class Way:
    """An explicit way to a fit.

    Attributes
    ----------
    name : str
    call : str
        Python that does the same.
    cost : Cost or None
        None where nothing is charged.
    affordable : bool
    half_lengths, without_privacy : ndarray of shape (D',)
        Half of a 95 % interval for a change by one standard deviation of each term beside the constant: in standard
        deviations of the target, or on the scale of the link. Infinite without ends.
    duration_s : float
        Public times together.
    begun : bool
        Whether it was paid before, or begun.
    useless : tuple of str
        Reasons for which it would tell nothing, by public numbers.
    buy : callable
        Charge, and fit; its argument says whether to show progress.
    places : mapping of str to Way
        Of several hospitals: the way at each, by the curator's name.
    """

    name: str
    call: str
    cost: Cost | None
    affordable: bool
    half_lengths: FloatArray
    without_privacy: FloatArray
    duration_s: float
    begun: bool = False
    useless: tuple[str, ...] = ()
    buy: Callable[[bool], Fit] = field(default=buys_nothing, repr=False)
    places: "Mapping[str, Way]" = field(default_factory=dict)

    @property
    def expected(self) -> float:
        """Length of intervals over that without privacy, the median over slopes; infinite without ends."""
        return _median(self.half_lengths / self.without_privacy)

    @property
    def half_length(self) -> float:
        """The median of half lengths."""
        return _median(self.half_lengths)

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Place among ways that are paid: what tells something, what can be paid, what tells most."""
        return bool(self.useless), not self.affordable, self.expected


def find_ways(question: Question) -> tuple[list[Way], list[str]]:
    """Return the ways that there are, and reasons for which others are none."""
    ways: list[Way] = []
    refused: list[str] = []
    for name, find in (("a refinement", find_refined), ("one release", find_released), ("a stored release", _stored)):
        try:
            ways += find(question)
        except UselessRequestError:
            raise
        except (CuratorError, ValueError) as error:
            if not recurs(error):
                raise  # it may be the way that is paid already
            refused.append(f"{name}: {error}")
    return ways, refused


def find_refined(question: Question) -> Iterator[Way]:
    """Yield the way by a refinement. Raise `ValueError` where there is none."""
    family, _ = question.family
    if question.declared.accountant == "pure":
        raise ValueError("it is of Gaussian noise, and this account counts in pure ε")
    if missing := {GRAM, SCORE} - set(question.declared.kinds):
        raise ValueError(f"it takes {' and '.join(sorted(missing))}, which this dataset does not offer")
    options = refining_options(question)
    refining = question.client._read_refinement(question.data, question.asked, options)
    quoted = quote_refinement(refining)
    begun = quoted.steps[0].is_free
    recalled = None
    if begun:
        with suppress(ValueError):  # of released numbers, which decide nothing here: the purchase says it
            recalled = refining.recall()

    def buy(show: bool) -> Fit:
        progress = Progress(quoted.target, show=show)

        def before_paying() -> None:  # the quote has practised the steps
            progress.expect(quoted.steps)
            check_space(quoted.steps[progress.step - 1 :])

        return FITS[family]().fit(recalled or refining.run(progress, before_paying))

    call = f"{FITS[family].__name__}().fit({question.write_call('refine', {}, refined=True)})"
    yield Way(
        f"a refinement, {len(quoted.steps)} steps",
        call,
        None if recalled else quoted.cost,
        recalled is not None or quoted.affordable or _is_held(question, quoted.cost),
        quoted.half_lengths,
        quoted.without_privacy,
        quoted.duration_s,
        begun,
        quoted.useless,
        buy,
    )


def _is_held(question: Question, cost: Cost) -> bool:
    """Return whether a reservation of this price is open, as an interrupted call leaves it: the same call finds it."""
    client = question.client
    held = (client.reservation(one.id) for one in client.reservations() if one.dataset == question.data)
    return any(math.isclose(one.reserved.units or 0, cost.units or 0, rel_tol=1e-9) for one in held)  # noise is rounded


def find_released(question: Question) -> Iterator[Way]:
    """Yield the way by one release. Raise `ValueError` where there is none."""
    family, _ = question.family
    if family == "poisson":
        raise ValueError("it tells nothing of counts on the scale of their logarithm")
    if question.options.get("offset") is not None:
        raise ValueError("an offset is of counts")
    if family == "binomial" and any(target.kind != "boolean" for target in question.quote.targets):
        raise ValueError("a binomial model is of a boolean, or of a condition")
    pure, options = pure_options(question), releasing_options(question)
    quoted = question.client.quote(question.data, question.asked, **options)
    estimator = EmpiricalBayes if family == "gaussian" else LogisticRegression

    free = quoted.stored_release is not None or quoted.derivable_from is not None
    limit: Any = {"max_epsilon": 0.0} if free else {}  # nobody said yes to a price

    def buy(_: bool) -> Fit:
        release = question.client.release(question.data, question.asked, even_so=True, **limit, **options)
        return estimator().fit(release)

    half, plain = _expect(question, quoted) if family == "gaussian" else (np.array([math.inf]), np.ones(1))
    yield Way(
        "one release" if family == "gaussian" else "one release, points alone",
        f"{estimator.__name__}().fit({question.write_call('release', pure)})",
        None if free else quoted.cost,
        free or quoted.affordable,
        half,
        plain,
        quoted.duration_s,
        free,
        quoted.useless,
        buy,
    )


def refining_options(question: Question) -> Any:
    """Return the options of `CuratorClient.refine` that a question amounts to."""
    named = {name: question.options.get(name) for name in ("offset", "expected_rows", "project")}
    return question.model | named | {"family": question.family[0]} | dict(question.price)


def pure_options(question: Question) -> dict[str, str]:
    """Return what a release says where the account counts in pure ε."""
    return {"mechanism": "laplace", "rows": "box"} if question.declared.accountant == "pure" else {}


def releasing_options(question: Question) -> Any:
    """Return the options of `CuratorClient.release` that a question amounts to."""
    project = {"project": question.options.get("project")}
    return question.model | pure_options(question) | project | dict(question.price)


def _stored(question: Question) -> Iterator[Way]:
    """Yield the ways by stored releases that hold the model: they cost nothing."""
    whole = question.quote
    if question.family[0] != "gaussian" or len(whole.targets) != 1:
        return
    wanted = [whole.expressions[name] for name in whole.feature_names]
    target = whole.expressions[whole.targets[0].name]
    known = [whole.stored_release, whole.derivable_from, *(offer.release_id for offer in whole.offers)]
    for name in dict.fromkeys(filter(None, known)):
        release = question.client.fetch_release(name)
        if not isinstance(release, Release) or not _is_of_the_rows(release, question):
            continue
        with suppress(ValueError):  # it holds the columns, and not this model
            part = release.select(wanted, target)
            yield Way(
                f"the stored release {name}",
                f"EmpiricalBayes().fit(client.fetch_release({name!r}), {part.target_names[0]!r}, "
                f"features={list(part.feature_names)!r})",
                None,
                True,
                *_expect(question, _as_quoted(part, whole)),
                0.0,
                True,
                (),
                partial(_fit_part, part),
            )


def _fit_part(part: Release, _: bool) -> Fit:
    return EmpiricalBayes().fit(part)


def _is_of_the_rows(release: Release, question: Question) -> bool:
    """Return whether a release is of this version of the rows, of the same of them, and tells of people alone."""
    receipt, asked = release.receipt, question.quote.request
    return (
        receipt is not None
        and receipt.get("snapshot", "") == question.declared.snapshot
        and all(release.request.get(name) == asked.get(name) for name in ("where", "weight", "intercept"))
        and not release.combined
    )


def _as_quoted(part: Release, whole: Quote) -> Quote:
    """Return the quote that a stored release would have: its terms, its scales and its price."""
    own = {one.name: getattr(part, one.name) for one in fields(Coded)}
    return replace(whole, **own, noise=part.noise, request=part.request, cost=part.cost or whole.cost)


def _expect(question: Question, quoted: Quote) -> tuple[FloatArray, FloatArray]:
    """Return half lengths of intervals of slopes, and those without privacy, per standard deviation of the term."""
    found = [_expect_target(question, quoted, target.name) for target in quoted.targets]
    return np.concatenate([half for half, _ in found]), np.concatenate([plain for _, plain in found])


def assume(quoted: Quote, rows: float, sds: Mapping[str, float], **said: Any) -> Assumptions:
    """Assume that columns and targets have these deviations, and what a refinement is practised on."""
    targets = [one.name for one in quoted.targets]
    left = {name: math.sqrt(1.0 - EXPLAINED) * sds[name] for name in targets}
    others = {name: sd for name, sd in sds.items() if name not in targets}
    stated: dict[str, Any] = {"rsquared": EXPLAINED, "correlation": CORRELATION, "residual_sd": left} | said
    return Assumptions.of(quoted, rows=rows, sds=others, **stated)


def assumed_sds(quoted: Quote) -> dict[str, float]:
    """Return standard deviations of columns and targets that fill a fourth of their bounds to each side."""
    targets = {one.name for one in quoted.targets}
    explaining = [column for column in quoted.columns if column.name not in targets]
    sds = {
        column.name: (column.upper - column.lower) / (2.0 * REACH)
        for column in stored_columns(explaining)
        if column.lower is not None and column.upper is not None
    }
    return sds | {one.name: one.scale / REACH if one.kind == "numeric" else 0.5 for one in quoted.targets}


def _expect_target(question: Question, quoted: Quote, target: str) -> tuple[FloatArray, FloatArray]:
    assumed = assume(quoted, question.rows, assumed_sds(quoted))
    expectation, first = Expectation(quoted, assumed, target, 0.95), int(quoted.terms[0].kind == "constant")
    noise = PriceScale(quoted).noise(quoted.noise, STRENGTH_MAX)
    half, least = (expectation.at(one).half_lengths[first:] for one in (None, noise))
    mean = assumed.moments[0] if first else np.zeros(len(quoted.terms))
    deviations = np.sqrt(np.diag(assumed.moments) - mean**2)[first:]
    errors = np.sqrt(np.diag(np.linalg.inv(assumed.moments))[first:] * (1.0 - EXPLAINED) / question.rows)
    plain = NORMAL * errors * deviations
    return half / least * plain, plain


def _median(lengths: FloatArray) -> float:
    told = lengths[~np.isnan(lengths)]
    return math.inf if not len(told) or np.isinf(told).all() else float(np.median(told))
