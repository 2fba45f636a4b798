"""Acts of surveys."""

from typing import Annotated

from pydantic import Field

from curator_service.api.acts import PAGE, Acts, After
from curator_service.api.context import RequestContext
from curator_service.identity.policy import Action
from curator_service.surveys.response_models import (
    GivenAnswer,
    InvitationsAnswer,
    ReportsAnswer,
    SurveyAnswer,
    SurveysAnswer,
)
from curator_service.surveys.schemas import REPORT_EXAMPLE, SURVEY_EXAMPLE, ReportRequest, SurveyRequest
from curator_service.surveys.service import SurveyService

acts = Acts("surveys")

SurveyName = Annotated[str, Field(description="Name of a survey.")]
_Limit = Annotated[int, Field(ge=1, le=1000, description="Largest number to show.")]
_AfterToken = Annotated[str, Field(pattern="^[0-9a-f]{0,32}$", description="Show what comes after this token.")]


@acts.route(Action.COLLECT, "POST /v1/surveys", "surveys open", in_file=True, status=201, example=SURVEY_EXAMPLE)
def open_survey(context: RequestContext, survey: SurveyRequest) -> SurveyAnswer:
    """Open a survey: collect reports of a question that people perturb themselves. No budget is charged."""
    return context.get(SurveyService).open(survey, context.principal)


@acts.route(Action.READ_REPORTS, "GET /v1/surveys", "surveys list")
def list_surveys(context: RequestContext) -> SurveysAnswer:
    """List the surveys."""
    return SurveysAnswer.model_construct(surveys=context.get(SurveyService).list_all())


@acts.route(Action.READ_SURVEY, "GET /v1/surveys/{survey}")
def get_survey(context: RequestContext, survey: SurveyName) -> SurveyAnswer:
    """Return a survey's question, and what protects whom, to anybody."""
    return context.get(SurveyService).look(survey, context.call.peer)


@acts.route(Action.ANSWER, "POST /v1/surveys/{survey}/reports", asks=ReportRequest, example=REPORT_EXAMPLE, status=201)
def give_report(context: RequestContext, survey: SurveyName) -> GivenAnswer:
    """Give a report, once for each invitation or, where the survey needs none, as anybody."""
    report = context.call.parse(ReportRequest)
    return context.get(SurveyService).give(survey, report, context.call.peer)


@acts.route(Action.READ_REPORTS, "GET /v1/surveys/{survey}/reports", answer=ReportsAnswer)
def list_reports(
    context: RequestContext, survey: SurveyName, after: _AfterToken = "", limit: _Limit = PAGE
) -> ReportsAnswer:
    """Return reports in the order of their tokens, which are random."""
    return context.get(SurveyService).list_reports(survey, after=after, count=limit)


@acts.route(Action.COLLECT, "POST /v1/surveys/{survey}/invitations", "surveys invite")
def invite(context: RequestContext, survey: SurveyName, after: After = 0, limit: _Limit = PAGE) -> InvitationsAnswer:
    """Show invitations of a survey: give each to one person. Asked again, they are the same."""
    return context.get(SurveyService).list_invitations(survey, after=after, count=limit)


@acts.route(
    Action.COLLECT,
    "POST /v1/surveys/{survey}/close",
    "surveys close",
    consequence="It takes no more reports, and is not opened again",
)
def close_survey(context: RequestContext, survey: SurveyName) -> SurveyAnswer:
    """End a survey; its reports stay."""
    return context.get(SurveyService).close(survey, context.principal)
