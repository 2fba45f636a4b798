"""Work of expressions for a row, in products of two numbers: public times follow from it.

Each number is about one and a half times what `bench.selectivity` measures beside the slowest of the kernels that set a
machine's pace.
"""

import math
from collections.abc import Mapping

from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal, Type

BLOCK_ROWS = 2**14
"""Rows that are computed at once: their numbers stay in a processor's cache, and in memory that is used again."""
_CALL_ROWS = 6000
"""Rows for which the operations of an expression take as long as it takes to begin them."""
_CALL, _NUMBER, _CODE = 10, 36, 11
"""An operator or a constant, a number that is read, and a level or a truth that is read."""
_STORED_NUMBER, _STORED_CODE = 36, 20
"""What is computed, brought to its own lattice."""
_ARGUMENT: Mapping[str, int] = {
    "absolute": 9, "add": 5, "and": 18, "divide": 8, "equal": 6, "exp": 100, "less": 6, "less_equal": 6, "log": 122,
    "maximum": 5, "minimum": 5, "multiply": 12, "not": 7, "or": 18, "power": 12, "reference": 14, "sqrt": 26,
}  # fmt: skip
"""Each argument of an operator; of a power each factor."""
_PARAMETER: Mapping[str, int] = {"cut": 6, "in": 2}
"""Each cut point, or level."""


def work_of(tree: Expression) -> int:
    """Return what it takes to compute an expression."""
    match tree:
        case Literal():
            return _CALL
        case Leaf():
            return _NUMBER if tree.type is Type.NUMBER else _CODE
        case Call(operator, arguments, parameters):
            factors = int(parameters[0]) if operator == "power" else len(arguments)
            own = _CALL + _ARGUMENT.get(operator, 0) * factors + _PARAMETER.get(operator, 0) * len(parameters)
            return own + sum(map(work_of, arguments))


def store_work_of(tree: Expression) -> int:
    """Return the work to store a computed value, from which its terms are made."""
    return _STORED_NUMBER if tree.type is Type.NUMBER else _STORED_CODE


def work_in_tiles(work: int, rows: int) -> int:
    """Return what work takes where so many rows are mapped at once: the fewer they are, the more each takes."""
    return math.ceil(work * (1 + _CALL_ROWS / min(rows, BLOCK_ROWS)))
