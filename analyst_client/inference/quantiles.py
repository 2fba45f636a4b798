"""Distribution functions. scipy is imported when the first is called, so that importing the client stays quick."""


def student_quantile(upper_tail: float, dof: float) -> float:
    """Return the value that Student's t exceeds with the given probability.

    Examples
    --------
    >>> round(student_quantile(0.025, 10.0), 3)
    2.228
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    return float(-special.stdtrit(dof, upper_tail))


def student_tail(value: float, dof: float) -> float:
    """Return the probability that Student's t exceeds a value.

    Examples
    --------
    >>> round(student_tail(2.228, 10.0), 4)
    0.025
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    return float(special.stdtr(dof, -value))


def f_tail(value: float, constraints: int, dof: float) -> float:
    """Return the probability that F exceeds a value.

    Examples
    --------
    >>> round(f_tail(4.10, 2, 10.0), 3)
    0.05
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    return float(special.fdtrc(constraints, dof, value))
