"""Assumptions of an analyst about rows that nobody shows: public guesses, an earlier release, or rows of one's own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.arrays import FloatArray
from analyst_client.inference.units import raw_units
from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.gram.design import code_target
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.planning.assumed_moments import (
    DUMMY_ROWS,
    assumed_missing_shares,
    assumed_target,
    normal_like,
    of_target,
    read_release,
    row_map_of,
    row_weights,
    same_terms,
    scaled_rows,
    target_means_of,
)
from analyst_client.planning.dummy_data import dummy_rows
from analyst_client.schema.columns import CONSTANT, Term, stored_columns


@dataclass(frozen=True, eq=False, repr=False)
class Assumptions:
    r"""Assumed moments of the rows that a quote is about. Nothing here comes from the curator's rows.

    Made by `of`, `from_rows` or `from_release`, for the terms, the targets and the row map of one quote; the cost does
    not matter. A target is assumed to be :math:`y = x^\top\beta + e` in scaled units, with e of one variance.

    Attributes
    ----------
    rows : float
        Number of complete rows, n.
    terms, targets : tuple of Term
    row_map : str
    norm : float or None
        Radius of the ball.
    moments : ndarray of shape (D, D)
        Mean over rows of :math:`w^2xx^\top`, scaled units, with the weight w that the row map gives a row.
    weight : float
        Mean of w².
    coefficients : ndarray of shape (D, T)
        β, scaled units.
    residual_variances : ndarray of shape (T,)
        Variance of e, scaled units.
    notes : tuple of str
        Guesses made for want of a statement.

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> assumptions = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"age": 0.01, "sex[M]": 0.1})
    >>> assumptions
    <Assumptions of 6,000 rows: kappa ~ age, sex[M], creatinine, lambda; R² 0.08, residual sd 0.5>
    >>> assumptions.with_rows(12000).rows
    12000.0
    """

    rows: float
    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    row_map: str
    norm: float | None
    moments: FloatArray
    weight: float
    coefficients: FloatArray
    residual_variances: FloatArray
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no rows could be like."""
        if not (math.isfinite(self.rows) and self.rows > len(self.terms)):
            raise ValueError(f"rows must be more than the {len(self.terms)} terms, not {self.rows!r}")
        eigenvalues = np.linalg.eigvalsh(self.moments)
        if not np.isfinite(self.moments).all() or eigenvalues[0] <= 1e-10 * eigenvalues[-1]:
            raise ValueError(
                "the assumed terms are not independent: some level has no rows, or a term is a sum of others. State "
                "shares above 0 and correlations below 1, or ask for fewer terms"
            )
        if not np.all(self.residual_variances > 0.0):
            raise ValueError("the residual variance must be positive: state residual_sd=, in the target's unit")
        for array in (self.moments, self.coefficients, self.residual_variances):
            frozen(array)

    @classmethod
    def of(
        cls,
        quote: Quote,
        *,
        rows: float,
        residual_sd: "float | Mapping[str, float] | None" = None,
        rsquared: "float | Mapping[str, float] | None" = None,
        coefficients: Mapping[str, Any] | None = None,
        means: Mapping[str, float] | None = None,
        sds: Mapping[str, float] | None = None,
        shares: Mapping[str, Any] | None = None,
        missing: Mapping[str, float] | None = None,
        correlation: ArrayLike = 0.0,
    ) -> "Assumptions":
        """State what is assumed; the rest is filled in, and `notes` says how.

        Parameters
        ----------
        quote : Quote
            The request, at any cost.
        rows : float
            Number of complete rows.
        residual_sd : float or mapping of target to float, optional
            Standard deviation of what is left unexplained, in the target's unit.
        rsquared : float or mapping of target to float, optional
            Share of the target's variance that is explained. Two of `residual_sd`, `rsquared` and the target's `sds`
            give the third.
        coefficients : mapping of str to float, optional
            By term, raw units; 0 where not stated. With several targets, such a mapping for each. Without any, and with
            an R², all terms explain alike: their standardised coefficients are equal.
        means, sds : mapping of str to float, optional
            Of numeric columns and targets, raw units. A column with either is normal, clipped to its bounds; one with
            neither is uniform within its bounds, which is optimistic: real columns vary less.
        shares : mapping, optional
            Of categories a mapping of level to share, of booleans (targets too) the share of true. Default all alike.
        missing : mapping of str to float, optional
            Share of missing values of a column that is not left out for it. Default 0.1 where an indicator is a term.
        correlation : float or array-like of shape (d, d)
            Between the normal laws behind each two features.

        Raises
        ------
        ValueError
            When a name is unknown, a number makes no sense, or the residual variance does not follow.

        Notes
        -----
        Moments are averages over 8192 rows made up evenly over these laws, coded and weighted as the curator does: the
        same every time.
        """
        target_names = {term.name for term in quote.targets}
        target_means = target_means_of(quote, means or {}, shares or {})
        of_features = [
            {name: value for name, value in (stated or {}).items() if name not in target_names}
            for stated in (means, sds, shares)
        ]
        gaps, notes = assumed_missing_shares(quote, missing)
        columns = stored_columns([column for column in quote.columns if column.name not in target_names])
        frame = dummy_rows(
            columns,
            max(DUMMY_ROWS, 20 * len(quote.terms)),
            seed=0,
            means=of_features[0],
            sds=of_features[1],
            shares=of_features[2],
            missing=gaps,
            correlation=correlation,
            even=True,
        )
        loose = [
            column.name
            for column in columns
            if column.type == "numeric" and column.name not in of_features[0] and column.name not in of_features[1]
        ]
        if loose:
            notes.append(
                f"{', '.join(loose)} taken as uniform within the bounds: real columns vary less, which widens intervals"
            )
        X = scaled_rows(quote, frame)
        found = [
            assumed_target(quote, target, X, (residual_sd, rsquared, coefficients), (target_means, sds or {}), notes)
            for target in quote.targets
        ]
        beta = np.array([each[0] for each in found]).reshape(len(found), len(quote.terms)).T
        return cls._of_rows(quote, rows, X, beta, np.array([each[1] for each in found]), tuple(notes))

    @classmethod
    def from_rows(
        cls,
        quote: Quote,
        frame: Any,
        *,
        rows: float | None = None,
        residual_sd: "float | Mapping[str, float] | None" = None,
    ) -> "Assumptions":
        """Take rows of one's own for what the curator's are like: a pilot's, or `dummy_twin`'s.

        Parameters
        ----------
        quote : Quote
            The request, at any cost.
        frame : data frame, or mapping of str to array-like
            Raw units, with all features and targets; rows that miss a value count as the columns' rules say.
        rows : float, optional
            Number of complete rows at the curator. Default that of the frame.
        residual_sd : float or mapping of target to float, optional
            Raw units. Default what least squares on the frame leaves.

        Raises
        ------
        ValueError
            When a column is absent, or there are too few complete rows to fit.
        """
        X = scaled_rows(quote, frame)
        Y = np.column_stack(
            [code_target(frame, target, quote.columns, clip=True) for target in quote.targets]
            or [np.zeros((len(X), 0))]
        )
        known = ~np.isnan(np.column_stack([X, Y])).any(axis=1)
        X, Y = X[known], Y[known]
        if len(X) <= len(quote.terms):
            raise ValueError(
                f"the frame has {len(X)} complete rows for {len(quote.terms)} terms: more are needed, or state what "
                "you assume with Assumptions.of"
            )
        weights = row_weights(quote, X)[:, np.newaxis]
        beta, *_ = np.linalg.lstsq(weights * X, weights * Y, rcond=None)
        residual = weights * (Y - X @ beta)
        variances = np.sum(residual**2, axis=0) / (np.sum(weights**2) * (1.0 - len(beta) / len(X)))
        if residual_sd is not None:
            stated = [of_target(residual_sd, target.name) for target in quote.targets]
            pairs = zip(stated, quote.targets, variances, strict=True)
            variances = np.array([left if sd is None else (sd / term.scale) ** 2 for sd, term, left in pairs])
        count = float(len(X) if rows is None else rows)
        return cls._of_rows(quote, count, X, np.asarray(beta, dtype=np.float64), variances, ())

    @classmethod
    def from_release(
        cls,
        quote: Quote,
        release: Release,
        *,
        rows: float | None = None,
        residual_sd: "float | Mapping[str, float] | None" = None,
    ) -> "Assumptions":
        r"""Take an earlier release for what these rows are like: of the same rows at a small ε, or of another hospital.

        Parameters
        ----------
        quote : Quote
            The request, at any cost.
        release : Release
            With at least the quote's terms and targets; bounds may differ.
        rows : float, optional
            Number of complete rows, where it is not the release's own. Default as far as the release tells.
        residual_sd : float or mapping of target to float, optional
            Raw units. Default as far as the release tells.

        Raises
        ------
        ValueError
            When the release lacks a term or a target, or something that is not stated instead.

        Notes
        -----
        Eigenvalues of the noisy XᵀX below the deviation of its noise cannot be told from noise, and are set to it; a
        residual variance that noise hides is, too. So a noisy release lets expect too little accuracy rather than too
        much. If rows were mapped in another way, or terms are left out of weighted rows, weights are those of normal
        rows with the same mean and covariance. Rows of norm R at most number at least :math:`\mathrm{tr}(A)/R^2`.
        """
        A, beta, variances, count = read_release(quote, release, rows, residual_sd)
        found = float(count if rows is None else rows)
        row_map, norm = row_map_of(quote)
        same = release.row_map == row_map and release.norm == norm
        notes = (f"taken from release {release.id}, whose noise is in them",)
        if same and (not release.mapped_by.by_terms or same_terms(quote, release)):
            weight = float(A[0, 0]) / count if release.has_constant else 1.0
            return cls(
                found, quote.terms, quote.targets, row_map, norm, A / count, min(weight, 1.0), beta, variances, notes
            )
        X = normal_like(A / A[0, 0], quote) if release.has_constant else normal_like(A / count, quote)
        return cls._of_rows(quote, found, X, beta, variances, notes)

    @classmethod
    def _of_rows(
        cls, quote: Quote, rows: float, X: FloatArray, beta: FloatArray, variances: FloatArray, notes: tuple[str, ...]
    ) -> "Assumptions":
        """Average over rows."""
        X = X[~np.isnan(X).any(axis=1)]
        weights = row_weights(quote, X)
        weighted = weights[:, np.newaxis] * X
        moments = weighted.T @ weighted / len(X)
        return cls(
            float(rows),
            quote.terms,
            quote.targets,
            *row_map_of(quote),
            (moments + moments.T) / 2.0,
            float(np.mean(weights**2)),
            beta,
            variances,
            notes,
        )

    def __repr__(self) -> str:
        """Show what is assumed."""
        explained = ", ".join(f"{self.rsquared(t.name):.2f}" for t in self.targets)
        left = ", ".join(f"{self.residual_sd(t.name):.4g}" for t in self.targets)
        names = ", ".join(term.name for term in self.terms if term.name != CONSTANT)
        targets = ", ".join(term.name for term in self.targets) or "no target"
        fit = f"; R² {explained}, residual sd {left}" if self.targets else ""
        return f"<Assumptions of {self.rows:,.0f} rows: {targets} ~ {names}{fit}>"

    def with_rows(self, rows: float) -> "Assumptions":
        """Return the same assumptions of another number of rows."""
        return replace(self, rows=float(rows))

    def with_coefficient(self, parameter: str, value: float, target: str | None = None) -> "Assumptions":
        """Return the same with another coefficient of one term; the target keeps its mean.

        Parameters
        ----------
        parameter : str
            A term, or ``"(constant)"`` for the intercept.
        value : float
            The coefficient, in raw units.
        target : str, optional
            One of the targets; needed where there are several.

        Returns
        -------
        Assumptions
            Of the same rows, whose residual variances stay.

        Raises
        ------
        ValueError
            When there is no such parameter or target.
        """
        t, j = self.index_of(target), self.parameter_index(parameter)
        L, _ = raw_units(self.terms, self.targets[t], self.row_map)
        first = int(self.terms[0].kind != "constant")
        beta = self.coefficients.copy()
        change = (value - self.parameters(target)[parameter]) / L[first + j, j]
        beta[j, t] += change
        if j > 0 and not first:
            beta[0, t] -= change * self.moments[0, j] / self.moments[0, 0]
        return replace(self, coefficients=beta)

    def parameters(self, target: str | None = None) -> dict[str, float]:
        """Return the assumed coefficients by term, in raw units; the constant's is the intercept."""
        t = self.index_of(target)
        L, constant = raw_units(self.terms, self.targets[t], self.row_map)
        first = int(self.terms[0].kind != "constant")
        raw = (L @ self.coefficients[:, t] + constant)[first:]
        return dict(zip([term.name for term in self.terms], raw.tolist(), strict=True))

    def residual_sd(self, target: str | None = None) -> float:
        """Return the assumed residual deviation, in raw units."""
        t = self.index_of(target)
        return math.sqrt(self.residual_variances[t]) * self.targets[t].scale

    def rsquared(self, target: str | None = None) -> float:
        """Return the assumed R², of the weighted rows."""
        t = self.index_of(target)
        beta, moments = self.coefficients[:, t], self.moments
        explained = float(beta @ moments @ beta)
        if self.terms[0].kind == "constant":
            explained -= float(moments[0] @ beta) ** 2 / float(moments[0, 0])
        return explained / (explained + float(self.residual_variances[t]) * self.weight)

    def index_of(self, target: str | None) -> int:
        """Return the place of a target, None being the only one. Raise `ValueError` when it is not said which."""
        names = [term.name for term in self.targets]
        if not names:
            raise ValueError("the quote has no target: ask for a quote with target=")
        if target is None and len(names) > 1:
            raise ValueError(f"the quote has several targets: say which of {', '.join(names)} with target=")
        if target is not None and target not in names:
            raise ValueError(f"the quote has no target {target!r}; it has {', '.join(names)}")
        return 0 if target is None else names.index(target)

    def parameter_index(self, parameter: str) -> int:
        """Return the place of a parameter. Raise `ValueError` when there is none of this name."""
        names = [term.name for term in self.terms]
        if parameter not in names:
            raise ValueError(f"there is no parameter {parameter!r}; there are {', '.join(names)}")
        return names.index(parameter)

    def check_made_for(self, quote: Quote) -> None:
        """Raise `ValueError` when the quote is of other terms, targets or another row map."""
        if (self.terms, self.targets, (self.row_map, self.norm)) != (quote.terms, quote.targets, row_map_of(quote)):
            raise ValueError(
                "the assumptions were made for a quote with other terms, targets or another row map: make them anew "
                "from this quote, with Assumptions.of(quote, …)"
            )
