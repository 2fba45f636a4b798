"""The guessing game over threshold sessions: whole transcripts, one session or two, also between other releases.

The attacker knows both datasets, so he knows how far each number is beyond its threshold. He does not know the noise of
the threshold. So the chance of a transcript is an integral over it, of products of tails; it shares no code with the
service. Numbers are in rows, of which a noise has thousands of millions of parts: the discrete law and the continuous
one are the same to nine digits.

He asks as the proof's worst case does (docs/privacy.md, "Threshold sessions"). First come questions that the person
moves one way. After as many times no the threshold is likely to be high, and higher with the person than without. Then
come questions that the person moves the other way or, in a session of one direction, not at all. A yes to one of these
says that the threshold is low.
"""

import itertools
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from audit import evidence
from audit.chances import Chances, Coins, Reckon, check_chances, judge, power_of_chances, ratio, separation
from audit.evidence import Floats
from audit.game import UNITS_PER_ONE, Outcome, Shop, Test, open_shop, stated_law, values_of
from audit.neighbours import Cell, Row, exact_answer
from curator_service.sessions.service import SessionEnded

Answers = tuple[bool, ...]
_MOST = 10**5
"""The limit of an account, in its unit: enough for any number of sessions."""
_SAID = {"session", "number", "is_positive", "positives_left", "question", "receipt"}
_ENTERED = {
    "kind", "actor", "time", "session", "number", "positives", "question_digest", "answer",
    "population", "sequence", "units", "posted", "pending", "limit", "epoch",
    "format", "key_id", "previous_hash", "entry_hash", "signature",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question, and what a row adds to its number in the attacker's words."""

    request: dict[str, Any]
    count: Callable[[Row], float]

    def level(self, rows: list[Row]) -> float:
        """Return how far the number of these rows is beyond its threshold, in the question's direction."""
        above = sum(map(self.count, rows)) - (0.0 if "share" in self.request else self.request["threshold"])
        return -above if self.request.get("direction") == "below" else above


@dataclass(frozen=True, slots=True)
class Session:
    """A session and its questions.

    Attributes
    ----------
    opening : dict
        As an analyst sends it.
    first, second : Asked
    firsts, seconds : int
        How often each is asked at most: `first` while the answer is no, then `second`.
    """

    opening: dict[str, Any]
    first: Asked
    second: Asked
    firsts: int
    seconds: int

    def next(self, answers: Answers) -> Asked | None:
        """Return the next question; None where the session has ended or tells little from here on."""
        if len(answers) < self.firsts:
            return None if any(answers) else self.first
        goes_on = not any(answers[: self.firsts]) and sum(answers) < self.opening["positives"]
        return self.second if goes_on and len(answers) < self.firsts + self.seconds else None

    def reckon(self, cell: Cell, scales: tuple[float, float]) -> dict[Answers, tuple[float, float]]:
        """Return the chance of each transcript on either side, under noise of these scales, in rows."""
        sides = [rows if cell.rows_per_person is None else rows[: 1 + cell.rows_per_person] for rows in cell.datasets]
        levels = {one: tuple(one.level(rows) for rows in sides) for one in (self.first, self.second)}
        noise, weights = _nodes(scales[0], {at for both in levels.values() for at in both})
        chances = {}

        def follow(answers: Answers, given: list[Floats]) -> None:
            asked = self.next(answers)
            if asked is None:
                chances[answers] = (float(weights @ given[0]), float(weights @ given[1]))
                return
            yes = [_tail(noise - at, scales[1]) for at in levels[asked]]
            follow((*answers, True), [before * one for before, one in zip(given, yes, strict=True)])
            follow((*answers, False), [before * (1 - one) for before, one in zip(given, yes, strict=True)])

        follow((), [np.ones_like(noise)] * 2)
        return chances


def _tail(needed: Floats, scale: float) -> Floats:
    """Return P(ν ≥ needed) of Laplace noise."""
    half = np.exp(-np.abs(needed) / scale) / 2
    return np.where(needed > 0, half, 1 - half)


def _nodes(scale: float, breaks: set[float]) -> tuple[Floats, Floats]:
    """Return values of the threshold's noise with weights, for sums that are integrals of what is smooth between."""
    ends = np.array(sorted({*breaks, *(scale * k for k in range(-40, 41))}))
    places, weights = np.polynomial.legendre.leggauss(20)
    half, middle = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    noise = (middle + half * places).ravel()
    return noise, (half * weights).ravel() * np.exp(-np.abs(noise) / scale) / (2 * scale)


@dataclass(frozen=True, slots=True)
class Game:
    """Sessions on a pair of neighbours, asked in turn.

    Attributes
    ----------
    cell : Cell
        The neighbours and the account; no request.
    sessions : tuple of Session
    repeats : float
        How often it is played for each release of a cell.
    releases : int
        Bought in all, one after each question as long as there are any.
    between : callable, optional
        The next of them, by the answers so far. All of them move as far, at one price.
    """

    cell: Cell
    sessions: tuple[Session, ...]
    repeats: float = 1.0
    releases: int = 0
    between: Callable[[list[Answers]], dict[str, Any]] | None = None

    def reckon(self, scales: list[tuple[float, float]]) -> Chances:
        """Return the chance of each outcome: a transcript of every session."""
        of_each = [one.reckon(self.cell, at) for one, at in zip(self.sessions, scales, strict=True)]
        return {
            tuple(outcome): (
                math.prod(part[answers][0] for part, answers in zip(of_each, outcome, strict=True)),
                math.prod(part[answers][1] for part, answers in zip(of_each, outcome, strict=True)),
            )
            for outcome in itertools.product(*of_each)
        }


@dataclass(slots=True)
class _Play:
    """What came of one game: answers, and the logarithm of the likelihood ratio of releases between them."""

    opened: list[dict[str, Any]]
    told: list[Answers]
    units: int
    ratio: float = 0.0
    squared: float = 0.0
    breach: str = ""


def play_session(name: str, game: Game, rounds: int) -> Outcome:
    """Play a game: a coin chooses a neighbour, its sessions are asked until they end, and the attacker guesses once."""
    rounds = round(game.repeats * rounds)
    coins = np.frombuffer(secrets.token_bytes(rounds), dtype=np.uint8) & 1
    spent, plays = [0, 0], []
    with open_shop() as shop:
        pairs = list(zip(("zero", "one"), game.cell.datasets, strict=True))
        datasets = [shop.stock(game.cell, rows, side) for side, rows in pairs]
        for dataset in datasets:
            shop.set_limit(dataset, _MOST * UNITS_PER_ONE)
        for coin in coins.tolist():
            play = _play(shop, game, datasets[coin])
            plays.append(play)
            spent[coin] += play.units
            if len(plays) == 1:
                scales = [_scales(one) for one in play.opened]
                moved, charged = separation(game.reckon(scales)), _charged(play, game)
                if moved > charged * (1 + 1e-4):
                    return Outcome(name, moved, charged, (), ("moves further than it is charged, by its stated noise",))
            if play.breach:
                return Outcome(name, moved, charged, (), (play.breach,))
        booked = [shop.posted(dataset) for dataset in datasets]

    @cache
    def reckon(factor: float) -> Chances:
        return game.reckon([(factor * threshold, factor * question) for threshold, question in scales])

    found = [tuple(play.told) for play in plays]
    breaches = [*check_chances(reckon, found, coins)]
    if booked != spent:
        breaches.append("the account holds another sum than the answers state")
    if not game.releases:
        return Outcome(name, moved, charged, (judge(charged, reckon, found, coins),), tuple(breaches))
    guesses = _guess_all(plays, reckon, coins)
    of_session = evidence.mu_of_success(evidence.success_bound_of_epsilon(moved))
    moved, charged = math.sqrt(of_session**2 + max(play.squared for play in plays)), guesses.charged
    if moved > charged * (1 + 1e-4):
        breaches.append("moves further than it is charged, by its stated noise")
    return Outcome(name, moved, charged, (guesses,), tuple(breaches))


def _play(shop: Shop, game: Game, dataset: Any) -> _Play:
    opened = [shop.open_session(dataset, session.opening) for session in game.sessions]
    play = _Play(opened, [()] * len(opened), sum(int(one["cost"]["units"]) for one in opened))
    left = game.releases
    for _ in range(max(session.firsts + session.seconds for session in game.sessions)):
        for i, session in enumerate(game.sessions):
            asked = session.next(play.told[i])
            if asked is not None:
                answer = shop.ask(dataset, opened[i]["id"], asked.request)
                play.told[i] += (answer["is_positive"],)
                play.breach = _breach(answer, session, play.told[i]) or play.breach
            if left:
                left -= 1
                _buy(shop, game, dataset, play)
    for i, session in enumerate(game.sessions):
        if sum(play.told[i]) == session.opening["positives"]:
            try:
                shop.ask(dataset, opened[i]["id"], session.second.request)
                play.breach = "a session went on after its last positive answer"
            except SessionEnded:
                pass
    return play


def _breach(answer: dict[str, Any], session: Session, told: Answers) -> str:
    """Return what an answer says that it should not, in its members or its receipt."""
    counted = len(told), session.opening["positives"] - sum(told)
    if (answer["number"], answer["positives_left"]) != counted:
        return "an answer counts others than those that were given"
    if not ({*answer} <= _SAID and {*answer["receipt"]} <= _ENTERED):
        return "an answer says more than yes or no"
    return ""


def _buy(shop: Shop, game: Game, dataset: Any, play: _Play) -> None:
    assert game.between is not None
    request = game.between(play.told)
    answer = next(shop.buy(dataset, request))
    cell = Cell("between", game.cell.adjacency, request, game.cell.row, game.cell.replaced_by)
    zero, one = (exact_answer(cell, rows) for rows in cell.datasets)
    law, values = stated_law(answer), np.array(values_of(answer))
    play.ratio += float(law.log_likelihood_ratio(values, zero, one))
    play.squared += law.separation(zero, one) ** 2
    play.units += int(answer["cost"]["units"])


def _scales(opened: dict[str, Any]) -> tuple[float, float]:
    """Return the stated scales of the noise of a threshold and of its questions, in rows."""
    step = int(opened["step"])
    return int(opened["threshold_scale"]) / step, int(opened["question_scale"]) / step


def _charged(play: _Play, game: Game) -> float:
    """Return ε of what sessions were charged; of a Gaussian account as one answer of randomised response has it."""
    units = sum(int(one["cost"]["units"]) for one in play.opened) / UNITS_PER_ONE
    if game.cell.accountant == "pure":
        return units
    return evidence.epsilon_of_success(evidence.success_bound_of_mu(math.sqrt(units)))


def _guess_all(plays: list[_Play], reckon: Reckon, coins: Coins) -> Test:
    """Hold guesses by a session and by the Gaussian releases between its questions against all that they cost."""
    stated, rounds = reckon(1.0), len(plays)
    mu, moved = math.sqrt(max(play.units for play in plays) / UNITS_PER_ONE), math.sqrt(plays[0].squared)
    bound = evidence.success_bound_of_mu(mu)
    ratios = [play.ratio + ratio(stated[tuple(play.told)]) for play in plays]
    right = int(np.sum((np.array(ratios) > 0) == coins))

    def power(factor: float) -> float:
        guessed = sum(
            chances[side] / 2 * ndtr((moved**2 / 2 + (2 * side - 1) * ratio(stated[one])) / (moved * factor))
            for one, chances in reckon(factor).items()
            for side in (0, 1)
        )
        return max(evidence.power(rounds, float(guessed), bound), power_of_chances(reckon, rounds, factor))

    p_value = evidence.binomial_p_value(right, rounds, bound)
    at_least = evidence.mu_of_success(evidence.lower_bound(right, rounds))
    return Test("mu", mu, rounds, right, bound, p_value, at_least, power(0.5), power(2**-0.5))


def _number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, float)
    return value


def _everybody(threshold: float, direction: str = "above") -> Asked:
    return Asked({"threshold": threshold, "direction": direction}, lambda _: 1.0)


def _others(threshold: float, direction: str = "above") -> Asked:
    """Ask about the rows of others than the person, whose a is 1; and about one whose a is −1 in its place."""
    asked = {"where": {"less": ["a", 0.5]}, "threshold": threshold, "direction": direction}
    return Asked(asked, lambda row: float(_number(row, "a") < 0.5))


def _share(threshold: float) -> Asked:
    """Ask for the mean of (a + 1)/2."""
    weight = {"divide": [{"add": ["a", 1]}, 2]}
    asked = {"weight": weight, "share": True, "threshold": threshold, "direction": "above"}
    return Asked(asked, lambda row: (_number(row, "a") + 1) / 2 - threshold)


def _opening(positives: int, direction: str, epsilon: float) -> dict[str, Any]:
    return {"positives": positives, "direction": direction, "price": {"epsilon": epsilon}}


def _neighbours(adjacency: str, accountant: str = "pure", rows_per_person: int | None = None) -> Cell:
    replaced_by = {"a": -1.0} if adjacency == "replace_one" else None
    return Cell("session", adjacency, {}, {"a": 1.0}, replaced_by, accountant, rows_per_person=rows_per_person)


def _gram_or_counts(told: list[Answers]) -> dict[str, Any]:
    """Ask for one number that the person moves by 1, of a kind by the last answer."""
    price = {"price": {"mu": 0.7}, "fresh": True}
    if told[0][-1]:
        return {"kind": "counts", "tables": [{"axes": [{"column": "a", "bins": 2}]}], **price}
    return {"features": ["a"], "rows": {"map": "box"}, "intercept": False, "statistics": ["xtx"], **price}


# Thresholds are half of the noise's scale beyond the number of rows, or below it: of those that were tried over a grid
# of thresholds, counts and prices, these give the attacker most for the requests that they take.
_ABOVE = Session(_opening(1, "above", 2.5), _everybody(1.4), _others(0.6), firsts=5, seconds=2)
_BELOW = Session(_opening(1, "below", 2.5), _everybody(1.6, "below"), _others(1.4, "below"), firsts=5, seconds=2)
SESSIONS = {
    "a session, add_remove": Game(_neighbours("add_remove"), (_ABOVE,), repeats=1.5),
    "a session below, add_remove": Game(_neighbours("add_remove"), (_BELOW,)),
    "a session, persons of two rows, add_remove": Game(
        _neighbours("add_remove", rows_per_person=2),
        (Session(_opening(1, "above", 2.5), _everybody(1.8), _others(0.2), firsts=5, seconds=2),),
    ),
    "a session of either direction, replace_one": Game(
        _neighbours("replace_one"),
        (Session(_opening(1, "any", 2.0), _share(0.75), _others(2.5), firsts=5, seconds=2),),
    ),
    "a session of two positive answers, add_remove": Game(
        _neighbours("add_remove"),
        (Session(_opening(2, "above", 2.5), _everybody(1.5), _others(0.5), firsts=5, seconds=3),),
    ),
    "a session of two positive answers, replace_one": Game(
        _neighbours("replace_one"),
        (Session(_opening(2, "any", 2.5), _share(0.75), _others(2.0), firsts=5, seconds=3),),
    ),
    "two sessions at once, add_remove": Game(_neighbours("add_remove"), (_ABOVE, _BELOW), repeats=0.5),
    "a session between releases, add_remove": Game(
        _neighbours("add_remove", accountant="gdp"),
        (Session(_opening(1, "above", 0.4), _everybody(1.5), _others(0.5), firsts=3, seconds=1),),
        repeats=0.5,
        releases=4,
        between=_gram_or_counts,
    ),
}
"""Games by name."""
