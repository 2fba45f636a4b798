"""Administration from afar: budgets, decisions, permits, people, spending; what needs rows stays at the machine."""

import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from analyst_client.admin_listing import Listing
from analyst_client.error_base import ServiceError
from analyst_client.errors import JobEndedError, ReservationEndedError
from analyst_client.http.credentials import Credentials
from analyst_client.http.session import path_segment, read_text
from analyst_client.http.sign_in import find_place, sign_in
from analyst_client.http.transport import Transport
from analyst_client.ledger.checkpoints import Checkpoint
from analyst_client.ledger.files import replace_file
from analyst_client.ledger.keys import CuratorKey
from analyst_client.schema.administration import (
    GROUPS,
    Account,
    EndedPermit,
    Held,
    NewToken,
    Person,
    Seal,
    Spent,
    Token,
)
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.identity import Identity
from analyst_client.schema.permits import Permit, Proposal
from analyst_client.schema.requests import as_json, choose_key
from analyst_client.schema.wire import Fields, parse_json

_SUBJECT = re.compile("(rel|prm)_[0-9a-f]{1,64}")
PAGE = 1000
"""Entries that are asked for at once."""


class CuratorAdmin:
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
        self._transport = Transport(
            url, token, timeout_s=timeout_s, max_attempts=5, transport=transport, allow_http=allow_http
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

    def _get(self, path: str, **params: str) -> Fields:
        return Fields(parse_json(read_text(self._transport.request("GET", path, params=params or None))))

    def _post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> Fields:
        answer = self._transport.request("POST", path, content=as_json(dict(body)), idempotency_key=key, charges=False)
        return Fields(parse_json(read_text(answer)))

    # --- Who asks

    def whoami(self) -> Identity:
        """Return the caller's name and roles, and the time at which its token ends."""
        return Identity.read(self._get("/v1/me"))

    # --- Populations and limits

    def populations(self) -> Listing[Account]:
        """List every population with its account."""
        return Listing("Populations", self._get("/v1/admin/populations").each("populations", Account.read))

    def propose_population(
        self,
        name: str,
        *,
        adjacency: str,
        limit: Mapping[str, float],
        reason: str,
        accountant: str = "gdp",
        delta: float = 1e-6,
        idempotency_key: str | None = None,
    ) -> Proposal:
        """Propose to give people a budget, which another privacy officer approves.

        Parameters
        ----------
        name : str
            Name of the population.
        adjacency : str
            Neighbour relation, ``"add_remove"`` or ``"replace_one"``, fixed for good.
        limit : mapping of str to float
            Budget, such as ``{"epsilon": 3.0, "delta": 1e-6}``.
        reason : str
            Reason, for whoever decides and for the ledger.
        accountant : str
            Unit of the account, ``"gdp"``, ``"zcdp"`` or ``"pure"``, fixed for good.
        delta : float
            Delta at which ε is shown.
        idempotency_key : str, optional
            The same for each time that this is asked; a new random one if none is given.

        Returns
        -------
        Proposal
            Open, until it is decided.
        """
        asked: dict[str, Any] = {"name": name, "adjacency": adjacency, "limit": dict(limit), "reason": reason}
        asked |= {"accountant": accountant, "delta": delta}
        return Proposal.read(self._post("/v1/admin/populations", asked, choose_key(idempotency_key)))

    def set_limit(
        self,
        population: str,
        limit: Mapping[str, float],
        reason: str,
        *,
        replaces: bool = False,
        idempotency_key: str | None = None,
    ) -> Proposal:
        """Lower the limit of a population at once, or propose to raise it.

        Parameters
        ----------
        population : str
            Name of the population.
        limit : mapping of str to float
            Limit, such as ``{"epsilon": 3.0, "delta": 1e-6}``.
        reason : str
            Reason, for the ledger.
        replaces : bool
            Whether to propose it in the place of a limit that was given by mistake and never used: the guarantee is
            then that of the new one.
        idempotency_key : str, optional
            The same for each time that this is asked; a new random one if none is given.

        Returns
        -------
        Proposal
            Applied, or open until it is decided.
        """
        path = f"/v1/admin/populations/{path_segment(population)}/limits"
        asked = {"limit": dict(limit), "reason": reason, **({"replaces": True} if replaces else {})}
        return Proposal.read(self._post(path, asked, choose_key(idempotency_key)))

    # --- Proposals

    def proposals(self, *, own: bool = False) -> Listing[Proposal]:
        """List what was proposed and decided, the newest first.

        Parameters
        ----------
        own : bool
            Whether to list those of this token's holder alone; a steward sees no others.

        Returns
        -------
        Listing
            Of `Proposal`, what waits first.
        """
        path = "/v1/proposals" if own else "/v1/admin/proposals"
        return Listing("Proposals", self._get(path).each("proposals", Proposal.read))

    def proposal(self, proposal: Proposal | str, *, own: bool = False) -> Proposal:
        """Return a proposal with names, the terms in force now and the proposed terms.

        Parameters
        ----------
        proposal : Proposal or str
            Proposal, or its id.
        own : bool
            Whether it is one of this token's holder's own.

        Returns
        -------
        Proposal
            With `changes`.
        """
        path = "/v1/proposals" if own else "/v1/admin/proposals"
        return Proposal.read(self._get(f"{path}/{path_segment(_id_of(proposal))}"))

    def withdraw(self, proposal: Proposal | str, reason: str = "") -> Proposal:
        """Take back what this token's holder has proposed, while nobody has decided it.

        Parameters
        ----------
        proposal : Proposal or str
            Proposal, or its id.
        reason : str
            Reason, for the register.

        Returns
        -------
        Proposal
            Withdrawn.
        """
        path = f"/v1/proposals/{path_segment(_id_of(proposal))}/withdraw"
        return Proposal.read(self._post(path, {"reason": reason}))

    def approve(self, proposal: Proposal | str, reason: str = "") -> Proposal:
        """Approve what somebody else proposed.

        Parameters
        ----------
        proposal : Proposal or str
            Proposal, or its id.
        reason : str
            Reason, for whoever proposed it.

        Returns
        -------
        Proposal
            Approved.
        """
        return self._decide(proposal, "approve", reason)

    def reject(self, proposal: Proposal | str, reason: str) -> Proposal:
        """Reject a proposal, or take one's own back.

        Parameters
        ----------
        proposal : Proposal or str
            Proposal, or its id.
        reason : str
            Reason, for whoever proposed it.

        Returns
        -------
        Proposal
            Rejected.
        """
        return self._decide(proposal, "reject", reason)

    def _decide(self, proposal: Proposal | str, act: str, reason: str) -> Proposal:
        path = f"/v1/admin/proposals/{path_segment(_id_of(proposal))}/{act}"
        return Proposal.read(self._post(path, {"reason": reason}))

    # --- Permits

    def permits(self) -> Listing[Permit]:
        """List permits, the newest first."""
        return Listing("Permits", self._get("/v1/permits").each("permits", Permit.read))

    def permit(self, permit: Permit | str) -> Permit:
        """Return a permit.

        Parameters
        ----------
        permit : Permit or str
            Permit, or its id.

        Returns
        -------
        Permit
            As it is now.
        """
        return Permit.read(self._get(f"/v1/permits/{path_segment(_id_of(permit))}"))

    def grant(self, analyst: str, dataset: str, reason: str, *, idempotency_key: str | None = None) -> Proposal:
        """Ask that an analyst may use a dataset without a project, a limit or an end; another officer decides.

        Parameters
        ----------
        analyst, dataset : str
            Names.
        reason : str
            Reason, for whoever decides and for the ledger.
        idempotency_key : str, optional
            The same for each time that this is asked; a new random one if none is given.

        Returns
        -------
        Proposal
            Open until it is decided.
        """
        terms = {"people": [analyst], "datasets": [dataset], "reason": reason}
        return self.ask_permit(terms, idempotency_key=idempotency_key)

    def revoke_grant(self, analyst: str, dataset: str, reason: str) -> EndedPermit:
        """Take back what an analyst may use without a project; the permit ends with its last dataset.

        Parameters
        ----------
        analyst, dataset : str
            Names.
        reason : str
            Reason, for the ledger.

        Returns
        -------
        EndedPermit
            What is left of the permit, and by which others the analyst may still use the dataset.
        """
        asked = {"analyst": analyst, "dataset": dataset, "reason": reason}
        return EndedPermit.read(self._post("/v1/admin/permits/revoke", asked))

    def ask_permit(
        self, terms: Mapping[str, Any], permit: str | None = None, *, idempotency_key: str | None = None
    ) -> Proposal:
        """Ask for a permit, or for other terms of one.

        Parameters
        ----------
        terms : mapping
            As on the wire: ``people``, ``datasets``, ``project``, ``purpose``, ``legal_basis``, ``expires_at``,
            ``limit``, ``conditions`` and ``reason``.
        permit : str, optional
            Id of the permit that is to be changed. What only restricts it holds at once.
        idempotency_key : str, optional
            The same for each time that this is asked; a new random one if none is given.

        Returns
        -------
        Proposal
            Open until it is decided, or applied.
        """
        path = "/v1/permits" if permit is None else f"/v1/permits/{path_segment(permit)}"
        return Proposal.read(self._post(path, terms, choose_key(idempotency_key)))

    def end_permit(self, permit: Permit | str, reason: str) -> EndedPermit:
        """End a permit: from now on nothing is charged under it.

        Parameters
        ----------
        permit : Permit or str
            Permit, or its id.
        reason : str
            Reason, for the ledger.

        Returns
        -------
        EndedPermit
            The permit, and what its people may still use by others.
        """
        return EndedPermit.read(self._post(f"/v1/permits/{path_segment(_id_of(permit))}/end", {"reason": reason}))

    # --- People and tokens

    def principals(self) -> Listing[Person]:
        """List principals and their roles."""
        return Listing("Principals", self._get("/v1/admin/principals").each("principals", Person.read))

    def tokens(self) -> Listing[Token]:
        """List tokens, the oldest first, without what their holders send."""
        return Listing("Tokens", self._get("/v1/admin/tokens").each("tokens", Token.read))

    def create_token(
        self,
        name: str,
        roles: Sequence[str],
        *,
        read_only: bool = False,
        days: int = 90,
        idempotency_key: str | None = None,
    ) -> NewToken:
        """Make a token for an analyst or an auditor.

        Parameters
        ----------
        name : str
            Its holder; a new name becomes a principal with these roles.
        roles : sequence of str
            Of ``"analyst"`` and ``"auditor"``.
        read_only : bool
            Whether it may only look.
        days : int
            Days until it ends.
        idempotency_key : str, optional
            The same for each time that this is asked, of 22 random characters or more; a new one if none is given.

        Returns
        -------
        NewToken
            With what its holder sends.
        """
        asked = {"name": name, "roles": list(roles), "read_only": read_only, "days": days}
        return NewToken.read(self._post("/v1/admin/tokens", asked, choose_key(idempotency_key)))

    def rotate_token(self, *, grace_s: int = 60) -> NewToken:
        """Make a token in the place of the one that this object sends, and send that one from now on.

        Parameters
        ----------
        grace_s : int
            For how long the old one goes on, in seconds: an answer that is lost can be asked for again that long.

        Returns
        -------
        NewToken
            Of the same holder, roles and lifetime.
        """
        made = NewToken.read(self._post("/v1/me/token/rotate", {"grace_s": grace_s}, choose_key(None)))
        self._transport.send_token(made.text)
        return made

    def revoke_token(self, token: Token | str) -> Token:
        """Revoke a token from the next request on, and what rotations made of it.

        Parameters
        ----------
        token : Token or str
            Token, or its id.

        Returns
        -------
        Token
            Revoked.
        """
        return Token.read(self._post(f"/v1/admin/tokens/{path_segment(_id_of(token))}/revoke", {}))

    # --- What is held

    def jobs(self) -> Listing[Held]:
        """List jobs that wait or run, the oldest first."""
        return Listing("Jobs", self._get("/v1/jobs").each("jobs", Held.read))

    def cancel_job(self, job: Held | str) -> dict[str, Any]:
        """Give a job up before it is charged.

        Parameters
        ----------
        job : Held or str
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
        return self._end(f"/v1/jobs/{path_segment(_id_of(job))}", "cancelled")

    def reservations(self) -> Listing[Held]:
        """List reservations that are open, the oldest first."""
        return Listing("Reservations", self._get("/v1/reservations").each("reservations", Held.read))

    def release_reservation(self, reservation: Held | str) -> dict[str, Any]:
        """Give back what is left of a reservation.

        Parameters
        ----------
        reservation : Held or str
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
        return self._end(f"/v1/reservations/{path_segment(_id_of(reservation))}", "closed")

    def _end(self, path: str, state: str) -> dict[str, Any]:
        """End a job or a reservation; if an earlier attempt ended it, return it as it is."""
        try:
            return Fields(parse_json(read_text(self._transport.request("DELETE", path)))).members
        except (JobEndedError, ReservationEndedError):
            found = self._get(path).members
            if found.get("state") == state:
                return found
            raise

    # --- Datasets

    def datasets(self) -> Listing[Dataset]:
        """List the datasets, by their public declarations."""
        return Listing("Datasets", self._get("/v1/datasets").each("datasets", Dataset.read))

    def dataset(self, name: str) -> Dataset:
        """Return the public declaration of a dataset.

        Parameters
        ----------
        name : str
            Name of the dataset.

        Returns
        -------
        Dataset
            As it was declared.
        """
        return Dataset.read(self._get(f"/v1/datasets/{path_segment(name)}"))

    # --- The ledger, and what was spent

    def spending(self, by: Sequence[str] = GROUPS, population: str | None = None) -> Listing[Spent]:
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
        """
        asked = {"by": ",".join(by)} | ({} if population is None else {"population": population})
        found = self._get("/v1/admin/spending", **asked)
        return Listing("Spending", found.each("spending", lambda fields: Spent.read(fields, by)))

    def ledger(self, population: str, *, after: int = 0, limit: int = 100) -> tuple[dict[str, Any], ...]:
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
        """
        return self._page(f"/v1/ledger/{path_segment(population)}", after, limit)

    def iterate_ledger(self, population: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
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
        return self._iterate(f"/v1/ledger/{path_segment(population)}", after)

    def register(self, *, after: int = 0, limit: int = 100) -> tuple[dict[str, Any], ...]:
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

    def checkpoint(self, population: str) -> Checkpoint:
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
        """
        found = self._get(f"/v1/ledger/{path_segment(population)}/checkpoint").object("checkpoint")
        try:
            return Checkpoint.read(found.members)
        except ValueError as error:
            raise ServiceError(f"malformed answer: {error}") from None

    def keys(self) -> Listing[CuratorKey]:
        """List the keys that sign, the oldest first. Raise `ServiceError` when something else was answered."""
        try:
            return Listing("Signing keys", self._get("/v1/keys").each("keys", lambda f: CuratorKey.read(f.members)))
        except ValueError as error:
            raise ServiceError(f"malformed answer: {error}") from None

    def seal(self) -> Seal:
        """Return whether the curator is sealed, since when and why."""
        return Seal.read(self._get("/v1/admin/seal"))

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
        answered = self._transport.request("GET", f"/v1/{kind}/{path_segment(subject)}/evidence", params=params)
        if not zipfile.is_zipfile(io.BytesIO(answered.content)):
            raise ServiceError("malformed answer: not an archive", status=answered.status_code)
        replace_file(Path(path), answered.content)


def _id_of(named: Proposal | Permit | Token | Held | str) -> str:
    return named if isinstance(named, str) else named.id
