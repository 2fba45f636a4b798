"""Keys that sign, and the seal."""

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, page
from curator_service.identity.policy import Action
from curator_service.ledger.chain.signing import KeyRing
from curator_service.ledger.response_models import KeyModel
from curator_service.ledger.service import LedgerService

router = APIRouter(prefix="/admin")


@router.get("/keys")
@page(Action.READ_KEYS)
def show_keys(context: PageContext) -> Response:
    """Show every key that ever signed, the newest first, and whether the curator is sealed."""
    reason, since = context.get(LedgerService).guard.status()
    keys = context.get(KeyRing).list_keys()
    return context.render(
        "keys.html",
        keys=[KeyModel.of(key) for key in reversed(keys)],
        is_sealed=bool(reason),
        reason=reason,
        since=since,
    )
