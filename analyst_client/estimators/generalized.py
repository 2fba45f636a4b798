"""Coefficients, their law and the summary of logistic and Poisson regressions on a refinement."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.base import coded_rows
from analyst_client.estimators.refinement_fit import RefinementFit, count_rows
from analyst_client.inference.heads import baseline_text
from analyst_client.inference.multiplicity import holm
from analyst_client.inference.summary import HOLM_NOTE, TOGETHER_NOTE, Summary, number, p_columns, percent_of
from analyst_client.inference.units import raw_units
from analyst_client.level import takes_level
from analyst_client.refinement.generalized import RefinedGeneralized
from analyst_client.refinement.information import Likelihood, likelihood
from analyst_client.refinement.refinement import Refinement
from analyst_client.refinement.rules import CUT_COLUMNS
from analyst_client.schema.columns import Term

CASES_PER_TERM = 10.0
SEPARATED = 3.0
CLIPPED = 0.01
"""Share of clipped rows that is worth a word."""
_INDEX = Term("index", "numeric", "index", 0.0, 1.0)
"""The linear predictor as a target: it has no unit of its own."""


class GeneralizedFit(RefinementFit):
    r"""A generalised linear model that is fitted on a refinement.

    Attributes
    ----------
    coef_ : ndarray of shape (D',)
        For one raw unit of each term beside the constant, on the scale of the link.
    intercept_ : float
    refined_ : RefinedGeneralized
        Answers of the releases, in standard coordinates.

    Notes
    -----
    `coef_` is where the clipped scores of later steps add up to 0; standard errors, intervals and tests are of that.
    Predictions have coefficients of their own: the posterior mean of a normal prior on those of standardised columns,
    whose deviation is integrated out. Where there are no intervals, `coef_` is that too.

    The covariance is :math:`H^{-1}(J + S)H^{-1}`. S is the privacy noise of these scores, with what noise in H adds as
    the last coefficients are away from the solution. J is the sampling error of the score: by the variance of the
    family, or, robust, by Σ g gᵀ as it was bought, with one deviation of its noise added. Three things are
    approximated. H is the information of normal terms with the XᵀX that was bought, within 5 % for an index of
    deviation 1, corrected by the last Σ g gᵀ, which is the information where the model holds, and by scores at other
    coefficients. And rows that were clipped are taken for none beyond what the histogram of norms shows.
    """

    _ratio: ClassVar[str]
    """Of the exponential of a coefficient."""

    coef_: FloatArray
    intercept_: float
    refined_: RefinedGeneralized
    target_name_: str

    def _fit_refinement(self, refinement: Refinement) -> None:
        theta = self._take(refinement)
        self.target_name_ = refinement.problem.target.name
        self._cuts = refinement.rules.cut
        self.__dict__.pop("_likelihood", None)
        if theta is None:
            theta = np.array([self.refined_.family.link(self.refined_.rate)])
        self._set_coefficients(theta, _INDEX)
        moments = self.refined_.moments
        self._free = len(self.terms_) if moments is None else moments.free
        self.coef_, self.term_names_ = self.coef_[: self._free - 1], self.term_names_[: self._free - 1]
        with suppress(EstimationError):  # without intervals, what predictions rest on
            center = self._center
            self.intercept_, self.coef_ = float(center[0]), center[1:]

    @property
    def _to_raw(self) -> FloatArray:
        return raw_units(self.terms_, _INDEX, None)[0][: self._free]

    def _index(self, X: Any, clip: bool | None) -> FloatArray:
        """Return the linear predictor of rows, of shape (n,)."""
        found = self.refined_
        if found.frame is None or found.calibrated is None:
            return np.full(count_rows(X), self.intercept_)
        index: FloatArray = coded_rows(X, self.columns_, self.terms_, clip) @ found.frame.to_terms(found.calibrated)
        return index

    def _check_refined(self) -> None:
        if not hasattr(self, "refined_"):
            raise EstimationError(
                f"this {type(self).__name__} is not fitted on a refinement, which has standard errors: see "
                "client.refine"
            )

    @cached_property
    def _likelihood(self) -> Likelihood:
        if self._cuts:
            raise EstimationError(CUT_COLUMNS)
        return likelihood(self.refined_)

    @property
    def _forms(self) -> FloatArray:
        """Coefficients in raw units of those in standard coordinates."""
        assert self.refined_.frame is not None
        forms: FloatArray = self._to_raw @ self.refined_.frame.matrix
        return forms

    @property
    def _center(self) -> FloatArray:
        """Estimates that are not shrunk, in raw units, around which intervals are."""
        law = self._likelihood  # which says first what is missing
        center: FloatArray = self._forms @ law.theta
        return center

    @property
    def param_names_(self) -> NDArray[np.object_]:
        """Names of the parameters that inference is about: the constant and the terms."""
        self._check_refined()
        return np.array([term.name for term in self.terms_[: self._free]], dtype=object)

    @property
    def params_(self) -> FloatArray:
        """The intercept and `coef_`, of shape (1 + D',)."""
        self._check_refined()
        return np.array([self.intercept_, *self.coef_])

    def cov_params(self, *, robust: bool | None = None) -> FloatArray:
        """Return the covariance of the parameters, sampling and privacy noise, of shape (1 + D', 1 + D').

        Parameters
        ----------
        robust : bool, optional
            By Σ g gᵀ, which holds where the variance of the family is wrong, or by that variance. Default by Σ g gᵀ
            wherever it was bought.

        Returns
        -------
        ndarray
            Of the intercept first. Infinite on its diagonal, and 0 beside it, of a parameter whose information noise
            could hide.

        Raises
        ------
        EstimationError
            Where the price did not buy what this needs; coefficients and predictions are there all the same.
        """
        self._check_refined()
        law = self._likelihood  # which says first what is missing
        return law.covariance(self._forms, robust=robust)

    @property
    def std_errors_(self) -> FloatArray:
        """Standard errors of the parameters, robust wherever Σ g gᵀ was bought, of shape (1 + D',)."""
        errors: FloatArray = np.sqrt(np.diag(self.cov_params()))
        return errors

    @property
    def robust_std_errors_(self) -> FloatArray:
        """Standard errors of the parameters by Σ g gᵀ, of shape (1 + D',): those of a sandwich."""
        errors: FloatArray = np.sqrt(np.diag(self.cov_params(robust=True)))
        return errors

    @takes_level
    def conf_int(self, level: float = 0.95, *, robust: bool | None = None, simultaneous: bool = False) -> FloatArray:
        """Return confidence intervals of the parameters, on the scale of the link, privacy noise included.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        robust : bool, optional
            As for `cov_params`.
        simultaneous : bool
            Whether the intervals of all slopes hold together with that probability, as those of `LinearFit.conf_int`.

        Returns
        -------
        ndarray of shape (1 + D', 2)
            Around `params_`. Infinite where noise could hide a parameter's information, as of terms that nearly follow
            from each other.

        Raises
        ------
        EstimationError
            As for `cov_params`.
        """
        tails = np.full(len(self.param_names_), (1.0 - level) / 2.0)
        tails[1:] /= len(tails[1:]) if simultaneous and len(tails) > 1 else 1
        quantiles = np.array([-NormalDist().inv_cdf(tail) for tail in tails.tolist()])
        half = quantiles * np.sqrt(np.diag(self.cov_params(robust=robust)))
        return np.column_stack([self._center - half, self._center + half])

    def pvalues(self, *, robust: bool | None = None) -> FloatArray:
        """Return p-values of each parameter being 0, of shape (1 + D',): Wald's test, with normal quantiles.

        They are NaN where an interval has no end.
        """
        errors = np.sqrt(np.diag(self.cov_params(robust=robust)))
        ratios = np.where(np.isfinite(errors), np.abs(self._center) / errors, np.nan)
        return np.array([math.erfc(ratio / math.sqrt(2.0)) for ratio in ratios.tolist()])

    def adjusted_pvalues(self, *, robust: bool | None = None) -> FloatArray:
        """Return Holm's p-values of the slopes, of shape (1 + D',); the constant keeps its own."""
        adjusted = self.pvalues(robust=robust)
        adjusted[1:] = holm(adjusted[1:])
        return adjusted

    def caveats(self) -> tuple[str, ...]:
        """Return what to beware of: few cases, separated classes, rows that were clipped."""
        self._check_refined()
        found, said = self.refined_, []
        rarer = min(found.rate, 1.0 - found.rate) if self._family == "binomial" else found.rate * found.family.unit
        if found.rows * rarer < CASES_PER_TERM * len(self.terms_):
            what = "rows of the rarer class" if self._family == "binomial" else "events"
            said.append(f"there are about {found.rows * rarer:,.0f} {what}: too few for {len(self.terms_)} terms.")
        if found.moments is None or found.theta is None:
            return tuple(said)
        said += separation_warnings("the index has", found.moments.spread(found.theta))
        if found.clipped > CLIPPED:
            said.append(
                f"about {found.clipped:.0%} of the rows had a longer gradient than the last score's norm, and were "
                "clipped. That is made up for as of normal terms, and intervals are longer by what is unsure of it."
            )
        return tuple(said)

    @takes_level
    def summary(self, level: float = 0.95, *, robust: bool | None = None) -> Summary:
        """Return a table of coefficients, their exponentials and intervals, and what to beware of.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        robust : bool, optional
            As for `cov_params`.

        Returns
        -------
        Summary
            Without standard errors where these cannot be told; a note says why.
        """
        self._check_refined()
        found = self.refined_
        stated = [("n", f"{found.rows:,.0f} rows, noisy"), ("privacy charged", self.spent_)]
        stated.append(("baseline", baseline_text(self.columns_, self.terms_)))
        stated = [(name, value) for name, value in stated if value]
        stated.append(("scores", str(len(found.measurements))))
        stated.append(("mean, as first told", number(found.rate * found.family.unit)))
        if found.moments is not None and found.theta is not None:
            stated.append(("sd of the index", number(found.moments.spread(found.theta))))
        columns: dict[str, Sequence[str]] = {}
        said = "Predictions rest on coefficients of their own, shrunk as far as the noise asks for."
        try:
            errors = np.sqrt(np.diag(self.cov_params(robust=robust))).tolist()
            low, high = self.conf_int(level, robust=robust).T.tolist()
            is_robust = self._likelihood.is_robust(robust)
            columns["robust std err" if is_robust else "std err"] = list(map(number, errors))
            columns |= p_columns(self.pvalues(robust=robust), 1)
            columns |= {f"{percent_of(level)} from": list(map(number, low)), "to": list(map(number, high))}
            hidden = [name for name, error in zip(self.param_names_, errors, strict=True) if math.isinf(error)]
            if hidden:
                said += (
                    f" Noise could hide what rows tell of {', '.join(hidden)}, so these intervals have no end. A "
                    "higher price, more rows, or a model without terms that nearly follow from each other would give "
                    "them one."
                )
            if self._likelihood.dispersion is not None and self._family == "poisson":
                stated.append(("dispersion, about", number(self._likelihood.dispersion)))
        except EstimationError as error:
            said = f"Warning: {error}. Coefficients are shrunk as far as the noise asks for."
        names, values = self.param_names_.tolist(), self.params_.tolist()
        return self._table(self.target_name_, stated, "coef", dict(zip(names, values, strict=True)), columns, said)

    def _table(
        self,
        target: str,
        stated: Sequence[tuple[str, str]],
        head: str,
        coefficients: Mapping[str, float],
        columns: Mapping[str, Sequence[str]],
        said: str,
    ) -> Summary:
        """Return coefficients, their exponentials and further columns by their heads, and what to beware of."""
        ratios = [number(math.exp(min(value, 700.0))) for value in coefficients.values()]
        rows = zip(coefficients, map(number, coefficients.values()), ratios, *columns.values(), strict=True)
        tested = [HOLM_NOTE] if any(name.startswith("p Holm") for name in columns) else []
        together = [TOGETHER_NOTE] if "p Holm" in columns else []
        notes = (said, *tested, *together, *self._cut_notes(), *(f"Warning: {text}" for text in self.caveats()))
        heads = ("term", head, self._ratio, *columns)
        return Summary(f"{target} by {self!r}", tuple(stated), heads, tuple(rows), notes)


def separation_warnings(index: str, spread: float) -> list[str]:
    """Return what to say where an index, which has so large a standard deviation, separates the classes."""
    if spread <= SEPARATED:
        return []
    return [
        f"{index} a standard deviation of {spread:.1f}: the classes are separated, or noise made it so, and "
        "coefficients could be of almost any size. The order of predictions holds."
    ]
