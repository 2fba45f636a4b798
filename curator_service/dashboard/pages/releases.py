"""Releases as what was asked: all of them, by who asked what of which data, and one with what it costs and tells."""

import re
from typing import Any

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, page
from curator_service.dashboard.pages.ledger import Check, check_entry
from curator_service.dashboard.pages.stakes import guess_by
from curator_service.dashboard.rendering import write_brief
from curator_service.datasets.service import DatasetService
from curator_service.evidence import acts
from curator_service.evidence.words import DISTRIBUTIONS, PROTECTED
from curator_service.identity.policy import Action
from curator_service.kinds.base import ReleaseKind
from curator_service.kinds.registry import KindRegistry
from curator_service.ledger import search
from curator_service.ledger.response_models import AmountModel
from curator_service.questions.service import Question, QuestionService

router = APIRouter(prefix="/admin")
PAGE = 40
POPULATIONS = 40
"""Populations of one month of which questions are shown together: of more, one is to be chosen."""
FIELDS = ("population", "dataset", "who", "permit", "kind", "column", "month")
_AS_THEY_ARE = {"numeric", "boolean", "level"}
"""Kinds of terms that are a column itself, or a level of it."""
_MONTH = re.compile(r"\d{4}-\d{2}")


@router.get("/releases")
@page(Action.READ_LEDGER)
def show_releases(context: PageContext) -> Response:
    """Show what was asked, the newest first: of one population, or of all that were charged in a month."""
    questions = context.get(QuestionService)
    asked = {name: context.browser.query.get(name, "").strip() for name in FIELDS}
    homes = {one.name: one.population for one in context.get(DatasetService).list_all()}
    population = asked["population"] or homes.get(asked["dataset"], "")
    if not population and not _MONTH.fullmatch(asked["month"]):
        asked["month"] = questions.find_last_month()
    actor = context.people.named(asked["who"]).id or asked["who"]
    wanted = {"actor": actor, "permit": asked["permit"], "dataset": asked["dataset"]}
    if _MONTH.fullmatch(asked["month"]):
        wanted["time"] = f"{asked['month']}-"
    said = [(member, text) for member, text in wanted.items() if text]
    chosen: Any = {"kind": asked["kind"], "column": asked["column"], "count": PAGE}
    populations, following, is_cut = list[str](), None, False
    has_sessions = not (asked["kind"] or asked["column"] or context.browser.query.get("before"))
    if population:
        found, following = questions.list_of(population, said, before=context.count("before", 2**62), **chosen)
    else:
        populations = questions.list_populations(asked["month"])
        found, is_cut = questions.list_of_all(populations[:POPULATIONS], said, **chosen)
    of_sessions = [population] if population else questions.list_populations_of_sessions(asked["month"])
    sessions, is_short = questions.list_sessions(of_sessions[:POPULATIONS] if has_sessions else [], said, count=PAGE)
    return context.render(
        "releases.html",
        questions=[_show(one) for one in found],
        asked=asked,
        kinds=context.get(KindRegistry).names,
        names=[one.name for one in context.services.identity.list_principals()],
        datasets=sorted(homes),
        hidden=max(len(populations) - POPULATIONS, 0),
        following=following,
        is_cut=is_cut or is_short or len(of_sessions) > POPULATIONS,
        sessions=[_show(one) for one in sessions],
        has_sessions=has_sessions,
    )


@router.get("/releases/{release_id}")
@page(Action.READ_LEDGER)
def show_release(context: PageContext, release_id: str) -> Response:
    """Show what was asked by one release, what it costs and tells, and whether its entry holds."""
    question = context.get(QuestionService).find(release_id)
    account = question.population
    with context.services.database.snapshot() as connection:
        before = search.find_entry_before(connection, account.name, question.entry.sequence)
        cut, _ = search.list_entries_that_say(
            connection, account.name, [("source", release_id)], before=account.sequence + 1, count=PAGE
        )
    return context.render(
        "release.html",
        question=_show(question),
        population=account,
        columns=_list_columns(context, question),
        noise=_list_noise(context, question),
        law=_law(question),
        request=question.request,
        guess=guess_by(account, question.units),
        protected=PROTECTED[account.adjacency],
        checks=[
            *check_entry(context, question.entry, question.said, before),
            Check(
                "Answer",
                question.request is not None,
                "The entry has the SHA-256 of the answer that is stored, with this question",
            ),
        ],
        cut=[payload for _, payload in cut],
    )


@router.get("/releases/{release_id}/evidence")
@page(Action.READ_EVIDENCE)
def download_evidence(context: PageContext, release_id: str) -> Response:
    """Return the evidence of a release, as `/v1` does: with its answer for whoever may read that."""
    answer: Response = acts.get_evidence(context.as_request(), release_id=release_id)
    return answer


def _show(question: Question) -> dict[str, Any]:
    said = dict.fromkeys(("permit", "project", "source", "dataset", "release", "session"), "") | question.said
    return {
        "id": said["release"],
        "population": question.population.name,
        "sequence": question.entry.sequence,
        "said": said,
        "words": question.words[:1].upper() + question.words[1:],
        "formula": question.formula,
        "is_shown": question.request is not None,
        "amount": AmountModel.of(question.population.view(question.units)),
        "is_free": said["kind"] == "derive",
        "guess": guess_by(question.population, question.units),
    }


def _law(question: Question) -> tuple[str, float]:
    """Return the noise's law, and how many standard deviations 95 of 100 draws are within."""
    return DISTRIBUTIONS.get(question.about.get("noise", {}).get("distribution", ""), ("", 0.0))


def _list_columns(context: PageContext, question: Question) -> list[dict[str, str]]:
    """Return the columns of a release: names, public bounds or levels, one scaled unit, and the noise of their sums."""
    about = question.about
    if question.request is None:
        return []
    of = _list_sums(context, about)
    found = []
    for column in question.columns:
        low, high, unit = column.get("lower"), column.get("upper"), column.get("unit") or ""
        if low is None or high is None:
            values, scale, unit = ", ".join(column.get("levels") or ()) or "–", 1.0, "rows"
        else:
            values, scale = f"{write_brief(low)} to {write_brief(high)} {unit}".strip(), (high - low) / 2
        noise = of.get(column["name"])
        found.append(
            {
                "name": column["name"],
                "values": values,
                "scaled": "1" if low is None else f"{write_brief(scale)} {unit}".strip(),
                "noise": "–" if noise is None else f"± {write_brief(_law(question)[1] * noise * scale)} {unit}".strip(),
            }
        )
    return found


def _list_sums(context: PageContext, about: dict[str, Any]) -> dict[str, float]:
    """Return the noise's standard deviation of the sum of each column, in scaled units, where an answer has that sum.

    It has none of rows that were scaled to a length or weighted, and of columns that stand in functions alone.
    """
    request = about["request"]
    if "weight" in request or request.get("rows", {}).get("map") not in {"box", "ball"}:
        return {}
    sums = context.get(KindRegistry)[about["kind"]].noise_of_sums(request, about["noise"]["sd"])
    terms = {"features": about.get("terms", []), "targets": about.get("targets", [])}
    return {term["column"]: sd for member, sd in sums.items() for term in terms[member] if term["kind"] in _AS_THEY_ARE}


def _list_noise(context: PageContext, question: Question) -> list[tuple[str, float]]:
    """Return the standard deviations of a release's noise, each with what it is added to."""
    if question.request is None:
        return []
    kind, sd = context.get(KindRegistry)[question.about["kind"]], question.about["noise"]["sd"]
    named = _name_items(kind, question.about) | dict(kind.words.statistics) | dict(kind.words.noises)
    return [(named.get(name, name), float(value)) for name, value in sd.items()]


def _name_items(kind: ReleaseKind[Any, Any, Any], about: dict[str, Any]) -> dict[str, str]:
    """Return what each table or distribution of a release is of: their noise goes by a number."""
    return {
        item["name"]: kind.describe_question({**about["request"], member: [item]})
        for member in kind.declared
        if member in about["request"]
        for item in about[member]
        if isinstance(item, dict) and item.get("name") in about["noise"]["sd"]
    }
