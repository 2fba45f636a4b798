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
from dataclasses import asdict, is_dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TextIO

import httpx
import numpy as np

from analyst_client.analyses import ContingencyTable
from analyst_client.client import CuratorClient
from analyst_client.display.model import number
from analyst_client.errors import BudgetExceededError, CuratorError, EstimationError, ServiceError
from analyst_client.estimators import LogisticRegression, PoissonRegression
from analyst_client.estimators.base import Fit
from analyst_client.estimators.loading import load_fit
from analyst_client.exports import public_names
from analyst_client.fitting.buying import read_question
from analyst_client.fitting.choice import choose, confirm
from analyst_client.fitting.question import FitOptions
from analyst_client.inference.summary import Summary
from analyst_client.kinds import Axis, CountsRelease, CountsRequest
from analyst_client.kinds.counts import KIND as COUNTS
from analyst_client.schema.amounts import Cost
from analyst_client.schema.requests import choose_key
from analyst_client.spelling import HANDLER, spell
from analyst_client.terms.python import read_condition
from analyst_client.tutorial import ADDRESS, ONE_CALL, Recorded, curator_key, recorded_client

Options = dict[str, Any]
DESCRIBED = ("name", "population", "description", "rows", "row_capacity", "adjacency")
DECLARED = ("name", "type", "lower", "upper", "unit", "missing", "description")
QUESTION = '{"question": true}'
ACCOUNT = ("population", "share_spent", "limit", "posted", "pending", "remaining")
TABLES = (COUNTS, "quote_counts")
"""Acts on tables, of which the tutorial has another recorded session."""
ARGUMENTS = (
    "half_width|epsilon|delta|mu|rho|expected_rows|max_epsilon|guess|project|where|weights?|offset|"
    "family|clip|level|target|rows|intercept"
)
IN_R: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"(?m)^the same as .*\n(?: +.*\n)*", ""),  # Python that does the same
    (r"client\.close_reservation\(", "close_reservation(curator, "),
    (r"client\.reservations\(\)", "reservations(curator)"),
    (r"client\.release\(…, robust=True\) buys robust ones.*client\.refine\(…\)", "a refinement buys robust ones"),
    (r"robust=True buys no others of so few rows at this price; .*? may", "a higher price may buy others"),
    (r"; MarginalsRequest\(.*\) does", ""),
    (r" Ask with a larger norm, or rows='box'\.", ""),
    (r" client\.fetch_release\(.*?\) gives the whole again, for nothing", ""),
    (r"\breservation='(\w+)'", r"the reservation '\1'"),
    (r"client\.refine\(…, family='(\w+)'\)", r"curator_glm(…, family = \1)"),
    (r"client\.refine\(…\)", "a refinement"),
    (r"\bfit OLS\(\)", 'try curator_refit(fit, "OLS")'),
    (r"\bconf_int\(", "confint("),
    (r"\bpredict\(X, interval='mean'\)", 'predict(fit, newdata, interval = "confidence")'),
    (r"pvalues_, f_test\(\) and anova\(\) tell", "summary() and anova() tell"),
    (r" or target='\w+'", ""),
    (r"target=col\('(\w+)'\) > (\d+)", r"\1 > \2 ~ …"),
    (r"half_width=\{(.*?)\}", lambda found: f"half_width = c({_named_in_r(found[1])})"),
    (r"\bidempotency_key=", "key = "),
    (r"(\w+)=True\b", r"\1 = TRUE"),
    (r"(\w+)=False\b", r"\1 = FALSE"),
    (rf"\b({ARGUMENTS})=(?=[\s,.:;]|$)", r"\1"),
    (rf"\b({ARGUMENTS})='(\w+)'", r'\1 = "\2"'),
    (rf"\b({ARGUMENTS})=(?=\S)", r"\1 = "),
]  # fmt: skip
"""Words of Python in texts of the library, and those of R in their place."""


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
                given["client"] = _client(asked["do"], **given.pop("curator"))
            answer["value"] = _ACTS[asked["do"]](**given)
        except (Exception, KeyboardInterrupt) as error:  # R has it, with its class
            answer["error"] = _describe(error)
        said = [one for one in caught if issubclass(one.category, UserWarning)]
        answer["warnings"] = [{"class": _classes(one.category), "message": _in_r(one.message)} for one in said]
    return json.dumps(_plain(answer), allow_nan=False)


def _describe(error: BaseException) -> Options:
    is_own = isinstance(error, CuratorError | ValueError | KeyboardInterrupt)
    fields = {name: value for name, value in vars(error).items() if isinstance(error, CuratorError) and name[0] != "_"}
    if isinstance(error, BudgetExceededError) and "`remaining` is the largest" in str(error):  # of a reservation
        fields["largest"] = error.largest or error.remaining
    said = _in_r(error if is_own else f"{type(error).__name__}: {error}")
    notes = [_in_r(note) for note in getattr(error, "__notes__", [])]
    return {"class": _classes(type(error)), "message": said, "notes": notes, "fields": fields}


def _in_r(shown: object) -> str:
    """Return a text of the library in R's words, and in ASCII where R can show no more."""
    text = str(shown)
    for pattern, words in IN_R:
        text = re.sub(pattern, words, text)
    return spell(text)


def _named_in_r(pairs: str) -> str:
    """Return the inside of a dict as that of a vector with names."""
    named = re.sub(r"'([A-Za-z]\w*)': ", r"\1 = ", pairs)
    return re.sub(r"'([^']+)': ", r"`\1` = ", named)


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


def _client(do: str, url: str | None, token: str | None, key: str | None, session: str) -> CuratorClient:
    """Return the client of an R session's curator: without an address that of the tutorial."""
    if url is not None:
        return _served(url, token or "", key, session)
    if do in TABLES:
        return recorded_client("paper")
    replay = _replay(session)
    replay.place = replay.charged if do == "budget" else 0
    return CuratorClient(ADDRESS, "a-token", key=curator_key("one_call"), memory=None, max_attempts=1, transport=replay)


@cache
def _served(url: str, token: str, key: str | None, session: str) -> CuratorClient:
    del session
    return CuratorClient(url, token, key=key)


class _Replay(Recorded):
    """The tutorial's curator: its fits are bought in any order, and its budget is that after the last of them.

    An answer is the first at or after `place`, where the act has come to in what was recorded; `charged` is the place
    of the last charge of an R session.
    """

    def __init__(self) -> None:
        super().__init__(ONE_CALL)
        self.place = self.charged = 0

    def take(self, found: list[int], request: httpx.Request) -> Options:
        """Return the answer at or after the place, and go there where the request is an act."""
        place = next((k for k in found if k >= self.place), found[-1])
        if request.method == "POST":
            self.place = place
            if not request.url.path.endswith("/quotes"):
                self.charged = max(self.charged, place)
        return self.answers[place]


@cache
def _replay(session: str) -> _Replay:
    del session
    return _Replay()


def _datasets(client: CuratorClient, data: str | None = None) -> Options:
    """Describe datasets, or the columns of one."""
    if data is None:
        return {name: [getattr(one, name) for one in client.datasets()] for name in DESCRIBED}
    columns = client.dataset(data).columns
    told = {name: [getattr(column, name) for column in columns] for name in DECLARED}
    return told | {"levels": [", ".join(column.levels) for column in columns]}


def _budget(client: CuratorClient, data: str) -> Options:
    found = client.budget(data)
    return {"text": _in_r(found)} | {name: getattr(found, name) for name in ACCOUNT}


def _reservations(client: CuratorClient, close: str | None = None) -> Options:
    """List what is held, or give one back."""
    return {"text": _in_r(client.reservations() if close is None else client.close_reservation(close))}


def _said(options: Options) -> Options:
    said = {name: value for name, value in options.items() if value is not None}
    return said | ({"offset": read_condition(said["offset"])} if "offset" in said else {})


def _quote(client: CuratorClient, formula: str, data: str, options: Options) -> Options:
    """Return the choice among ways to a model, with its price."""
    said = _said(options)
    asked: Any = {name: said[name] for name in FitOptions.__annotations__ if name in said}
    price = {name: said.get(name) for name in ("epsilon", "delta", "mu", "rho")}
    question = read_question(client, data, formula, asked, price, said.get("half_width"), said.get("guess", {}))
    choice = choose(question, even_so=True)
    cost = {} if choice.taken.cost is None else asdict(choice.taken.cost)
    return {"text": _in_r(f"{choice}\n")[:-1], "affordable": choice.taken.affordable, **cost}


def _fit(client: CuratorClient, formula: str, data: str, options: Options, *, yes: bool, progress: bool) -> Options:
    """Charge for a model, and return its fit."""
    fit = client.fit(formula, data=data, yes=yes, progress=progress, **_said(options))
    source = _saved(fit)
    return {"source": source, "charge": _charge(client, data, fit.choice_.taken.cost)} | _show(source)


def _charge(client: CuratorClient, data: str, cost: Cost | None) -> str | None:
    """Say what was charged, and what is left; None where it was free."""
    if cost is None:
        return None
    said = f"charged: ε = {number(cost.epsilon)} at δ = {number(cost.delta)}"
    with contextlib.suppress(CuratorError):  # what was bought is not lost for this
        budget = client.budget(data)
        left = f"ε = {number(budget.remaining.epsilon)} at δ = {number(budget.remaining.delta)}"
        said += f"; left in the budget of {budget.population}: {left}"
    return _in_r(said)


def _refit(source: str, estimator: str | None, params: Options) -> Options:
    """Return another fit of the same releases, which costs nothing."""
    fit, known = _read(source), [name for name in public_names("analyst_client.estimators") if name[0].isupper()]
    own = type(fit).__name__
    if estimator is None:
        estimator = own if hasattr(fit, "refined_") or isinstance(fit, LogisticRegression) else "OLS"
    if estimator not in known:
        raise ValueError(f"there is no estimator {estimator!r}; there are {', '.join(known)}")
    other = json.dumps(json.loads(source) | {"estimator": estimator, "parameters": params, "chosen": {}})
    try:
        return {"source": other} | _show(other)
    except ServiceError as error:  # which speaks of a file
        refused = ValueError(str(error.__context__ or error))
        if hasattr(fit, "refined_"):
            refused.add_note(f"this fit was bought in steps for one model, and its own estimator is {own}")
        raise refused from None


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
    told |= {"target": fit.target_names_[0], "summary": _in_r(_summary(fit, level))}
    with contextlib.suppress(EstimationError):
        told |= {"caveats": [_in_r(one) for one in fit.caveats(level)], "vcov": fit.cov_params()}
        told |= {"tidy": fit.tidy(level).to_dict("list"), "glance": fit.glance(level).to_dict("list")}
    return told


def _summary(fit: Fit, level: float) -> Summary:
    """Return a summary with R's name of the constant, and its notes in R's words."""
    found = fit.summary(level)
    rows = tuple((re.sub(r"^\(constant\)$", "(Intercept)", name), *others) for name, *others in found.rows)
    return replace(found, rows=rows, notes=tuple(_in_r(note) for note in found.notes))


def _anova(source: str) -> Options:
    found = _read(source).anova()
    tests = [row.test for row in found.rows]
    columns = {"df": "constraints", "residual_df": "dof", "statistic": "statistic", "p_value": "pvalue"}
    told = {name: [getattr(test, member) for test in tests] for name, member in columns.items()}
    return {"title": _in_r(found.title), "terms": [row.source for row in found.rows], **told}


def _predict(source: str, rows: Options, scale: str, interval: str, level: float, clip: bool | None) -> Any:
    """Return predictions, with intervals where one is asked for, on the scale of the response or of the link."""
    fit: Any = _read(source)
    found = fit.predict_proba(rows, clip)[:, 1] if isinstance(fit, LogisticRegression) else fit.predict(rows, clip)
    if interval != "none":
        if not hasattr(fit, "predict_interval"):
            raise ValueError(f"a {type(fit).__name__} has predictions, and no intervals of them: interval = 'none'")
        ends = fit.predict_interval(rows, level, mean=interval == "confidence", clip=clip is not False)
        found = np.column_stack([found, ends])
    with np.errstate(divide="ignore"):
        if scale == "link" and isinstance(fit, LogisticRegression):
            return np.log(found) - np.log1p(-found)
        return np.log(found) if scale == "link" and isinstance(fit, PoissonRegression) else found


def _counts(client: CuratorClient, data: str, axes: list[Options], options: Options, key: str, *, yes: bool) -> Options:
    """Charge for a table after a yes, and return it."""
    even_so = bool(options.pop("even_so", False))
    request = _counts_request(client, data, axes, options)
    quote = client.quote(data, request)
    is_free = not request.fresh and (quote.stored_release is not None or quote.derivable_from is not None)
    confirm(quote, is_free=is_free, yes=yes, show=False)
    release = client.release(data, request, idempotency_key=key, even_so=even_so)
    source = _keep_counts(release)
    charge = _charge(client, data, release.cost if release.answer == "new" else None)
    return {"source": source, "charge": charge} | _table(source)


def _quote_counts(client: CuratorClient, data: str, axes: list[Options], options: Options) -> Options:
    options.pop("even_so", None)
    quote = client.quote(data, _counts_request(client, data, axes, options))
    return {"text": _in_r(quote), "affordable": quote.affordable, **asdict(quote.cost)}


def _counts_request(client: CuratorClient, data: str, axes: list[Options], options: Options) -> CountsRequest:
    table = [Axis(read_condition(axis["column"]), axis.get("edges")) for axis in axes]
    said = _said(options)
    if "weights" in said:
        said["weight"] = said.pop("weights")
    if "epsilon" in said and said.get("mechanism") != "laplace":
        said["delta"] = said.get("delta") or client.budget(data).delta
    return CountsRequest([table], **said)


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
    told = {"labels": {axis.name: axis.labels for axis in counts.axes}, "text": _in_r(release)}
    columns = {"count": counts.values, "sd": counts.sd * np.ones(counts.shape)}
    columns |= {"conf_low": ends[..., 0], "conf_high": ends[..., 1]}
    return told | {name: values.ravel(order="F") for name, values in columns.items()}


def _independence(source: str) -> Options:
    found = ContingencyTable.from_counts(_read_counts(source).tables[0]).independence_test()
    return {"text": _in_r(found), "statistic": found.statistic, "parameter": found.dof, "p_value": found.pvalue}


_ACTS: Mapping[str, Any] = {
    "datasets": _datasets, "budget": _budget, "reservations": _reservations, "key": lambda: choose_key(None),
    "quote": _quote, "fit": _fit, "refit": _refit, "show": _show, "anova": _anova, "predict": _predict,
    "latex": lambda source, level: _summary(_read(source), level).to_latex(),
    "intervals": lambda source, **asked: _read(source).conf_int(**asked),
    COUNTS: _counts, "quote_counts": _quote_counts, "table": _table, "independence": _independence,
}  # fmt: skip


class _Terminal(io.TextIOWrapper):
    """R's own error stream at the end of a pipe: R shows progress as it comes."""

    def isatty(self) -> bool:
        """Return True, so that progress is written."""
        return True

    def write(self, text: str, /) -> int:
        """Write what the library shows, in R's words."""
        return super().write(_in_r(text))


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
    encoding = "ascii" if "ascii" in sys.argv else "utf-8"  # of all that is shown
    stream = os.fdopen(os.dup(2), "wb", buffering=0)
    sys.stdout = sys.stderr = _Terminal(stream, encoding=encoding, errors=HANDLER, write_through=True)
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
