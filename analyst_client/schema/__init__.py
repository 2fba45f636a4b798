"""The wire as frozen values: each reads itself from the members of an answer."""
