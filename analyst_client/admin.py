"""Administration from afar: budgets, decisions, permits, spending; what needs rows stays at the curator's machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, number, percent, table, untrusted
from analyst_client.display.terminal import plain
from analyst_client.http.session import path_segment
from analyst_client.http.transport import Transport
from analyst_client.schema.amounts import Amount
from analyst_client.schema.permits import Permit, Proposal
from analyst_client.schema.requests import as_json
from analyst_client.schema.wire import Fields, parse_json

GROUPS = ("analyst", "project", "dataset", "kind", "month")


@dataclass(frozen=True)
class Account:
    """A population and its account.

    Attributes
    ----------
    population, accountant, adjacency : str
    limit, highest_limit, posted, pending, remaining : Amount
        The budget, the highest that it ever was, what is spent, held and left.
    share_spent : float
        Part of the limit that is spent or held, 0 to 1.
    """

    population: str
    accountant: str
    adjacency: str
    limit: Amount
    highest_limit: Amount
    posted: Amount
    pending: Amount
    remaining: Amount
    share_spent: float

    @classmethod
    def read(cls, fields: Fields) -> "Account":
        """Read from an answer."""
        return cls(
            population=fields.text("population"),
            accountant=fields.text("accountant"),
            adjacency=fields.text("adjacency"),
            limit=Amount.read(fields.object("limit")),
            highest_limit=Amount.read(fields.object("highest_limit")),
            posted=Amount.read(fields.object("posted")),
            pending=Amount.read(fields.object("pending")),
            remaining=Amount.read(fields.object("remaining")),
            share_spent=fields.number("share_spent"),
        )


@dataclass(frozen=True)
class Spent:
    """What a group of charges adds up to.

    Attributes
    ----------
    population : str
    group : dict of str to str
        By what it is grouped.
    charges : int
        How many.
    spent : Amount
    """

    population: str
    group: Mapping[str, str]
    charges: int
    spent: Amount

    @classmethod
    def read(cls, fields: Fields) -> "Spent":
        """Read from an answer."""
        group = {name: fields.text(name) for name in GROUPS if name in fields.members}
        return cls(fields.text("population"), group, fields.integer("charges"), Amount.read(fields.object("spent")))


@dataclass(frozen=True, repr=False)
class Listing(Displayable):
    """Things of one kind, as a tuple that shows itself as a table.

    Attributes
    ----------
    title : str
    items : tuple
    """

    title: str
    items: tuple[Any, ...]

    def __iter__(self) -> Any:
        """Iterate over them."""
        return iter(self.items)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        """Return one of them."""
        return self.items[place]

    def __repr__(self) -> str:
        """Show what they are, and how many."""
        return plain(f"<{self.title}: {len(self.items)}>")

    def _view(self) -> View:
        rows = [_row(item) for item in self.items]
        heads = list(rows[0]) if rows else ["nothing"]
        return (table(self.title, heads, [list(row.values()) for row in rows]),)


class CuratorAdmin:
    """Act as a privacy officer, an auditor or a steward, as the token's roles allow.

    Parameters
    ----------
    url : str
        Address of the curator. ``http://`` is refused for other hosts, as the token would travel in clear.
    token : str
        It is shown nowhere.
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
        token: str,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        allow_http: bool = False,
    ) -> None:
        self._transport = Transport(
            url, token, timeout_s=timeout_s, max_attempts=5, transport=transport, allow_http=allow_http
        )

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
        return Fields(parse_json(self._transport.request("GET", path, params=params or None).text))

    def _post(self, path: str, body: Mapping[str, Any]) -> Fields:
        return Fields(parse_json(self._transport.request("POST", path, content=as_json(dict(body))).text))

    def populations(self) -> Listing:
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

        Returns
        -------
        Proposal
            Open, until it is decided.
        """
        asked = {"name": name, "adjacency": adjacency, "limit": dict(limit), "reason": reason}
        return Proposal.read(self._post("/v1/admin/populations", asked | {"accountant": accountant, "delta": delta}))

    def set_limit(self, population: str, limit: Mapping[str, float], reason: str) -> Proposal:
        """Lower the limit of a population at once, or propose to raise it.

        Parameters
        ----------
        population : str
            Name of the population.
        limit : mapping of str to float
            Limit, such as ``{"epsilon": 3.0, "delta": 1e-6}``.
        reason : str
            Reason, for the ledger.

        Returns
        -------
        Proposal
            Applied, or open until it is decided.
        """
        path = f"/v1/admin/populations/{path_segment(population)}/limits"
        return Proposal.read(self._post(path, {"limit": dict(limit), "reason": reason}))

    def proposals(self) -> Listing:
        """List what was proposed and decided, the newest first."""
        return Listing("Proposals", self._get("/v1/admin/proposals").each("proposals", Proposal.read))

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
        name = proposal.id if isinstance(proposal, Proposal) else proposal
        return Proposal.read(self._post(f"/v1/admin/proposals/{path_segment(name)}/{act}", {"reason": reason}))

    def permits(self) -> Listing:
        """List permits, the newest first."""
        return Listing("Permits", self._get("/v1/permits").each("permits", Permit.read))

    def ask_permit(self, terms: Mapping[str, Any], permit: str | None = None) -> Proposal:
        """Ask for a permit, or for other terms of one.

        Parameters
        ----------
        terms : mapping
            As on the wire: ``people``, ``datasets``, ``project``, ``purpose``, ``legal_basis``, ``expires_at``,
            ``limit``, ``conditions`` and ``reason``.
        permit : str, optional
            Id of the permit that is to be changed. What only restricts it holds at once.

        Returns
        -------
        Proposal
            Open until it is decided, or applied.
        """
        path = "/v1/permits" if permit is None else f"/v1/permits/{path_segment(permit)}"
        return Proposal.read(self._post(path, terms))

    def end_permit(self, permit: Permit | str, reason: str) -> Permit:
        """End a permit: from now on nothing is charged under it.

        Parameters
        ----------
        permit : Permit or str
            Permit, or its id.
        reason : str
            Reason, for the ledger.

        Returns
        -------
        Permit
            Ended.
        """
        name = permit.id if isinstance(permit, Permit) else permit
        return Permit.read(self._post(f"/v1/permits/{path_segment(name)}/end", {"reason": reason}))

    def spending(self, by: Sequence[str] = GROUPS) -> Listing:
        """List who spent what.

        Parameters
        ----------
        by : sequence of str
            Some of ``"analyst"``, ``"project"``, ``"dataset"``, ``"kind"`` and ``"month"``.

        Returns
        -------
        Listing
            Of `Spent`, by population and group.
        """
        return Listing("Spending", self._get("/v1/admin/spending", by=",".join(by)).each("spending", Spent.read))

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
        page = self._get(f"/v1/ledger/{path_segment(population)}", after=str(after), limit=str(limit))
        return page.each("entries", lambda fields: fields.members)

    def seal(self) -> str:
        """Return why the curator is sealed; empty where it is not."""
        return self._get("/v1/admin/seal").text("reason")


def _row(item: Any) -> dict[str, Inline]:
    match item:
        case Account():
            views = {
                name: number(getattr(item, name).epsilon) for name in ("limit", "highest_limit", "posted", "remaining")
            }
            named = {name.replace("_", " ") + " ε": text for name, text in views.items()}
            return {"population": untrusted(item.population), **named, "spent and held": percent(item.share_spent)}
        case Spent():
            group = {name: untrusted(text) for name, text in item.group.items()}
            views = {"ε": number(item.spent.epsilon), "δ": number(item.spent.delta)}
            return {"population": untrusted(item.population), **group, "charges": f"{item.charges:,}", **views}
        case Permit():
            people, datasets = (untrusted(", ".join(names)) for names in (item.people, item.datasets))
            until = item.ended_at or item.expires_at or "no end"
            return {
                "permit": item.id,
                "project": untrusted(item.project),
                "people": people,
                "datasets": datasets,
                "until": until,
            }
        case Proposal():
            about = item.scope or "limit"
            return {
                "proposal": item.id,
                "about": about,
                "population": untrusted(item.population),
                "state": item.state,
                "reason": untrusted(item.reason),
            }
    raise TypeError(item)
