"""The name that was probably meant by one that there is not."""

import difflib
from collections.abc import Iterable


def find_meant(name: str, known: Iterable[str]) -> str | None:
    """Return the one of some names that is nearest to a misspelt one; None where none is near.

    Examples
    --------
    >>> find_meant("creatinin", ["age", "creatinine"]), find_meant("dose", ["age", "creatinine"])
    ('creatinine', None)
    """
    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def say_meant(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence on a name that there is not: the one that was meant, or all that there are.

    Examples
    --------
    >>> say_meant("creatinin", ["age", "creatinine"]), say_meant("dose", ["age", "creatinine"])
    (": did you mean 'creatinine'?", '; there are age, creatinine')
    """
    listed = list(known)
    meant = find_meant(name, listed)
    return f"; there are {', '.join(listed) or 'none'}" if meant is None else f": did you mean {meant!r}?"
