"""A curator with ideal noise, in this process: what a refinement's plan would be answered, without a server.

Rows are numbers; noise is normal, with the deviations that a Gaussian curator has; nothing is rounded. Questions that a
plan of `analyst_client.refinement` asks are answered by objects with the members that the plan reads, and no others.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client import Column
from analyst_client.kinds.marginals.items import Marginal
from analyst_client.kinds.score.release import NORM_EDGES
from analyst_client.refinement.problem import Field
from analyst_client.schema.columns import Term
from analyst_client.terms.expression import Expression, as_expression

Floats = npt.NDArray[np.float64]


@dataclass
class IdealCurator:
    """Columns of numbers with bounds, booleans among them, and noise from a generator.

    Attributes
    ----------
    columns : dict of str to ndarray of shape (n,)
    bounds : dict of str to (float, float)
        Of numbers; a column without is a boolean.
    generator : Generator
    spent : float
        µ² so far.
    """

    columns: dict[str, Floats]
    bounds: dict[str, tuple[float, float]]
    generator: np.random.Generator
    spent: float = 0.0
    noiseless: bool = False
    _asked: list[str] = field(default_factory=list)

    def field(self, name: str) -> Field:
        """Return a feature or target of a problem."""
        return Field(as_expression(name), name, *self.bounds.get(name, (None, None)))

    def answer(self, plan: Generator[Any, Any, Any]) -> Any:
        """Follow a plan to its end."""
        try:
            question = next(plan)
            while True:
                question = plan.send(self._answer(question))
        except StopIteration as end:
            return end.value

    def _answer(self, question: Any) -> Any:
        request = question.request
        if question.is_quote:
            terms = self._terms(request.features)
            return SimpleNamespace(
                terms=terms, targets=[self._term(request.target)], feature_names=[t.name for t in terms[1:]]
            )
        cost = math.sqrt(self._pay(request))
        return {"marginals": self._marginals, "gram": self._gram, "score": self._score}[request.kind](request, cost)

    def _pay(self, request: Any) -> float:
        cost = float(request.mu**2)
        self.spent += cost
        return cost

    def _noise(self, sd: float, shape: Any) -> Floats:
        return (0.0 if self.noiseless else sd) * self.generator.standard_normal(shape)

    def _range(self, expression: Expression | str) -> tuple[str, float, float]:
        """Return the column that an expression cuts, and its bounds then."""
        stated = as_expression(expression).to_json()
        cuts: list[tuple[str, float]] = []
        while isinstance(stated, dict):
            ((function, (inner, number)),) = stated.items()
            cuts.append((function, number))
            stated = inner
        low, high = self.bounds.get(stated, (0.0, 1.0))
        for function, number in cuts:
            low, high = (max(low, number), high) if function == "maximum" else (low, min(high, number))
        return stated, low, high

    def _term(self, expression: Expression | str) -> Term:
        name, low, high = self._range(expression)
        if name not in self.bounds:
            return Term(name, "boolean", name)
        return Term(name, "numeric", name, (low + high) / 2, (high - low) / 2)

    def _terms(self, features: Any) -> list[Term]:
        return [Term("(constant)", "constant"), *map(self._term, features)]

    def _values(self, expression: Expression | str) -> Floats:
        """Return a column in scaled units."""
        name, low, high = self._range(expression)
        if name not in self.bounds:
            return self.columns[name]
        return (np.clip(self.columns[name], low, high) - (low + high) / 2) / ((high - low) / 2)

    def _matrix(self, features: Any) -> Floats:
        columns = [self._values(feature) for feature in features]
        return np.column_stack([np.ones(len(next(iter(self.columns.values())))), *columns])

    def _marginals(self, request: Any, mu: float) -> Any:
        found = []
        items = request.items
        for item in items:
            own, count = mu / math.sqrt(len(items)), len(item.columns)
            u = np.array([self._values(column) for column in item.columns])
            columns = []
            for column in item.columns:
                name, low, high = self._range(column)
                columns.append(Column.numeric(name, low, high, missing="complete"))
            if item.type == "moments":
                sd = math.sqrt(5 * count + 4) / 2 / own
                exact = np.array([[len(one) / 2, one.sum(), (one**2 - 0.5).sum()] for one in u])
                # a row counts once among all columns; they share its count
                noise = self._noise(sd, exact.shape)
                noise[:, 0] = noise[0, 0]
            else:
                sizes = [item.size] if item.type == "flat" else [2**k for k in range(1, item.size + 1)]
                sd = math.sqrt(count * len(sizes)) / own
                exact = np.array(
                    [
                        np.concatenate(
                            [
                                np.bincount(np.minimum(((one + 1) / 2 * b).astype(int), b - 1), minlength=b)
                                for b in sizes
                            ]
                        )
                        for one in u
                    ],
                    dtype=float,
                )
                noise = self._noise(sd, exact.shape)
            found.append(Marginal("m", item.type, tuple(columns), item.size, exact + noise, sd, False))
        return SimpleNamespace(marginals=tuple(found))

    def _gram(self, request: Any, mu: float) -> Any:
        terms = self._terms(request.features)
        posted = request.rows.posted
        M = np.array([posted[term.name] for term in terms])
        x, y = self._matrix(request.features) @ M, self._values(request.target)
        weights = np.minimum(1.0, 1.0 / np.sqrt(np.sum(x**2, axis=1)))
        x, y = x * weights[:, None], y * weights
        shares = request.shares
        sds = {name: 1.0 / (mu * math.sqrt(share)) for name, share in shares.items()}
        d = x.shape[1]
        upper = np.triu(self._noise(sds["xtx"] / math.sqrt(2), (d, d)), 1)
        return SimpleNamespace(
            xtx=x.T @ x + upper + upper.T + np.diag(self._noise(sds["xtx"], d)),
            xty=(x.T @ y + self._noise(sds["xty"], d))[:, None],
            combinations=M,
            targets=[self._term(request.target)],
            noise=SimpleNamespace(
                xtx_diagonal=sds["xtx"], xtx_offdiagonal=sds["xtx"] / math.sqrt(2), xty=sds["xty"], yty=None
            ),
        )

    def _score(self, request: Any, mu: float) -> Any:
        terms = self._terms(request.features)
        x, target = self._matrix(request.features), self._term(request.target)
        coefficients = request.posted_coefficients
        theta = np.array([coefficients.get(term.name, 0.0) for term in terms])
        k = len(next(iter(request.posted_directions.values())))
        P = np.array([request.posted_directions.get(term.name, np.zeros(k)) for term in terms])
        eta, y = np.clip(x @ theta, -16, 16), self._values(request.target)
        if request.loss == "logistic":
            residual = y - 1 / (1 + np.exp(-eta))
        else:
            B = target.center + target.scale
            residual = (target.center + target.scale * y - np.minimum(np.exp(eta), B)) / B
        g = (x @ P) * residual[:, None]
        norms = np.sqrt(np.sum(g**2, axis=1))
        g *= np.minimum(1.0, 1.0 / np.maximum(norms, 1e-300))[:, None]
        shares = request.shares
        sds = {name: 1.0 / (mu * math.sqrt(share)) for name, share in shares.items()}
        counts = np.bincount(np.searchsorted(NORM_EDGES, norms, side="right"), minlength=13).astype(float)
        meat = None
        if "meat" in sds:
            upper = np.triu(self._noise(sds["meat"] / math.sqrt(2), (k, k)), 1)
            meat = g.T @ g + upper + upper.T + np.diag(self._noise(sds["meat"], k))
        return SimpleNamespace(
            score=g.sum(axis=0) + self._noise(sds["score"], k),
            norms=counts + self._noise(sds["norms"], 13),
            norm_edges=np.array(NORM_EDGES),
            meat=meat,
            coefficients=theta,
            directions=P,
            noise=SimpleNamespace(
                score=sds["score"],
                norms=sds["norms"],
                meat_diagonal=sds.get("meat"),
                meat_offdiagonal=None if meat is None else sds["meat"] / math.sqrt(2),
            ),
        )
