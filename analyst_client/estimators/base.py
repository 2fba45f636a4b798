"""What all estimators share: hyper-parameters, coefficients in raw units, predictions."""

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst_client.columns import Column, Term
from analyst_client.errors import EstimationError
from analyst_client.estimators.design import design_matrix, map_rows
from analyst_client.release import Release

FloatArray = NDArray[np.float64]


class Estimator:
    """Hyper-parameters after the conventions of scikit-learn, whose `clone` works on them; it is not imported."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters by name. Raise `ValueError` for an unknown one."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def __repr__(self) -> str:
        """Show the hyper-parameters."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({values})"


@dataclass(frozen=True)
class NormalEquations:
    """The noisy equations ``xtx @ beta = xty`` of a fit, in scaled units.

    Attributes
    ----------
    xtx : ndarray of shape (D, D)
    xty : ndarray of shape (D, T)
    penalised : ndarray of shape (D,)
        1 for a term, 0 for the constant.
    release : Release
        Where they come from, with its noise.
    """

    xtx: FloatArray
    xty: FloatArray
    penalised: FloatArray
    release: Release

    @classmethod
    def of(cls, release: Release, target: str | None) -> "tuple[NormalEquations, tuple[Term, ...]]":
        """Choose the equations of one target, or of all, and return them with the targets.

        Raises
        ------
        EstimationError
            When the release holds no XᵀX or no Xᵀy.
        ValueError
            When it has no such target.
        """
        if release.xtx is None or release.xty is None or not release.targets:
            raise EstimationError("a fit needs XᵀX and Xᵀy: ask for the statistics 'xtx' and 'xty' with a target")
        if target is not None and target not in release.target_names:
            raise ValueError(f"the release has no target {target!r}; it has {', '.join(release.target_names)}")
        chosen = [t for t, name in enumerate(release.target_names) if target in {None, name}]
        penalised = np.array([float(term.kind != "constant") for term in release.terms])
        return cls(release.xtx, release.xty[:, chosen], penalised, release), tuple(release.targets[t] for t in chosen)


class LinearFit(Estimator, ABC):
    """A linear regression fitted on a release.

    Attributes
    ----------
    coef_ : ndarray of shape (D',) or (T, D')
        Raw units, one for each term beside the constant; one row per target when the fit has several.
    intercept_ : float or ndarray of shape (T,)
    scaled_coef_ : ndarray of shape (D,) or (T, D)
        The solution itself, in scaled units, the constant included.
    penalty_ : float
        λ, in units of the scaled XᵀX.
    feature_names_in_ : ndarray of str
        Raw columns, in the order in which `predict` takes those of an array.
    n_features_in_ : int
    term_names_ : ndarray of str, of shape (D',)
        Names of the coefficients.
    target_names_ : ndarray of str, of shape (T,)
    row_map_ : str or None
        How the curator mapped rows. Under ``"unit"``, and under ``"unit_xy"`` with a constant, the model is linear in
        the scaled terms over their norm: `coef_` and `intercept_` then belong to those, and `predict` divides.
    """

    coef_: FloatArray
    intercept_: "float | FloatArray"
    scaled_coef_: FloatArray
    penalty_: float
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int
    term_names_: NDArray[np.object_]
    target_names_: NDArray[np.object_]
    columns_: tuple[Column, ...]
    terms_: tuple[Term, ...]
    targets_: tuple[Term, ...]
    row_map_: str | None

    @abstractmethod
    def _solve(self, equations: NormalEquations) -> FloatArray:
        """Return the solution of shape (D, T) and set `penalty_`."""

    def fit(self, release: Release, target: str | None = None) -> Self:
        """Fit on a release.

        Parameters
        ----------
        release : Release
        target : str, optional
            One of its targets. Default all.

        Returns
        -------
        Self

        Raises
        ------
        EstimationError
            When the release does not determine the fit.
        ValueError
            When a hyper-parameter is out of range or there is no such target.
        """
        equations, targets = NormalEquations.of(release, target)
        scaled = self._solve(equations).T
        self.columns_, self.terms_, self.targets_ = release.features, release.terms, targets
        self.feature_names_in_ = np.array(release.feature_names, dtype=object)
        self.n_features_in_ = len(release.features)
        self.target_names_ = np.array([term.name for term in targets], dtype=object)
        first = int(release.has_constant)
        self.term_names_ = np.array(release.term_names[first:], dtype=object)
        self.row_map_ = release.row_map
        if release.row_map == "unit" or (release.row_map == "unit_xy" and release.has_constant):
            coef, intercept = unscale(
                scaled, tuple(replace(term, center=0.0, scale=1.0) for term in release.terms), targets
            )
        else:
            coef, intercept = unscale(scaled, release.terms, targets)
        several = len(targets) > 1
        self.scaled_coef_ = scaled if several else scaled[0]
        self.coef_ = coef if several else coef[0]
        self.intercept_ = intercept if several else float(intercept[0])
        return self

    def predict(self, X: Any, clip: bool = True) -> FloatArray:
        """Predict targets in their raw units.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            Raw units. Columns of a frame are found by name and others ignored; those of an array stand in the
            order of `feature_names_in_`.
        clip : bool
            Clip numeric values to their public bounds, as the curator did; False extrapolates linearly.

        Returns
        -------
        ndarray of shape (n,) or (n, T)
            NaN for a row that misses a column declared `omit` or `complete`.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number.
        """
        if not hasattr(self, "scaled_coef_"):
            raise EstimationError(f"this {type(self).__name__} is not fitted yet: call fit(release) first")
        matrix = map_rows(design_matrix(X, self.columns_, self.terms_, clip), self.terms_, self.row_map_)
        center = np.array([term.center for term in self.targets_])
        scale = np.array([term.scale for term in self.targets_])
        predicted: FloatArray = center + scale * (matrix @ np.atleast_2d(self.scaled_coef_).T)
        return predicted if len(self.targets_) > 1 else predicted[:, 0]

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return R², averaged over targets; rows without a prediction or without y are left out, as at the curator.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
        y : array-like of shape (n,) or (n, T)
            Raw units.
        """
        predicted = np.reshape(self.predict(X), (-1, len(self.targets_)))
        observed = np.reshape(np.asarray(y, dtype=np.float64), (-1, len(self.targets_)))
        if len(observed) != len(predicted):
            raise ValueError(f"X has {len(predicted)} rows and y {len(observed)}")
        known = ~np.isnan(predicted + observed).any(axis=1)
        residual = np.sum((observed[known] - predicted[known]) ** 2, axis=0)
        total = np.sum((observed[known] - observed[known].mean(axis=0)) ** 2, axis=0)
        if not known.any() or not np.all(total > 0.0):
            raise ValueError("R² needs values of y that differ")
        return float(np.mean(1.0 - residual / total))


def unscale(scaled: FloatArray, terms: tuple[Term, ...], targets: tuple[Term, ...]) -> tuple[FloatArray, FloatArray]:
    r"""Return coefficients and intercepts in raw units.

    Parameters
    ----------
    scaled : ndarray of shape (T, D)

    Returns
    -------
    tuple of ndarray
        Coefficients of shape (T, D'), without the constant, and intercepts of shape (T,).

    Notes
    -----
    :math:`\beta'_j = \beta_j s_y/s_j` and :math:`\beta'_0 = c_y + s_y\beta_0 - \sum_j \beta'_j c_j`, with center
    :math:`c` and scale :math:`s` of each term and of the target (Kalaja 2020, equation 3.7).
    """
    first = int(terms[0].kind == "constant")
    target_center = np.array([term.center for term in targets])
    target_scale = np.array([term.scale for term in targets])
    center = np.array([term.center for term in terms[first:]])
    scale = np.array([term.scale for term in terms[first:]])
    coef: FloatArray = scaled[:, first:] * target_scale[:, np.newaxis] / scale
    constant = scaled[:, 0] if first else np.zeros(len(targets))
    intercept: FloatArray = target_center + target_scale * constant - coef @ center
    return coef, intercept
