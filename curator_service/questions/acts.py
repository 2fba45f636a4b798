"""Acts of what was asked."""

from typing import Annotated, Any

from pydantic import Field

from curator_service.api.acts import PAGE, Acts, After, Count, Host
from curator_service.api.context import RequestContext
from curator_service.identity.people import Look
from curator_service.identity.policy import Action
from curator_service.identity.service import IdentityService
from curator_service.ledger.acts import PopulationName
from curator_service.ledger.response_models import AccountModel, AmountModel, LedgerAnswer
from curator_service.ledger.service import LedgerService
from curator_service.questions.response_models import AskedAnswer, AskedListAnswer
from curator_service.questions.service import Question, QuestionService

acts = Acts("ledger")
Month = Annotated[str, Field(pattern=r"^(\d{4}-\d{2})?$", description="A month, such as 2027-03.")]


@acts.route(Action.READ_LEDGER, "GET /v1/ledger/{population}", "ledger show", host=Host.OPERATOR, answer=LedgerAnswer)
def list_entries(
    context: RequestContext,
    population: PopulationName,
    after: After = 0,
    limit: Count = PAGE,
    words: Annotated[bool, Field(description="Say in words what each release asked.")] = False,
) -> dict[str, Any]:
    """Show the account of a population, and entries of its chain."""
    ledger = context.get(LedgerService)
    shown = dict(AccountModel.of(ledger.get_population(population)))
    shown["entries"] = ledger.list_entries(population, after=after, count=limit)
    if words:
        said = context.get(QuestionService).list_words(population, after=after, count=limit)
        shown["asked"] = [{"sequence": str(sequence), "words": text} for sequence, text in said.items()]
    return shown


@acts.route(
    Action.READ_LEDGER, "GET /v1/admin/populations/{population}/questions", "ledger questions", host=Host.OPERATOR
)
def list_questions(
    context: RequestContext,
    population: PopulationName,
    month: Month = "",
    dataset: Annotated[str, Field(description="Name of a dataset.")] = "",
    kind: Annotated[str, Field(description="Kind of release.")] = "",
    column: Annotated[str, Field(description="A column that it is about.")] = "",
    before: Annotated[int, Field(ge=0, le=2**62, description="Show what comes before this sequence.")] = 2**62,
    limit: Annotated[int, Field(ge=1, le=1000, description="Questions at most.")] = PAGE,
) -> AskedListAnswer:
    """List what was asked of a population, in words and as JSON, the newest first; no answer is shown."""
    context.get(LedgerService).get_population(population)
    said = [("time", f"{month}-")] if month else []
    said += [("dataset", dataset)] if dataset else []
    found, following = context.get(QuestionService).list_of(
        population, said, kind=kind, column=column, before=before, count=limit
    )
    people = context.get(IdentityService).people.look()
    return AskedListAnswer.model_construct(
        questions=[_state(one, people) for one in found], next=None if following is None else str(following)
    )


@acts.route(Action.READ_LEDGER, "GET /v1/admin/questions/{release_id}", "ledger question", host=Host.OPERATOR)
def get_question(
    context: RequestContext, release_id: Annotated[str, Field(description="A release's id.")]
) -> AskedAnswer:
    """Show what was asked by a release, in words and as JSON; its answer is not shown."""
    people = context.get(IdentityService).people.look()
    return _state(context.get(QuestionService).find(release_id), people)


def _state(question: Question, people: Look) -> AskedAnswer:
    said, amount = question.said, AmountModel.of(question.population.view(question.units))
    return AskedAnswer.model_construct(
        release=question.release_id,
        population=question.population.name,
        sequence=str(question.entry.sequence),
        dataset=str(said.get("dataset", "")),
        kind=str(said.get("release_kind", "")),
        asked_at=said["time"],
        asked_by=people.find(said["actor"]).name,
        permit=said.get("permit"),
        project=said.get("project"),
        words=question.words,
        formula=question.formula or None,
        asked=question.request,
        units=str(question.units),
        epsilon=amount.epsilon,
        source=said.get("source"),
    )
