"""Routes of the ledger: entries for auditors, and the keys that sign."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RequestContext, endpoint, page_parameters
from curator_service.api.http import json_response
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME
from curator_service.kit.problems import PROBLEM_RESPONSES, NotFound
from curator_service.ledger.chain.signing import KeyRing
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import (
    AccountModel,
    CheckpointAnswer,
    KeyModel,
    KeysAnswer,
    LedgerAnswer,
    PopulationsAnswer,
    SealAnswer,
)
from curator_service.ledger.service import LedgerService

router = APIRouter(prefix="/v1", tags=["ledger"], responses=PROBLEM_RESPONSES)


@router.get(
    "/admin/populations",
    summary="Every population with its account (steward, privacy officer, auditor)",
    responses={200: {"model": PopulationsAnswer}},
)
@endpoint(Action.READ_POPULATIONS)
def list_populations(
    context: RequestContext,
) -> Response:
    """Return the account of every population."""
    found = context.get(LedgerService).list_populations()
    return json_response(PopulationsAnswer.model_construct(populations=[AccountModel.of(account) for account in found]))


@router.get(
    "/ledger/{population}",
    summary="The entries of a population's chain (auditor)",
    responses={200: {"model": LedgerAnswer}},
    openapi_extra=page_parameters("entries"),
)
@endpoint(Action.READ_LEDGER)
def list_entries(
    context: RequestContext,
    population: str,
) -> Response:
    """Return a page of entries after a sequence, each with its hash."""
    account = _population(context, population)
    after, count = context.page()
    entries = context.get(LedgerService).list_entries(population, after=after, count=count)
    return json_response(dict(AccountModel.of(account)) | {"entries": entries})


@router.get(
    "/ledger/{population}/checkpoint",
    summary="The signed checkpoint of a chain's head (auditor)",
    responses={200: {"model": CheckpointAnswer}},
)
@endpoint(Action.READ_LEDGER)
def get_checkpoint(
    context: RequestContext,
    population: str,
) -> Response:
    """Return what is signed of the last entry: whoever keeps it can tell later whether the ledger was wound back."""
    _population(context, population)
    return json_response({"checkpoint": context.get(LedgerService).get_checkpoint(population).payload})


@router.get(
    "/admin/seal",
    summary="Whether the curator is sealed, since when and why (auditor)",
    responses={200: {"model": SealAnswer}},
)
@endpoint(Action.READ_LEDGER)
def get_seal(
    context: RequestContext,
) -> Response:
    """Return why releases are refused; an empty reason means that they are not."""
    reason, since = context.get(LedgerService).guard.status()
    return json_response(SealAnswer.model_construct(sealed=bool(reason), reason=reason, since=since or None))


@router.get(
    "/keys",
    summary="The curator's public keys, each endorsed by the one before",
    responses={200: {"model": KeysAnswer}},
)
@endpoint(Action.READ_KEYS)
def list_keys(
    context: RequestContext,
) -> Response:
    """Return every key that ever signed a receipt, the oldest first."""
    keys = [KeyModel.of(key) for key in context.get(KeyRing).list_keys()]
    return json_response(KeysAnswer.model_construct(keys=keys, active=keys[-1].key_id if keys else None))


def _population(context: RequestContext, name: str) -> Population:
    if not NAME.fullmatch(name):
        raise NotFound("There is no population of this name.")
    return context.get(LedgerService).get_population(name)
