"""Buying one release in steps: counts of rows by their length, the release whose row map they choose, and Σ g gᵀ."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import cast

from analyst_client.errors import BudgetExceededError, CuratorError, RequestInvalidError
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.row_lengths import SHARE
from analyst_client.kinds.gram.two_steps import (
    ROBUST_SHARE,
    leaves_row_map,
    norms_request,
    paying,
    release_request,
    takes_two_steps,
)
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.holding import Holding, Seller, key_of
from analyst_client.refinement.robust import meat_request
from analyst_client.schema.datasets import Dataset


def buy_in_steps(
    seller: Seller,
    declared: Dataset,
    request: ReleaseRequest,
    quote: Quote,
    price: Mapping[str, float],
    *,
    robust: bool = False,
) -> Release:
    """Buy the counts, choose the row map by them, and buy the release; in one step where two do not fit.

    For robust standard errors Σ g gᵀ follows, unless it would tell too little; what it would have cost goes back.

    Parameters
    ----------
    seller : Seller
    declared : Dataset
    request : ReleaseRequest
        One that leaves its row map open, or for robust standard errors any that `quote_robust` lets pass.
    quote : Quote
        Of it, in one step.
    price : mapping of str to float
        As the request states it.
    robust : bool

    Raises
    ------
    CuratorError
        With a note that says which reservation holds the rest of the price, or that it was given back.
    """
    whole = partial(seller.release, declared.name, request)
    if not robust and (not takes_two_steps(request, quote) or _is_refused(seller, declared, request, quote)):
        return cast("Release", whole())
    said = {"of": "a release", "again": secrets.token_hex(8) if request.fresh else ""}
    said |= {"errors": "robust"} if robust else {}
    holding = Holding(
        seller,
        partial(seller.quote, declared.name),
        declared,
        key_of(declared, request, **said),
        price,
        project=request.project,
        given=request.reservation,
        before_paying=lambda: None,
        once=request.fresh,
    )
    share, steps = 1.0 - (ROBUST_SHARE if robust else 0.0), list[ScoreRelease]()
    try:
        try:
            if leaves_row_map(request):
                steps.append(holding.release(norms_request(request, quote)))
        except BudgetExceededError:
            if robust or holding.id is not None:
                raise
            return cast("Release", whole())  # refused in words that say more than those of a reservation
        asked = release_request(request, quote, steps[0], share - SHARE) if steps else paying(request, quote, share)
        release: Release = holding.release(asked)
        if robust and (last := meat_request(request, quote, release)) is not None:
            steps.append(holding.release(last))
    except BaseException as error:
        if isinstance(error, CuratorError):
            error.idempotency_key = None  # of one step, not of the same call
        holding.explain(error)
        raise
    with suppress(CuratorError):  # what was bought is here, and what is held ends by itself
        holding.close()
    return replace(release, steps=tuple(steps))


def _is_refused(seller: Seller, declared: Dataset, request: ReleaseRequest, quote: Quote) -> bool:
    """Return whether two steps would be refused: by the curator, or by a given reservation after the first."""
    try:
        first = seller.quote(declared.name, norms_request(request, quote))
    except RequestInvalidError:  # more terms than a curator takes directions
        return True
    return request.reservation is not None and not quote.affordable and first.stored_release is None
