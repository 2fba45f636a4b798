r"""The row map of one release, chosen in two charged steps: noisy counts of rows by their length, then the release.

The first step costs `SHARE` of the price. It is the histogram of norms of a score whose residual is 1 in every row, so
that a row's gradient is its scaled terms x without the constant. The second is the release itself, with the norm that
`choose_rows` reads off the counts. So the choice rests on public numbers and on what was paid for, never on rows.

Notes
-----
A row counts with the weight :math:`w^2 = \min(1, R^2/(1 + \lVert x\rVert^2))`. With :math:`N = \sum w^2` the squared
error of a typical slope is about :math:`S/N + QR^2/N^2 + Sb^2(1 - N/n)^2`: sampling error, the noise in Xᵀy, and how
far a model that is not linear moves as rows lose weight. As :math:`dN/d\log R = 2pN`, with p the part of N that belongs
to rows longer than R, it is least where

.. math:: p = \frac{u}{1 + 2u + 2b^2(1 - N/n)N^2/n},\qquad u = \frac{QR^2/N^2}{S/N}.

The rule takes the widest R at which p is at least that, about the median of rows where noise outweighs sampling error;
and the box where its own u is below a fiftieth. Residuals and slopes are not known then: constants stand for them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeGuard, TypeVar

import numpy as np

from analyst_client.display.model import Block, Note, number
from analyst_client.errors import RequestInvalidError
from analyst_client.kinds.gram.quote import Quote, show_noise
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.row_lengths import POINTS, SHARE, count_groups, spread_counts
from analyst_client.kinds.score import NORMS
from analyst_client.kinds.score.quote import ScoreQuote
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.schema.columns import Term
from analyst_client.terms.expression import Expression

ROBUST_SHARE = 0.05
"""Part of the price for Σ g gᵀ, where robust standard errors are asked for: with a tenth intervals held no more."""
SPENT = 1.0 - 1e-9
"""Part of each step's price that is asked for: a curator rounds each cost up."""
BITS = 12
"""Binary digits of a posted direction."""
SURE = 6.0
"""Deviations of its noise by which the count of all rows must exceed 0; else the small norm is taken."""
BOX_BELOW = 0.02
"""Ratio of noise to sampling variance under the box below which it is taken: intervals are then 1 % longer at most,
and every row counts alike."""
STEPS = 36
"""Norms that are tried below the longest row's: R² comes 1.26 times nearer to 1 with each."""
RESIDUAL_SD = 0.25
"""Residual deviation that is assumed, of a target within [−1, 1]."""
VARYING = 0.5
"""Part of the mean square of a scaled term that is assumed to be variance about its mean."""
BENT = 0.04
"""Assumed distance of slopes from those of unweighted rows, if all weight were lost: in residual deviations for one
deviation of the term. At 0.02 intervals of the CPS at ε = 1 hold 0.92 in place of 0.94; at 0.07 those of five sets are
longer than 1.2 times the better of two named maps (``bench/figures.py``, ``bench/row_maps.py``)."""


Asking = TypeVar("Asking", ReleaseRequest, ScoreRequest)


def leaves_row_map(request: Any) -> TypeGuard[ReleaseRequest]:
    """Return whether two steps may choose the row map: where nothing of the request says or presumes one.

    They need Gaussian noise, a constant, a target, and XᵀX with Xᵀy.
    """
    if not isinstance(request, ReleaseRequest):
        return False
    said = (request.rows, request.norm, request.expected_rows, request.calibration)
    statistics = {"xtx", "xty"} if request.statistics is None else set(request.statistics)
    return (
        all(value is None for value in said)
        and request.mechanism in {None, "gaussian"}
        and request.intercept
        and bool(request.named_targets)
        and {"xtx", "xty"} <= statistics
    )


def paying(request: Asking, quote: Quote, share: float, **changes: Any) -> Asking:
    """Return a request at a part of a quoted price."""
    options: dict[str, Any] = dict.fromkeys(("epsilon", "delta", "mu", "rho"))
    return replace(request, **(options | _part(quote, share * SPENT) | changes))


def _part(quote: Quote, share: float) -> dict[str, float]:
    mu, rho = quote.cost.mu, quote.cost.rho
    return {"mu": mu * math.sqrt(share)} if mu is not None else {"rho": (rho or 0.0) * share}


def norms_request(request: ReleaseRequest, quote: Quote) -> ScoreRequest:
    """Return the first step of a release, quoted at the whole price: counts of rows by ‖x‖, without the constant."""
    targets = zip(request.named_targets or [], quote.targets, strict=True)
    terms = [term.name for term in quote.terms if term.kind != "constant"]
    asked = ScoreRequest(
        request.features,
        reduce(lambda one, other: one & other, (_never(target, term) for target, term in targets)),
        coefficients={"(constant)": -1.0},
        directions=dict(zip(terms, np.eye(len(terms)).tolist(), strict=True)),
        norm=math.sqrt(count_groups(quote)),
        bits=BITS,
        statistics=(NORMS,),
        where=request.where,
        weight=request.weight,
        epsilon=1.0,
        delta=0.5,
        fresh=request.fresh,
        project=request.project,
        reservation=request.reservation,
    )
    return paying(asked, quote, SHARE)


def _never(target: Expression, term: Term) -> Expression:
    """Return a condition that is false of each row that has the target."""
    condition = target > term.center if term.kind == "numeric" else target
    return condition & ~condition


def choose_rows(norms: ScoreRelease, groups: int, xty_sd: float) -> dict[str, Any]:
    """Choose the row map by the published rule, as it stands on the wire.

    `norms` is the first step, `groups` the square of the longest possible row without the constant, `xty_sd` the
    deviation of the noise in an entry of Xᵀy that the second step has at the norm 1.
    """
    squares, rows = spread_counts(norms, groups)
    total, sd = float(rows.sum()), (norms.noise.norms or 0.0) * math.sqrt(len(rows) / POINTS)
    if total <= SURE * sd:
        return _ball(1.0 + groups / 10.0)
    rows = np.maximum(rows, 0.0)
    rows *= total / rows.sum()
    for step in range(STEPS + 1):
        squared = 1.0 + groups * 1.6 ** (-step / 2.0)
        weights = rows * np.minimum(1.0, squared / (1.0 + squares))
        ratio = squared * xty_sd**2 / (RESIDUAL_SD**2 * VARYING * float(weights @ squares) / groups)
        if step == 0 and ratio <= BOX_BELOW:
            return {"map": "box"}
        kept = float(weights.sum())
        bent = BENT**2 * (1.0 - kept / total) * kept**2 / total
        if weights[1.0 + squares > squared].sum() >= ratio / (1.0 + 2.0 * ratio + 2.0 * bent) * kept:
            break
    return _ball(squared)


def _ball(squared: float) -> dict[str, Any]:
    return {"map": "ball", "norm": round(math.sqrt(squared), 4)}


def release_request(
    request: ReleaseRequest, quote: Quote, norms: ScoreRelease, share: float = 1.0 - SHARE
) -> ReleaseRequest:
    """Return the second step, at a part of the price, with the row map that the first one chose."""
    xty_sd = (quote.noise.xty or 0.0) / float(quote.request["rows"]["norm"]) / math.sqrt(share)
    return paying(request, quote, share, rows=choose_rows(norms, count_groups(quote), xty_sd))


@dataclass(frozen=True)
class TwoSteps:
    """The quotes of a release in steps: of its first step, and of its possible outcomes.

    `norms` is that of the counts of rows by their length, None where no step chooses the row map. `narrow` and `wide`
    are of the release under a norm that hardly exceeds 1, and under the box: its noise lies between; they are the same
    where no step chooses. `meat` is of Σ g gᵀ, which makes standard errors robust, where it was asked for.
    """

    norms: ScoreQuote | None
    narrow: Quote
    wide: Quote
    meat: ScoreQuote | None = None

    def list_noise(self, terms: int, targets: int) -> tuple[Block, ...]:
        """Return the tables of both outcomes, and what the other steps tell."""
        return (*self._list_release(terms, targets), *self._list_meat())

    def _list_meat(self) -> tuple[Block, ...]:
        if self.meat is None:
            return ()
        noise = number(self.meat.noise.meat_diagonal or 0.0)
        return (
            Note(
                f"Robust standard errors of this one model: one more charged step, of {ROBUST_SHARE:.0%} of the price, "
                f"buys Σ g gᵀ of its gradients, with noise of {noise} squares of the norm that they are clipped to. "
                "Where that would tell too little of so few rows it is not bought, and its part is given back."
            ),
        )

    def _list_release(self, terms: int, targets: int) -> tuple[Block, ...]:
        if self.norms is None:
            return (show_noise(self.wide.noise, terms, targets),)
        norm = number(self.narrow.request["rows"]["norm"])
        return (
            show_noise(self.narrow.noise, terms, targets, under=f"at the least, under the norm {norm} "),
            show_noise(self.wide.noise, terms, targets, under="at the most, under the box "),
            Note(
                f"The row map is chosen in two charged steps: {SHARE:.0%} of the price buys counts of rows by "
                f"their length, with noise of {number(self.norms.noise.norms or 0.0)} rows in each, and a published "
                "rule reads the norm off them. rows= or expected_rows= names or chooses it in one step."
            ),
        )


def quote_steps(
    ask: Callable[[Any], Any],
    fetch: Callable[[str], Any],
    request: ReleaseRequest,
    quote: Quote,
    meat: ScoreQuote | None = None,
) -> Quote:
    """Return the quote of what a call would do: of two steps, of the second alone where the first is stored, or of one.

    `ask` and `fetch` return the quote of a request, and a stored release by its id. The request is one that
    `leaves_row_map`, and `quote` is of it in one step; `meat` is of one more step, which follows any others: the
    request may then name its row map.
    """
    share = 1.0 - (ROBUST_SHARE if meat is not None else 0.0)
    if meat is not None:
        quote = replace(quote, stored_release=None, derivable_from=None)  # of one step
        if not leaves_row_map(request):
            release = ask(paying(request, quote, share))
            return replace(quote, steps=TwoSteps(None, release, release, meat))
    elif not takes_two_steps(request, quote):
        return quote
    try:
        norms = ask(norms_request(request, quote))
    except RequestInvalidError:  # more terms than a curator takes directions
        return quote
    share -= SHARE
    if meat is None and norms.stored_release is not None and not request.fresh:
        second: Quote = ask(release_request(request, quote, fetch(norms.stored_release)))
        return second
    shortest = _ball(1.0 + count_groups(quote) * 1.6 ** (-STEPS / 2.0))
    narrow, wide = (ask(paying(request, quote, share, rows=rows)) for rows in (shortest, {"map": "box"}))
    return replace(quote, steps=TwoSteps(norms, narrow, wide, meat))


def takes_two_steps(request: ReleaseRequest, quote: Quote) -> bool:
    """Return whether a request is bought in two steps: unless it is stored, or its account counts in pure ε."""
    counts = quote.cost.mu is not None or quote.cost.rho is not None
    is_free = quote.stored_release is not None or quote.derivable_from is not None
    return counts and count_groups(quote) > 0 and (request.fresh or not is_free)
