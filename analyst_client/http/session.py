"""Requests of one client with its ledger watched: what an answer says of the ledger is checked before it is used."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote as quote_path

import httpx

from analyst_client.errors import CuratorError, LedgerError, LedgerRestoredWarning, ReceiptInvalidError, ServiceError
from analyst_client.http.transport import Transport
from analyst_client.kinds.registry import read_answer
from analyst_client.ledger.checkpoints import Checkpoint
from analyst_client.ledger.keys import CuratorKey, read_listing
from analyst_client.ledger.memory import Memory
from analyst_client.ledger.receipts import check_entry, check_shape, is_known
from analyst_client.ledger.trust import Age, Guard, Mark
from analyst_client.ledger.verification import verify_answer
from analyst_client.schema.accounts import Budget, Reservation
from analyst_client.schema.answers import Answer
from analyst_client.schema.wire import Fields, parse_json

OLDER_ANSWERS = frozenset({"replayed", "stored", "derived"})


class Answered(NamedTuple):
    """An answer, and what was remembered before its request was sent."""

    response: httpx.Response
    mark: Mark

    @property
    def body(self) -> Fields:
        """The object of the answer."""
        return Fields(parse_json(read_text(self.response)))

    @property
    def told(self) -> str | None:
        """How the curator says that it answered."""
        told: str | None = self.response.headers.get("Curator-Answer")
        return told


class Session:
    """Ask one curator.

    Parameters
    ----------
    transport : Transport
    memory : Memory
    key : str or None
        The curator's key, as `Guard` takes it.
    """

    def __init__(self, transport: Transport, memory: Memory, key: str | None) -> None:
        self.transport = transport
        self.guard = Guard(memory, key, self._list_keys)

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
    ) -> Answered:
        """Send a request; one on a dataset says what was seen of its population.

        Raises
        ------
        CuratorError
            The refusal. What costs something is not sent while the memory cannot be kept.
        """
        if idempotency_key is not None:
            self.guard.memory.prepare()
        mark = self.guard.mark()
        headers = {} if dataset is None else mark.headers(dataset)
        if prefer is not None:
            headers["Prefer"] = prefer
        try:
            response = self.transport.request(
                method, path, params=params, content=content, idempotency_key=idempotency_key, headers=headers
            )
        except CuratorError as error:
            if error.slug == "checkpoint-invalid":
                error.add_note(
                    "The checkpoint that was sent was signed by a key of the curator that was seen before, and this "
                    f"curator does not know it. It was remembered in {self.guard.memory.path or 'this process'}."
                )
            raise
        return Answered(response, mark)

    def keep_budget(self, answered: Answered, dataset: str) -> Budget:
        """Return a budget whose checkpoint was checked and remembered."""
        budget = Budget.read(answered.body)
        if budget.dataset != dataset or budget.checkpoint.population != budget.population:
            raise ReceiptInvalidError(reasons=("the checkpoint is not that of this dataset's population",))
        self.guard.accept(budget.checkpoint, answered.mark, "head", dataset=dataset)
        return budget

    def keep_reservation(self, answered: Answered) -> Reservation:
        """Return a reservation whose receipt was checked and remembered."""
        reservation = Reservation.read(answered.body)
        receipt = reservation.receipt
        reasons = (
            check_entry(receipt) + check_shape(receipt) if is_known(receipt) else ["the receipt's format is unknown"]
        )
        if not reasons:
            stated = {
                "kind": "reserve",
                "population": reservation.population,
                "reservation": reservation.id,
                "units": str(reservation.reserved.units),
                "expires_at": reservation.expires_at,
            }
            reasons = [
                f"the receipt states another {name}" for name, value in stated.items() if receipt.get(name) != value
            ]
        try:
            if reasons:
                raise ReceiptInvalidError(reasons=tuple(reasons))
            age: Age = "new" if answered.told == "new" else "any"
            self._accept_receipt(receipt, answered.mark, age, reservation.dataset)
        except (LedgerError, LedgerRestoredWarning) as caught:
            caught.reservation = reservation
            raise
        return reservation

    def keep_release(self, answered: Answered, mark: Mark | None, *, dataset: str | None = None) -> Answer:
        """Return a release that was checked and remembered.

        Parameters
        ----------
        answered : Answered
        mark : Mark or None
            What its entry must be above; None where the release may be an older one.
        dataset : str, optional
            The dataset that was asked.

        Raises
        ------
        LedgerError
            With the release, which may have been paid.
        """
        release = read_answer(read_text(answered.response), answered.told or (None if mark is None else "new"))
        try:
            outcome = verify_answer(release.text)
            reasons = () if outcome else outcome.reasons
            if dataset not in {None, release.dataset}:
                reasons += (f"a release of {dataset!r} was asked, and one of {release.dataset!r} was answered",)
            if reasons or release.receipt is None:
                raise ReceiptInvalidError(reasons=reasons)
            age: Age = "any" if mark is None else "new"
            self._accept_receipt(release.receipt, mark or answered.mark, age, release.dataset)
        except (LedgerError, LedgerRestoredWarning) as caught:
            caught.release = release
            raise
        return release

    def fetch_release(self, release_id: str, mark: Mark | None = None, *, dataset: str | None = None) -> Answer:
        """Fetch a release by its id, and check and remember it."""
        answered = self.ask("GET", f"/v1/releases/{path_segment(release_id)}")
        release = self.keep_release(answered, mark, dataset=dataset)
        if release.id != release_id:
            raise ServiceError(f"malformed answer: {release_id} was asked, and {release.id} was answered")
        return release

    def _accept_receipt(self, receipt: dict[str, Any], mark: Mark, age: Age, dataset: str) -> None:
        checkpoint = Checkpoint.read(receipt)
        self.guard.accept(checkpoint, mark, age, dataset=dataset, previous_hash=receipt["previous_hash"])

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
