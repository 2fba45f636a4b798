"""The quote of the docstrings' examples: a request on the demo's dataset, as its curator answers it."""

from analyst_client.kinds.gram import KIND
from analyst_client.kinds.gram.quote import Noise, Quote
from analyst_client.schema.amounts import Cost
from analyst_client.schema.columns import Column, plain_term, terms_of
from analyst_client.terms.expression import col

_FEATURES = (
    Column.numeric("age", 50, 100, missing="complete", unit="years"),
    Column.categorical("sex", ["F", "M"], missing="complete"),
    Column.numeric("creatinine", 0, 3, unit="mg/dL"),
    Column.numeric("lambda", 0, 6, missing="complete", unit="mg/dL"),
)

QUOTE = Quote(
    dataset="flchain",
    kind=KIND,
    request={
        "kind": KIND,
        "features": ["age", "sex", "creatinine", "lambda"],
        "targets": ["kappa"],
        "intercept": True,
        "rows": {"map": "ball", "norm": 1.1832159566199232},
        "statistics": ["xtx", "xty", "yty"],
        "mechanism": "gaussian",
        "calibration": "analytic",
        "price": {"mu": 0.236704380663},
        "shares": {"xtx": 0.5, "xty": 0.415, "yty": 0.085},
        "fresh": False,
    },
    features=_FEATURES,
    inner_columns=(),
    expressions={name: col(name) for name in ("age", "sex", "creatinine", "lambda", "kappa")},
    terms=terms_of(_FEATURES, constant=True),
    targets=(plain_term(Column.numeric("kappa", 0, 6, unit="mg/dL")),),
    noise=Noise(
        8.364405239774076, 5.9145276656505805, 7.7594839242167275, 14.490529044109584, None, "discrete_gaussian"
    ),
    cost=Cost(0.23670438066288507, 0.0280144819125, 1.0, 1e-6, 56028963825, None, 0.13354548783944337),
    affordable=True,
    pass_over_rows=True,
    duration_s=0.011192,
    answer_bytes=4381,
    answer_bytes_left=1_073_741_824,
    stored_release=None,
    derivable_from=None,
    offers=(),
)
