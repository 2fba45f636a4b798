"""Acts of administration, made of the OpenAPI document by ``tests/contract/client_acts.py``."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from analyst_client.admin.listing import Listing
from analyst_client.admin.sending import Command, Named, Sender, segment
from analyst_client.local.surveys import Invitations, Survey
from analyst_client.schema.administration import Account, EndedPermit, Held, NewToken, Person, Question, Seal, Token
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.health import Health
from analyst_client.schema.identity import Identity
from analyst_client.schema.permits import Permit, Proposal
from analyst_client.schema.requests import choose_key
from analyst_client.schema.sessions import HeldSession


class Acts(Sender):
    """The acts of administration, a method for each."""

    def list_datasets(self) -> Listing[Dataset]:
        """List the datasets that you may see, each with its declaration."""
        return self._list("Datasets", "/v1/datasets", "datasets", Dataset.read)

    def get_dataset(self, name: Named) -> Dataset:
        """Show one dataset's declaration: columns, bounds, adjacency.

        Parameters
        ----------
        name : Named
            Name of the dataset.

        Returns
        -------
        Dataset
            The public facts of a dataset.
        """
        return Dataset.read(self._get(f"/v1/datasets/{segment(name)}"))

    def get_health(self) -> Health:
        """Show findings, backups, cuts, jobs, seals of the past and the requests of the last day."""
        return Health.read(self._get("/v1/admin/health"))

    def list_jobs(self) -> Listing[Held]:
        """List jobs that wait or run; to an analyst, their own."""
        return self._list("Jobs", "/v1/jobs", "jobs", Held.read)

    def get_question(self, release_id: Named) -> Question:
        """Show what was asked by a release, in words and as JSON; its answer is not shown.

        Parameters
        ----------
        release_id : Named
            A release's id.

        Returns
        -------
        Question
            What was asked by a release, without its numbers.
        """
        return Question.read(self._get(f"/v1/admin/questions/{segment(release_id)}"))

    def get_seal(self) -> Seal:
        """Say if the curator is sealed, and why; under a seal it releases nothing."""
        return Seal.read(self._get("/v1/admin/seal"))

    def set_limit(
        self,
        population: Named,
        limit: Mapping[str, float],
        reason: str,
        *,
        replaces: bool = False,
        idempotency_key: str | None = None,
    ) -> Proposal:
        """Lower a limit at once, or propose to raise or replace it.

        Parameters
        ----------
        population : Named
            Name of the population.
        limit : Mapping[str, float]
            The limit.
        reason : str
            Why, for the ledger.
        replaces : bool
            Propose it in the place of a limit that was given by mistake and never used.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(
            self._post(
                f"/v1/admin/populations/{segment(population)}/limits",
                {"limit": dict(limit), "reason": reason, "replaces": replaces},
                choose_key(idempotency_key),
            )
        )

    def ask_permit(self, terms: Mapping[str, Any], *, idempotency_key: str | None = None) -> Proposal:
        """Ask for a permit, which a privacy officer grants or refuses.

        Parameters
        ----------
        terms : Mapping[str, Any]
            Its terms, as on the wire.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(self._post("/v1/permits", terms, choose_key(idempotency_key)))

    def change_permit(
        self, permit_id: Named, terms: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Proposal:
        """Ask for other terms of a permit; terms that only restrict it hold at once.

        Parameters
        ----------
        permit_id : Named
            A permit's id; `permits list` shows it.
        terms : Mapping[str, Any]
            Its terms, as on the wire.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(self._post(f"/v1/permits/{segment(permit_id)}", terms, choose_key(idempotency_key)))

    def end_permit(self, permit_id: Named, reason: str) -> EndedPermit:
        """End a permit: from now on nothing is charged under it.

        Parameters
        ----------
        permit_id : Named
            A permit's id; `permits list` shows it.
        reason : str
            Why, for the ledger.

        Returns
        -------
        EndedPermit
            A permit that was ended, and what its people may still use by others.
        """
        return EndedPermit.read(self._post(f"/v1/permits/{segment(permit_id)}/end", {"reason": reason}))

    def grant_dataset(self, analyst: str, dataset: str, reason: str, *, idempotency_key: str | None = None) -> Proposal:
        """Let one analyst use one dataset, without a project, a limit or an end.

        Parameters
        ----------
        analyst : str
            Name of the analyst.
        dataset : str
            Name of the dataset.
        reason : str
            Why, for the ledger.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(
            self._post(
                "/v1/admin/permits/grant",
                {"analyst": analyst, "dataset": dataset, "reason": reason},
                choose_key(idempotency_key),
            )
        )

    def list_permits(self) -> Listing[Permit]:
        """List permits, the newest first; to an analyst, those that hold and let them spend."""
        return self._list("Permits", "/v1/permits", "permits", Permit.read)

    def revoke_dataset(self, analyst: str, dataset: str, reason: str) -> EndedPermit:
        """Take one dataset out of an analyst's plain grant; the permit ends with its last dataset.

        Parameters
        ----------
        analyst : str
            Name of the analyst.
        dataset : str
            Name of the dataset.
        reason : str
            Why, for the ledger.

        Returns
        -------
        EndedPermit
            A permit that was ended, and what its people may still use by others.
        """
        return EndedPermit.read(
            self._post("/v1/admin/permits/revoke", {"analyst": analyst, "dataset": dataset, "reason": reason})
        )

    def get_permit(self, permit_id: Named) -> Permit:
        """Show one permit.

        Parameters
        ----------
        permit_id : Named
            A permit's id; `permits list` shows it.

        Returns
        -------
        Permit
            A permit: people, datasets, purpose, limit and end.
        """
        return Permit.read(self._get(f"/v1/permits/{segment(permit_id)}"))

    def list_populations(self) -> Listing[Account]:
        """List every population with its account."""
        return self._list("Populations", "/v1/admin/populations", "populations", Account.read)

    def propose_population(
        self,
        name: str,
        adjacency: Literal["add_remove", "replace_one"],
        limit: Mapping[str, float],
        reason: str,
        *,
        accountant: Literal["gdp", "zcdp", "pure"] = "gdp",
        delta: float = 1e-06,
        idempotency_key: str | None = None,
    ) -> Proposal:
        """Propose a population with its budget, which another privacy officer approves.

        Parameters
        ----------
        name : str
            A name for the people, such as 'olmsted'.
        adjacency : Literal['add_remove', 'replace_one']
            Neighbour relation of datasets; fixed for good.
        limit : Mapping[str, float]
            The budget.
        reason : str
            Why, for the ledger.
        accountant : Literal['gdp', 'zcdp', 'pure']
            Unit of the account; fixed for good.
        delta : float
            Delta at which epsilon is shown.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(
            self._post(
                "/v1/admin/populations",
                {
                    "name": name,
                    "adjacency": adjacency,
                    "limit": dict(limit),
                    "reason": reason,
                    "accountant": accountant,
                    "delta": delta,
                },
                choose_key(idempotency_key),
            )
        )

    def erase_name(self, name: Named) -> Person:
        """Erase the displayed name and the e-mail of a person; entries keep the id, and verify as before.

        Parameters
        ----------
        name : Named
            Name of the principal.

        Returns
        -------
        Person
            A principal and its roles.
        """
        return Person.read(self._post(f"/v1/principals/{segment(name)}/display-name/erase", {}))

    def list_principals(self) -> Listing[Person]:
        """List principals and their roles."""
        return self._list("Principals", "/v1/admin/principals", "principals", Person.read)

    def name_person(self, name: Named, display_name: str, *, email: str = "") -> Person:
        """Set the name and the e-mail of a person, which are displayed beside the name here.

        Parameters
        ----------
        name : Named
            Name of the principal.
        display_name : str
            The name, in any script.
        email : str
            The e-mail address. None if empty.

        Returns
        -------
        Person
            A principal and its roles.
        """
        return Person.read(
            self._post(f"/v1/principals/{segment(name)}/display-name", {"display_name": display_name, "email": email})
        )

    def answer_about_proposal(self, proposal_id: Named, text: str, *, idempotency_key: str | None = None) -> Proposal:
        """Answer what was asked about a proposal of your own that waits, or add something to it.

        Parameters
        ----------
        proposal_id : Named
            A proposal's id.
        text : str
            A question or an answer. The register keeps it: no word about patients.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        Proposal
            A proposal with names, with what it would change, and what was said about it.
        """
        return Proposal.read(
            self._post(f"/v1/proposals/{segment(proposal_id)}/messages", {"text": text}, choose_key(idempotency_key))
        )

    def approve_proposal(self, proposal_id: Named, *, reason: str = "") -> Proposal:
        """Approve another person's proposal: a permit, a limit, a population, or rows like those of another one.

        Parameters
        ----------
        proposal_id : Named
            A proposal's id.
        reason : str
            Why, for the person who proposed it.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(self._post(f"/v1/admin/proposals/{segment(proposal_id)}/approve", {"reason": reason}))

    def ask_about_proposal(self, proposal_id: Named, text: str, *, idempotency_key: str | None = None) -> Proposal:
        """Ask something about a proposal that waits; whoever made it reads it, and may answer.

        Parameters
        ----------
        proposal_id : Named
            A proposal's id.
        text : str
            A question or an answer. The register keeps it: no word about patients.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        Proposal
            A proposal with names, with what it would change, and what was said about it.
        """
        return Proposal.read(
            self._post(
                f"/v1/admin/proposals/{segment(proposal_id)}/messages", {"text": text}, choose_key(idempotency_key)
            )
        )

    def list_proposals(self) -> Listing[Proposal]:
        """List proposals and decisions, the newest first."""
        return self._list("Proposals", "/v1/admin/proposals", "proposals", Proposal.read)

    def list_own_proposals(self) -> Listing[Proposal]:
        """List your own proposals and their decisions, the newest first."""
        return self._list("Proposals", "/v1/proposals", "proposals", Proposal.read)

    def reject_proposal(self, proposal_id: Named, *, reason: str = "") -> Proposal:
        """Reject a proposal, or take back your own.

        Parameters
        ----------
        proposal_id : Named
            A proposal's id.
        reason : str
            Why, for the person who proposed it.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(self._post(f"/v1/admin/proposals/{segment(proposal_id)}/reject", {"reason": reason}))

    def get_proposal(self, proposal_id: Named) -> Proposal:
        """Show a proposal, the terms in force now and the proposed terms.

        Parameters
        ----------
        proposal_id : Named
            A proposal's id.

        Returns
        -------
        Proposal
            A proposal with names, with what it would change, and what was said about it.
        """
        return Proposal.read(self._get(f"/v1/admin/proposals/{segment(proposal_id)}"))

    def get_own_proposal(self, proposal_id: Named) -> Proposal:
        """Show one of your own proposals, the terms in force now and the proposed terms.

        Parameters
        ----------
        proposal_id : Named
            A proposal's id.

        Returns
        -------
        Proposal
            A proposal with names, with what it would change, and what was said about it.
        """
        return Proposal.read(self._get(f"/v1/proposals/{segment(proposal_id)}"))

    def withdraw_proposal(self, proposal_id: Named, *, reason: str = "") -> Proposal:
        """Take back a proposal of your own, before anybody has decided it.

        Parameters
        ----------
        proposal_id : Named
            A proposal's id.
        reason : str
            Why, for the register.

        Returns
        -------
        Proposal
            A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts
            in units.
        """
        return Proposal.read(self._post(f"/v1/proposals/{segment(proposal_id)}/withdraw", {"reason": reason}))

    def list_reservations(self) -> Listing[Held]:
        """List reservations that are open, with their holders; to an analyst, their own."""
        return self._list("Reservations", "/v1/reservations", "reservations", Held.read)

    def list_sessions(self) -> Listing[HeldSession]:
        """List threshold sessions that are open; to an analyst, their own."""
        return self._list("Sessions", "/v1/sessions", "sessions", HeldSession.read)

    def close_survey(self, survey: Named) -> Survey:
        """End a survey; its reports stay.

        Parameters
        ----------
        survey : Named
            Name of a survey.

        Returns
        -------
        Survey
            A survey, and what protects whom in it.
        """
        return Survey.read(self._post(f"/v1/surveys/{segment(survey)}/close", {}))

    def invite(self, survey: Named, *, after: int = 0, limit: int = 100) -> Invitations:
        """Show invitations of a survey: give each to one person. Asked again, they are the same.

        Parameters
        ----------
        survey : Named
            Name of a survey.
        after : int
            Show what comes after this sequence.
        limit : int
            Largest number to show.

        Returns
        -------
        Invitations
            Invitations of a survey, from the first that was asked for on.
        """
        return Invitations.read(
            self._post(f"/v1/surveys/{segment(survey)}/invitations", {"after": after, "limit": limit})
        )

    def list_surveys(self) -> Listing[Survey]:
        """List the surveys."""
        return self._list("Surveys", "/v1/surveys", "surveys", Survey.read)

    def open_survey(self, terms: Mapping[str, Any]) -> Survey:
        """Open a survey: collect reports of a question that people perturb themselves. No budget is charged.

        Parameters
        ----------
        terms : Mapping[str, Any]
            Its terms, as on the wire.

        Returns
        -------
        Survey
            A survey, and what protects whom in it.
        """
        return Survey.read(self._post("/v1/surveys", terms))

    def create_token(
        self,
        name: str,
        roles: Sequence[Literal["analyst", "auditor"]],
        *,
        days: int = 90,
        read_only: bool = False,
        idempotency_key: str | None = None,
    ) -> NewToken:
        """Make a token, which is shown once and stored as a hash.

        Parameters
        ----------
        name : str
            Name of the person or program.
        roles : Sequence[Literal['analyst', 'auditor']]
            A role of the token, and of a new principal; again for each.
        days : int
            Days until it expires.
        read_only : bool
            The token may only look.
        idempotency_key : str | None
            The same for each retry of one request; a new random one if none is given.

        Returns
        -------
        NewToken
            A new token, with what its holder sends: it is shown this once.
        """
        return NewToken.read(
            self._post(
                "/v1/admin/tokens",
                {"name": name, "roles": list(roles), "days": days, "read_only": read_only},
                choose_key(idempotency_key),
            )
        )

    def list_tokens(self) -> Listing[Token]:
        """List tokens, the oldest first, without their secrets."""
        return self._list("Tokens", "/v1/admin/tokens", "tokens", Token.read)

    def revoke_token(self, token_id: Named) -> Token:
        """Revoke a token and what came of it, from the next request on; under a seal, too.

        Parameters
        ----------
        token_id : Named
            A token's id, the part between the underscores; `tokens list` shows it.

        Returns
        -------
        Token
            A token, without its secret.
        """
        return Token.read(self._post(f"/v1/admin/tokens/{segment(token_id)}/revoke", {}))

    def whoami(self) -> Identity:
        """Show who you are for the curator, with which roles, and until when."""
        return Identity.read(self._get("/v1/me"))


COMMANDS: Mapping[str, Command] = {
    "datasets list": Command("list_datasets", ()),
    "datasets show": Command("get_dataset", ("name",)),
    "health": Command("get_health", ()),
    "jobs cancel": Command(
        "cancel_job", ("job_id",), consequence="The job's work is lost, and whoever asked has to ask again"
    ),
    "jobs list": Command("list_jobs", ()),
    "keys list": Command("list_keys", ()),
    "ledger checkpoint": Command("get_checkpoint", ("population",)),
    "ledger question": Command("get_question", ("release_id",)),
    "ledger questions": Command("list_questions", ("population",)),
    "ledger register": Command("list_register", ()),
    "ledger show": Command("list_entries", ("population",)),
    "ledger status": Command("get_seal", ()),
    "limits set": Command(
        "set_limit", ("population",), consequence="A limit that is lowered takes two people to be raised again"
    ),
    "permits ask": Command("ask_permit", ()),
    "permits change": Command("change_permit", ("permit_id",)),
    "permits end": Command("end_permit", ("permit_id",), consequence="A permit that was ended is not revived"),
    "permits grant": Command("grant_dataset", ("analyst", "dataset")),
    "permits list": Command("list_permits", ()),
    "permits revoke": Command(
        "revoke_dataset", ("analyst", "dataset"), consequence="To give it again takes two people"
    ),
    "permits show": Command("get_permit", ("permit_id",)),
    "populations list": Command("list_populations", ()),
    "populations propose": Command("propose_population", ("name",), options={"delta": "--view-delta"}),
    "principals forget": Command(
        "erase_name", ("name",), consequence="The name and the e-mail are deleted, and no provider states them again"
    ),
    "principals list": Command("list_principals", ()),
    "principals name": Command("name_person", ("name",)),
    "proposals answer": Command("answer_about_proposal", ("proposal_id",)),
    "proposals approve": Command(
        "approve_proposal", ("proposal_id",), consequence="An approved proposal holds at once, and the ledger names you"
    ),
    "proposals ask-back": Command("ask_about_proposal", ("proposal_id",)),
    "proposals list": Command("list_proposals", ()),
    "proposals own": Command("list_own_proposals", ()),
    "proposals reject": Command("reject_proposal", ("proposal_id",)),
    "proposals show": Command("get_proposal", ("proposal_id",)),
    "proposals show-own": Command("get_own_proposal", ("proposal_id",)),
    "proposals withdraw": Command("withdraw_proposal", ("proposal_id",)),
    "reservations list": Command("list_reservations", ()),
    "reservations release": Command(
        "close_reservation", ("reservation_id",), consequence="Others can spend at once what it held"
    ),
    "sessions close": Command(
        "close_session",
        ("session_id",),
        consequence="It answers no more questions, and nothing that it was charged returns",
    ),
    "sessions list": Command("list_sessions", ()),
    "spending": Command("list_spending", ()),
    "surveys close": Command(
        "close_survey", ("survey",), consequence="It takes no more reports, and is not opened again"
    ),
    "surveys invite": Command("invite", ("survey",)),
    "surveys list": Command("list_surveys", ()),
    "surveys open": Command("open_survey", ()),
    "tokens create": Command("create_token", ("name",), options={"roles": "--role"}),
    "tokens list": Command("list_tokens", ()),
    "tokens revoke": Command("revoke_token", ("token_id",), consequence="A token that was revoked does not come back"),
    "tokens rotate": Command(
        "rotate_token",
        (),
        options={"grace_s": "--grace"},
        consequence="The token that you use now ends after its grace",
    ),
    "whoami": Command("whoami", ()),
}
