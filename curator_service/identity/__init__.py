"""Identity: principals, tokens, grants, and the one table of who may do what."""
