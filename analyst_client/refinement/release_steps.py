"""Buying one release in steps: counts of rows by their length, the release whose row map they choose, and Σ g gᵀ."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from analyst_client.errors import CuratorError, RequestInvalidError
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
    if not robust and (not takes_two_steps(request, quote) or _is_refused(seller, declared, request, quote)):
        whole: Release = seller.release(declared.name, request)
        return whole
    said = {"of": "a release", "again": secrets.token_hex(8) if request.fresh else ""}
    said |= {"errors": "robust"} if robust else {}
    project, given = request.project, request.reservation
    holding = Holding(
        seller,
        partial(seller.quote, declared.name),
        declared,
        key_of(declared, request, **said),
        price,
        project=project,
        given=given,
        before_paying=lambda: None,
    )
    step = request if given is not None else replace(request, project=None)  # the reservation's counts
    share, steps = 1.0 - (ROBUST_SHARE if robust else 0.0), list[ScoreRelease]()
    try:
        if leaves_row_map(request):
            steps.append(holding.release(norms_request(step, quote)))
            release: Release = holding.release(release_request(step, quote, steps[0], share - SHARE))
        else:
            release = holding.release(paying(step, quote, share))
        if robust and (asked := meat_request(step, quote, release)) is not None:
            steps.append(holding.release(asked))
    except BaseException as error:
        if isinstance(error, CuratorError):
            error.idempotency_key = None  # of one step, not of the same call
        holding.explain(error)
        raise
    with suppress(CuratorError):  # what was bought is here, and what is held ends by itself
        holding.close()
    return replace(release, steps=tuple(steps))


def _is_refused(seller: Seller, declared: Dataset, request: ReleaseRequest, quote: Quote) -> bool:
    """Return whether two steps would be refused, in words that say less than those of one."""
    try:
        first = seller.quote(declared.name, norms_request(request, quote))
    except RequestInvalidError:  # more terms than a curator takes directions
        return True
    return not quote.affordable and first.stored_release is None and request.reservation is None
