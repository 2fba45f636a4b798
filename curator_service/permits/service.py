"""Rules of permits: asking, granting, changing and ending them, and which one a request is charged under.

A permit has an entry in the chain of each population whose datasets it is for, written in the unit of work that lets
people spend; the chain's own verification holds every charge against it. What only restricts holds at once; what lets
anybody do more is approved by somebody who neither asked for it nor gains by it. An operator at the machine itself
grants alone, as he can read the rows anyway: the entry says so.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from math import inf
from typing import Any

from curator_service.approvals.problems import LimitConflict, PermitChanged, PermitEnded
from curator_service.approvals.repository import APPROVED, OPEN, Proposal
from curator_service.approvals.service import ApprovalService, decision_of, make_id
from curator_service.approvals.terms import PermitTerms
from curator_service.datasets.repository import Dataset, find_dataset, find_dataset_by_id
from curator_service.entries.account import FOR_EVER, Share
from curator_service.entries.base import REGISTER, Decision
from curator_service.entries.rules import Asked, Kinds, Rule, find_broken, read_rules
from curator_service.entries.sessions import KIND as THRESHOLD
from curator_service.entries.terms import PERMIT, Limit
from curator_service.entries.terms import Permit as PermitEntry
from curator_service.identity.entries import PrincipalNamed
from curator_service.identity.policy import Action, Objects, Role, allowed_objects
from curator_service.identity.repository import Principal, find_principal
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Connection, Database
from curator_service.kit.problems import NotFound, Problem, RequestInvalid
from curator_service.ledger import repository as accounts
from curator_service.ledger.accounts.unit_of_work import Contradiction, Ledger, Refused, new_id
from curator_service.ledger.chain.attestation import list_attested
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.repository import find_population
from curator_service.ledger.schemas import PriceModel
from curator_service.ledger.service import LedgerService, PopulationError, units_of_limit
from curator_service.permits import repository
from curator_service.permits.repository import Permit, PermitRecord, Use
from curator_service.permits.response_models import OtherUseModel

_ID_PATTERN = re.compile(r"prm_[0-9a-f]{24}")


class PermitError(ValueError):
    """A permit cannot be granted or ended as asked; the message says why, for the operator."""


class PermitNeeded(Problem):
    """No permit, or more than one, lets the caller use the dataset."""

    slug = "permit-needed"
    status = HTTPStatus.FORBIDDEN
    title = "A permit is needed"


class VisaNeeded(Problem):
    """The dataset asks for a visa beside a permit, and the caller has none that holds."""

    slug = "visa-needed"
    status = HTTPStatus.FORBIDDEN
    title = "A visa is needed"


class PermitExpired(Problem):
    """The permit has ended: nothing is charged under it any more."""

    slug = "permit-expired"
    status = HTTPStatus.FORBIDDEN
    title = "The permit has expired"


class PermitService:
    """Permits.

    Parameters
    ----------
    approvals : ApprovalService
        Carries out what was approved.
    now : callable
        The clock.
    judge : callable
        The one that ends are held against.
    kinds : sequence of str
        Names of the kinds of release, to which a rule may restrict a permit.
    visas : mapping of str to str, optional
        Of a dataset the value of the visa that it asks for.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        approvals: ApprovalService,
        now: Clock,
        judge: Clock,
        kinds: Sequence[str],
        visas: Mapping[str, str] | None = None,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.approvals = approvals
        self.now, self.judge = now, judge
        self.kinds = sorted({*kinds, THRESHOLD})
        self.visas = visas or {}
        approvals.writers[PERMIT] = self._write
        approvals.readers[PERMIT] = read_terms_before
        approvals.list_spenders = _list_spenders

    # --- Which permit

    def choose(
        self,
        connection: Connection,
        principal: Principal,
        dataset: Dataset,
        project: str | None,
        release: Asked | None = None,
    ) -> Use | Problem:
        """Return the permit under which an analyst's request is charged, or why there is none: for whoever charges.

        Parameters
        ----------
        project : str or None
            What the request names; without it, the one permit that there is, or the grant among several.
        release : Asked, optional
            What rules of the permit must allow.

        Returns
        -------
        Use or Problem
            A `PermitNeeded` or a `PermitExpired`.
        """
        missing = self.find_missing_visa(principal, dataset.name)
        if missing is not None:
            return missing
        uses = repository.list_uses(connection, principal.id, dataset.id, timestamp(self.judge()))
        named = [use for use in uses if project is None or use.project == project]
        lasting = [use for use in named if use.lasts]
        if len({use.project for use in lasting}) > 1:
            lasting = [use for use in lasting if not use.project]
        broken = [(use, None if release is None else find_broken(use.rules, release)) for use in lasting]
        lasting = [use for use, rule in broken if rule is None]
        if broken and not lasting:
            use, rule = broken[0]
            assert rule is not None
            return rule_broken(rule, use.project)
        if lasting:  # a project may have been given more, as another permit: the one that is used up hides no other
            return max(lasting, key=lambda use: inf if use.left is None else use.left)
        if named and not any(use.lasts for use in named):
            return permit_expired(max(use.expires_at for use in named))
        projects = sorted({use.project for use in uses if use.project})
        asked = f"of the project {project!r}" if project else "alone"
        return PermitNeeded(
            f"No permit {asked} lets you use this dataset. Name one of your projects in `project`: "
            f"{', '.join(map(repr, projects)) or 'there is none; ask for a permit'}.",
            projects=projects,
        )

    def find_missing_visa(self, principal: Principal, dataset: str) -> "VisaNeeded | None":
        """Return why whoever is charged lacks the visa that a dataset asks for beside a permit, or None."""
        wanted, now = self.visas.get(dataset), self.judge().timestamp()
        if wanted is None or any(visa.value == wanted and now < visa.expires for visa in principal.visas):
            return None
        return VisaNeeded(
            f"The dataset {dataset!r} asks for a visa {wanted!r} beside a permit: sign in where you have it."
        )

    # --- Asking and deciding

    def ask(
        self, terms: PermitTerms, reason: str, by: Principal, permit_id: str | None = None, *, key: str | None = None
    ) -> Proposal:
        """Ask for a permit, or for a change of one; what only restricts it holds at once, if a privacy officer asks.

        Raises
        ------
        NotFound, RequestInvalid, IdempotencyKeyReused, Conflict, LedgerUnverified
        """
        self.ledger.guard.check_open()
        moment, label = timestamp(self.now()), permit_id or make_id(by, key, "prm_")
        content = _write_terms(terms)
        known = self.approvals.find_repeat(by, key, scope=PERMIT, label=label, content=content, reason=reason)
        if known is not None:
            return known
        if terms.expires_at is not None and terms.expires_at <= moment:
            raise RequestInvalid.at("/expires_at", "a permit ends in the future; end one that there is instead")
        unknown = [name for name in terms.rules.get(Kinds.name, ()) if name not in self.kinds]
        if unknown:
            *first, last = self.kinds
            rule = f"there is no kind {unknown[0]!r}; kinds are {', '.join(first)} and {last}"
            raise RequestInvalid.at(f"/rules/{Kinds.name}", rule)
        with self.database.read() as connection:
            before = None if permit_id is None else _find(connection, permit_id)
            if before is not None and before.ended_at:
                raise _ended(before)
            blank = before or _blank(label, moment)
            # Whoever sees permitted datasets alone is not told which others there are, nor who: the officer hears.
            is_trusted = allowed_objects(by.roles, Action.ASK_PERMIT) is Objects.ALL
            after = _resolve(connection, terms, blank) if is_trusted else replace(blank, terms=terms)
        proposal = Proposal(
            id=make_id(by, key),
            population=min(after.limits, default=""),
            scope=PERMIT,
            label=after.id,
            limit=0,
            was=0 if before is None else before.version,
            reason=reason,
            proposed_by=by.id,
            proposed_at=moment,
            state=OPEN,
            content=content,
        )
        restricts = is_trusted and before is not None and not _is_wider(before, after)
        return self.approvals.propose(proposal, at_once=restricts and Role.PRIVACY_OFFICER in by.roles)

    def end(self, permit_id: str, reason: str, by: str) -> Permit:
        """End a permit: from now on nothing is charged under it, and its people see none of its datasets by it.

        Raises
        ------
        NotFound, PermitEnded, PermitChanged, LedgerUnverified
        """
        self.ledger.guard.check_open()
        with self.database.read() as connection:
            permit = _find(connection, permit_id)
        if permit.ended_at:
            return self._end_again(permit, reason, by)
        moment = timestamp(self.now())
        decision: Decision = {"actor": by, "approved_by": by, "reason": reason, "time": moment}
        ended = replace(permit, version=permit.version + 1, people={}, datasets={}, ended_at=moment)
        try:
            with self.ledger.unit() as ledger:
                receipts = _record(ledger, permit, ended, decision)
        except (Refused, PermitChanged):
            self.ledger.guard.check_open()
            with self.database.read() as connection:
                permit = _find(connection, permit_id)
            if not permit.ended_at:
                raise _changed() from None
            return self._end_again(permit, reason, by)
        self._anchor(receipts)
        return replace(ended, people=permit.people, datasets=permit.datasets)

    def _end_again(self, permit: Permit, reason: str, by: str) -> Permit:
        """Return an ended permit to the person that ended it and asks again for the same reason.

        Raises
        ------
        PermitEnded
        """
        with self.database.read() as connection:
            own = self._list_said(connection, min(permit.limits), permit.id)
        if not own or (own[-1].actor, own[-1].reason) != (by, reason):
            raise _ended(permit)
        return permit

    def _write(self, ledger: Ledger, proposal: Proposal, approved_by: str) -> list[Receipt]:
        """Grant what was asked for, in the unit of work that approves it."""
        connection, terms = ledger.connection, PermitTerms.model_validate_json(proposal.content)
        before = None if proposal.was == 0 else _find(connection, proposal.label)
        if before is not None and before.ended_at:
            raise _ended(before)
        if before is not None and before.version != proposal.was:
            raise _changed()
        assert proposal.decided_at is not None
        blank = _blank(proposal.label, proposal.decided_at)
        after = _resolve(connection, terms, before or blank)
        if proposal.state == APPROVED:
            self.approvals.check_second(ledger, after.people, approved_by, "gains")
        after = replace(after, version=proposal.was + 1)
        return _record(ledger, before or blank, after, decision_of(proposal, approved_by))

    # --- At the machine

    def grant(self, name: str, dataset: str, *, actor: str) -> str:
        """Let one analyst use one dataset, without a project or an end; return the permit's id.

        An analyst has one such permit for each population, to which datasets are added.

        Raises
        ------
        PermitError
            If there is no such analyst or dataset, or the analyst may use it already.
        LedgerUnverified
        """
        return self._regrant(name, dataset, actor, "granted at the machine", wanted=True).id

    def revoke(self, name: str, dataset: str, *, actor: str, reason: str = "taken back at the machine") -> Permit:
        """Take one dataset out of an analyst's permit without a project, which ends with its last one.

        Raises
        ------
        PermitError
            If there is none; whoever repeats it for the same reason gets the permit as it was left.
        LedgerUnverified
        """
        try:
            return self._regrant(name, dataset, actor, reason, wanted=False)
        except PermitError:
            known = self._find_revoked(name, dataset, actor, reason)
            if known is None:
                raise
            return known

    def _find_revoked(self, name: str, dataset: str, actor: str, reason: str) -> Permit | None:
        """Return the permit out of which somebody took a dataset last, for this reason, or None."""
        with self.database.read() as connection:
            for permit in map(_read, repository.list_permits(connection)):
                if permit.terms.project or name not in permit.people.values() or dataset in _used(permit):
                    continue
                for population in permit.limits:
                    said = self._list_said(connection, population, permit.id)[-2:]
                    had = [dataset in one.datasets.values() for one in said]
                    if had == [True, False] and (said[-1].actor, said[-1].reason) == (actor, reason):
                        return permit
        return None

    def _regrant(self, name: str, dataset: str, actor: str, reason: str, *, wanted: bool) -> Permit:
        self.ledger.guard.check_open()
        moment = timestamp(self.now())
        with self.database.read() as connection:
            try:
                asked = _resolve(connection, _plain(name, [dataset]), _blank(new_id("prm_"), moment))
            except RequestInvalid as error:
                raise PermitError(error.detail) from None
            own = [_read(record) for record in repository.list_permits(connection, of=next(iter(asked.people)))]
            plain = [one for one in own if not one.terms.project]
            used = next((one for one in plain if dataset in one.datasets.values()), None)
            if (used is not None) is wanted:
                raise PermitError(f"{name!r} may {'use it already' if wanted else 'not use it'}: {dataset!r}")
            before = used or next((one for one in plain if one.limits.keys() == asked.limits.keys()), asked)
            named = {*before.datasets.values(), dataset} if wanted else {*before.datasets.values()} - {dataset}
            after = _resolve(connection, before.terms.model_copy(update={"datasets": sorted(named)}), before)
        if before is asked:
            before = _blank(asked.id, moment)
        after = replace(
            after,
            version=before.version + 1,
            limits={**after.limits, **before.limits},  # a limit of before there were permits is not among the terms
            people=after.people if named else {},
            ended_at="" if named else moment,
        )
        decision: Decision = {"actor": actor, "approved_by": actor, "reason": reason, "time": moment}
        try:
            with self.ledger.unit() as ledger:
                receipts = _record(ledger, before, after, decision)
        except (Refused, PermitChanged):
            self.ledger.guard.check_open()
            raise PermitError("the permit was changed in the meantime: look at it and say it anew") from None
        self._anchor(receipts)
        return replace(after, people=after.people or before.people, datasets=after.datasets or before.datasets)

    # --- Looking

    def list_permits(self, *, of: str | None = None) -> list[Permit]:
        """Return permits, the newest first; with `of`, those that let this principal spend."""
        with self.database.read() as connection:
            return [_read(record) for record in repository.list_permits(connection, of=of)]

    def get_permit(self, permit_id: str) -> Permit:
        """Return a permit.

        Raises
        ------
        NotFound
        """
        with self.database.read() as connection:
            return _find(connection, permit_id)

    def list_grants(self) -> list[tuple[str, str, str]]:
        """Return grants as (analyst's name, dataset's name, permit's id)."""
        with self.database.read() as connection:
            return repository.list_grants(connection)

    def list_other_uses(self, permit: Permit, dataset: str | None = None) -> list[OtherUseModel]:
        """Return what people of a permit may still use of its datasets by other ones, by person and dataset.

        Parameters
        ----------
        permit : Permit
            One that was ended.
        dataset : str, optional
            The one that was taken out of it, in place of all of them.
        """
        with self.database.read() as connection:
            found = [one for one in repository.list_grants(connection) if one[2] != permit.id]
            names = permit.datasets.values() if dataset is None else [dataset]
            wanted = {(person, what) for person in permit.people.values() for what in names}
            uses = [(person, dataset, other) for person, dataset, other in found if (person, dataset) in wanted]
            terms = {other: _find(connection, other).terms for other in {other for _, _, other in uses}}
        return [
            OtherUseModel.model_construct(
                analyst=person,
                dataset=dataset,
                permit=other,
                project=terms[other].project,
                expires_at=terms[other].expires_at,
            )
            for person, dataset, other in uses
        ]

    def has_approved_for(self, principal_id: str, by: str) -> bool:
        """Return whether `by` approved, as a second person, a limit or permit that a principal may spend from now.

        Parameters
        ----------
        principal_id, by : str
            Ids of principals: who spends, and who approved.
        """
        holds = self.ledger.guard.trust.holds
        with self.database.read() as connection:
            permits = map(_read, repository.list_permits(connection, of=principal_id))
            said: list[PermitEntry | Limit] = []
            for permit in permits:
                for population in permit.limits:
                    said += self._list_said(connection, population, permit.id)
                    said += [one.said for one in list_attested(connection, population, Limit, holds)]
        return any(one.approved_by != one.actor and self.approvals.find_doubt(one.approved_by, by) for one in said)

    def _list_said(self, connection: Connection, population: str, permit_id: str) -> list[PermitEntry]:
        """Return what a chain says of a permit, in order."""
        about, holds = (PERMIT, [permit_id]), self.ledger.guard.trust.holds
        return [one.said for one in list_attested(connection, population, PermitEntry, holds, about=about)]

    def _anchor(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            self.ledger.guard.anchor_before_send(receipt, just_written=True)


def read_terms_before(connection: Connection, proposal: Proposal, reader: Principal) -> PermitTerms | None:
    """Return the terms of a permit as they are now, where a proposal would change them and the reader may see it."""
    record = repository.find_permit(connection, proposal.label) if proposal.was else None
    permit = None if record is None else _read(record)
    if permit is None:
        return None
    if reader.id not in permit.people and allowed_objects(reader.roles, Action.READ_PERMIT) is not Objects.ALL:
        return None
    return permit.terms


def _list_spenders(connection: Connection, population: str) -> set[str]:
    """Return the ids of people whose permits hold and let them spend of a population."""
    permits = map(_read, repository.list_permits(connection))
    return {one for permit in permits if population in permit.limits and not permit.ended_at for one in permit.people}


def rule_broken(rule: Rule[Any], project: str) -> PermitNeeded:
    """Build the refusal of a release that a rule of a permit does not allow."""
    return PermitNeeded(
        f"Your permit does not allow this release. Its rule {rule.name!r} says: {rule.text}. Ask for a release that it "
        "allows, or for other terms of the permit.",
        projects=[project] if project else [],
    )


def permit_expired(expires_at: str) -> PermitExpired:
    """Build the refusal of what is asked after a permit's end."""
    return PermitExpired(
        f"Your permit ended{f' at {expires_at}' if expires_at else ''}: nothing is charged under it any more. What was "
        "released before can be read. Ask for the permit to be renewed."
    )


def _used(permit: Permit) -> set[str]:
    """Return the datasets that people may use by a permit."""
    return set() if permit.ended_at else set(permit.datasets.values())


def _ended(permit: Permit) -> PermitEnded:
    return PermitEnded(f"The permit was ended at {permit.ended_at}, and is not revived: ask for a new one.")


def _changed() -> PermitChanged:
    return PermitChanged("The permit was changed in the meantime: look at it and ask anew.")


def _plain(name: str, datasets: list[str]) -> PermitTerms:
    """Return the terms of a grant at the machine."""
    return PermitTerms.model_construct(people=[name], datasets=datasets)


def _blank(permit_id: str, moment: str) -> Permit:
    return Permit(permit_id, 0, _plain("", []), {}, {}, {}, moment, "")


def _find(connection: Connection, permit_id: str) -> Permit:
    record = repository.find_permit(connection, permit_id) if _ID_PATTERN.fullmatch(permit_id) else None
    if record is None:
        raise NotFound("There is no permit of this id.")
    return _read(record)


def _write_terms(terms: PermitTerms) -> str:
    return terms.model_dump_json(exclude={"reason"})


def _read(record: PermitRecord) -> Permit:
    stored = json.loads(record.terms)
    limits = {name: None if units is None else int(units) for name, units in stored["limits"].items()}
    terms = _construct(json.loads(stored["terms"]))
    return Permit(
        record.id,
        record.version,
        terms,
        stored["people"],
        stored["datasets"],
        limits,
        record.granted_at,
        record.ended_at,
    )


def _construct(stored: dict[str, Any]) -> PermitTerms:
    """Build terms that were checked when they were asked for."""
    limit = stored.get("limit")
    return PermitTerms.model_construct(**stored | {"limit": None if limit is None else PriceModel(**limit)})


def _resolve(connection: Connection, terms: PermitTerms, permit: Permit) -> Permit:
    """Find the people, datasets and accounts that terms name.

    Raises
    ------
    RequestInvalid
    """
    people, datasets, limits = {}, {}, {}
    for name in terms.people:
        principal = find_principal(connection, name)
        if principal is None or Role.ANALYST not in principal.roles:
            raise RequestInvalid.at("/people", f"there is no analyst {name!r}")
        people[principal.id] = name
    for name in terms.datasets:
        dataset = find_dataset(connection, name, granted_to=None)
        if dataset is None:
            raise RequestInvalid.at("/datasets", f"there is no dataset {name!r}")
        datasets[dataset.id] = name
        account = find_population(connection, dataset.population)
        assert account is not None
        try:
            limits[account.name] = (
                None if terms.limit is None else units_of_limit(account.accountant, terms.limit.price)
            )
        except PopulationError as error:
            raise RequestInvalid.at("/limit", f"{error} (population {account.name})") from None
    return replace(permit, terms=terms, people=people, datasets=datasets, limits=limits)


def _share(permit: Permit, population: str) -> Share:
    """Return what a permit lets people do with a population, as the chain will say it."""
    return Share(
        permit.limits.get(population),
        expires_at=permit.terms.expires_at or FOR_EVER,
        people=frozenset(permit.people),
        datasets=frozenset(permit.datasets.values()),
        stated=(permit.terms.project, permit.terms.purpose, permit.terms.legal_basis, permit.terms.conditions),
        rules=read_rules(permit.terms.rules),
    )


def _is_wider(before: Permit, after: Permit) -> bool:
    try:
        read_rules(before.terms.rules)
    except ValueError:  # of other rules than there are here: what is lifted is not known
        return True
    return any(
        population not in before.limits or _share(after, population).is_wider_than(_share(before, population))
        for population in after.limits
    )


def _record(ledger: Ledger, before: Permit, after: Permit, decision: Decision) -> list[Receipt]:
    """Write a permit and its entries: of each population whose datasets it is for now, or was for.

    Raises
    ------
    LimitConflict
        If its limit would fall below what is spent and held.
    PermitChanged
    Refused
        Under a seal.
    Contradiction
        If a name is not whose the register says.
    """
    connection, receipts = ledger.connection, []
    _check_names(ledger, {who: name for who, name in after.people.items() if before.people.get(who) != name})
    moment = decision["time"]
    ends = min(moment, before.terms.expires_at or moment)  # what has expired is not prolonged by ending it
    homes = _homes(connection, {**before.datasets, **after.datasets})
    for population in sorted({*before.limits, *after.limits}):  # accounts are locked in one order
        named = {key: name for key, name in after.datasets.items() if homes[key] == population}
        limit = after.limits.get(population, before.limits.get(population))
        expires_at = (after.terms.expires_at or FOR_EVER) if named else ends
        head = ledger.next(population)
        if not accounts.set_share(connection, population, after.id, units=limit, expires_at=expires_at):
            raise LimitConflict(
                f"The permit's limit cannot be set: it would be below what is spent and held of {population!r}."
            )
        said = PermitEntry(
            **decision,
            permit=after.id,
            version=after.version,
            project=after.terms.project,
            people=after.people if named else {},
            datasets=named,
            purpose=after.terms.purpose,
            legal_basis=after.terms.legal_basis,
            conditions=after.terms.conditions,
            permit_limit=None if limit is None else str(limit),
            expires_at=expires_at or None,
            rules=after.terms.rules or None,
        )
        receipts.append(ledger.record(head, said, 0))
    stored = {
        "terms": _write_terms(after.terms),
        "people": after.people or before.people,
        "datasets": after.datasets or before.datasets,
        "limits": {name: None if units is None else str(units) for name, units in after.limits.items()},
    }
    record = PermitRecord(
        after.id, after.version, after.terms.project, json.dumps(stored), after.granted_at, after.ended_at
    )
    uses = [(person, dataset) for person in after.people for dataset in after.datasets]
    if not repository.write_permit(connection, record, uses, moment):
        raise _changed()
    return receipts


def _check_names(ledger: Ledger, people: Mapping[str, str]) -> None:
    """Hold the names of people, by id, against the register: two people decide by names, and a row says whose one is.

    Raises
    ------
    Contradiction
    """
    if not people:
        return
    acts = list_attested(ledger.connection, REGISTER, PrincipalNamed, ledger.trust.holds, about=("principal", people))
    said = {act.said.principal: act.said.name for act in acts}
    for who, name in people.items():
        if said.get(who, name) != name:
            raise Contradiction(f"the name {name!r} is not whose the register says")


def _homes(connection: Connection, datasets: dict[str, str]) -> dict[str, str]:
    found = (find_dataset_by_id(connection, key, granted_to=None) for key in datasets)
    return {dataset.id: dataset.population for dataset in found if dataset is not None}
