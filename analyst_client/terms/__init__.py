"""Terms of a regression: columns, functions of them, bases and interactions, as objects and as formulas.

>>> from analyst_client.terms import bs, col, interaction, log, poly
>>> features = ["sex", poly("age", 3), interaction("sex", poly("age", 3)), bs(log(col("creatinine")), knots=[0.5])]
"""

from analyst_client.terms.expression import Expression, col, log
from analyst_client.terms.functions import bs, cut, exp, interaction, maximum, minimum, ns, poly, reference, sqrt

__all__ = [
    "Expression",
    "bs",
    "col",
    "cut",
    "exp",
    "interaction",
    "log",
    "maximum",
    "minimum",
    "ns",
    "poly",
    "reference",
    "sqrt",
]
