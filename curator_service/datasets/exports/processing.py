"""The record of processing activities (GDPR, Article 30), as far as the curator knows it.

It is made of declarations, grants and limits, never of rows. What the curator cannot know is marked for the operator.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from curator_service.datasets.catalogue import Catalogue, Organisation, Period
from curator_service.datasets.repository import Dataset
from curator_service.identity.policy import Action, Objects, Role, allowed_objects
from curator_service.identity.repository import Principal, sort_roles
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.schemas import describe_spent
from curator_service.privacy.accountant import PURE
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.guessing import best_guess, number_up, percent_up

BLANK = "TO COMPLETE"
_MARKUP = re.compile(r"([\\`*_\[\]<>|#&~])")
_NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "whether one person's data are there or not. How many people there are is private.",
    Adjacency.REPLACE_ONE: "whether one person's data are theirs or another's. How many people there are is public.",
}
_BY_OPERATOR = (
    "beside the controllers: joint controllers, representatives, and the data protection officer",
    "transfers to a third country or an international organisation, and their safeguards",
    "processors: who runs the machine, the database and the backups",
    "security: encryption of disks and backups, access to the machine, the proxy that ends TLS",
)


@dataclass(frozen=True, slots=True)
class Holdings:
    """Holdings of a curator and their users.

    Attributes
    ----------
    as_of : str
        When it was read.
    places : dict of str to str
        Where the ledger, the rows, the keys and the anchor are.
    populations : sequence of Population
    datasets : sequence of Dataset
    principals : sequence of Principal
    grants : sequence of (str, str, str)
        Analysts' names, datasets' names and permits' ids.
    identified : frozenset of str
        The ids of the datasets that keep identifiers, encrypted.
    """

    as_of: str
    places: dict[str, str]
    populations: Sequence[Population]
    datasets: Sequence[Dataset]
    principals: Sequence[Principal]
    grants: Sequence[tuple[str, str, str]]
    identified: frozenset[str] = frozenset()


def render_record(holdings: Holdings) -> dict[str, Any]:
    """Return the record as JSON; null is what the operator completes."""
    readers = [_recipient(p) for p in holdings.principals if p.roles != {Role.ANALYST}]
    return {
        "as_of": holdings.as_of,
        "places": holdings.places,
        "to_complete": list(_BY_OPERATOR),
        "readers": readers,
        "populations": [_population(population, holdings) for population in holdings.populations],
    }


def _population(population: Population, holdings: Holdings) -> dict[str, Any]:
    return {
        "population": population.name,
        "adjacency": population.adjacency,
        "accountant": population.accountant.name,
        "limit": dict(AmountModel.of(population.view(population.limit))),
        "highest_limit": dict(AmountModel.of(population.view(population.highest_limit))),
        "spent_and_held": dict(AmountModel.of(population.view(population.posted + population.pending))),
        "safeguard": describe_guarantee(population),
        "datasets": [
            describe_dataset(held, holdings) for held in holdings.datasets if held.population == population.name
        ],
    }


def describe_guarantee(population: Population) -> str:
    """Return what the budget promises, in words; the promise is that of the highest limit there ever was."""
    promised, spent = population.view(population.highest_limit), population.view(population.posted + population.pending)
    delta = "" if population.accountant is PURE else f", δ = {promised.delta:g}"
    guess = percent_up(best_guess([(population.accountant, population.highest_limit)]), 1)
    return (
        "Analysts get statistics with calibrated noise, never rows. All answers ever given about this population are "
        f"together differentially private with ε = {number_up(promised.epsilon)}{delta} (accountant "
        f"{population.accountant.name}), whatever else anybody knows and however answers are combined. These "
        f"numbers bound what is told of {_NEIGHBOURS[population.adjacency]} Whoever knows all rows but one person's "
        f"and reads every answer guesses which of the two it is right in at most {guess}% of cases, and in 50% without "
        f"any answer. This holds over all answers that may ever be given under the highest limit so far; a raise above "
        f"it changes these numbers. Charged and held so far: ε = {number_up(spent.epsilon)}{delta}. "
        f"{describe_spent(population.accountant)} An answer that does not fit is refused."
    )


def describe_dataset(dataset: Dataset, holdings: Holdings) -> dict[str, Any]:
    """Return what the record says of a dataset."""
    manifest, declared = dataset.manifest, dataset.manifest.catalogue or Catalogue()
    granted = {name for name, used, _ in holdings.grants if used == dataset.name}
    return {
        "dataset": dataset.name,
        "title": declared.title,
        "description": declared.description or manifest.description or None,
        "registered_at": dataset.created_at,
        "controller": _organisation(declared.controller),
        "purpose": declared.purpose,
        "legal_basis": declared.legal_basis,
        "data_subjects": declared.population_coverage,
        "rows_per_person": manifest.rows_per_person,
        "subject": ", ".join(manifest.subject_columns) or None,
        "identifiers_kept": dataset.id in holdings.identified,
        "data": [{"name": c.name, "unit": c.unit, "description": c.description} for c in manifest.columns],
        "recipients": [_recipient(principal) for principal in holdings.principals if principal.name in granted],
        "answers_shared": manifest.library == "shared",
        "retention": _period(declared.retention),
    }


def _recipient(principal: Principal) -> dict[str, Any]:
    reads = allowed_objects(principal.roles, Action.READ_RELEASE)
    sees = {
        Objects.GRANTED: "released statistics of datasets granted",
        Objects.ALL: "every released statistic, and the ledger",
        None: "what the roles need, as the ledger; no released statistic",
    }[reads]
    return {"name": principal.name, "roles": sort_roles(principal.roles), "sees": sees}


def _organisation(organisation: Organisation | None) -> dict[str, Any] | None:
    return None if organisation is None else organisation.model_dump(mode="json", exclude_none=True)


def _period(period: Period | None) -> dict[str, Any] | None:
    return None if period is None else period.model_dump(mode="json", exclude_none=True)


def write_markdown(record: dict[str, Any]) -> str:
    """Return the record as Markdown."""
    lines = [
        "# Record of processing activities",
        "",
        f"Under Article 30(1) of Regulation (EU) 2016/679, as the curator knew it at {record['as_of']}. "
        f"What it cannot know is marked **{BLANK}**.",
        "",
        "## For all datasets",
        "",
        *(f"- **{BLANK}** {item}" for item in record["to_complete"]),
        "",
        "Technical measures (Article 32(1)):",
        "",
        "- Rows are read once, at registration, and stored as integers within public bounds. No row is handed out.",
        "- Every answer is charged to a budget before it leaves, in a ledger that is chained by hashes and signed.",
        "- The curator opens no connection to the outside. It does not encrypt what it stores: that is the operator's.",
        "- Whoever administers its machine, its disks or its backups can read the rows.",
        "- It erases nothing by itself: rows, backups and answers are removed by the operator when their time is over.",
        *(f"- Where {what} is: {_text(where)}" for what, where in record["places"].items()),
        "",
        "Who reads without a grant, all principals with such a role, whether or not they hold a valid token:",
        "",
        *_recipients(record["readers"]),
    ]
    for population in record["populations"]:
        lines += ["", f"## Population {_text(population['population'])}", "", _text(population["safeguard"])]
        if not population["datasets"]:
            lines += ["", "No dataset is registered."]
        for dataset in population["datasets"]:
            lines += _dataset_lines(dataset)
    return "\n".join(lines) + "\n"


def _dataset_lines(dataset: dict[str, Any]) -> list[str]:
    shared = "every analyst who is granted the dataset" if dataset["answers_shared"] else "whoever asked for them"
    return [
        "",
        f"### Dataset {_text(dataset['dataset'])}",
        "",
        _said(dataset["description"], "what the dataset is"),
        "",
        f"- Registered: {dataset['registered_at'][:10]}",
        f"- Controller: {_reached(dataset['controller'])}",
        f"- Purposes: {_said(dataset['purpose'], 'the purposes of the processing')}",
        f"- Legal basis: {_said(dataset['legal_basis'], 'the legal basis, which Article 30 does not ask for')}",
        f"- Data subjects: {_said(dataset['data_subjects'], 'the categories of people')}",
        f"- Rows and people: {_rows_and_people(dataset)}",
        f"- Time until erasure: {_until(dataset['retention'])}",
        f"- Answers are read by: {shared}",
        "",
        "Categories of personal data:",
        "",
        *_table(("column", "unit", "what it is"), [(c["name"], c["unit"], c["description"]) for c in dataset["data"]]),
        "",
        "Recipients:",
        "",
        *_recipients(dataset["recipients"]),
    ]


def _reached(organisation: dict[str, Any] | None) -> str:
    if organisation is None:
        return _said(None, "the controller's name and contact details")
    return ", ".join(_text(organisation[name]) for name in ("name", "email", "url") if name in organisation)


def _rows_and_people(dataset: dict[str, Any]) -> str:
    if dataset["subject"] is None:
        return "the manifest declares that each row is another person's."
    kept = "which is stored encrypted" if dataset["identifiers_kept"] else "which is not stored"
    told_apart = f"people are told apart by {_text(dataset['subject'])}, {kept}"
    return f"{told_apart}; at most {dataset['rows_per_person']} rows of each count."


def _until(period: dict[str, Any] | None) -> str:
    if period is None:
        return _said(None, "when the rows are erased")
    words = {"start": "from ", "end": "until ", "comment": ""}
    return "; ".join(word + _text(period[name]) for name, word in words.items() if name in period)


def _said(text: str | None, what: str) -> str:
    return f"**{BLANK}** {what}" if text is None else _text(text)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str | None]]) -> list[str]:
    if not rows:
        return ["None."]
    cells = [[_text(cell or "") for cell in row] for row in rows]
    return [f"| {' | '.join(line)} |" for line in (headers, ["---"] * len(headers), *cells)]


def _recipients(found: Sequence[dict[str, Any]]) -> list[str]:
    return _table(("name", "roles", "sees"), [(r["name"], ", ".join(r["roles"]), r["sees"]) for r in found])


def _text(text: str) -> str:
    """Return a text on one line, in which nothing is Markdown or HTML."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
