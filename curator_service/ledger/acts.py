"""Acts of populations, their ledgers, and the keys that sign."""

from typing import Annotated, Any

from pydantic import Field

from curator_service.api.acts import Acts, Host
from curator_service.api.context import RequestContext
from curator_service.identity.policy import Action
from curator_service.kit.clock import timestamp, utc_now
from curator_service.kit.wire import Name
from curator_service.ledger.chain.signing import KeyRing
from curator_service.ledger.response_models import (
    AccountModel,
    AnchorAnswer,
    CheckpointAnswer,
    KeyModel,
    KeysAnswer,
    NewKeyAnswer,
    PopulationsAnswer,
    SealAnswer,
)
from curator_service.ledger.schemas import VIEW_DELTA, PriceModel
from curator_service.ledger.service import LedgerService, PopulationError
from curator_service.privacy.accountant import ACCOUNTANTS, PURE
from curator_service.privacy.adjacency import Adjacency

acts = Acts("ledger")
PopulationName = Annotated[str, Field(description="Name of the population.")]


@acts.route(Action.READ_POPULATIONS, "GET /v1/admin/populations", "populations list", host=Host.OPERATOR)
def list_populations(context: RequestContext) -> PopulationsAnswer:
    """List every population with its account."""
    found = context.get(LedgerService).list_populations()
    return PopulationsAnswer.model_construct(populations=[AccountModel.of(account) for account in found])


def _check_budget(accountant: str, limit: PriceModel, **_: object) -> None:
    if accountant not in ACCOUNTANTS:
        raise PopulationError(f"the accountant must be one of {', '.join(ACCOUNTANTS)}")
    if limit.epsilon is not None and (limit.delta is None) is not (accountant == PURE.name):
        raise PopulationError("state the budget once: --epsilon with --delta (alone under pure), or --mu, or --rho")


@acts.command("populations create", makes=True, check=_check_budget)
def create_population(
    context: RequestContext,
    name: Annotated[Name, Field(description="A name for the people, such as 'olmsted'.")],
    adjacency: Annotated[Adjacency, Field(description="Neighbour relation of datasets; fixed for good.")],
    limit: Annotated[PriceModel, Field(description="The budget.")],
    accountant: Annotated[str, Field(description="gdp, zcdp or pure; fixed for good.")] = "gdp",
    view_delta: Annotated[
        float | None,
        Field(ge=0, lt=1, description=f"Delta at which epsilon is shown; else that of the budget, or {VIEW_DELTA:g}."),
    ] = None,
    accept_large_delta: Annotated[
        bool,
        Field(
            description="Accept a delta above 1e-4: with up to that probability nothing protects a person, and a row "
            "may be published as it is."
        ),
    ] = False,
) -> AccountModel:
    """Create a population with its one budget."""
    population = context.get(LedgerService).create_population(
        name,
        adjacency=adjacency,
        accountant=accountant,
        limit=limit.price,
        delta=next(one for one in (view_delta, limit.delta, VIEW_DELTA) if one is not None),
        actor=context.principal.id,
        accepts_delta=accept_large_delta,
    )
    return AccountModel.of(population)


@acts.route(
    Action.READ_LEDGER,
    "GET /v1/ledger/{population}/checkpoint",
    "ledger checkpoint",
    host=Host.OPERATOR,
    answer=CheckpointAnswer,
)
def get_checkpoint(context: RequestContext, population: PopulationName) -> dict[str, Any]:
    """Show the signed checkpoint of a chain's head.

    Whoever keeps it can tell later if the ledger was wound back.
    """
    ledger = context.get(LedgerService)
    ledger.get_population(population)
    return {"checkpoint": ledger.get_checkpoint(population).payload}


@acts.route(Action.READ_LEDGER, "GET /v1/admin/seal", "ledger status", host=Host.OPERATOR)
def get_seal(context: RequestContext) -> SealAnswer:
    """Say if the curator is sealed, and why; under a seal it releases nothing."""
    reason, since = context.get(LedgerService).guard.status()
    return SealAnswer.model_construct(sealed=bool(reason), reason=reason, since=since or None)


@acts.command("ledger begin-anchor", is_sealed=False)
def begin_anchor(context: RequestContext) -> AnchorAnswer:
    """Begin this machine's anchor: on a further host, or where it is lost and the database was not restored.

    The anchor begins with the ledger as it stands. What left before is not in it.
    """
    guard = context.get(LedgerService).guard
    guard.inspection.begin_anchor()
    return AnchorAnswer.model_construct(anchor=str(guard.anchor.folder))


@acts.route(Action.READ_KEYS, "GET /v1/keys", "keys list", host=Host.OPERATOR)
def list_keys(context: RequestContext) -> KeysAnswer:
    """List the curator's public keys, the oldest first, each endorsed by the one before."""
    keys = [KeyModel.of(key) for key in context.get(KeyRing).list_keys()]
    return KeysAnswer.model_construct(keys=keys, active=keys[-1].key_id if keys else None)


@acts.command("keys rotate")
def rotate_key(context: RequestContext) -> NewKeyAnswer:
    """Make a new key, endorsed by the present one; start the curator again afterwards.

    Keep a copy of its file with your secrets.
    """
    return NewKeyAnswer.model_construct(key_id=context.get(KeyRing).rotate(timestamp(utc_now())).key_id)
