r"""Robust standard errors of the model that a release names: Σ g gᵀ of its gradients, as one more charged step.

The step costs a twentieth of the price. Its coefficients, the directions that whiten XᵀX and the norm of gradients
follow from the release that was just bought. A row counts there with the weight ω w², of the request and of the row
map, so the sampling covariance of its score is :math:`\sum \omega^2w^4e^2xx^\top`: gradients have the weight ω w²,
too.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import RequestInvalidError
from analyst_client.inference.meat import norm_in_deviations
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.row_lengths import count_groups
from analyst_client.kinds.gram.row_weights import write_weight
from analyst_client.kinds.gram.two_steps import BITS, ROBUST_SHARE, paying, quote_steps
from analyst_client.kinds.score import MEAT
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.requests import LEAST, SURE, inverse_root
from analyst_client.schema.columns import Column, Term
from analyst_client.schema.row_maps import row_map_named
from analyst_client.terms.expression import Expression, call
from analyst_client.terms.python import read_condition

_SAMPLED_LEAST = 0.1
"""Share of sampling error in the variance of some coefficient, below which privacy noise hides it in all of them."""
_DIGITS = -999999.0 / 2**BITS
"""A number that is as long to write as those of any release: directions that whiten are at most 100, and few of a row
are near to that, as its squares add up to 10,000 at most. A small norm of gradients makes them larger."""


def check_robust(request: ReleaseRequest) -> None:
    """Raise `ValueError` where Σ g gᵀ cannot go with a release, with what would have worked."""
    targets, statistics = len(request.named_targets or []), request.statistics
    row_map = request.members.get("rows", {}).get("map", "ball")
    has_sums = statistics is None or {"xtx", "xty", "yty"} <= set(statistics)
    rules = [
        (targets == 1, f"is of one model, and so of one target, not {targets}: name it by target="),
        (request.mechanism in {None, "gaussian"}, "needs Gaussian noise: leave out mechanism="),
        (request.calibration in {None, "analytic"}, "needs the calibration of scores: leave out calibration="),
        (request.intercept, "needs a constant, whose entry of XᵀX counts the rows: leave out intercept="),
        (has_sums, "needs 'xtx', 'xty' and 'yty': leave out statistics="),
        (
            row_map_named(row_map).has_weight,
            f"knows no weight of rows under {row_map!r}: ask with rows='box' or 'ball'",
        ),
    ]
    for holds, rule in rules:
        if not holds:
            raise ValueError(f"robust=True {rule}")


def quote_robust(
    ask: Callable[[Any], Any], fetch: Callable[[str], Any], request: ReleaseRequest, quote: Quote
) -> Quote:
    """Return the quote of a release with robust standard errors: of all its steps.

    Parameters
    ----------
    ask, fetch : callable
        Return the quote of a request, and a stored release by its id.
    request : ReleaseRequest
        One that `check_robust` lets pass.
    quote : Quote
        Of it, in one step.

    Raises
    ------
    ValueError
        Where no such step is sold: of an account in pure ε, of rows whose weight cannot be written, or where the
        curator refuses it.
    """
    if quote.cost.mu is None and quote.cost.rho is None:
        raise ValueError("robust=True needs an account in µ² or ρ: this one counts pure ε, and sells no scores")
    squared = 1.0 + count_groups(quote)
    norm = quote.request["rows"].get("norm", math.inf)
    if "rows" not in request.members:
        norm = math.sqrt((1.0 + squared) / 2.0)  # any that weighs rows: which one is not known yet
    weighted = norm**2 < squared
    d = len(quote.terms)
    weight = _weight(request, quote.terms, quote.columns, norm if weighted else None)
    try:
        meat = ask(_request(request, quote, weight, np.full(d, _DIGITS), np.full((d, d), _DIGITS), 1.0))
    except RequestInvalidError as error:
        raise ValueError(
            f"robust=True is refused: a curator does not compute Σ g gᵀ of this model. {error}. Fewer features, "
            "rows='box' under which rows need no weight, or client.refine(…) may work"
        ) from error
    return quote_steps(ask, fetch, request, quote, meat)


def meat_request(request: ReleaseRequest, quote: Quote, release: Release) -> ScoreRequest | None:
    """Return the step that buys Σ g gᵀ after a release; None where its noise would outweigh it.

    Parameters
    ----------
    request : ReleaseRequest
        What was asked for, at the whole price.
    quote : Quote
        Of it, in one step.
    release : Release
        As it was bought.
    """
    mu = quote.cost.mu if quote.cost.mu is not None else math.sqrt(2.0 * (quote.cost.rho or 0.0))
    assert release.xtx is not None
    rows, d = float(release.xtx[0, 0]), len(release.terms)
    norm = norm_in_deviations(rows, d, mu * math.sqrt(ROBUST_SHARE))
    if norm is None:
        return None
    theta, P, sd, sampled = _solve(release)
    if sampled < _SAMPLED_LEAST:
        return None
    weight = _weight(request, release.terms, release.columns, release.norm if release.weights_rows else None)
    return _request(request, quote, weight, theta, P, norm * sd * math.sqrt(d))


def _weight(
    request: ReleaseRequest, terms: Sequence[Term], columns: Sequence[Column], norm: float | None
) -> Expression | None:
    """Return the weight of a row in a release: that of the request, that of the ball, or both."""
    asked = read_condition(request.weight) if isinstance(request.weight, str) else request.weight
    if norm is None:
        return asked
    ball = write_weight(terms, columns, norm)
    return ball if asked is None else call("multiply", asked, ball)


def _solve(release: Release) -> tuple[FloatArray, FloatArray, float, float]:
    """Return coefficients, directions that whiten XᵀX, and the residual deviation, as far as noise tells them.

    And the largest share of sampling error in the variance of a coefficient.
    """
    assert release.xtx is not None
    assert release.xty is not None
    assert release.yty is not None
    rows, d = float(release.xtx[0, 0]), len(release.terms)
    eigenvalues, Q = np.linalg.eigh(release.xtx)
    least = max(SURE * math.sqrt(d) * (release.noise.xtx_offdiagonal or 0.0), LEAST * rows)
    eigenvalues = np.maximum(eigenvalues, least)
    b = release.xty[:, 0]
    theta = Q @ (Q.T @ b / eigenvalues)
    left = float(release.yty[0] - 2.0 * b @ theta + theta @ release.xtx @ theta)
    law = NoiseLaw.of(release.noise, d)
    variance = max(left, math.sqrt(law.residual_sum_covariance(theta, theta)), LEAST * rows) / rows
    inverse = (Q / eigenvalues) @ Q.T
    sampled, private = variance * np.diag(inverse), np.sum((inverse @ law.covariance(theta)) * inverse, axis=1)
    return theta, inverse_root(eigenvalues / rows, Q), math.sqrt(variance), float(np.max(sampled / (sampled + private)))


def _request(
    request: ReleaseRequest, quote: Quote, weight: Expression | None, theta: FloatArray, P: FloatArray, norm: float
) -> ScoreRequest:
    names = [term.name for term in quote.terms]
    (target,) = request.named_targets or []
    asked = ScoreRequest(
        request.features,
        target,
        coefficients=dict(zip(names, theta.tolist(), strict=True)),
        directions=dict(zip(names, P.tolist(), strict=True)),
        norm=norm,
        bits=BITS,
        statistics=(MEAT,),
        where=request.where,
        weight=weight,
        epsilon=1.0,
        delta=0.5,
        fresh=request.fresh,
        project=request.project,
        reservation=request.reservation,
    )
    return paying(asked, quote, ROBUST_SHARE)
