"""Fits that are read from files and made again."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from analyst_client.errors import CuratorError, ServiceError
from analyst_client.estimators.base import Fit
from analyst_client.estimators.saving import SavedFit
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.refinement.refinement import Refinement

ESTIMATORS = "analyst_client.estimators"
DRAWS_MAX = 1_000_000
"""Draws of all chains that a file may ask for: the numbers in a file are whoever wrote it's."""


def load_fit(path: str | os.PathLike[str]) -> Any:
    """Read a fit that `Fit.save` wrote: it is fitted again on the releases in the file, and equal.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    Fit
        Of the class that was saved, with its hyper-parameters.

    Raises
    ------
    OSError
        When the file cannot be read.
    ReceiptInvalidError
        When a release in it is not what its curator signed: the file was damaged, or changed.
    ServiceError
        When it holds no fit, or one of an estimator that this version has not.

    Warns
    -----
    EstimationWarning
        As `Fit.fit` does.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("one_call")
    >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    >>> import tempfile
    >>> from pathlib import Path
    >>> from analyst_client import load_fit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(Path(folder) / "kappa.json")
    ...     again = load_fit(Path(folder) / "kappa.json")
    >>> again.coef_.round(3).tolist()
    [0.018, -0.073, 1.052]
    """
    try:
        saved = SavedFit.read(Path(path).read_bytes().decode("utf-8"))
        kind = _estimator_named(saved.estimator)
        fit = kind(**saved.parameters | saved.chosen)
        _check_size(fit)
    except UnicodeDecodeError:
        raise ServiceError(f"{path} holds no fit: it is not text in UTF-8") from None
    except (ServiceError, TypeError, ValueError) as error:
        said = str(error).removeprefix("malformed answer: ")
        raise ServiceError(f"{path} holds no fit that this version reads: {said}") from None
    for one in saved.source.named.values():
        for release in one.releases if isinstance(one, Refinement) else [one]:
            if isinstance(release, PublishedAnswer):
                release.check_receipt(path)
    try:
        fit.fit(*saved.source[:2], features=saved.source.features, rows=saved.source.rows)
    except CuratorError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ServiceError(f"{path} holds no fit that can be made again: {error}") from None
    fit.fitted_params_ = fit.set_params(**saved.parameters).get_params()
    return fit


def _check_size(fit: Fit) -> None:
    """Raise `ServiceError` where a fit would draw without end."""
    sizes = [getattr(fit, name, 1) for name in ("draws", "chains")]
    if not all(type(size) is int and size >= 1 for size in sizes) or sizes[0] * sizes[1] > DRAWS_MAX:
        raise ServiceError(f"draws and chains are whole numbers, of {DRAWS_MAX:,} draws together at most")


def _estimator_named(name: str) -> type[Fit]:
    """Return an estimator of this library. Raise `ServiceError` for any other name."""
    package = import_module(ESTIMATORS)  # which imports this module
    kind = getattr(package, name) if name in package.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, Fit)):
        raise ServiceError(f"{name!r} is no estimator of this library")
    return kind
