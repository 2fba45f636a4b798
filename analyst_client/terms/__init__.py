"""Terms of a regression: columns, functions of them, bases and interactions, as objects and as formulas.

>>> from analyst_client.terms import bs, col, interaction, log, poly
>>> features = ["sex", poly("age", 3), interaction("sex", poly("age", 3)), bs(log(col("creatinine")), knots=[0.5])]
"""

from typing import TYPE_CHECKING

from analyst_client.exports import export_lazily

if TYPE_CHECKING:
    from analyst_client.terms.expression import Expression as Expression
    from analyst_client.terms.expression import col as col
    from analyst_client.terms.expression import log as log
    from analyst_client.terms.formulas import Model as Model
    from analyst_client.terms.functions import bs as bs
    from analyst_client.terms.functions import cut as cut
    from analyst_client.terms.functions import exp as exp
    from analyst_client.terms.functions import interaction as interaction
    from analyst_client.terms.functions import maximum as maximum
    from analyst_client.terms.functions import minimum as minimum
    from analyst_client.terms.functions import ns as ns
    from analyst_client.terms.functions import poly as poly
    from analyst_client.terms.functions import reference as reference
    from analyst_client.terms.functions import sqrt as sqrt
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
