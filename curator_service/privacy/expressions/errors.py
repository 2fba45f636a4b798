"""Fault of an expression, and its place."""


class ExpressionError(ValueError):
    """An expression means nothing, or has no bounds.

    Parameters
    ----------
    rule : str
        What is wrong, and what would have worked.
    place : tuple
        Members and indices that lead to it from the expression.
    """

    def __init__(self, rule: str, place: tuple[str | int, ...] = ()) -> None:
        super().__init__(rule)
        self.rule, self.place = rule, place
