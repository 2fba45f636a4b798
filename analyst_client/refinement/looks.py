"""Estimates of the centre and scale of all columns by repeated looks, each from the last one's estimate.

A look is the sum over rows of one clipped vector, which holds of each column its standard score v and half of v² less
what that is taken to be, by the centre and the scale that the column is taken to have. Its norm is some √d however wide
declared bounds are, so what a look costs does not grow with them: moments of each column by itself would pay for whole
ranges. A range that is many times too wide takes several looks. They are scores of a linear loss whose residual is 1 in
every row: of a target that is never true, at a constant of −1.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.score import NORMS, SCORE
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.places import Place
from analyst_client.refinement.problem import Field, Problem
from analyst_client.refinement.questions import BITS, Question, histogram_share, norm_exceeded_by
from analyst_client.refinement.rules import RefinementRules
from analyst_client.terms.expression import Expression

_RATIO_MOST, _RATIO_LEAST = 6.0, 0.02
"""Range of a variance that one look may find, over the one that was taken."""
_SCALE_LEAST = 1e-4
"""Least scale of a column, in halves of its declared range."""
_EACH = "center", "scale", "mean_sd", "square_sd"
"""Members that looks find for each column."""


@dataclass(frozen=True, eq=False)
class Looked:
    """The centres and scales of columns that looks have found, the target last.

    Attributes
    ----------
    center, scale : ndarray of shape (d,)
        In the columns' own units.
    mean_sd, square_sd : ndarray of shape (d,)
        Deviations of what is known of the mean of a standard score, and of its square.
    rows, rows_sd : float
        Rows, and the deviation of what is known of that.
    """

    center: FloatArray
    scale: FloatArray
    mean_sd: FloatArray
    square_sd: FloatArray
    rows: float
    rows_sd: float

    @classmethod
    def before(cls, fields: Sequence[Field], rows: float, rules: RefinementRules) -> "Looked":
        """Return what is taken before anything is known: the middle of the bounds, and a guess of the rows."""
        low, high = (np.array([getattr(field, end) for field in fields]) for end in ("low", "high"))
        d = len(fields)
        return cls((low + high) / 2.0, rules.wide * (high - low) / 2.0, np.ones(d), np.ones(d), rows, rows)

    def of(self, columns: slice) -> "Looked":
        """Return what is known of some columns."""
        parts = {name: getattr(self, name)[columns] for name in _EACH}
        return replace(self, **parts)

    def with_last(self, last: "Looked") -> "Looked":
        """Return it with what is known of the last column alone in its place."""
        parts: dict[str, Any] = {name: np.append(getattr(self, name)[:-1], getattr(last, name)) for name in _EACH}
        return replace(last, **parts)

    def places(self, fields: Sequence[Field], reach: Sequence[float]) -> list[Place]:
        """Return the places of columns, cut at so many scales from their centres."""
        found = []
        for field, center, scale, far in zip(fields, self.center.tolist(), self.scale.tolist(), reach, strict=True):
            assert field.low is not None
            assert field.high is not None
            low, high = max(center - far * scale, field.low), min(center + far * scale, field.high)
            found.append(Place(center, scale, low, high).rounded(field.low, field.high))
        return found


def look(
    problem: Problem,
    fields: Sequence[Field],
    known: Looked,
    costs: Sequence[float],
    rules: RefinementRules,
    *,
    first: bool,
    has_target: bool = True,
) -> Generator[Question, Any, Looked]:
    """Look at columns several times.

    Parameters
    ----------
    problem : Problem
    fields : sequence of Field
        Numbers, the target last where it is among them.
    known : Looked
        Of these.
    costs : sequence of float
        µ² of each look.
    rules : RefinementRules
    first : bool
        Whether nothing is known yet: scales are then guesses, and squares are told as they are.
    has_target : bool
        Whether the last of several is the target, which is heeded more than others.

    Yields
    ------
    Question

    Returns
    -------
    Looked
    """
    d = len(fields)
    heed = np.append(np.ones(d - 1), rules.heed if has_target and d > 1 else 1.0)
    usual = math.sqrt(1.0 + 1.5 * float(heed @ heed))
    norm = rules.short * math.sqrt(1.0 + float(heed @ heed)) if first else usual
    for k, cost in enumerate(costs):
        taken = 0.0 if first and k == 0 else 1.0
        share = histogram_share(known.rows, cost, rules.told_roughly, rules.dear)
        release = yield from _ask(problem, fields, known, heed, taken, norm, share, cost, rules)
        assert release.score is not None
        assert release.noise.score is not None
        known = _learn(known, fields, release.score * norm, release.noise.score * norm, heed, taken, rules)
        allowed = min(rules.beyond * math.sqrt(d / costs[min(k + 1, len(costs) - 1)]), rules.half * known.rows)
        found = norm_exceeded_by(release, norm, allowed)
        norm = usual if found is None else min(max(found, usual / 3.0), 3.0 * usual)
    return known


def _ask(
    problem: Problem,
    fields: Sequence[Field],
    known: Looked,
    heed: FloatArray,
    taken: float,
    norm: float,
    share: float,
    cost: float,
    rules: RefinementRules,
) -> Generator[Question, Any, ScoreRelease]:
    """Ask for one look: the constant, then of each column v and (v² − taken)/2, with its weight."""
    places = known.places(fields, [rules.look_clip] * len(fields))
    cut = [field.cut(place) for field, place in zip(fields, places, strict=True)]
    squares = [(one - place.center) ** 2 for one, place in zip(cut, places, strict=True)]
    features = [one for pair in zip(cut, squares, strict=True) for one in pair]
    never = never_true(problem.target)
    # A quote names the terms: each number is one, with its centre and its scale.
    coding = yield Question(ReleaseRequest(features, target=never, rows="box", **problem.paying(cost)), True)
    terms = {term.column: term for term in coding.terms if term.kind == "numeric"}
    names = coding.feature_names
    d = len(fields)
    directions = {"(constant)": np.eye(1, 2 * d + 1)[0]}
    for j, (place, weight) in enumerate(zip(places, heed.tolist(), strict=True)):
        value, square = terms[names[2 * j]], terms[names[2 * j + 1]]
        directions["(constant)"][1 + j] = weight * (value.center - place.center) / place.scale
        directions["(constant)"][1 + d + j] = weight * (square.center / place.scale**2 - taken) / 2.0
        directions[value.name], directions[square.name] = np.zeros(2 * d + 1), np.zeros(2 * d + 1)
        directions[value.name][1 + j] = weight * value.scale / place.scale
        directions[square.name][1 + d + j] = weight * square.scale / place.scale**2 / 2.0
    request = ScoreRequest(
        features,
        never,
        coefficients={"(constant)": -1.0},
        directions={name: row.tolist() for name, row in directions.items()},
        norm=norm,
        bits=BITS,
        statistics=(SCORE, NORMS) if share else (SCORE,),
        shares={SCORE: 1.0 - share, NORMS: share} if share else None,
        **problem.paying(cost),
    )
    release: ScoreRelease = yield Question(request)
    return release


def never_true(target: Field) -> Expression:
    """Return a condition that is false of each row that has the target."""
    if target.is_number:
        return target.expression > (target.high or 0.0)
    return target.expression & ~target.expression


def _learn(
    known: Looked,
    fields: Sequence[Field],
    total: FloatArray,
    sd: float,
    heed: FloatArray,
    taken: float,
    rules: RefinementRules,
) -> Looked:
    """Average the estimate before a look and the one from it, weighted by their precision.

    Rows that are clipped count for less, in the count too, so a mean is over the rows that the look counts.
    """
    d = len(heed)
    rows_sd = math.hypot(known.rows_sd, rules.doubt * known.rows)
    rows_gain = rows_sd**2 / (rows_sd**2 + sd**2)
    told = math.sqrt(rows_gain) * sd
    least = rules.rows_sure * told if rules.rows_sure else known.rows / 10.0
    n = max(known.rows + rows_gain * (float(total[0]) - known.rows), least, 10.0)
    means, squares = total[1:].reshape(2, d) / heed / n
    noise = sd / heed / n
    mean_sd = np.minimum(np.hypot(known.mean_sd, rules.doubt), 1.0)
    square_sd = np.minimum(np.hypot(known.square_sd, 2.0 * rules.doubt), 1.0)
    gain = mean_sd**2 / (mean_sd**2 + noise**2)
    shift = gain * means
    # If one declared range is too wide, the others probably are as well: every column tells of the common part.
    known_squares = np.diag((rules.own * square_sd) ** 2) + (rules.common * float(square_sd.mean())) ** 2
    gains = np.linalg.solve(known_squares + np.diag(4.0 * noise**2), known_squares).T
    variance = 1.0 + gains @ (2.0 * squares + taken - shift**2 - 1.0)
    square_gain = np.diag(gains)
    mean_sd, square_sd = np.sqrt(gain) * noise, np.sqrt(square_gain) * 2.0 * noise
    ratio = np.sqrt(np.clip(variance, np.clip(rules.floor * square_sd, _RATIO_LEAST, 1.0), _RATIO_MOST))
    low, high = (np.array([getattr(field, end) for field in fields], dtype=np.float64) for end in ("low", "high"))
    return Looked(
        np.clip(known.center + known.scale * shift, low, high),
        np.maximum(known.scale * ratio, _SCALE_LEAST * (high - low) / 2.0),
        np.minimum(mean_sd / ratio, 1.0),
        np.minimum(square_sd / ratio**2, 1.0),
        n,
        told,
    )
