"""Hyper-parameters of all estimators, after the conventions of scikit-learn."""

import inspect
from abc import ABCMeta
from collections.abc import Callable, Sized
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self

from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import suggests_arguments
from analyst_client.refinement.refinement import Refinement

P = ParamSpec("P")
OF_CLASS = {"load": "load_fit(path) reads a fit", "from_formula": 'client.fit("…", data=…, epsilon=1) takes a formula'}
"""Members of statsmodels' classes, and what is here in their place."""


class EstimatorType(ABCMeta):
    """The type of estimators: a class names what is in the place of a member of other libraries' classes."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            """Raise `AttributeError`."""
            hint = f": {OF_CLASS[name]}" if name in OF_CLASS else ""
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint}", name=name, obj=cls)


def refuses_data(init: Callable[P, None]) -> Callable[P, None]:
    """Answer a formula or data in the place of hyper-parameters with what takes them."""

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        if "data" in kwargs or "formula" in kwargs or any(map(_is_data, args[1:])):
            own = type(args[0]).__name__
            raise TypeError(
                f"{own}() takes no data: an estimator is fitted on a release, as {own}().fit(release); "
                'client.fit("…", data=…, epsilon=1) is the one call'
            )
        init(*args, **kwargs)

    return checked


def _is_data(value: object) -> bool:
    return isinstance(value, Sized | Release | Refinement) and not (isinstance(value, str) and "~" not in value)


class Estimator(metaclass=EstimatorType):
    """Hyper-parameters after the conventions of scikit-learn, which is not imported before it asks.

    Its `clone`, `is_regressor`, `is_classifier`, `check_is_fitted` and a `Pipeline` that ends in an estimator work.
    """

    _estimator_type: ClassVar[str] = "regressor"  # by which scikit-learn below 1.6 tells

    @refuses_data
    @suggests_arguments
    def __init__(self) -> None:
        """Take no hyper-parameters."""

    def __init_subclass__(cls) -> None:
        """Answer data, and an argument of another name with its own."""
        for name in ("__init__", "predict"):
            if name in vars(cls):
                setattr(cls, name, suggests_arguments(vars(cls)[name]))
        if "__init__" in vars(cls):
            cls.__init__ = refuses_data(cls.__init__)  # type: ignore[method-assign]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what kind of estimator this is, and that `fit` takes no y: a release holds it."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags  # noqa: PLC0415 -- its caller has it

        is_regressor = self._estimator_type == "regressor"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False),
            regressor_tags=RegressorTags() if is_regressor else None,
            classifier_tags=None if is_regressor else ClassifierTags(multi_class=False),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether `fit` has run."""
        return hasattr(self, "feature_names_in_")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name.

        Examples
        --------
        >>> from analyst_client import Ridge
        >>> Ridge(penalty=10.0).get_params()
        {'penalty': 10.0}
        """
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters by name. Raise `ValueError` for an unknown one.

        Examples
        --------
        >>> from analyst_client import Ridge
        >>> Ridge().set_params(penalty=10.0)
        Ridge(penalty=10.0)
        """
        for name, value in params.items():
            if name not in self._parameter_names():
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def __repr__(self) -> str:
        """Show the hyper-parameters that are not the default."""
        defaults = {name: parameter.default for name, parameter in inspect.signature(type(self)).parameters.items()}
        changed = [
            f"{name}={value!r}" for name, value in self.get_params().items() if repr(value) != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"
