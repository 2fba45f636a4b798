"""The chain: entries, signatures, keys, verification."""
