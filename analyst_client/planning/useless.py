"""Facts that are certain of a request before it is charged: an answer that would tell nothing is one of them.

They follow from the declared columns, the row capacity, the request and its quote. None depends on rows.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.kinds.gram.quote import Quote
from analyst_client.planning.assumed_moments import row_weights, rows_of
from analyst_client.planning.dummy_data import dummy_rows
from analyst_client.planning.prices import PriceScale
from analyst_client.planning.relations import expression_of, find_relations
from analyst_client.schema.columns import DerivedColumn, stored_columns
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.row_maps import row_map_named
from analyst_client.terms.certain import Facts, decisive, is_decided_by_one
from analyst_client.terms.expression import Expression, read_expression

NORMAL = 1.96
"""Deviations of the noise that a 95 % interval reaches."""
RARE = 0.2
"""Share of releases with a bounded interval below which a price buys none."""
IDEAL_ROWS, STRONGEST = 512, 12


class Certain(NamedTuple):
    """Facts about a request before it is charged.

    Attributes
    ----------
    useless : tuple of str
        Reasons for which an answer would tell nothing; none where it may tell something.
    notes : tuple of str
        Other facts.
    """

    useless: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def find_certain(request: Any, quote: AnyQuote, dataset: Dataset, *, once: bool = True) -> Certain:
    """Return the facts that are certain of a request, by its quote and the declared columns.

    Parameters
    ----------
    request : Request
        As it was made; `quote` has its canonical form.
    quote : AnyQuote
    dataset : Dataset
    once : bool
        Whether it is asked in one release: the price of a refinement tells more.
    """
    facts, selection = Facts({column.name: column for column in dataset.columns}), quote.request
    notes: list[str] = []
    if "where" in selection:
        condition, asked = read_expression(selection["where"]), read_expression(request.members["where"])
        holds = facts.read(condition).constant
        if holds == 0 or not (facts.restrict(condition) and facts.restrict(condition)):
            return Certain((f"where, {asked!r}, is true of no row within {_bounds(condition, facts)}",))
        if holds == 1:
            lost = [name for name in decisive(condition) if facts.columns[name].missing != "complete"]
            but = f" that does not miss {' or '.join(lost)}" if lost else ""
            notes.append(f"where, {asked!r}, is true of every row{but}")
    weight = 1.0
    if "weight" in selection:
        of = read_expression(selection["weight"])
        weight = facts.read(of).high
        if weight <= 0.0:
            return Certain((f"weight, {of!r}, is 0 in every row that counts",))
        facts.present |= set() if is_decided_by_one(of) else set(decisive(of))
    rows = float(request.members.get("expected_rows") or rows_at_most(dataset)) * weight
    if isinstance(quote, Quote):
        found = _of_gram(request, quote, facts, rows if once else math.inf)
    else:
        found = _of_sums(quote, facts, rows)
    return Certain(found.useless, (*notes, *found.notes))


def rows_at_most(dataset: Dataset) -> int:
    """Return how many rows there are at most, by public numbers."""
    known = dataset.row_capacity if dataset.rows is None else dataset.rows * dataset.rows_per_person
    return min(known, dataset.row_capacity)


def _bounds(expression: Expression, facts: Facts) -> str:
    """Write the bounds of the columns of an expression."""
    said = []
    for name in expression.columns:
        column = facts.columns[name]
        if column.type == "numeric" and column.lower is not None and column.upper is not None:
            said.append(f"{name} from {column.lower:g} to {column.upper:g}")
        elif column.type != "numeric":
            said.append(f"the levels of {name}")
        if column.lower is not None and any(node.operator == "equal" for node in expression.nodes()):
            said[-1] += f", which is kept in steps: compare it with between({name}, …, …)"
    return " and ".join(said) or "what is declared"


def _of_gram(request: Any, quote: Quote, facts: Facts, rows: float) -> Certain:
    """Judge sufficient statistics: their target, relations of their terms, and the noise."""
    asks_target = quote.noise.xty is not None and bool(quote.targets)
    if getattr(request, "lacks_target", False) and math.isfinite(rows):
        reason = "no target is named, so no regression can be fitted: name it, or say target=None for the moments alone"
        return Certain((reason,))
    related, of_targets = find_relations(quote, facts)
    useless = [*related] if asks_target else []
    notes = [] if asks_target else [*related]
    if of_targets:
        (useless if len(of_targets) == len(quote.targets) else notes).extend(of_targets)
    if useless or math.isinf(rows):
        return Certain(tuple(useless), tuple(notes))
    priced = _judge_intervals(quote, rows) if asks_target else _judge_sums(quote, rows)
    return Certain(priced.useless, (*notes, *priced.notes))


def _of_sums(quote: AnyQuote, facts: Facts, rows: float) -> Certain:
    """Judge counts, marginals and scores by their noise, and by columns that have one value under `where`."""
    found = _judge_sums(quote, rows)
    fixed = [c.name for c in quote.told_alone if facts.read(expression_of(c)).constant is not None]
    said = tuple(f"{name} is the same in every row that counts" for name in fixed)
    whole = said if fixed and len(fixed) == len(quote.told_alone) else ()
    return Certain((*found.useless, *whole), (*found.notes, *(() if whole else said)))


def _judge_sums(quote: AnyQuote, rows: float) -> Certain:
    """Judge sums: noise that is larger than all rows together hides them."""
    stated = quote.sums
    hidden = [name for name, sd in stated.items() if NORMAL * sd >= rows]
    said = tuple(
        f"the noise of {name} hides all of {rows:,.0f} rows: its standard deviation is {stated[name]:,.0f}; "
        f"{_price_from(quote, NORMAL * stated[name] / rows)}"
        for name in hidden
    )
    return Certain(said) if said and len(hidden) == len(stated) else Certain((), said)


def _price_from(quote: AnyQuote, strength: float) -> str:
    """Say the price of so many times the strength, and beside it so many times the rows."""
    try:
        cost = PriceScale(quote).cost(strength)
    except ValueError:
        return f"{math.ceil(strength):,} times the rows would do"
    price = f"ε = {cost.epsilon:.3g}" if math.isfinite(cost.epsilon) else "no ε"
    return f"{price} would do, or {math.ceil(strength):,} times the rows"


# The price of an interval


def _judge_intervals(quote: Quote, rows: float) -> Certain:
    """Judge the price of intervals: the best rows show if any coefficient can have an interval with an end.

    A release has one at most as often as its noise makes up for what is lacking to the critical value, a normal number
    of mean `_strongest`; and for sure from 2√D beyond that value on (`TargetResults.identification`). One release holds
    many models, so it is judged by the better of all terms together and each alone beside the constant.
    """
    ideal = _ideal_moments(quote)
    if ideal is None or quote.noise.xtx_diagonal is None or quote.noise.xtx_offdiagonal is None:
        return Certain()
    together = _strongest(rows * ideal, NoiseLaw.of(quote.noise, len(ideal)))
    lacking = (NORMAL + 2.0 * math.sqrt(len(ideal))) / together
    if lacking <= 1.0:
        return Certain()
    alone = rows * _least_beside_first(ideal) / quote.noise.xtx_diagonal
    share = math.erfc((NORMAL - max(together, alone)) / math.sqrt(2.0)) / 2.0
    if share < RARE:
        said = (
            f"even of {rows:,.0f} rows spread to the ends of all bounds at most {share:.0%} of releases at this price "
            f"give a coefficient an interval with an end: {_price_from(quote, lacking)}"
        )
        return Certain((said,))
    said = (
        f"even of {rows:,.0f} rows spread to the ends of all bounds few releases at this price give all terms together "
        f"intervals with ends; fewer terms, or poly(…) in place of powers, need less: {_price_from(quote, lacking)}"
    )
    return Certain((), (said,))


def _least_beside_first(ideal: FloatArray) -> float:
    """Return the largest of the least eigenvalues that a term has beside the first one, which is the constant's."""
    if len(ideal) == 1:
        return float(ideal[0, 0])
    first, own, both = ideal[0, 0], np.diag(ideal)[1:], ideal[0, 1:]
    least = (first + own) / 2.0 - np.hypot((first - own) / 2.0, both)
    return float(np.max(least))


def _strongest(A: FloatArray, law: NoiseLaw) -> float:
    """Return the root of the largest strength that an interval has at these XᵀX, as `ScoreRegion` defines it.

    The covariance of scores lies between two: sampling error alone, and the noise of Xᵀy alone.
    """
    inverse, found = np.linalg.pinv(A), 0.0
    for W in (A, np.eye(len(A))):
        size = np.sum(inverse * (W @ inverse), axis=0)
        # Var(uᵀEδ) at δ = A⁻¹Wu bounds the strength from above: the coefficients of the largest bounds are enough.
        delta = inverse @ W @ inverse
        bound = size**2 / np.sum(inverse**2, axis=0) / np.sum(delta**2, axis=0)
        u = inverse[:, np.argsort(bound)[-STRONGEST:]].T
        basis = inverse @ np.linalg.cholesky(W + 1e-12 * np.trace(W) * np.eye(len(A)))
        Z = u[:, :, np.newaxis] * u[:, np.newaxis] / np.einsum("ni,ij,nj->n", u, W, u)[:, np.newaxis, np.newaxis]
        N = Z * law.xtx
        N[:, np.arange(len(A)), np.arange(len(A))] = np.einsum("nii->ni", Z) @ law.xtx
        largest = np.linalg.eigvalsh(basis.T @ N @ basis)[:, -1]
        found = max(found, 1.0 / math.sqrt(float(np.min(largest))))
    return found


def _ideal_moments(quote: Quote) -> FloatArray | None:
    """Return the mean of x xᵀ over rows that tell as much as rows can; None where the row map is another."""
    if quote.combined or not row_map_named(rows_of(quote)["map"]).is_plain:
        return None
    columns, generator = stored_columns(quote.columns), np.random.default_rng(0)
    bent = {c.name for column in quote.columns if isinstance(column, DerivedColumn) for c in column.sources}
    bent |= {part.basis.column for term in quote.terms for part in (term, *term.factors) if part.basis is not None}
    rows: dict[str, Any] = dummy_rows(columns, IDEAL_ROWS, 0, missing={})
    for column in columns:
        if column.type == "numeric" and column.lower is not None and column.upper is not None:
            place = np.cos(np.pi * generator.random(IDEAL_ROWS))
            place = place if column.name in bent else np.sign(place)
            rows[column.name] = (column.lower + column.upper) / 2.0 + (column.upper - column.lower) / 2.0 * place
        if column.missing == "indicator":
            rows[column.name] = np.where(generator.random(IDEAL_ROWS) < 0.5, None, rows[column.name].astype(object))
    X = design_matrix(rows, quote.columns, quote.terms, clip=True)
    X = X[~np.isnan(X).any(axis=1)]
    if not len(X):
        return None
    X *= row_weights(quote, X)[:, np.newaxis]
    moments: FloatArray = X.T @ X / len(X)
    return moments
