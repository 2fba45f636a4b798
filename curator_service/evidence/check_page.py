"""The checker's page: what was released, what protects people, who allowed it, and what is left to judge."""

import json
import math
from functools import cache, partial

from jinja2 import Environment

from curator_service.datasets.columns.base import ColumnDeclaration
from curator_service.entries.rules import read_rules
from curator_service.evidence import words
from curator_service.evidence.facts import CURATOR, OPERATOR, Entry, Evidence, PermitFacts, ReleaseFacts
from curator_service.kit.rendering import make_environment
from curator_service.ledger.repository import Population
from curator_service.ledger.schemas import describe_spent
from curator_service.privacy.accountant import PURE
from curator_service.privacy.guessing import best_guess, number_up, percent_up
from curator_service.sessions.questions import STEP


@cache
def _environment() -> Environment:
    made = make_environment(__package__)
    made.filters["json"] = partial(json.dumps, ensure_ascii=False)
    made.globals |= {"words": words, "CURATOR": CURATOR, "OPERATOR": OPERATOR, "number_up": number_up}
    made.globals |= {"describe_spent": describe_spent, "guess": _guess, "amounts_of": _list_amounts}
    made.globals |= {"columns_of": _columns, "bound": _bound, "verify_command": verify_command}
    made.globals |= {"entries_in_force": _in_force, "datasets_of": _datasets, "is_alone": _is_alone}
    made.globals |= {"in_rows": lambda scale: f"{int(scale) / STEP:.4g}"}
    made.globals |= {"rules_of": lambda says: read_rules(says.get("rules")).values()}
    return made


def render_check_page(evidence: Evidence) -> str:
    """Return the page as HTML."""
    return _environment().get_template("check.html").render(evidence=evidence)


def _columns(release: ReleaseFacts) -> list[ColumnDeclaration]:
    declared = {column.name: column for column in release.dataset.manifest.columns}
    return [declared[name] for name in release.columns]


def _bound(bound: float) -> str:
    return str(bound).removesuffix(".0")


def _in_force(evidence: Evidence, terms: Entry) -> list[Entry]:
    """Return the entries with a permit's terms: one for each population, of which each names its own datasets."""
    if evidence.permit is None or not evidence.is_of_permit:
        return [terms]
    found = (evidence.permit.in_force(population) for population in evidence.permit.highest_limits)
    return [entry for entry in found if entry is not None]


def _datasets(entries: list[Entry]) -> list[str]:
    return sorted({name for entry in entries for name in entry.says["datasets"].values()})


def _is_alone(permit: PermitFacts) -> bool:
    return all(entry.says["actor"] == entry.says["approved_by"] for entry in permit.entries)


def _list_amounts(evidence: Evidence, account: Population) -> list[tuple[str, ...]]:
    """Return a line for each amount: its subject, its views, and a guess where it bounds what was learnt."""
    found: list[tuple[str, int, bool]] = []
    sums_bound = account.accountant is PURE
    if not evidence.is_of_permit:
        (release,) = evidence.releases
        what = "this release" if release.source is None else "the answer that it was cut out of"
        found.append((what, release.units, True))
    if evidence.permit is not None and account.name in evidence.permit.highest_limits:
        limit = evidence.permit.highest_limits[account.name]
        charged = evidence.permit.spent.get(account.name, 0)
        found.append(("charged and held under this permit so far", charged, sums_bound))
        if limit is not None:
            found.append(("the permit’s highest limit", limit, True))
    found.append(("charged and held of the population so far", account.posted + account.pending, sums_bound))
    found.append(("the population’s guarantee, its highest limit", account.highest_limit, True))
    return [
        (what, *_amount(account, units), _guess(account, units) + "%" if is_bound else "–")
        for what, units, is_bound in found
    ]


def _amount(account: Population, units: int) -> tuple[str, ...]:
    amount = account.view(units)
    numbers = (amount.epsilon, amount.delta, amount.mu, amount.rho)
    return tuple("–" if one is None else "no bound" if one == math.inf else number_up(one) for one in numbers)


def _guess(account: Population, units: int) -> str:
    return percent_up(best_guess([(account.accountant, units)]), 1)


def verify_command(evidence: Evidence) -> str:
    """Return the command that verifies every signed file of a pack."""
    permit = " permit/*.json" if evidence.permit is not None else ""
    if evidence.is_of_permit:
        sessions = " sessions/*/*.json" if evidence.sessions else ""
        return f"curator-verify --key keys.json{permit}{' releases/*/*.json' if evidence.releases else ''}{sessions}"
    source = " source/receipt.json" if evidence.releases[0].source else ""
    answer = " answer.json" if evidence.has_answers else ""
    return f"curator-verify --key keys.json receipt.json{answer}{source}{permit}"
