"""The ledger: one account and one chain of entries per population."""
