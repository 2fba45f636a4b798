"""Requests of one client: what an answer states of the ledger is checked before it is used."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote as quote_path

import httpx

from analyst_client.errors import (
    CuratorError,
    DatasetNotFoundError,
    LedgerError,
    LedgerRestoredWarning,
    ReceiptInvalidError,
    ServiceError,
)
from analyst_client.http.transport import Transport
from analyst_client.kinds.registry import read_answer
from analyst_client.ledger.checkpoints import Checkpoint
from analyst_client.ledger.keys import CuratorKey, read_listing
from analyst_client.ledger.memory import Memory
from analyst_client.ledger.receipts import check_entry, check_shape, is_known
from analyst_client.ledger.trust import Freshness, LedgerSnapshot, LedgerTrust
from analyst_client.ledger.verification import verify_answer
from analyst_client.meant import say_meant
from analyst_client.schema.accounts import Budget, Reservation
from analyst_client.schema.answers import Answer
from analyst_client.schema.wire import Fields, parse_json

OLDER_SOURCES = frozenset({"replayed", "stored", "derived"})


class CuratorResponse(NamedTuple):
    """An answer, and what was remembered before its request was sent."""

    http: httpx.Response
    snapshot: LedgerSnapshot

    @property
    def body(self) -> Fields:
        """Members of the answer."""
        return Fields(parse_json(read_text(self.http)))

    @property
    def source(self) -> str | None:
        """The header ``Curator-Answer``: the way in which the curator answered, or None."""
        source: str | None = self.http.headers.get("Curator-Answer")
        return source


class Session:
    """Ask one curator.

    Parameters
    ----------
    transport : Transport
    memory : Memory
    key : str or None
        The curator's key, as `LedgerTrust` takes it.
    """

    def __init__(self, transport: Transport, memory: Memory, key: str | None) -> None:
        self.transport = transport
        self.trust = LedgerTrust(memory, key, self._list_keys)

    def ask(
        self,
        method: str,
        path: str,
        *,
        dataset: str | None = None,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        idempotency_key: str | None = None,
        prefer: str | None = None,
    ) -> CuratorResponse:
        """Send a request; one on a dataset says what was seen of its population.

        Raises
        ------
        CuratorError
            The refusal. What costs something is not sent while the memory cannot be kept.
        """
        if idempotency_key is not None:
            self.trust.memory.prepare()
        snapshot = self.trust.take_snapshot()
        headers = {} if dataset is None else snapshot.headers(dataset)
        if prefer is not None:
            headers["Prefer"] = prefer
        try:
            response = self.transport.request(
                method, path, params=params, content=content, idempotency_key=idempotency_key, headers=headers
            )
        except CuratorError as error:
            if isinstance(error, DatasetNotFoundError) and dataset is not None:
                with suppress(CuratorError):
                    error.args = (f"{str(error).rstrip('.')}{say_meant(dataset, self.list_names())}",)
            if error.slug == "checkpoint-invalid":
                error.add_note(
                    "The checkpoint that was sent was signed by a key of the curator that was seen before, and this "
                    f"curator does not know it. It was remembered in {self.trust.memory.path or 'this process'}."
                )
            raise
        return CuratorResponse(response, snapshot)

    def list_names(self) -> tuple[str, ...]:
        """Return the names of the datasets that this token may see."""
        return self.ask("GET", "/v1/datasets").body.each("datasets", lambda one: one.text("name"))

    def accept_budget(self, response: CuratorResponse, dataset: str) -> Budget:
        """Return a budget whose checkpoint was checked and remembered."""
        budget = Budget.read(response.body)
        if budget.dataset != dataset or budget.checkpoint.population != budget.population:
            raise ReceiptInvalidError(reasons=("the checkpoint is not that of this dataset's population",))
        self.trust.accept(budget.checkpoint, response.snapshot, "head", dataset=dataset)
        return budget

    def accept_reservation(self, response: CuratorResponse) -> Reservation:
        """Return a reservation whose receipt was checked and remembered."""
        reservation = Reservation.read(response.body)
        stated = {
            "kind": "reserve",
            "population": reservation.population,
            "reservation": reservation.id,
            "units": str(reservation.reserved.units),
            "expires_at": reservation.expires_at,
        }
        freshness: Freshness = "new" if response.source == "new" else "any"
        try:
            self.accept_entry(reservation.receipt, stated, response.snapshot, reservation.dataset, freshness)
        except (LedgerError, LedgerRestoredWarning) as caught:
            caught.reservation = reservation
            raise
        return reservation

    def accept_entry(
        self,
        receipt: dict[str, Any],
        stated: Mapping[str, Any],
        snapshot: LedgerSnapshot,
        dataset: str,
        freshness: Freshness = "any",
    ) -> None:
        """Check that a receipt is whole and states what an answer says, and remember its place.

        Raises
        ------
        LedgerError
        """
        reasons = (
            check_entry(receipt) + check_shape(receipt) if is_known(receipt) else ["the receipt's format is unknown"]
        )
        if not reasons:
            reasons = [
                f"the receipt states another {name}" for name, value in stated.items() if receipt.get(name) != value
            ]
        if reasons:
            raise ReceiptInvalidError(reasons=tuple(reasons))
        self._accept_receipt(receipt, snapshot, freshness, dataset)

    def accept_release(
        self, response: CuratorResponse, snapshot: LedgerSnapshot | None, *, dataset: str | None = None
    ) -> Answer:
        """Return a release that was checked and remembered.

        Parameters
        ----------
        response : CuratorResponse
        snapshot : LedgerSnapshot or None
            What its entry must be above; None where the release may be an older one.
        dataset : str, optional
            The dataset that was asked.

        Raises
        ------
        LedgerError
            With the release, which may have been charged.
        """
        release = read_answer(read_text(response.http), response.source or (None if snapshot is None else "new"))
        try:
            outcome = verify_answer(release.text)
            reasons = () if outcome else outcome.reasons
            if dataset not in {None, release.dataset}:
                reasons += (f"a release of {dataset!r} was asked, and one of {release.dataset!r} was answered",)
            if reasons or release.receipt is None:
                raise ReceiptInvalidError(reasons=reasons)
            freshness: Freshness = "any" if snapshot is None else "new"
            self._accept_receipt(release.receipt, snapshot or response.snapshot, freshness, release.dataset)
        except (LedgerError, LedgerRestoredWarning) as caught:
            caught.release = release
            raise
        return release

    def fetch_release(
        self, release_id: str, snapshot: LedgerSnapshot | None = None, *, dataset: str | None = None
    ) -> Answer:
        """Fetch a release by its id, and check and remember it."""
        response = self.ask("GET", f"/v1/releases/{path_segment(release_id)}")
        release = self.accept_release(response, snapshot, dataset=dataset)
        if release.id != release_id:
            raise ServiceError(f"malformed answer: {release_id} was asked, and {release.id} was answered")
        return release

    def _accept_receipt(
        self, receipt: dict[str, Any], snapshot: LedgerSnapshot, freshness: Freshness, dataset: str
    ) -> None:
        checkpoint = Checkpoint.read(receipt)
        self.trust.accept(checkpoint, snapshot, freshness, dataset=dataset, previous_hash=receipt["previous_hash"])

    def _list_keys(self) -> tuple[CuratorKey, ...]:
        try:
            return read_listing(parse_json(read_text(self.transport.request("GET", "/v1/keys"))))
        except ValueError as error:
            raise ServiceError(f"malformed answer: {error}") from None


def dataset_path(name: str) -> str:
    """Return the path of a dataset."""
    return f"/v1/datasets/{path_segment(name)}"


def path_segment(name: str) -> str:
    """Return a name as one segment of a path, whatever it holds."""
    if name in {"", ".", ".."}:
        raise ValueError(f"{name!r} names nothing")
    return quote_path(name, safe="")


def read_text(answer: httpx.Response) -> str:
    """Return the exact text of an answer."""
    try:
        return answer.content.decode("utf-8")
    except UnicodeDecodeError:
        raise ServiceError("malformed answer: not text in UTF-8", status=answer.status_code) from None
