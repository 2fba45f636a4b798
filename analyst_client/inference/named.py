"""Numbers by the names of parameters: a mapping that prints as a table and that numpy and pandas take."""

import operator
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import View, table
from analyst_client.inference.summary import number, p_text
from analyst_client.schema.columns import CONSTANT


def own_name(name: str) -> str:
    """Return the name of a parameter that other libraries give another one.

    Examples
    --------
    >>> own_name("Intercept"), own_name("sex[T.male]"), own_name("age")
    ('(constant)', 'sex[male]', 'age')
    """
    return CONSTANT if name in {"Intercept", "(Intercept)", "const"} else re.sub(r"\[T\.", "[", name)


def _arithmetic(operate: Callable[[Any, Any], Any]) -> Callable[["NamedNumbers", Any], "NamedNumbers"]:
    def apply(self: "NamedNumbers", other: Any) -> "NamedNumbers":
        return NamedNumbers("value", self.target, self, operate(np.asarray(self), self._beside(other)))

    return apply


def _comparison(operate: Callable[[Any, Any], Any]) -> Callable[["NamedNumbers", Any], dict[str, bool]]:
    def apply(self: "NamedNumbers", other: Any) -> dict[str, bool]:
        return dict(zip(self, operate(np.asarray(self), self._beside(other)).tolist(), strict=True))

    return apply


class NamedNumbers(dict[str, float], Displayable):
    """Numbers by name, in order: a dict that prints as an aligned table.

    `pandas.Series` takes it with its names, and numpy's functions take its numbers: ``np.exp(fit.params)``. Arithmetic
    and comparisons are number by number: ``fit.params * 10``, ``fit.params / fit.bse``, ``fit.pvalues < 0.05``. Names
    of other libraries, such as ``"Intercept"`` and ``"sex[T.male]"``, find theirs.

    Parameters
    ----------
    meaning, target : str
        Heads of the table: ``"p"`` is of p-values.
    names : sequence of str
    values : array-like of shape (P,)

    Examples
    --------
    >>> found = NamedNumbers("coef", "dose", ["(constant)", "age"], np.array([1.0, -0.25]))
    >>> found["age"], np.exp(found).round(3).tolist()
    (-0.25, [2.718, 0.779])
    >>> (found * 10)["Intercept"], found < 0
    (10.0, {'(constant)': False, 'age': True})
    """

    def __init__(self, meaning: str, target: str, names: Iterable[str], values: ArrayLike) -> None:
        super().__init__(zip(map(str, names), np.asarray(values, dtype=np.float64).tolist(), strict=True))
        self.meaning, self.target = meaning, target

    def __missing__(self, name: str) -> float:
        """Return the number under a name of another library. Raise `KeyError` with the names that there are."""
        if isinstance(name, str) and own_name(name) in self:
            return self[own_name(name)]
        raise KeyError(f"no {name!r}; there are {', '.join(self)}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Lead to `pandas.Series` for what a series has and a dict has not."""
            hint = "" if name.startswith("_") else ": it is a dict, and pandas.Series(…) makes a series of it"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    def _beside(self, other: Any) -> FloatArray:
        """Return a number, or as many as there are here. Raise `ValueError` where they have other names."""
        if isinstance(other, dict) and list(other) != list(self):
            raise ValueError(f"numbers by other names: {', '.join(map(str, other))} beside {', '.join(self)}")
        found = np.asarray(list(other.values()) if isinstance(other, dict) else other, dtype=np.float64)
        if found.shape not in {(), (len(self),)}:
            raise ValueError(f"a number, or {len(self)} of them, not an array of shape {found.shape}")
        return found

    __add__ = __radd__ = _arithmetic(operator.add)
    __mul__ = __rmul__ = _arithmetic(operator.mul)
    __sub__, __rsub__ = _arithmetic(operator.sub), _arithmetic(lambda one, other: other - one)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv), _arithmetic(lambda one, other: other / one)
    __pow__ = _arithmetic(operator.pow)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)

    def __neg__(self) -> "NamedNumbers":
        """Return the numbers with other signs."""
        return self * -1.0

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        """Return the numbers."""
        return np.array(list(self.values()), dtype=dtype or np.float64)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle names and numbers."""
        return type(self), (self.meaning, self.target, list(self), list(self.values()))

    def _view(self) -> View:
        write = p_text if self.meaning == "p" else number
        rows = [(name, write(value)) for name, value in self.items()]
        return (table(f"{self.meaning} of {self.target}", ("term", self.meaning), rows, numeric=(1,)),)

    __repr__ = Displayable.__str__
