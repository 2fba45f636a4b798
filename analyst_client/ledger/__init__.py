"""The ledger on the analyst's side: receipts and checkpoints verified, and remembered."""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.ledger.checkpoints import Checkpoint as Checkpoint
    from analyst_client.ledger.checkpoints import LedgerPosition as LedgerPosition
    from analyst_client.ledger.verification import Verification as Verification
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
