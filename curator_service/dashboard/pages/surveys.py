"""Surveys: all of them, and one with its question, what protects whom, and the form that closes it."""

import json
from typing import Any

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, add_form, list_faults, page
from curator_service.identity.policy import Action
from curator_service.kit.problems import Problem
from curator_service.surveys.acts import close_survey
from curator_service.surveys.service import SurveyService

router = APIRouter(prefix="/admin")
PAGE = 50


@router.get("/surveys")
@page(Action.READ_REPORTS)
def show_surveys(context: PageContext) -> Response:
    """Show the surveys."""
    found, start = context.get(SurveyService).list_all(), context.count("start", 0)
    return context.render(
        "surveys.html", surveys=found[start : start + PAGE], start=start, page_size=PAGE, found=len(found)
    )


@router.get("/surveys/{survey}")
@page(Action.READ_REPORTS)
def show_survey(context: PageContext, survey: str) -> Response:
    """Show one survey."""
    return _show(context, survey)


def _show(context: PageContext, survey: str, problem: Problem | None = None) -> Response:
    shown = context.get(SurveyService).get(survey)
    question = json.loads(shown.question)
    return context.render(
        "survey.html",
        200 if problem is None else int(problem.status),
        shown=shown,
        members=[(name, _text(question[name])) for name in sorted(question) if name != "format"],
        faults=[] if problem is None else list_faults(problem),
    )


def _text(value: Any) -> str:
    """Return a member of a question as people read it: names and numbers, lists in brackets."""
    if isinstance(value, list):
        return ", ".join(f"({_text(one)})" if isinstance(one, list) else _text(one) for one in value)
    return value if isinstance(value, str) else json.dumps(value)


add_form(
    router,
    "/surveys/{survey}/close",
    close_survey,
    words=lambda context, survey: (f"Close the survey {context.get(SurveyService).get(survey).name}", []),
    done=lambda answer: f"/admin/surveys/{answer.name}?done=survey-closed",
    again=lambda context, problem, survey: _show(context, survey, problem),
)
