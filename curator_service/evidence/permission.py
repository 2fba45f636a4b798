"""The part of a page that says who allowed what, and for what: the permit's terms and its entries."""

from collections.abc import Sequence

from curator_service.evidence import words
from curator_service.evidence.facts import Entry, Evidence
from curator_service.evidence.layout import facts_table, show_declared, show_time, table
from curator_service.evidence.people import describe_actor
from curator_service.kit.html import Markup, element, fill, join, said
from curator_service.privacy.guessing import number_up


def describe_permission(evidence: Evidence) -> list[Markup]:
    """Return who allowed it, or why that is not said."""
    parts = [element("h2", "Who allowed it, and for what")]
    if evidence.permit is None:
        return [*parts, element("p", words.WITHHELD)]
    release = None if evidence.is_of_permit else evidence.releases[0]
    terms = evidence.terms(release)
    assert terms is not None
    permit, says = evidence.permit, terms.says
    named = {name for entry in _in_force(evidence, terms) for name in entry.says["datasets"].values()}
    facts: list[tuple[str, str]] = [
        ("permit", element("code", permit.id)),
        ("project", said(says["project"]) if says["project"] else "none: a plain grant to one analyst"),
        ("people", join([said(name) for name in sorted(says["people"].values())])),
        ("datasets", join([said(name) for name in sorted(named)])),
        *((label, show_declared(says[name])) for label, name in _TEXTS),
        ("limit", join([_limit(evidence, entry) for entry in _in_force(evidence, terms)], "; ")),
        ("expires", show_time(says["expires_at"]) if says.get("expires_at") else "no end is set"),
        *([("ended before its time", show_time(permit.ended_at))] if permit.ended_at else []),
    ]
    rows = [
        (
            fill("{population}, entry {n}", population=said(entry.population), n=str(entry.sequence)),
            show_time(entry.time),
            _act(entry),
            describe_actor(evidence, entry.says["actor"]),
            describe_actor(evidence, entry.says["approved_by"]),
            said(entry.says["reason"]),
        )
        for entry in permit.entries
    ]
    at = "when this was released" if release else "as they are, or last were"
    return [
        *parts,
        element("p", f"The terms {at}:"),
        facts_table(facts),
        table("Its entries in the ledger", ("entry", "when", "what", "asked by", "approved by", "reason"), rows),
        element("p", _alone(permit.entries), class_="quiet"),
    ]


_TEXTS = (("purpose", "purpose"), ("legal basis", "legal_basis"), ("conditions", "conditions"))


def _in_force(evidence: Evidence, terms: Entry) -> list[Entry]:
    """Return the entries with a permit's terms: one for each population, of which each names its own datasets."""
    if evidence.permit is None or not evidence.is_of_permit:
        return [terms]
    found = (evidence.permit.in_force(population) for population in evidence.permit.highest_limits)
    return [entry for entry in found if entry is not None]


def _act(entry: Entry) -> str:
    if not entry.says["people"]:
        return "ended"
    return "granted" if entry.says["version"] == 1 else f"changed to version {entry.says['version']}"


def _alone(entries: Sequence[Entry]) -> str:
    if all(entry.says["actor"] == entry.says["approved_by"] for entry in entries):
        return "One person alone did this, at the machine or as a privacy officer who only restricted it."
    return "Whatever lets anybody do more was approved by a second person, who does not gain by it."


def _limit(evidence: Evidence, entry: Entry) -> Markup:
    population, limit = said(entry.population), entry.says.get("permit_limit")
    if limit is None:
        return fill("of {population} whatever its budget allows", population=population)
    amount = evidence.accounts[entry.population].view(int(limit))
    delta = f", δ = {amount.delta:g}" if amount.delta else ""
    sentence = "of {population} ε = {epsilon}{delta}"
    return fill(sentence, population=population, epsilon=number_up(amount.epsilon), delta=delta)
