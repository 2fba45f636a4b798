"""The one word for confidence, `level`: the probability that an interval holds the truth. It is checked here alone."""

import inspect
from collections.abc import Callable
from functools import wraps
from numbers import Real
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
LEVEL = 0.95
RULE = "level is the probability that the interval holds the truth, at least 0.5 and below 1, as 0.95"


def check_level(level: float) -> None:
    """Raise `ValueError` for a level that is not in [0.5, 1), with the level that was probably meant.

    Examples
    --------
    >>> check_level(0.95)
    >>> check_level(0.01)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: level is the probability ..., as 0.95; 0.01 looks like alpha: say level=0.99
    """
    if hasattr(level, "results_"):
        raise ValueError(f"{RULE}, not a fit: compare(fit, other) puts fits side by side")
    if not isinstance(level, Real):
        raise ValueError(f"{RULE}, not {level!r}")  # noqa: TRY004 -- one kind of error for arguments
    if 0.5 <= level < 1.0:
        return
    if 0.0 < level < 0.5:
        raise ValueError(f"{RULE}; {level!r} looks like alpha: say level={1.0 - level:.12g}")
    if 50.0 < level < 100.0:
        raise ValueError(f"{RULE}; {level!r} looks like a percentage: say level={level / 100.0:.12g}")
    raise ValueError(f"{RULE}, not {level!r}")


def takes_level(function: Callable[P, T]) -> Callable[P, T]:
    """Check the `level` of a public function before anything else, and refuse `alpha` with a hint."""
    parameters = inspect.signature(function).parameters
    by_name = parameters["level"].kind is inspect.Parameter.KEYWORD_ONLY
    place = list(parameters).index("level")

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if "alpha" in kwargs:
            raise TypeError(f"{function.__name__}() takes level= and no alpha=: {RULE}. alpha=0.05 is level=0.95")
        level = args[place] if not by_name and place < len(args) else kwargs.get("level", LEVEL)
        check_level(level)  # type: ignore[arg-type]
        return function(*args, **kwargs)

    return checked
