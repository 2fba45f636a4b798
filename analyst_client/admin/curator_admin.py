"""Administration from afar: sign-in, and the acts of which the generated table does not say all."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import httpx

from analyst_client.admin.acts import Acts
from analyst_client.admin.listing import Listing
from analyst_client.admin.sending import Named, segment
from analyst_client.error_base import ServiceError
from analyst_client.errors import JobEndedError, ReservationEndedError
from analyst_client.http.credentials import Credentials
from analyst_client.http.evidence import save_evidence
from analyst_client.http.session import read_text
from analyst_client.http.sign_in import find_place, sign_in
from analyst_client.http.transport import Transport
from analyst_client.ledger.checkpoints import Checkpoint
from analyst_client.ledger.keys import CuratorKey
from analyst_client.schema.administration import (
    GROUPS,
    NewToken,
    Question,
    Spent,
)
from analyst_client.schema.requests import choose_key
from analyst_client.schema.sessions import SessionHistory
from analyst_client.schema.wire import Fields, parse_json

_SUBJECT = re.compile("(rel|prm)_[0-9a-f]{1,64}")
PAGE = 1000
"""Entries that are asked for at once."""


class CuratorAdmin(Acts):
    """Act as a privacy officer, an auditor or a steward, as the token's roles allow.

    Parameters
    ----------
    url : str
        Address of the curator. ``http://`` is refused for other hosts, as the token would travel in clear.
    token : str
        It is shown nowhere; or what `sign_in` has made.
    timeout_s : float
        Longest wait for an answer, in seconds.
    transport : httpx.BaseTransport, optional
        Carrier of the requests, for tests.
    allow_http : bool
        Let the token travel in clear to another host.

    Examples
    --------
    >>> from analyst_client import CuratorAdmin
    >>> CuratorAdmin("http://127.0.0.1:8000", "a-token")
    CuratorAdmin('http://127.0.0.1:8000')
    >>> from analyst_client.tutorial import recorded_admin
    >>> admin = recorded_admin()
    >>> [account.population for account in admin.list_populations()]
    ['olmsted']
    >>> from analyst_client.local import RandomizedResponse, survey_terms
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1, study="smoking 2026")
    >>> admin.open_survey(survey_terms("smoking", question, reports_max=500, participants="anyone")).is_open
    True
    """

    def __init__(
        self,
        url: str,
        token: str | Credentials,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        allow_http: bool = False,
    ) -> None:
        super().__init__(
            Transport(url, token, timeout_s=timeout_s, max_attempts=5, transport=transport, allow_http=allow_http)
        )

    @classmethod
    def sign_in(
        cls,
        url: str,
        *,
        provider: str | None = None,
        keep: bool = False,
        show: Callable[[str], None] | None = None,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        allow_http: bool = False,
    ) -> "CuratorAdmin":
        """Sign in at the identity provider of a curator, as `CuratorClient.sign_in` does.

        Parameters
        ----------
        url : str
            Address of the curator, which says where one signs in.
        provider : str, optional
            Name or address of the provider, where there are several.
        keep : bool
            Keep what renews the sign-in in a file that its owner alone may read: the one of `CuratorClient`.
        show : callable, optional
            Takes the text with address and code. Default it is written to standard error.
        timeout_s : float
            As for `CuratorAdmin`.
        transport : httpx.BaseTransport, optional
            As for `CuratorAdmin`; it carries what is asked of the provider, too.
        allow_http : bool
            As for `CuratorAdmin`.

        Returns
        -------
        CuratorAdmin
            It renews what it sends by itself, for as long as the provider lets it.

        Raises
        ------
        ValueError
            When an argument is wrong, or there is no such provider.
        AuthenticationError
            When nobody typed the code in, the provider refused, or its token is for another curator.
        CuratorError
            See `analyst_client.errors`.

        Examples
        --------
        >>> from analyst_client import CuratorAdmin
        >>> CuratorAdmin.sign_in("http://curator.hospital.example")
        Traceback (most recent call last):
            ...
        ValueError: http:// to curator.hospital.example would send the token in clear: use https://, or allow_http=True
        """
        carried: dict[str, Any] = {"timeout_s": timeout_s, "transport": transport, "allow_http": allow_http}
        place = find_place(url, "default", allow_http) if keep else None
        return cls(url, sign_in(url, provider=provider, show=show, place=place, **carried), **carried)

    def __repr__(self) -> str:
        """Show the address, never the token."""
        return f"CuratorAdmin({str(self._transport.url)!r})"

    def __enter__(self) -> "CuratorAdmin":
        """Return it, to be closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self._transport.close()

    def rotate_token(self, *, grace_s: int = 60, idempotency_key: str | None = None) -> NewToken:
        """Make a token in the place of the one that this object sends, and send that one from now on.

        Parameters
        ----------
        grace_s : int
            For how long the old one goes on, in seconds: an answer that is lost can be asked for again that long.
        idempotency_key : str, optional
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        NewToken
            Of the same holder, roles and lifetime.
        """
        made = NewToken.read(self._post("/v1/me/token/rotate", {"grace_s": grace_s}, choose_key(idempotency_key)))
        self._transport.send_token(made.text)
        return made

    def cancel_job(self, job_id: Named) -> dict[str, Any]:
        """Give a job up before it is charged.

        Parameters
        ----------
        job_id : str or Held
            Job, or its id.

        Returns
        -------
        dict
            The job as it is on the wire.

        Raises
        ------
        JobEndedError
            When it was charged or had ended before.
        """
        return self._end(f"/v1/jobs/{segment(job_id)}", "cancelled")

    def close_reservation(self, reservation_id: Named) -> dict[str, Any]:
        """Give back what is left of a reservation.

        Parameters
        ----------
        reservation_id : str or Held
            Reservation, or its id.

        Returns
        -------
        dict
            The reservation as it is on the wire.

        Raises
        ------
        ReservationEndedError
            When it had ended before.
        """
        return self._end(f"/v1/reservations/{segment(reservation_id)}", "closed")

    def close_session(self, session_id: Named) -> SessionHistory:
        """End a threshold session; nothing that it was charged returns.

        Parameters
        ----------
        session_id : str or HeldSession
            Session, or its id.

        Returns
        -------
        SessionHistory
            The session with its answers.

        Raises
        ------
        SessionEndedError
            When it had ended before.
        """
        path = f"/v1/sessions/{segment(session_id)}"
        return SessionHistory.read(Fields(parse_json(read_text(self._transport.request("DELETE", path)))))

    def _end(self, path: str, state: str) -> dict[str, Any]:
        """End a job or a reservation; if an earlier attempt ended it, return it as it is."""
        try:
            return Fields(parse_json(read_text(self._transport.request("DELETE", path)))).members
        except (JobEndedError, ReservationEndedError):
            found = self._get(path).members
            if found.get("state") == state:
                return found
            raise

    def list_spending(self, by: Sequence[str] = GROUPS, population: str | None = None) -> Listing[Spent]:
        """List charges by analyst, project, dataset, kind and month.

        Parameters
        ----------
        by : sequence of str
            Some of ``"analyst"``, ``"project"``, ``"dataset"``, ``"kind"`` and ``"month"``.
        population : str, optional
            Name of the population; all of them if none is given.

        Returns
        -------
        Listing
            Of `Spent`, by population and group.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_admin
        >>> admin = recorded_admin()
        >>> [(spent.population, spent.charges) for spent in admin.list_spending(by=["analyst"])]
        [('olmsted', 10)]
        """
        asked = {"by": ",".join(by)} | ({} if population is None else {"population": population})
        return self._list("Spending", "/v1/admin/spending", "spending", lambda one: Spent.read(one, by), **asked)

    def list_questions(
        self,
        population: str,
        *,
        month: str = "",
        dataset: str = "",
        kind: str = "",
        column: str = "",
        before: int = 2**62,
        limit: int = 100,
    ) -> Listing[Question]:
        """Return a page of the questions that were asked of a population, the newest first, without answers.

        Parameters
        ----------
        population : str
            Name of the population.
        month : str
            Month, such as ``"2027-03"``; any if empty.
        dataset, kind, column : str
            Name of a dataset, of a kind of release, and of a column that it is about; any if empty.
        before : int
            Sequence before which the page begins.
        limit : int
            Number of questions at most.

        Returns
        -------
        Listing
            Of `Question`.
        """
        asked = {"month": month, "dataset": dataset, "kind": kind, "column": column}
        told = {name: text for name, text in asked.items() if text} | {"before": str(before), "limit": str(limit)}
        path = f"/v1/admin/populations/{segment(population)}/questions"
        return self._list("Questions", path, "questions", Question.read, **told)

    def list_entries(self, population: str, *, after: int = 0, limit: int = 100) -> tuple[dict[str, Any], ...]:
        """Return a page of a population's entries, as they are on the wire.

        Parameters
        ----------
        population : str
            Name of the population.
        after : int
            Sequence after which the page begins.
        limit : int
            Number of entries at most.

        Returns
        -------
        tuple of dict
            Entries in their order.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_admin
        >>> admin = recorded_admin()
        >>> [entry["kind"] for entry in admin.list_entries("olmsted", limit=3)]
        ['open', 'dataset', 'permit']
        """
        return self._page(f"/v1/ledger/{segment(population)}", after, limit)

    def iterate_entries(self, population: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """Iterate over every entry of a population's chain, page after page.

        Parameters
        ----------
        population : str
            Name of the population.
        after : int
            Sequence after which it begins.

        Returns
        -------
        iterator of dict
            Entries, as they are on the wire.
        """
        return self._iterate(f"/v1/ledger/{segment(population)}", after)

    def list_register(self, *, after: int = 0, limit: int = 100) -> tuple[dict[str, Any], ...]:
        """Return a page of the curator's own acts: whom it knows, tokens, and what was proposed.

        Parameters
        ----------
        after : int
            Sequence after which the page begins.
        limit : int
            Number of entries at most.

        Returns
        -------
        tuple of dict
            Entries in their order.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_admin
        >>> admin = recorded_admin()
        >>> [entry["kind"] for entry in admin.list_register(limit=3)]
        ['open', 'principal', 'token']
        """
        return self._page("/v1/admin/register", after, limit)

    def iterate_register(self, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """Iterate over every entry of the register, page after page.

        Parameters
        ----------
        after : int
            Sequence after which it begins.

        Returns
        -------
        iterator of dict
            Entries, as they are on the wire.
        """
        return self._iterate("/v1/admin/register", after)

    def _page(self, path: str, after: int, limit: int) -> tuple[dict[str, Any], ...]:
        return self._get(path, after=str(after), limit=str(limit)).each("entries", lambda fields: fields.members)

    def _iterate(self, path: str, after: int) -> Iterator[dict[str, Any]]:
        while page := self._page(path, after, PAGE):
            yield from page
            last = Fields(page[-1]).integer("sequence")
            if last <= after:
                raise ServiceError("malformed answer: pages of entries do not go on")
            after = last

    def get_checkpoint(self, population: str) -> Checkpoint:
        """Return the signed checkpoint of a chain's last entry: whoever keeps it can tell a ledger that was wound back.

        Parameters
        ----------
        population : str
            Name of the population.

        Returns
        -------
        Checkpoint
            Not verified; `curator-verify` and the client's memory do that.

        Raises
        ------
        ServiceError
            When something else than a checkpoint was answered.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_admin
        >>> admin = recorded_admin()
        >>> checkpoint = admin.get_checkpoint("olmsted")
        >>> checkpoint.population, checkpoint.epoch
        ('olmsted', 1)
        """
        found = self._get(f"/v1/ledger/{segment(population)}/checkpoint").object("checkpoint")
        try:
            return Checkpoint.read(found.members)
        except ValueError as error:
            raise ServiceError(f"malformed answer: {error}") from None

    def list_keys(self) -> Listing[CuratorKey]:
        """List the keys that sign, the oldest first. Raise `ServiceError` when something else was answered.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_admin
        >>> admin = recorded_admin()
        >>> len(admin.list_keys())
        1
        """
        try:
            return self._list("Signing keys", "/v1/keys", "keys", lambda one: CuratorKey.read(one.members))
        except ValueError as error:
            raise ServiceError(f"malformed answer: {error}") from None

    def evidence(self, subject: str, path: str | os.PathLike[str], *, with_answers: bool = False) -> None:
        """Save what a release, or a permit with its releases, is checked by, as a ZIP archive.

        Parameters
        ----------
        subject : str
            Id of the release or of the permit.
        path : path-like
            File to write. Replaced if it exists; written whole or not at all.
        with_answers : bool
            Whether the pack of a permit holds the released numbers; that of a release holds them where this token may
            read them.

        Raises
        ------
        ValueError
            When it is neither; nothing was sent.
        ServiceError
            When something else than an archive was answered.
        """
        if not _SUBJECT.fullmatch(subject):
            raise ValueError("evidence is of a release (rel_…) or of a permit (prm_…)")
        kind = "permits" if subject.startswith("prm_") else "releases"
        params = {"answers": "true"} if with_answers and kind == "permits" else None
        save_evidence(self._transport, f"/v1/{kind}/{segment(subject)}", path, params)
