"""The guessing game: a coin chooses a neighbour, the service releases it, the attacker guesses the coin.

The attacker knows both datasets and everything that is published: answers, stated noise, stated cost, the account. The
service is a real curator on an embedded database, asked through `ReleaseService.release` as its HTTP endpoint asks it,
and through `SessionService.open` and `ask`.
"""

import itertools
import json
import math
import multiprocessing
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit import evidence
from audit.evidence import Floats, Law
from audit.neighbours import Cell, exact_answer, statistics_of
from curator_service.container import Curator, make_curator
from curator_service.datasets.repository import Dataset
from curator_service.entries.terms import Limit
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal
from curator_service.kinds.registry import KINDS
from curator_service.kit.clock import timestamp
from curator_service.ledger.repository import set_limit
from curator_service.ledger.service import BudgetExceeded
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases.preparation import prepare
from curator_service.releases.response_time import ResponseTimer
from curator_service.sessions.schemas import QuestionRequest, SessionRequest
from curator_service.settings import Settings

UNITS_PER_ONE = 10**12
"""An account counts 10⁻¹² of µ²: that is published."""

ROUNDS = 3000
"""Releases per cell: about 1,500 of each neighbour."""

SHARP = 0.95
"""What part of the charge a sharp pair must reach."""

DEVIATIONS = 6
"""A check on the noise itself fails beyond so many standard errors: about once in a thousand million."""

_LIMITS = {"gdp": Price(mu=900.0), "pure": Price(epsilon=1000.0)}
_RECKONED = 100_000


@dataclass(frozen=True, slots=True)
class Test:
    """An exact test of one guarantee.

    Attributes
    ----------
    guarantee : str
        ``mu`` or ``epsilon``.
    charged : float
        What the answers say they cost, in µ, or the ε that was asked.
    trials, successes : int
        Guesses that count, and those that were right.
    bound : float
        The largest probability that the guarantee allows.
    p_value : float
    at_least : float
        Lower confidence bound on the true µ or ε.
    power_halved, power_root2 : float
        The chance that noise of half the stated scale, or of 1/√2 of it (a sensitivity too small by √2), is found.
    """

    guarantee: str
    charged: float
    trials: int
    successes: int
    bound: float
    p_value: float
    at_least: float
    power_halved: float
    power_root2: float

    @property
    def passed(self) -> bool:
        """True if the guarantee stands."""
        return self.p_value > evidence.LEVEL


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a cell.

    Attributes
    ----------
    separation, charged : float
        How far the release moves by exact statistics and stated noise, and what is charged, both in µ, or in ε for
        Laplace noise.
    tests : tuple of Test
    breaches : tuple of str
        Promises that were broken; none in an honest service.
    """

    name: str
    separation: float
    charged: float
    tests: tuple[Test, ...]
    breaches: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    @property
    def findings(self) -> tuple[str, ...]:
        """Findings, the guesses first."""
        rejected = [f"guesses beat {test.guarantee}" for test in self.tests if not test.passed]
        return (*rejected, *self.breaches)


class Shop:
    """A curator in a folder, with an analyst who may buy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.curator: Curator = make_curator(
            Settings(data_dir=folder / "data", keys_per_day=10**9),
            response_timer=ResponseTimer(0.0),  # the game is about numbers; times have tests and a bench of their own
        )
        self.curator.database.upgrade()
        token = self.curator.identity.create_token("attacker", Role.ANALYST)
        self.analyst: Principal = self.curator.identity.authenticate(f"Bearer {token.text}")

    def stock(self, cell: Cell, rows: list[Any], name: str, limit: Price | None = None) -> Dataset:
        """Register rows under a population of their own."""
        self.curator.ledger.create_population(
            name,
            adjacency=Adjacency(cell.adjacency),
            accountant=cell.accountant,
            limit=_LIMITS[cell.accountant] if limit is None else limit,
            delta=1e-6,
            actor="audit",
        )
        manifest, source = self.folder / f"{name}.toml", self.folder / f"{name}.csv"
        manifest.write_text(cell.manifest(name, name), encoding="utf-8")
        source.write_text(cell.csv(rows), encoding="utf-8")
        dataset = self.curator.datasets.register(manifest, source, actor="audit")
        self.curator.permits.grant("attacker", dataset.name, actor="operator:audit")
        return dataset

    def buy(self, dataset: Dataset, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield one fresh answer after another."""
        releases = self.curator.releases
        kind = KINDS[request.get("kind", KINDS.first.name)]
        prepared = prepare(KINDS, dataset, kind.request_model.model_validate(request))
        while True:
            release, _ = releases.release(prepared, self.analyst, secrets.token_hex(16))
            yield json.loads(release.answer)

    def open_session(self, dataset: Dataset, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to the opening of a threshold session."""
        request = SessionRequest.model_validate(asked)
        opened = self.curator.sessions.open(dataset, request, self.analyst, secrets.token_hex(16))
        return dict(json.loads(opened.model_dump_json()))

    def ask(self, dataset: Dataset, session: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question of a session."""
        request = QuestionRequest.model_validate(asked)
        told = self.curator.sessions.ask(session, request, self.analyst, dataset, secrets.token_hex(16))
        return dict(json.loads(told.model_dump_json()))

    def posted(self, dataset: Dataset) -> int:
        """Return what the account says was spent."""
        return self.curator.ledger.get_population(dataset.population).posted

    def set_limit(self, dataset: Dataset, units: int) -> None:
        """Set what may be charged in all, as two admins do."""
        ledger = self.curator.ledger
        was = ledger.get_population(dataset.population).limit
        said = Limit(actor="audit", approved_by="audit", reason="a run", time=timestamp(ledger.now()))
        with ledger.unit() as unit:
            head = set_limit(unit.connection, dataset.population, was=was, units=units)
            assert head is not None
            unit.record(head, said, units)

    def close(self) -> None:
        """Close the database."""
        self.curator.close()


@contextmanager
def open_shop() -> Iterator[Shop]:
    """Open a shop in a temporary folder, in memory where there is one: thousands of commits need not reach a disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="curator-audit-", dir=memory) as folder:
        shop = Shop(Path(folder))
        try:
            yield shop
        finally:
            shop.close()


def values_of(answer: dict[str, Any]) -> list[float]:
    """Return every released number of an answer."""
    return [value for part in answer["statistics"].values() for value in part["values"]]


def stated_law(answer: dict[str, Any]) -> Law:
    """Return the noise that an answer states, entry by entry."""
    sd: list[float] = []
    for name, part in answer["statistics"].items():
        if part["packing"] == "upper":
            size = part["shape"][0]
            kinds = ["diagonal" if i == j else "offdiagonal" for i in range(size) for j in range(i, size)]
            sd += [answer["noise"]["sd"][f"{name}_{kind}"] for kind in kinds]
        else:
            sd += [answer["noise"]["sd"][name]] * len(part["values"])
    return Law(answer["noise"]["distribution"], np.array(sd))


def play(name: str, cell: Cell, rounds: int = ROUNDS) -> Outcome:
    """Play a cell.

    Returns
    -------
    Outcome
        At once, after one release, where the stated noise alone shows a breach.
    """
    zero, one = (exact_answer(cell, rows) for rows in cell.datasets)
    with open_shop() as shop:
        datasets = [shop.stock(cell, rows, side) for side, rows in zip(("zero", "one"), cell.datasets, strict=True)]
        counters = [shop.buy(dataset, cell.request) for dataset in datasets]
        first = next(counters[0])
        if list(first["statistics"]) != statistics_of(cell.request):
            raise AssertionError(f"{name}: the answer holds other statistics than were asked")
        law = stated_law(first)
        separation = law.separation(zero, one)
        mu, charged = first["cost"]["mu"], first["cost"]["mu"]
        if not law.is_gaussian:
            charged = cell.request["price"]["epsilon"]
        if separation > charged * (1 + 1e-4):
            return Outcome(name, separation, charged, (), ("moves further than it is charged, by its stated noise",))
        coins = np.frombuffer(secrets.token_bytes(rounds), dtype=np.uint8) & 1
        answers = np.empty((rounds, len(zero)))
        spent = [int(first["cost"]["units"]), 0]
        for i, coin in enumerate(coins.tolist()):
            answer = next(counters[coin])
            answers[i] = values_of(answer)
            spent[coin] += int(answer["cost"]["units"])
        booked = [shop.posted(dataset) for dataset in datasets]
    noise = (answers - np.where(coins[:, None] == 1, one, zero)) / law.sd
    breaches = list(_noise_breaches(noise, answers))
    if booked != spent:
        breaches.append("the account holds another sum than the answers state")
    if cell.sharp and separation < SHARP * charged:
        breaches.append("the pair is not the worst one: the release moves less than 95 % of what it is charged")
    ratios = law.log_likelihood_ratio(answers, zero, one)
    tests = _tests(law, zero, one, mu, charged, ratios, coins)
    return Outcome(name, separation, charged, tests, tuple(breaches))


def _noise_breaches(noise: Floats, answers: Floats) -> Iterator[str]:
    """Check that noise is as wide as stated, independent between entries and releases, and never used again."""
    count, entries = noise.shape
    squares = noise**2
    errors = np.std(squares, axis=0) / np.sqrt(count)
    if np.any(np.mean(squares, axis=0) + DEVIATIONS * errors < 1):
        yield "the noise is narrower than stated"
    limit = DEVIATIONS / np.sqrt(count)
    between: Floats = np.atleast_2d(np.corrcoef(noise.T))
    if np.max(np.abs(between - np.eye(entries))) > limit:
        yield "the noise of two entries is correlated"
    if any(abs(np.corrcoef(noise[:-1, k], noise[1:, k])[0, 1]) > limit for k in range(entries)):
        yield "the noise of two releases in a row is correlated"
    # Two honest draws among thousands agree less than once in ten thousand runs, four never.
    if any(len(np.unique(answers[:, k])) < count - 3 for k in range(entries)):
        yield "noise was used again"


def _tests(
    law: Law, zero: Floats, one: Floats, mu: float | None, charged: float, ratios: Floats, coins: Any
) -> tuple[Test, ...]:
    generator = np.random.default_rng(1)
    drawn = law.sample(_RECKONED, generator)

    def reckoned(factor: float) -> Floats:
        """Return ratios of answers about `one` under noise of another scale; `zero` mirrors them."""
        return law.log_likelihood_ratio(one + factor * drawn, zero, one)

    wrong = {factor: reckoned(factor) for factor in (0.5, 2**-0.5)}
    guesses = ratios > 0
    tests = []
    if mu is not None:
        bound = evidence.success_bound_of_mu(mu)
        tests.append(_test("mu", mu, bound, guesses == coins, 0.0, wrong))
    if not law.is_gaussian:
        bound = evidence.success_bound_of_epsilon(charged)
        # The event is chosen beforehand: answers that say enough, by the threshold that finds the smaller flaw best.
        thresholds = [k / 20 * law.separation(zero, one) for k in range(20)]
        chosen = max(thresholds, key=lambda c: _power(len(coins), bound, wrong[2**-0.5], c))
        counted = np.abs(ratios) >= chosen
        tests.append(_test("epsilon", charged, bound, (guesses == coins)[counted], chosen, wrong, len(coins)))
    return tuple(tests)


def _test(
    guarantee: str,
    charged: float,
    bound: float,
    right: Any,
    threshold: float,
    wrong: dict[float, Floats],
    rounds: int | None = None,
) -> Test:
    trials, successes = len(right), int(np.sum(right))
    low = evidence.lower_bound(successes, trials)
    invert = evidence.mu_of_success if guarantee == "mu" else evidence.epsilon_of_success
    rounds = trials if rounds is None else rounds
    return Test(
        guarantee,
        charged,
        trials,
        successes,
        bound,
        evidence.binomial_p_value(successes, trials, bound),
        invert(low),
        _power(rounds, bound, wrong[0.5], threshold),
        _power(rounds, bound, wrong[2**-0.5], threshold),
    )


def _power(rounds: int, bound: float, ratios: Floats, threshold: float) -> float:
    """Return the chance of a rejection, at the mean number of answers that count."""
    counted = np.abs(ratios) >= threshold
    if not counted.any():
        return 0.0
    return evidence.power(round(rounds * float(np.mean(counted))), float(np.mean(ratios[counted] > 0)), bound)


def check_sharing(cell: Cell) -> tuple[str, ...]:
    """Return broken promises about fresh noise and about the account.

    The same request is bought twice in this process, and in two forked processes that have inherited all of its state.
    """
    breaches = []
    with open_shop() as shop:
        dataset = shop.stock(cell, cell.datasets[1], "one")
        try:
            bought = list(itertools.islice(shop.buy(dataset, cell.request), 2))
        except LedgerUnverified:
            return ("the curator found an account that is not what its last entry says, and sealed itself",)
        answers = [values_of(answer) for answer in bought]
        units = [int(answer["cost"]["units"]) for answer in bought]
        if shop.posted(dataset) != sum(units):
            breaches.append("the account holds another sum than the answers state")
        once = shop.stock(cell, cell.datasets[0], "once", Price(mu=math.sqrt(1.5 * units[0] / UNITS_PER_ONE)))
        try:
            _ = list(itertools.islice(shop.buy(once, cell.request), 2))
            breaches.append("a budget for one release sold two")
        except BudgetExceeded:
            pass
    context = multiprocessing.get_context("fork")
    parts = [context.SimpleQueue() for _ in range(2)]
    children = [context.Process(target=_buy_in_child, args=(cell, part)) for part in parts]
    for child in children:
        child.start()
    answers += [values for part in parts for values in part.get()]
    for child in children:
        child.join()
    for one, other in itertools.combinations(answers, 2):
        if any(a == b for a, b in zip(one, other, strict=True)):
            breaches.append("two fresh releases of one request share noise")
            break
    return tuple(breaches)


def _buy_in_child(cell: Cell, part: Any) -> None:
    with open_shop() as shop:
        dataset = shop.stock(cell, cell.datasets[1], "one")
        part.put([values_of(answer) for answer in itertools.islice(shop.buy(dataset, cell.request), 2)])
