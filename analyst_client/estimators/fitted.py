"""The members that `fit` sets, and how a fit finds the results of a target."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.estimator import Estimator
from analyst_client.estimators.saving import Source
from analyst_client.inference.base import Results
from analyst_client.schema.columns import Column, Term


class Fitted(Estimator):
    """What `fit` sets; see `Fit`."""

    _link: ClassVar[str] = ""
    """Words before the name of a target, on the scale of the coefficients."""
    _ratio: ClassVar[str] = ""
    """Of the exponential of a coefficient, where that has a meaning."""

    coef_: FloatArray
    intercept_: Any  # a float, or an array of several targets
    term_names_: NDArray[np.object_]
    target_names_: NDArray[np.object_]
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int
    columns_: tuple[Column, ...]
    terms_: tuple[Term, ...]
    targets_: tuple[Term, ...]
    row_map_: str | None
    results_: "tuple[Results, ...]"
    fitted_params_: dict[str, Any]
    choice_: Any
    source_: Source

    def _keep(self, results: Sequence[Results], columns: Iterable[Column], features: Sequence[str]) -> None:
        """Set what all fits have."""
        self.results_, self.fitted_params_ = tuple(results), self.get_params()
        self.columns_, self.targets_ = tuple(columns), tuple(one.target for one in results)
        self.terms_, _, _, self.row_map_, _ = results[0].solved
        self.feature_names_in_ = np.array(features, dtype=object)
        self.n_features_in_ = len(features)
        self.target_names_ = np.array([target.name for target in self.targets_], dtype=object)
        self.term_names_ = np.array(results[0].names[results[0].first :], dtype=object)
        raw = np.array([one.raw for one in results])
        several = len(results) > 1
        self.coef_ = raw[:, 1:] if several else raw[0, 1:]
        self.intercept_ = raw[:, 0] if several else float(raw[0, 0])

    def _check_fitted(self) -> None:
        if not hasattr(self, "results_"):
            raise EstimationError(f"this {type(self).__name__} is not fitted yet: call fit(…) first")

    def _of_each_target(self, read: Callable[[Any], Any]) -> FloatArray:
        """Return what is read of the one target, or an array with one row for each of several."""
        found = [read(results) for results in self._all_results()]
        whole: FloatArray = found[0] if len(found) == 1 else np.array(found)
        return whole

    def _all_results(self) -> tuple[Any, ...]:
        self._check_fitted()
        return self.results_

    def _results_of(self, target: str | None) -> Any:
        """Return the results of one target. Raise `ValueError` when it is not said which."""
        results = self._all_results()
        names = list(self.target_names_)
        if isinstance(target, Fitted):
            said = "a fit is no target: compare(fit, other) puts fits side by side, and test(…) compares nested models"
            raise ValueError(said)  # noqa: TRY004 -- one kind of error for arguments
        if target is None and len(names) > 1:
            raise ValueError(f"the fit has several targets: say which of {', '.join(names)}")
        if target is not None and target not in names:
            raise ValueError(f"the fit has no target {target!r}; it has {', '.join(names)}")
        return results[0 if target is None else names.index(target)]

    def _only_results(self) -> Any:
        """Return the results of the one target. Raise `ValueError` where there are several."""
        if len(self._all_results()) > 1:
            names = ", ".join(self.target_names_)
            raise ValueError(
                f"this needs a fit of one target, and this one has several, {names}: fit(release, "
                f"target={self.target_names_[0]!r}) has one, and table(target=…) has the numbers of each"
            )
        return self.results_[0]

    @abstractmethod
    def _test_notes(self, results: Any) -> tuple[str, ...]:
        """Return what intervals and tests of contrasts rest on."""
