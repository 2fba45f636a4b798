"""Answer an R session: ``python -m analyst_client.r_adapter`` reads a request a line, and writes an answer a line.

The R package ``curator`` (r/) starts it. Requests and answers are JSON. A request names its curator, and holds the
texts of the releases that its fit was made on. So nothing is lost with this process.
"""

import contextlib
import io
import json
import math
import os
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from analyst_client import estimators
from analyst_client.analyses import ContingencyTable
from analyst_client.client import CuratorClient
from analyst_client.errors import CuratorError, EstimationError, NotConfirmedError
from analyst_client.estimators.base import Fit
from analyst_client.estimators.loading import load_fit
from analyst_client.exports import public_names
from analyst_client.fitting.buying import read_question
from analyst_client.fitting.choice import choose
from analyst_client.fitting.question import FitOptions
from analyst_client.kinds import Axis, CountsRelease, CountsRequest
from analyst_client.schema.requests import choose_key
from analyst_client.terms.python import read_condition
from analyst_client.tutorial import recorded_client

Options = dict[str, Any]
DESCRIBED = ("name", "population", "description", "rows", "row_capacity", "adjacency")
DECLARED = ("name", "type", "lower", "upper", "unit", "missing", "description")
QUESTION = '{"question": true}'
ACCOUNT = ("population", "share_spent", "limit", "posted", "pending", "remaining")


def call(text: str) -> str:
    """Answer one request.

    Parameters
    ----------
    text : str
        JSON of an object: ``do`` names the act, ``with`` has its arguments.

    Returns
    -------
    str
        JSON of an object: ``value``, or ``error`` with its ``class``, ``message``, ``notes`` and ``fields``; and
        ``warnings``. A number that is not finite is a text, such as ``"Inf"``.
    """
    answer: Options = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            asked = json.loads(text)
            given = asked["with"]
            if "curator" in given:
                given["client"] = _client(**given.pop("curator"))
            answer["value"] = _ACTS[asked["do"]](**given)
        except (Exception, KeyboardInterrupt) as error:  # R has it, with its class
            answer["error"] = _describe(error)
        said = [one for one in caught if issubclass(one.category, UserWarning)]
        answer["warnings"] = [{"class": _classes(one.category), "message": str(one.message)} for one in said]
    return json.dumps(_plain(answer), allow_nan=False)


def _describe(error: BaseException) -> Options:
    is_own = isinstance(error, CuratorError | ValueError | KeyboardInterrupt)
    fields = {name: value for name, value in vars(error).items() if isinstance(error, CuratorError) and name[0] != "_"}
    said = str(error) if is_own else f"{type(error).__name__}: {error}"
    return {"class": _classes(type(error)), "message": said, "notes": getattr(error, "__notes__", []), "fields": fields}


def _classes(kind: type[BaseException]) -> list[str]:
    """Return the names of a class and its bases, up to those of Python's that have no own meaning."""
    names = [one.__name__ for one in kind.__mro__ if one not in {BaseException, Exception, Warning, object}]
    return [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Error")).lower() for name in names]


def _plain(value: Any) -> Any:
    """Return what JSON has of a value."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    if hasattr(value, "text"):  # a release, which is not lost with the error that it came with
        return value.text
    return _plain(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else str(value)


@cache
def _client(url: str | None, token: str | None, key: str | None, session: str) -> CuratorClient:
    """Return the client of an R session's curator: without an address that of the tutorial, each begun anew."""
    del session
    return recorded_client() if url is None else CuratorClient(url, token or "", key=key)


def _datasets(client: CuratorClient, data: str | None = None) -> Options:
    """Describe datasets, or the columns of one."""
    if data is None:
        return {name: [getattr(one, name) for one in client.datasets()] for name in DESCRIBED}
    columns = client.dataset(data).columns
    told = {name: [getattr(column, name) for column in columns] for name in DECLARED}
    return told | {"levels": [", ".join(column.levels) for column in columns]}


def _budget(client: CuratorClient, data: str) -> Options:
    found = client.budget(data)
    return {"text": str(found)} | {name: getattr(found, name) for name in ACCOUNT}


def _reservations(client: CuratorClient, close: str | None = None) -> Options:
    """List what is held, or give one back."""
    return {"text": str(client.reservations() if close is None else client.close_reservation(close))}


def _said(options: Options) -> Options:
    said = {name: value for name, value in options.items() if value is not None}
    return said | ({"offset": read_condition(said["offset"])} if "offset" in said else {})


def _quote(client: CuratorClient, formula: str, data: str, options: Options) -> Options:
    """Return the price of a model: of the choice among ways to it, or of one release where a row map is said."""
    said = _said(options)
    if "rows" in said:
        quote = client.quote(data, formula, **said)
        return {"text": str(quote), "affordable": quote.affordable, **asdict(quote.cost)}
    asked: Any = {name: said[name] for name in FitOptions.__annotations__ if name in said}
    price = {name: said.get(name) for name in ("epsilon", "delta", "mu", "rho")}
    question = read_question(client, data, formula, asked, price, said.get("half_width"), said.get("guess", {}))
    choice = choose(question, even_so=True)
    cost = {} if choice.taken.cost is None else asdict(choice.taken.cost)
    return {"text": str(choice), "affordable": choice.taken.affordable, "call": choice.call, **cost}


def _buy(client: CuratorClient, formula: str, data: str, options: Options, *, yes: bool, progress: bool) -> Fit:
    """Charge for a model, and return its fit."""
    said = _said(options)
    if "rows" not in said:
        return client.fit(formula, data=data, yes=yes, progress=progress, **said)
    if not yes:
        sys.stderr.write(_quote(client, formula, data, options)["text"] + "\n")
        if not sys.stdin.isatty():
            raise NotConfirmedError("nobody can be asked here: say yes=True to buy at the price that is shown")
        if input("Buy it? [y/N] ").strip().lower() not in {"y", "yes"}:
            raise NotConfirmedError("not bought")
    return estimators.AdaSSP().fit(client.release(data, formula, **said))


def _fit(client: CuratorClient, formula: str, data: str, options: Options, *, yes: bool, progress: bool) -> Options:
    fit = _buy(client, formula, data, options, yes=yes, progress=progress)
    source = _saved(fit)
    return {"source": source} | _show(source)


def _refit(source: str, estimator: str, params: Options) -> Options:
    """Return another fit of the same releases, which costs nothing."""
    known = [name for name in public_names("analyst_client.estimators") if name[0].isupper()]
    if estimator not in known:
        raise ValueError(f"there is no estimator {estimator!r}; there are {', '.join(known)}")
    other = json.dumps(json.loads(source) | {"estimator": estimator, "parameters": params, "chosen": {}})
    return {"source": other} | _show(other)


def _saved(made: Any) -> str:
    """Return the text of the file that a fit or a release is saved as."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.json"
        made.save(path)
        return path.read_text(encoding="utf-8")


def _loaded(load: Callable[[Path], Any], text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.json"
        path.write_text(text, encoding="utf-8")
        return load(path)


@lru_cache(maxsize=64)
def _read(source: str) -> Fit:
    """Return a fit of what R kept of it; what it warns of was said when it was bought."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit: Fit = _loaded(load_fit, source)
    return fit


def _show(source: str, level: float = 0.95) -> Options:
    """Return all that a fit tells at a level, as plain values; of points alone neither errors nor tests."""
    fit = _read(source)
    told: Options = {"terms": fit.param_names_, "coefficients": fit.params_, "columns": fit.feature_names_in_}
    told |= {"target": fit.target_names_[0], "summary": str(fit.summary(level))}
    with contextlib.suppress(EstimationError):
        told |= {"caveats": fit.caveats(level), "vcov": fit.cov_params()}
        told |= {"tidy": fit.tidy(level).to_dict("list"), "glance": fit.glance(level).to_dict("list")}
    return told


def _intervals(source: str, level: float, *, simultaneous: bool = False) -> Any:
    return _read(source).conf_int(level, simultaneous=simultaneous)


def _anova(source: str) -> Options:
    found = _read(source).anova()
    tests = [row.test for row in found.rows]
    columns = {"df": "constraints", "residual_df": "dof", "statistic": "statistic", "p_value": "pvalue"}
    told = {name: [getattr(test, member) for test in tests] for name, member in columns.items()}
    return {"title": found.title, "terms": [row.source for row in found.rows], **told}


def _predict(source: str, rows: Options, scale: str, interval: str, level: float, clip: bool | None) -> Any:
    """Return predictions, with intervals where one is asked for."""
    fit: Any = _read(source)
    is_binary = hasattr(fit, "predict_proba")
    if interval != "none":
        if not hasattr(fit, "predict_interval"):
            raise ValueError(f"a {type(fit).__name__} has predictions, and no intervals of them: interval = 'none'")
        ends = fit.predict_interval(rows, level, mean=interval == "confidence", clip=clip)
        return np.column_stack([fit.predict(rows, clip=clip is not False), ends])
    if is_binary:
        return fit.decision_function(rows, clip) if scale == "link" else fit.predict_proba(rows, clip)[:, 1]
    found = fit.predict(rows, clip)
    return np.log(found) if scale == "link" and hasattr(fit, "dispersion_") else found


def _counts(client: CuratorClient, data: str, axes: list[Options], options: Options, key: str) -> Options:
    table = [Axis(read_condition(axis["column"]), axis.get("edges")) for axis in axes]
    said = _said(options)
    if "weights" in said:
        said["weight"] = said.pop("weights")
    if "epsilon" in said and said.get("mechanism") != "laplace":
        said["delta"] = said.get("delta") or client.budget(data).delta
    request = CountsRequest([table], **said)
    source = _keep_counts(client.release(data, request, idempotency_key=key))
    return {"source": source} | _table(source)


def _keep_counts(release: CountsRelease) -> str:
    return json.dumps({"text": _saved(release), "order": release.order})


def _read_counts(source: str) -> CountsRelease:
    kept = json.loads(source)
    release: CountsRelease = _loaded(CountsRelease.load, kept["text"])
    return release.in_order(kept["order"])


def _table(source: str, level: float = 0.95) -> Options:
    """Return the table of a release of counts, in the order of R: the first axis runs fastest."""
    release = _read_counts(source)
    (counts,) = release.tables
    ends = counts.interval(level)
    told = {"labels": {axis.name: axis.labels for axis in counts.axes}, "text": str(release)}
    columns = {"count": counts.values, "sd": counts.sd * np.ones(counts.shape)}
    columns |= {"conf_low": ends[..., 0], "conf_high": ends[..., 1]}
    return told | {name: values.ravel(order="F") for name, values in columns.items()}


def _independence(source: str) -> Options:
    found = ContingencyTable.from_counts(_read_counts(source).tables[0]).independence_test()
    return {"text": str(found), "statistic": found.statistic, "parameter": found.dof, "p_value": found.pvalue}


_ACTS: Mapping[str, Any] = {
    "datasets": _datasets, "budget": _budget, "reservations": _reservations, "key": lambda: choose_key(None),
    "quote": _quote, "fit": _fit, "refit": _refit, "show": _show, "intervals": _intervals, "anova": _anova,
    "predict": _predict, "counts": _counts, "table": _table, "independence": _independence,
}  # fmt: skip


class _Terminal(io.TextIOWrapper):
    """R's own error stream at the end of a pipe: R shows progress as it comes."""

    def isatty(self) -> bool:
        """Return True, so that progress is written."""
        return True


class _Desk(io.TextIOBase):
    """Somebody at R: a question to them is a line among the answers, and what they say the next line that is read."""

    def __init__(self, requests: TextIO, answers: TextIO, *, is_attended: bool) -> None:
        self._requests, self._answers, self._is_attended = requests, answers, is_attended

    def isatty(self) -> bool:
        """Return True if there is somebody."""
        return self._is_attended

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        """Ask."""
        self._answers.write(QUESTION + "\n")
        self._answers.flush()
        return self._requests.readline()


def main() -> None:
    """Answer requests until there are no more. An interruption ends the request that is worked on, and nothing else."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed is no answer
    sys.stdin = _Desk(requests, answers, is_attended="attended" in sys.argv)
    sys.stdout = sys.stderr = _Terminal(os.fdopen(os.dup(2), "wb", buffering=0), encoding="utf-8", write_through=True)
    while request := requests.readline():
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            answer = call(request)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt as late:  # beside the work itself: what was charged is stored
            answer = json.dumps({"error": _describe(late), "warnings": []})
        answers.write(answer + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
