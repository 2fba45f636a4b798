"""Numbers by the names of parameters: a mapping that prints as a table and that numpy and pandas take."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import View, table
from analyst_client.inference.summary import number, p_text


class NamedNumbers(dict[str, float], Displayable):
    """Numbers by name, in order: a dict that prints as an aligned table.

    `pandas.Series` takes it with its names, and numpy's functions take its numbers: ``np.exp(fit.params)``.

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
    """

    def __init__(self, meaning: str, target: str, names: Iterable[str], values: ArrayLike) -> None:
        super().__init__(zip(map(str, names), np.asarray(values, dtype=np.float64).tolist(), strict=True))
        self.meaning, self.target = meaning, target

    def __missing__(self, name: str) -> float:
        """Raise `KeyError` with the names that there are."""
        raise KeyError(f"no {name!r}; there are {', '.join(self)}")

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
