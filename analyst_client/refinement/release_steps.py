"""Buying one release in two steps: counts of rows by their length, and the release whose row map they choose."""

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
from analyst_client.kinds.gram.two_steps import norms_request, release_request, takes_two_steps
from analyst_client.refinement.holding import Holding, Seller, key_of
from analyst_client.schema.datasets import Dataset


def buy_in_steps(
    seller: Seller, declared: Dataset, request: ReleaseRequest, quote: Quote, price: Mapping[str, float]
) -> Release:
    """Buy the counts, choose the row map by them, and buy the release; in one step where two do not fit.

    Parameters
    ----------
    seller : Seller
    declared : Dataset
    request : ReleaseRequest
        One that leaves its row map open.
    quote : Quote
        Of it, in one step.
    price : mapping of str to float
        As the request states it.

    Raises
    ------
    CuratorError
        With a note that says which reservation holds the rest of the price, or that it was given back.
    """
    whole = partial(seller.release, declared.name, request)
    if not takes_two_steps(request, quote) or _is_refused(seller, declared, request, quote):
        return cast("Release", whole())
    said = {"of": "a release", "again": secrets.token_hex(8) if request.fresh else ""}
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
    try:
        try:
            norms = holding.release(norms_request(request, quote))
        except BudgetExceededError:
            if holding.id is not None:
                raise
            return cast("Release", whole())  # refused in words that say more than those of a reservation
        release: Release = holding.release(release_request(request, quote, norms))
    except BaseException as error:
        if isinstance(error, CuratorError):
            error.idempotency_key = None  # of one step, not of the same call
        holding.explain(error)
        raise
    with suppress(CuratorError):  # what was bought is here, and what is held ends by itself
        holding.close()
    return replace(release, steps=(norms,))


def _is_refused(seller: Seller, declared: Dataset, request: ReleaseRequest, quote: Quote) -> bool:
    """Return whether two steps would be refused: by the curator, or by a given reservation after the first."""
    try:
        first = seller.quote(declared.name, norms_request(request, quote))
    except RequestInvalidError:  # more terms than a curator takes directions
        return True
    return request.reservation is not None and not quote.affordable and first.stored_release is None
