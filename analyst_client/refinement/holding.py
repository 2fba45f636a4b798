"""The reservation of a refinement: made when the first step has to be paid, and found again by the same call."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

from analyst_client._version import __version__
from analyst_client.errors import (
    AuthenticationError,
    BudgetExceededError,
    CuratorError,
    JobError,
    LedgerMemoryError,
    RequestInvalidError,
    ReservationEndedError,
    ServiceUnavailableError,
    TransportError,
)
from analyst_client.http.retry import is_retried
from analyst_client.schema.accounts import Reservation
from analyst_client.schema.amounts import price_of_units
from analyst_client.schema.datasets import Dataset

HELD_S = 3600
"""Seconds that a reservation lasts: for longer than an hour, a curator lets at most half of a budget be held."""
_PASSING = (
    *(AuthenticationError, TransportError, ServiceUnavailableError, JobError, LedgerMemoryError),
    *(OSError, MemoryError, Warning),
)
"""Errors that the same call need not meet again: a token is renewed, a line is mended, a job is begun anew."""


class Seller(Protocol):
    """A curator, as `CuratorClient` asks it."""

    def quote(self, dataset: str, request: Any, /) -> Any:
        """Return the quote of a request."""

    def release(self, dataset: str, request: Any, /, *, idempotency_key: str | None = None) -> Any:
        """Return the release of a request; the same key returns the first answer again."""

    def reserve(
        self, dataset: str, *, expires_in_s: int, project: str | None, idempotency_key: str, **price: float
    ) -> Reservation:
        """Hold an amount; the same key returns the first answer again."""

    def reservation(self, reservation_id: str) -> Reservation:
        """Return a reservation as it is now."""

    def close_reservation(self, reservation_id: str) -> Reservation:
        """Give back what is left of it."""


def key_of(dataset: Dataset, request: Any, **said: Any) -> str:
    """Return the key of a refinement's reservation: the same for the same call of this version of the library.

    The curator keeps the keys of each analyst apart.

    Parameters
    ----------
    dataset : Dataset
    request : Request
        One release of the model, at the whole price.
    **said : object
        All else that decides the steps.
    """
    whole = [__version__, dataset.name, dataset.snapshot, request.to_json().decode(), said]
    return f"refine-{hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:40]}"


class Holding:
    """The reservation from which the steps of a refinement are paid.

    Nothing is held while steps are answered by stored releases. The first one that is not makes a reservation, whose
    idempotency key follows from the call: the same call finds it again. One that has ended is followed by another, of
    what was not drawn from it, so that all of them together never cost more than the price.

    A step's answer has an idempotency key that follows from the call, too. A quieter release of the same entries that
    somebody buys later is then no answer to it, and the steps after it are those that were bought.

    Parameters
    ----------
    seller : Seller
    quote : callable
        The curator's quote of a step.
    dataset : Dataset
    key : str
        See `key_of`.
    price : mapping of str to float
    project : str or None
    given : str or None
        A reservation of the analyst's own, which is neither made nor closed here.
    before_paying : callable
        Called before anything is held; it raises what would fail later.
    once : bool
        Whether the key is of this call alone, so that no other finds what is held.
    """

    def __init__(
        self,
        seller: Seller,
        quote: Callable[[Any], Any],
        dataset: Dataset,
        key: str,
        price: Mapping[str, float],
        *,
        project: str | None,
        given: str | None,
        before_paying: Callable[[], None],
        once: bool = False,
    ) -> None:
        self._seller, self._quote, self._dataset, self._key, self._price = seller, quote, dataset, key, dict(price)
        self._project, self._given, self._before_paying, self._once = project, given, before_paying, once
        self.id = given
        self._pays = self._was_asked = False

    def release(self, asked: Any) -> Any:
        """Return the release of a step: a stored one, or one that is paid by the reservation."""
        if not self._pays:
            if self._is_free(asked):
                return self._read(asked)  # whoever is refused a price may still read
            self.reserve()
        bought = self._buy(asked)
        read = bought if asked.fresh else self._read(asked)
        return bought if read.id == bought.id else read

    def reserve(self) -> None:
        """Hold the price of the steps that are not stored."""
        self._before_paying()
        self._pays, self.id = True, self.id or self._reserve()

    def _is_free(self, asked: Any) -> bool:
        quoted = self._quote(asked)
        return quoted.stored_release is not None or quoted.derivable_from is not None

    def _read(self, asked: Any) -> Any:
        """Return the stored release of a step: of several the one that this call was answered first."""
        key = f"{self._key}-{hashlib.sha256(asked.to_json()).hexdigest()[:40]}"
        return self._seller.release(self._dataset.name, asked, idempotency_key=key)

    def _buy(self, asked: Any) -> Any:
        name = self._dataset.name
        assert self.id is not None
        try:
            return self._seller.release(name, replace(asked, reservation=self.id))
        except ReservationEndedError:
            if self._given is None and self._is_free(asked):
                return self._read(asked)  # the same call went ahead elsewhere, and gave the rest back
            if self._given is not None or self._seller.reservation(self.id).state == "closed":
                raise
        with suppress(ReservationEndedError):  # its time is over, and the curator may hold it for a moment more
            self.close()
        self.id = None
        self.id = self._reserve()
        return self._seller.release(name, replace(asked, reservation=self.id))

    def _reserve(self) -> str:
        """Make the reservation of this call, or find it; return its id."""
        price, self._was_asked = self._price, True
        for k in count():
            try:
                made = self._seller.reserve(
                    self._dataset.name,
                    expires_in_s=HELD_S,
                    project=self._project,
                    idempotency_key=f"{self._key}-{k}",
                    **price,
                )
            except RequestInvalidError as refused:
                if refused.slug != "idempotency-key-reused":  # by a dataset of this name that there was before
                    raise
                continue
            found = self._seller.reservation(made.id)
            if found.state == "open":
                return found.id
            price = self._left(found)
        raise AssertionError("count() ends")

    def _left(self, ended: Reservation) -> dict[str, float]:
        """Return what was not drawn from a reservation that has ended."""
        units = (ended.reserved.units or 0) - (ended.drawn.units or 0)
        return price_of_units(self._dataset.accountant, max(units, 1))

    def close(self) -> None:
        """Give back what is left, where something is held by this call itself."""
        if self.id is not None and self._given is None:
            self._seller.close_reservation(self.id)

    def explain(self, error: BaseException) -> None:
        """Give the rest back where the same call would fail again, and add a note to the error that says what is held.

        An interruption, and an answer that was lost, keep what is held for the same call.
        """
        if self.id is None:
            if isinstance(error, BudgetExceededError):
                error.add_note(
                    "client.reservations() lists what you hold, and client.close_reservation(…) gives it back"
                )
            elif self._was_asked and not recurs(error):
                found = "" if self._once else "the same call finds it, "
                error.add_note(f"a reservation may have been made: {found}client.reservations() lists it")
            return
        named = f"reservation={self.id!r}"
        if self._given is not None:
            goes_on = "" if self._once else ": the same call goes on where this ended"
            error.add_note(f"what is left waits in {named}, which you gave{goes_on}")
            return
        if not (self._once or recurs(error)):
            error.add_note(
                f"the rest of the price waits in {named} for an hour at most: the same call goes on "
                f"where this ended, and pays for no step twice; client.close_reservation({self.id!r}) gives it back"
            )
            return
        if isinstance(error, BudgetExceededError):
            error.add_note(
                "where an earlier call was of another version of the library, it may have paid for other steps: state "
                "another price, and it begins anew"
            )
        try:
            with suppress(ReservationEndedError):
                self.close()
        except CuratorError as failed:
            error.add_note(f"the rest of the price is held by {named}, which could not be closed: {failed}")
            return
        bought = "client.releases(…) lists" if self._once else "nothing more is charged for"
        error.add_note(f"the rest of the price was given back ({named} is closed); {bought} steps that were bought")


def recurs(error: BaseException) -> bool:
    """Return whether the same call would most likely fail alike."""
    if not isinstance(error, Exception) or isinstance(error, _PASSING):
        return False
    return not isinstance(error, CuratorError) or not (is_retried(error) or (error.status or 0) >= 500)
