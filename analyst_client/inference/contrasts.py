"""Hypotheses about the coefficients of a fit: contrasts, constraints in words, and what each column adds."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note, View, table
from analyst_client.errors import EstimationError
from analyst_client.inference.base import Results, TestResult
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.summary import number, p_columns
from analyst_client.inference.units import raw_powers, raw_units
from analyst_client.schema.row_maps import row_map_named

Hypothesis = str | Sequence[str] | ArrayLike
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Constraints:
    """Linear constraints ``factors @ params = values`` on parameters in raw units.

    Attributes
    ----------
    labels : tuple of str
    factors : ndarray of shape (q, P)
    values : ndarray of shape (q,)
    """

    labels: tuple[str, ...]
    factors: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class AnovaRow:
    """The test of all terms of one column.

    Attributes
    ----------
    source : str
        The column.
    test : TestResult
        That all its terms have coefficients of 0.
    """

    source: str
    test: TestResult


@dataclass(frozen=True)
class AnovaTable(Displayable):
    """Tests of each column given all others, with privacy noise included.

    Attributes
    ----------
    title : str
    rows : tuple of AnovaRow
    notes : tuple of str

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("one_call")
    >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    >>> table = fit.anova()
    >>> [row.source for row in table.rows], round(table["sex"].pvalue, 2)
    (['age', 'sex', 'creatinine'], 0.07)
    """

    title: str
    rows: tuple[AnovaRow, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, source: str) -> TestResult:
        """Return the test of a column. Raise `KeyError` for an unknown one."""
        for row in self.rows:
            if row.source == source:
                return row.test
        raise KeyError(f"no column {source!r}; there are {', '.join(row.source for row in self.rows)}")

    def _view(self) -> View:
        tests = [row.test for row in self.rows]
        tested = p_columns(np.array([test.pvalue for test in tests]), 0)
        rows = [
            (row.source, number(test.statistic), str(test.constraints), f"{test.dof:,.0f}", *ps)
            for row, test, *ps in zip(self.rows, tests, *tested.values(), strict=True)
        ]
        heads = ("column", "F", "df", "residual df", *tested)
        return (table(self.title, heads, rows, numeric=range(1, len(heads))), *map(Note, self.notes))

    __repr__ = Displayable.__str__


def read_constraints(hypothesis: Hypothesis, results: Results) -> Constraints:
    r"""Read linear constraints on the P parameters of a fit.

    Parameters
    ----------
    hypothesis : str, sequence of str, or array-like of shape (P,) or (q, P)
        Text such as ``"age - 2 * dose = 0.1"``, several with commas or as a list; without ``=`` it is 0. The name of a
        column stands for all its terms. Rows of an array are contrasts that are 0.
    results : Results

    Raises
    ------
    ValueError
        When text is no linear constraint, or constraints contradict or repeat one another.
    """
    if isinstance(hypothesis, str):
        found = list(_read_all(hypothesis, results))
    elif isinstance(hypothesis, Sequence) and hypothesis and all(isinstance(one, str) for one in hypothesis):
        found = [constraint for one in hypothesis for constraint in _read_all(str(one), results)]
    else:
        factors = np.atleast_2d(np.asarray(hypothesis, dtype=np.float64))
        if factors.ndim != 2 or factors.shape[1] != len(results.names) or not np.isfinite(factors).all():
            raise ValueError(f"contrasts must have one finite factor for each of {', '.join(results.names)}")
        found = [(f"c{k}", row, 0.0) for k, row in enumerate(factors)]
    labels, rows, values = zip(*found, strict=True)
    factors = np.array(rows)
    if np.linalg.matrix_rank(factors) < len(factors):
        raise ValueError("constraints repeat or contradict one another, or say nothing of a parameter")
    return Constraints(tuple(labels), factors, np.array(values))


def _read_all(text: str, results: Results) -> Iterator[tuple[str, FloatArray, float]]:
    """Yield the constraints of one text, each with its label, factors and value."""
    columns = [term.column for term in results.terms]
    names = results.names
    pattern = "|".join(re.escape(name) for name in sorted({*names, *filter(None, columns)}, key=len, reverse=True))
    for part in re.split(r",(?![^\[]*\])", text):
        label = part.strip()
        if label not in names and label in columns:
            for name in (name for name, column in zip(names, columns, strict=True) if column == label):
                yield f"{name} = 0", np.array([float(other == name) for other in names]), 0.0
            continue
        sides = _split_sides(label, pattern)
        factors, value = np.zeros(len(names)), 0.0
        for sign, side in zip((1.0, -1.0), sides, strict=False):
            beside, constant = _read_side(side, names, pattern)
            factors, value = factors + sign * beside, value - sign * constant
        yield label, factors, value


def _split_sides(text: str, pattern: str) -> list[str]:
    """Split at the sign of equality that is part of no name."""
    found = [match.start() for match in re.finditer(rf"(?:{pattern})|=", text) if match.group() == "="]
    if len(found) > 1:
        raise ValueError(f"{text!r} has several signs of equality")
    return [text] if not found else [text[: found[0]], text[found[0] + 1 :]]


def _read_side(text: str, names: Sequence[str], pattern: str) -> tuple[FloatArray, float]:
    """Return the factors and the constant of one side."""
    part = re.compile(
        rf"\s*(?P<sign>[+-]?)\s*(?:(?:(?P<before>{NUMBER})\s*\*\s*)?(?P<name>{pattern})(?:\s*(?P<by>[*/])\s*(?P<after>{NUMBER}))?"
        rf"|(?P<number>{NUMBER}))\s*(?=[+-]|$)"
    )
    factors, constant, place = np.zeros(len(names)), 0.0, 0
    while place < len(text.rstrip()) or place == 0:
        found = part.match(text, place)
        if found is None or (place > 0 and not found["sign"]):
            raise ValueError(f"{text.strip()!r} is no sum of parameters; there are {', '.join(names)}")
        sign = -1.0 if found["sign"] == "-" else 1.0
        if found["number"]:
            constant += sign * float(found["number"])
        elif found["name"] not in names:
            raise ValueError(f"{found['name']!r} has several terms: name one of {', '.join(names)}")
        else:
            after = float(found["after"] or 1.0)
            factor = float(found["before"] or 1.0) * (1.0 / after if found["by"] == "/" else after)
            factors[names.index(found["name"])] += sign * factor
        place = found.end()
    return factors, constant


def joint_test(results: Results, constraints: Constraints) -> TestResult:
    """Test that all constraints hold, in score form."""
    found = results.test(
        constraints.factors @ results.contrasts, constraints.values - constraints.factors @ results.offsets
    )
    return replace(found, hypothesis=", ".join(constraints.labels))


def coefficient_table(results: Results, level: float, notes: Sequence[str]) -> EstimateTable:
    """Estimate each parameter, and test that it is 0."""
    columns = (results.params, results.std_errors, *results.conf_int(level).T, results.pvalues)
    found = [
        Estimate((name,), *values)
        for name, *values in zip(results.names, *(column.tolist() for column in columns), strict=True)
    ]
    return EstimateTable(f"Coefficients of {results.target.name}", ("term",), tuple(found), tuple(notes), level)


def estimate_contrasts(results: Results, constraints: Constraints, level: float, notes: Sequence[str]) -> EstimateTable:
    """Estimate each contrast, and test that it has its value."""
    factors, offsets = constraints.factors @ results.contrasts, constraints.factors @ results.offsets
    scaled, title = replace(constraints, factors=factors), f"Contrasts of {results.target.name}"
    return estimate_forms(results, scaled, offsets, level, (title, "hypothesis"), notes)


def estimate_powers(results: Results, level: float, notes: Sequence[str]) -> EstimateTable:
    """Estimate the coefficients of raw powers and of their products, and test that each is 0."""
    if row_map_named(results.solved.row_map).divides_terms:
        told = row_map_named(results.solved.row_map).division
        raise EstimationError(f"{told}: the model is of no powers of raw values")
    names, factors, offsets = raw_powers(results.combined or results.solved.terms, results.target)
    return _estimate_terms(results, names, factors, offsets, level, f"Powers in {results.target.name}", notes)


def estimate_combined(results: Results, level: float, notes: Sequence[str]) -> EstimateTable:
    r"""Estimate the coefficients of the terms that combinations are made of, in raw units, and test that each is 0.

    Notes
    -----
    With combinations :math:`v = M^\top z` of scaled terms, :math:`v^\top\theta = z^\top M\theta`: coefficients of terms
    are linear functions of those of the combinations, whose noise is as it was released. Left out are an intercept
    that is no term, and a term that is in no combination.
    """
    if results.combinations is None:
        raise EstimationError("the coefficients are those of the terms already: the release is of no combinations")
    L, constant = raw_units(results.combined, results.target, None)
    first = 0 if results.combined[0].kind == "constant" else 1
    names = tuple(term.name for term in results.combined)
    title = f"Terms in {results.target.name}"
    return _estimate_terms(results, names, L[first:], constant[first:], level, title, notes)


def _estimate_terms(
    results: Results,
    names: Sequence[str],
    factors: FloatArray,
    offsets: FloatArray,
    level: float,
    title: str,
    notes: Sequence[str],
) -> EstimateTable:
    """Estimate linear functions of the coefficients of scaled terms; one that is of no parameter is left out."""
    if results.combinations is not None:
        factors = factors @ results.combinations
    told = [j for j, row in enumerate(factors) if row[: len(results.names)].any()]
    constraints = Constraints(tuple(names[j] for j in told), factors[told], np.zeros(len(told)))
    return estimate_forms(results, constraints, offsets[told], level, (title, "term"), notes)


def estimate_forms(
    results: Results,
    constraints: Constraints,
    offsets: FloatArray,
    level: float,
    heads: tuple[str, str],
    notes: Sequence[str],
) -> EstimateTable:
    """Estimate linear functions of the scaled coefficients, and test that each has its value."""
    factors = constraints.factors
    values = factors @ results.solved.theta + offsets
    errors = np.sqrt(np.diag(results.covariance_of(factors)))
    sets = results.contrast_sets(factors, offsets, level)
    found = [
        Estimate(
            (label,),
            float(value),
            float(error),
            one.hull[0],
            one.hull[1],
            results.test(row[np.newaxis], np.array([wanted])).pvalue,
        )
        for label, value, error, one, row, wanted in zip(
            constraints.labels, values, errors, sets, factors, constraints.values - offsets, strict=True
        )
    ]
    title, head = heads
    unbounded = "Unbounded intervals: the noise hides how terms vary; see caveats()."
    said = (*notes[:1], *([] if all(one.is_bounded for one in sets) else [unbounded]), *notes[1:])
    return EstimateTable(title, (head,), tuple(found), said, level)


def anova_table(results: Results, notes: Sequence[str]) -> AnovaTable:
    """Test each column given all others."""
    columns = list(dict.fromkeys(term.column for term in results.terms if term.column is not None))
    if not columns:
        _ = results.told  # says so where points are all there is
        raise EstimationError("there is no term beside the constant to test")
    rows, whole = [], np.eye(len(results.solved.theta))
    for column in columns:
        picked = whole[[j for j, term in enumerate(results.terms) if term.column == column]]
        rows.append(AnovaRow(column, results.test(picked, np.zeros(len(picked)))))
    said = ("Each feature given all others (type III).", *notes)
    return AnovaTable(f"Analysis of variance of {results.target.name}", tuple(rows), said)
