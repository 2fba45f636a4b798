"""Trust: the anchor, the guard, recovery."""
