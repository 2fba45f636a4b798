"""Expressions: what a request computes from the columns of one row, before anything is summed.

A pure function of a row's stored integers and of public numbers: every operation is one elementwise IEEE operation, so
a row gives the same number in any batch, order, thread and engine. Its bounds follow from the declared ones alone.
"""

from curator_service.privacy.expressions.derive import DerivedColumn, derive_column
from curator_service.privacy.expressions.errors import ExpressionError
from curator_service.privacy.expressions.parse import parse, read_number
from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal, Type

__all__ = [
    "Call", "DerivedColumn", "Expression", "ExpressionError", "Leaf", "Literal", "Type", "derive_column", "parse",
    "read_number",
]  # fmt: skip
