"""The ledger on the analyst's side: receipts and checkpoints verified, and remembered."""
