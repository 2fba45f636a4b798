"""An act from outside of the package, with every door: what an officer says to a population's people, and how often."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.api.acts import Acts, Host, RetryKey
from curator_service.api.context import RequestContext
from curator_service.identity.policy import Action
from curator_service.kit.wire import Answer, Name, Reason
from curator_service.ledger.schemas import PriceModel
from curator_service.ledger.service import LedgerService

acts = Acts("toys")


class GreetingAnswer(Answer):
    """A greeting."""

    text: str
    by: str


@acts.route(
    Action.SET_LIMIT,
    "POST /v1/admin/greetings",
    "greetings say",
    host=Host.OPERATOR,
    key=RetryKey.OPTIONAL,
    has_page=True,
    consequence="People hear it",
)
def greet(
    context: RequestContext,
    population: Annotated[Name, Field(description="Name of the population.")],
    words: Annotated[Reason, Field(description="Words to say.")],
    budget: Annotated[PriceModel, Field(description="An amount to name.")],
    tone: Annotated[Literal["warm", "cool"], Field(description="Tone of it.")] = "warm",
    times: Annotated[int, Field(ge=1, le=3, description="Number of times.")] = 1,
    aloud: Annotated[bool, Field(description="Say it aloud.")] = False,
) -> GreetingAnswer:
    """Greet the people of a population."""
    found = context.get(LedgerService).get_population(population)
    said = " ".join([words.upper() if aloud else words] * times)
    text = f"{found.name}, {said} ({tone}, mu {budget.mu})"
    return GreetingAnswer.model_construct(text=text, by=context.principal.id)
