"""The ledger: entries of a chain by what they say, and one entry with what it costs, how, and whether it holds."""

import re
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, page
from curator_service.entries.account import GENESIS
from curator_service.entries.base import KINDS, Units
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME
from curator_service.kit.problems import NotFound, Problem, RequestInvalid
from curator_service.kit.wire import load_json
from curator_service.ledger import search
from curator_service.ledger.chain.entries import Receipt, StoredEntry, canonical, entry_hash
from curator_service.ledger.chain.signing import SigningError
from curator_service.ledger.repository import Population, find_entry
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import LedgerService
from curator_service.questions.service import QuestionService

router = APIRouter(prefix="/admin")
PAGE = 50
UNREADABLE = "its text is no entry"
ABOUT = ("dataset", "project", "reason", "reservation", "session", "signing_key")
"""Members that say what an entry is about: the first that it has."""
ACCOUNT = ("limit", "posted", "pending")
_MONTH = re.compile(r"\d{4}-\d{2}")


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry as it is shown.

    Attributes
    ----------
    sequence : int
    payload : dict
    meaning : str
        What its kind does.
    amount : AmountModel or None
        None where the entry has none.
    about : str
        What it is about, in a few words.
    actor, approved_by : str
        As the entry has them.
    """

    sequence: int
    payload: dict[str, Any]
    meaning: str
    amount: AmountModel | None
    about: str
    actor: str
    approved_by: str


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold of an entry, and whether it does; None where it cannot be told."""

    what: str
    holds: bool | None
    detail: str


@router.get("/ledger")
@page(Action.READ_LEDGER)
def choose_chain(context: PageContext) -> Response:
    """Let a chain be chosen."""
    return _choose(context)


def _choose(context: PageContext, problem: Problem | None = None) -> Response:
    asked = context.browser.query.get("q", "").strip()
    populations = context.get(LedgerService).list_populations()
    found = [one for one in populations if asked.lower() in one.name.lower()]
    start = context.count("start", 0)
    return context.render(
        "ledgers.html",
        200 if problem is None else int(problem.status),
        faults=[] if problem is None else [problem.detail],
        entered=context.entered,
        populations=found[start : start + PAGE],
        asked=asked,
        start=start,
        page_size=PAGE,
        found=len(found),
    )


@router.post("/ledger/receipt")
@page(Action.READ_LEDGER)
def check_receipt(context: PageContext) -> Response:
    """Say whether a receipt that somebody shows is one of this ledger."""
    try:
        shown, answer = _read_receipt(context.text("receipt"))
    except RequestInvalid as problem:
        return _choose(context, problem)
    payload = search.read_payload(shown)
    name = Receipt(shown.payload_text, shown.entry_hash, shown.signature).signed.checkpoint.population
    with context.services.database.snapshot() as connection:
        before = search.find_entry_before(connection, name, shown.sequence)
        there = find_entry(connection, name, shown.sequence)
    stands = there == shown
    checks = check_entry(context, shown, payload, before)
    checks.append(Check("Place", stands, f"The chain of {name} has this very entry at place {shown.sequence}"))
    is_true = all(one.holds for one in checks)
    if answer:
        is_stored = context.get(QuestionService).is_answer(payload, answer)
        checks.append(Check("Answer", is_stored, "The release around the receipt is the one that the entry states"))
    return context.render(
        "receipt.html",
        checks=checks,
        is_true=is_true,
        is_believed=all(one.holds for one in checks),
        entry=there,
        stands=stands,
        changed=[] if there is None or stands else _list_changed(search.read_payload(there), payload),
        question=context.get(QuestionService).find_of_entry(name, shown) if is_true else None,
        population=name,
        sequence=shown.sequence,
    )


def _list_changed(there: dict[str, Any], shown: dict[str, Any]) -> list[str]:
    """Return the members of an entry of which a receipt for its place says something else."""
    return sorted(name.replace("_", " ") for name, value in there.items() if shown.get(name) != value)


@router.get("/populations/{name}/ledger")
@page(Action.READ_LEDGER)
def show_chain(context: PageContext, name: str) -> Response:
    """Show entries, the newest first."""
    population = context.get(LedgerService).get_population(name)
    asked = {key: context.browser.query.get(key, "").strip() for key in ("kind", "actor", "permit", "month")}
    before = context.count("before", population.sequence + 1)
    with context.services.database.read() as connection:
        found, following = search.list_entries_that_say(
            connection, population.name, _said(context, asked), before=before, count=PAGE
        )
    return context.render(
        "ledger.html",
        population=population,
        entries=[make_shown(population, entry, payload) for entry, payload in found],
        asked=asked,
        kinds={name: kind.meaning for name, kind in KINDS.items() if kind.in_populations},
        names=[one.name for one in context.services.identity.list_principals()],
        following=following,
        is_first=before > population.sequence,
    )


@router.get("/populations/{name}/ledger/{sequence}")
@page(Action.READ_LEDGER)
def show_entry(context: PageContext, name: str, sequence: str) -> Response:
    """Show one entry."""
    population = context.get(LedgerService).get_population(name)
    absent = NotFound("There is no entry of this sequence.")
    if not (sequence.isascii() and sequence.isdigit() and len(sequence) < 19):
        raise absent
    with context.services.database.snapshot() as connection:
        entry = find_entry(connection, population.name, int(sequence))
        before = search.find_entry_before(connection, population.name, int(sequence))
        after = find_entry(connection, population.name, int(sequence) + 1)
    if entry is None:
        raise absent
    payload = search.read_payload(entry)
    return context.render(
        "entry.html",
        population=population,
        entry=entry,
        shown=make_shown(population, entry, payload),
        checks=check_entry(context, entry, payload, before),
        question=context.get(QuestionService).find_of_entry(population.name, entry),
        receipt=Receipt(entry.payload_text, entry.entry_hash, entry.signature).text,
        before=before,
        after=after,
        account={
            member: AmountModel.of(population.view(search.read_units(payload.get(member))))
            for member in ("limit", "posted", "pending")
        },
    )


def make_shown(population: Population, entry: StoredEntry, payload: dict[str, Any]) -> Shown:
    """Return what is shown of an entry."""
    kind, actor, approver = payload["kind"], payload["actor"], payload.get("approved_by", "")
    declared = KINDS.get(kind)
    has_amount = declared is not None and declared.amounts is not Units.NONE
    amount = AmountModel.of(population.view(search.read_units(payload["units"]))) if has_amount else None
    about = next((payload[name] for name in ABOUT if payload.get(name)), "")
    meaning = UNREADABLE if declared is None else declared.meaning
    return Shown(entry.sequence, payload, meaning, amount, about, actor, approver)


def check_entry(
    context: PageContext, entry: StoredEntry, payload: dict[str, Any], before: StoredEntry | None
) -> list[Check]:
    """Check an entry by itself: its hash, its link to the one before, and its signature.

    The whole chain, and the account that its entries add up to, is what `curator ledger verify` reads.
    """
    hashed, linked = entry_hash(entry.payload_text), GENESIS if before is None else before.entry_hash
    checks = [
        Check("Hash", hashed == entry.entry_hash, "SHA-256 of the entry's text is the hash that is stored of it"),
        Check("Link", linked == payload.get("previous_hash"), "The entry names the hash of the entry before it"),
    ]
    try:
        signed = Receipt(entry.payload_text, entry.entry_hash, entry.signature).signed
        holds = context.get(LedgerService).guard.keys.verifier().holds(signed.checkpoint, signed.signature)
        checks.append(
            Check("Signature", holds, f"Of that hash, by one of this curator's keys, {payload.get('key_id')}")
        )
    except SigningError as error:
        checks.append(Check("Signature", None, str(error)))
    except (ValueError, KeyError, TypeError):
        checks.append(Check("Signature", False, "The entry is not one that could be signed"))
    return checks


def _read_receipt(text: str) -> tuple[StoredEntry, dict[str, Any]]:
    """Read a receipt, by itself or within a release, however it is spaced; the release's other members are beside it.

    Raises
    ------
    RequestInvalid
    """
    absent = RequestInvalid(
        "This is no receipt of a population's ledger. Paste all of it, from the first brace to the last; a saved "
        "release has it, too."
    )
    try:
        answer = load_json(text.encode())
        found, answer = (answer.pop("receipt"), answer) if "receipt" in answer else (answer, {})
        signature, digest = found.pop("signature"), found.pop("entry_hash")
        receipt = Receipt(canonical(found), digest, signature)
        place = receipt.signed.checkpoint
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise absent from None
    if not (NAME.fullmatch(place.population) and 0 < place.sequence < 2**63):
        raise absent
    return StoredEntry(place.sequence, receipt.payload_text, digest, signature), answer


def _said(context: PageContext, asked: dict[str, str]) -> list[tuple[str, str]]:
    """Return what entries must say; an actor is looked for by name, or as the entry has it."""
    actor = context.people.named(asked["actor"]).id or asked["actor"]
    said = {"kind": asked["kind"], "actor": actor, "permit": asked["permit"]}
    if _MONTH.fullmatch(asked["month"]):
        said["time"] = f"{asked['month']}-"
    return [(name, text) for name, text in said.items() if text]
