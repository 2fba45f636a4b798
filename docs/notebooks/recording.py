"""Record anew what `analyst_client.tutorial` plays back: sessions with a real server on the flchain cohort.

``python docs/notebooks/recording.py first_fit`` (``paper``, ``one_call``) starts the server as the demo does, and asks
what the notebook asks. New noise gives new numbers: run the notebook afterwards (``make notebooks``), and read it.
``methods`` asks what the examples of the client's docstrings ask, and records ``administration`` beside it: new noise
changes some of their numbers, too.
"""

import base64
import csv
import gzip
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from analyst_client import (
    OLS,
    Axis,
    BudgetExceededError,
    CountsRequest,
    CuratorAdmin,
    CuratorClient,
    Curators,
    EstimationError,
    MarginalsRequest,
    Moments,
    Release,
    RequestInvalidError,
    Tree,
    UselessRequestError,
)
from analyst_client.errors import (
    ConflictError,
    DatasetNotFoundError,
    JobEndedError,
    JobVoidedError,
    PermissionDeniedError,
    PermitNeededError,
    ReservationEndedError,
    ReservationNotFoundError,
    SessionEndedError,
    SessionNotFoundError,
    SurveyError,
)
from analyst_client.kinds import Flat, ScoreRequest
from analyst_client.local import RandomizedResponse, find_survey, give_report, survey_terms
from analyst_client.terms import col, poly
from analyst_client.tutorial import (
    ADMINISTRATION,
    ANSWERS,
    EXACT,
    HELD_OUT,
    KEY,
    METHODS,
    METHODS_KEY,
    ONE_CALL,
    ONE_CALL_KEY,
    PAPER,
    PAPER_EXACT,
    PAPER_KEY,
    RELEASE,
    REQUEST,
    describe,
)

KEPT_HEADERS = ("content-type", "curator-answer")


class Recorder(httpx.BaseTransport):
    """Pass requests on, and keep what was answered."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and keep its answer."""
        response = self.inner.handle_request(request)
        content = response.read()
        headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        is_text = "json" in headers["content-type"]
        kept = {"text": content.decode("utf-8")} if is_text else {"base64": base64.b64encode(content).decode("ascii")}
        self.answers.append({"request": describe(request), "status": response.status_code, "headers": headers, **kept})
        return httpx.Response(response.status_code, headers=response.headers, content=content)


def ask(client: CuratorClient, recorder: Recorder) -> Release:
    """Ask what the notebook asks; return the release that it keeps."""
    client.dataset("flchain")
    client.budget("flchain")
    client.quote("flchain", **REQUEST, epsilon=1.0)
    release = client.release("flchain", **REQUEST, epsilon=1.0)
    client.budget("flchain")
    try:
        client.release("flchain", **REQUEST, epsilon=5.0)
    except BudgetExceededError as refusal:
        print(refusal)
    # Fresh, because a request is answered from a stored release that is quieter.
    client.quote("flchain", **REQUEST, epsilon=0.1, fresh=True)
    kept = len(recorder.answers)
    while is_definite(client.release("flchain", **REQUEST, epsilon=0.1, fresh=True)):
        del recorder.answers[kept:]  # the page shows what too small an ε may look like, as about every second draw does
    return release


def is_definite(release: Release) -> bool:
    """Tell whether least squares has a solution."""
    try:
        OLS().fit(release)
    except EstimationError:
        return False
    return True


def record_first_fit(demo: Any) -> None:
    """Record a session with a real server, and what no analyst has: exact statistics, and people held out."""
    from cohort import FEATURES, TARGET  # noqa: PLC0415 -- lies beside the demo

    split = demo.load_split()
    split.write_registered(demo.OUTPUT / "cohort.csv")
    with serve(demo, demo.HERE / "manifest.toml", demo.OUTPUT / "cohort.csv") as (client, recorder):
        release = ask(client, recorder)
    release.save(RELEASE)
    names = [*FEATURES, TARGET]
    registered = dict(zip(names, split.table(split.registered).T, strict=True))
    Release.from_public(registered, release).save(EXACT)
    with HELD_OUT.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *split.table(split.held_out)])
    store(recorder, ANSWERS, KEY)


ONE_CALLS = (["age", "sex", "creatinine"], [poly("age", 2), "sex", "creatinine"])
"""Features of the models of the notebook of one call, and of the README."""


def record_one_call(demo: Any) -> None:
    """Record fits of two models, each in one call."""
    with serve(demo, demo.HERE / "manifest.toml", demo.HERE / "flchain.csv") as (client, recorder):
        client.datasets()
        client.dataset("flchain")
        for features in ONE_CALLS:
            client.budget("flchain")
            client.fit(features, target="kappa", data="flchain", epsilon=1.0, yes=True)
        client.budget("flchain")
    recorder.answers = each_once(recorder.answers)
    store(recorder, ONE_CALL, ONE_CALL_KEY)


def each_once(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what was answered to the same request before, in the same words."""
    found = {json.dumps([answer["request"], answer.get("text")]): answer for answer in reversed(answers)}
    return list(reversed(found.values()))


HIGH = col("kappa") + col("lambda") >= 4.72
PAPER_REQUESTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (["age", "sex", "kappa", "lambda", "mgus", HIGH], {"rows": "box", "statistics": ["xtx"], "epsilon": 1.3}),
    (
        CountsRequest(
            [[Axis("futime", edges=[*(365.25 * year for year in range(15)), 5500]), "death", HIGH]],
            epsilon=1.0,
            delta=1e-6,
        ),
        {},
    ),
    (
        "I(death & (futime <= 1826)) ~ age + sex + max(0.5, min(creatinine, 2)) + I(kappa + lambda >= 4.72)",
        {"expected_rows": 7000, "epsilon": 1.6},
    ),
)
"""What the notebook of the paper asks: all within ε = 3."""


def record_paper(demo: Any) -> None:
    """Record the three requests of the paper, and the same figures from the rows."""
    with serve(demo, demo.HERE / "paper.toml", demo.HERE / "flchain.csv") as (client, recorder):
        client.budget("flchain")
        for request, options in PAPER_REQUESTS:
            stated = options | ({"delta": 1e-6} if options else {})
            client.quote("flchain", request, **stated)
            client.release("flchain", request, **stated)
        client.budget("flchain")
    PAPER_EXACT.write_text(json.dumps(exact_figures(demo.HERE / "flchain.csv"), indent=1) + "\n", encoding="utf-8")
    store(recorder, PAPER, PAPER_KEY)


def exact_figures(path: Path) -> dict[str, Any]:
    """Return what the notebook shows beside the noisy figures: means and shares, survival, rates, the regression."""
    import pandas as pd  # noqa: PLC0415 -- statsmodels and pandas serve this recording alone
    import statsmodels.formula.api as smf  # noqa: PLC0415
    from statsmodels.duration.hazard_regression import PHReg  # noqa: PLC0415
    from statsmodels.duration.survfunc import SurvfuncRight  # noqa: PLC0415

    rows = pd.read_csv(path)
    rows["high"] = rows["kappa"] + rows["lambda"] >= 4.72
    rows["dead"] = rows["death"] == "dead"
    rows["early"] = (rows["dead"] & (rows["futime"] <= 1826)).astype(float)
    rows["renal"] = rows["creatinine"].clip(0.5, 2.0)
    numbers = {
        name: rows[name].clip(*bounds) for name, bounds in {"age": (50, 100), "kappa": (0, 6), "lambda": (0, 6)}.items()
    }
    shares = {"sex": rows["sex"] == "M", "mgus": rows["mgus"] == "yes"}
    groups = {"all": rows["high"].notna(), "false": ~rows["high"], "true": rows["high"]}
    table = {
        name: {group: float(values[chosen].mean()) for group, chosen in groups.items()}
        for name, values in (numbers | shares).items()
    }
    curves = {}
    for group in ("false", "true"):
        curve = SurvfuncRight(rows["futime"][groups[group]], rows["dead"][groups[group]])
        curves[group] = [float(curve.surv_prob[curve.surv_times <= 365.25 * year][-1]) for year in range(1, 15)]
    rates = {name: float(rows["dead"][chosen].sum() / rows["futime"][chosen].sum()) for name, chosen in groups.items()}
    complete = rows.dropna(subset=["creatinine"])
    fit = smf.ols("early ~ age + sex + renal + high", complete).fit()
    adjusted = complete[["age", "renal", "high"]].astype(float).assign(male=(complete["sex"] == "M").astype(float))
    cox = PHReg(complete["futime"] + 0.5, adjusted, status=complete["dead"]).fit()
    place = list(adjusted.columns).index("high")
    ends = cox.conf_int()[place]
    return {
        "rows": {group: int(chosen.sum()) for group, chosen in groups.items()},
        "means": table,
        "survival": curves,
        "rate_ratio": rates["true"] / rates["false"],
        "coefficients": dict(zip(fit.params.index, map(float, fit.params), strict=True)),
        "intervals": {name: list(map(float, row)) for name, row in fit.conf_int().iterrows()},
        "hazard_ratio": [float(math.exp(value)) for value in (cox.params[place], *ends)],
    }


ASKED: dict[str, Any] = {"target": "kappa", "rows": "box", "delta": 1e-6}
QUESTION = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1, study="smoking 2026")
REPORT = {"question": QUESTION.digest, "token": 16 * "5a", "answer": 1}
LONG_PACE = "100"
"""A job shall still run when it is cancelled."""


def record_methods(demo: Any) -> None:
    """Record what the examples of docstrings ask, in an order that suits each of them by itself."""
    hospital, token = open_hospital(demo, demo.HERE / "manifest.toml", demo.HERE / "flchain.csv")
    roles = ("--role", "privacy_officer", "--role", "steward", "--days", "3650")
    officer = json.loads(hospital.run("tokens", "create", "rita", *roles, "--json"))["token"]
    hospital.environment["CURATOR_PACE"] = LONG_PACE
    recorder, of_officer = Recorder(), Recorder()
    with (
        hospital.serve() as url,
        CuratorClient(url, token, memory=None, transport=recorder) as client,
        CuratorAdmin(url, officer, transport=of_officer) as admin,
    ):
        ask_survey(url, client, admin, recorder)
        ask_of_curator(client)
        ask_of_budget(client)
        ask_of_kinds(client)
        ask_of_sessions(client)
        admin.list_populations()
        admin.list_spending(by=["analyst"])
        admin.list_entries("olmsted", limit=3)
        admin.list_register(limit=3)
        admin.get_checkpoint("olmsted")
        admin.list_keys()
        with suppress(SessionNotFoundError):
            admin.close_session("ses_0")
        with suppress(PermissionDeniedError):
            admin.create_token("joe", ["analyst"])
    recorder.answers = each_once(recorder.answers)
    store(recorder, METHODS, METHODS_KEY)
    store(of_officer, ADMINISTRATION, METHODS_KEY)


def ask_survey(url: str, client: CuratorClient, admin: CuratorAdmin, recorder: Recorder) -> None:
    """Open a survey, let thirty people answer, of whom one is recorded, and read their reports."""
    admin.open_survey(survey_terms("smoking", QUESTION, reports_max=500, participants="anyone"))
    for number in range(30):
        give_report(url, "smoking", QUESTION.report("yes" if number < 10 else "no"))
    find_survey(url, "smoking", transport=recorder)
    with suppress(SurveyError):
        find_survey(url, "diet", transport=recorder)
    give_report(url, "smoking", REPORT, transport=recorder)
    client.survey_reports("smoking")


def ask_of_curator(client: CuratorClient) -> None:
    """Ask for what is known of the caller, of datasets and of permits."""
    client.whoami()
    client.datasets()
    client.dataset("flchain")
    client.permits()
    proposal = client.ask_permit(
        "kidney",
        ["flchain"],
        people=["anna"],
        purpose="Kidney function and free light chains",
        legal_basis="Approved by the review board",
        expires_at="2035-12-31T23:59:59Z",
        limit={"epsilon": 1.0, "delta": 1e-6},
        reason="The study begins in January",
    )
    client.proposals()
    client.proposal(proposal)
    client.answer(proposal, "Two models of three years, as in the protocol")
    client.withdraw(proposal, "The study was put off")
    with suppress(ConflictError):
        client.withdraw(proposal)
    with suppress(DatasetNotFoundError):
        client.dataset("nhanes")


def ask_of_budget(client: CuratorClient) -> None:
    """Ask for prices, buy, reserve, and look for what was bought."""
    client.budget("flchain")
    client.quote("flchain", ["age", "sex", "creatinine"], target="kappa", epsilon=0.5, delta=1e-6)
    release = client.release("flchain", ["age", "sex", "creatinine"], target="kappa", epsilon=0.5, delta=1e-6)
    client.releases("flchain")
    client.fetch_release(release.id)
    with tempfile.TemporaryDirectory() as folder:
        client.evidence(release.id, Path(folder) / "evidence.zip")
    held = client.reserve("flchain", epsilon=0.2, delta=1e-6, expires_in_s=3600)
    client.reservations()
    client.reservation(held.id)
    client.close_reservation(held)
    with suppress(ReservationEndedError):
        client.release("flchain", ["age"], reservation=held.id, epsilon=0.1, **ASKED)
    with suppress(ReservationNotFoundError):
        client.reservation("res_0")
    with suppress(PermitNeededError):
        client.release("flchain", ["age"], project="heart", epsilon=0.1, **ASKED)
    with suppress(RequestInvalidError):
        client.quote("flchain", CountsRequest([Axis("age", edges=[50, 101])], epsilon=0.5, delta=1e-6))
    with suppress(UselessRequestError):
        client.release("flchain", ["age"], where="age > 100", epsilon=0.1, **ASKED)
    job = client.submit_release("flchain", ["age"], where="age >= 60", epsilon=0.1, **ASKED)
    client.jobs()
    client.job(job)
    client.wait(job)
    with suppress(JobEndedError):
        client.cancel(job)
    cancelled = client.cancel(client.submit_release("flchain", ["age"], where="age >= 70", epsilon=0.1, **ASKED))
    with suppress(JobVoidedError):
        client.wait(cancelled.id)
    Curators({"north": client}).plan("flchain", ["age", "sex"], epsilon=0.1, **ASKED).buy()


def ask_of_kinds(client: CuratorClient) -> None:
    """Ask for powers of a column, counts, marginals and a score."""
    client.release("flchain", [poly("age", 2), "sex"], **ASKED, epsilon=0.5)
    for request in (
        CountsRequest([["sex", Axis("age", edges=[50, 60, 70, 100])]], epsilon=0.5, delta=1e-6),
        MarginalsRequest([Tree(["age"]), Flat(["kappa"]), Moments(["age"])], epsilon=0.5, delta=1e-6),
        ScoreRequest(
            ["age"],
            "kappa",
            coefficients={"age": 0.3},
            directions={"(constant)": [1, 0], "age": [0, 1]},
            norm=2.0,
            epsilon=0.5,
            delta=1e-6,
        ),
    ):
        client.quote("flchain", request)
        client.release("flchain", request)


def ask_of_sessions(client: CuratorClient) -> None:
    """Ask for the terms of a threshold session, hold one, and run a watch."""
    client.threshold_terms("flchain", positives=1, epsilon=0.2)
    with client.threshold_session("flchain", positives=1, epsilon=0.2) as session:
        session.above(4000, where="creatinine > 2")
        session.above(1000, where="age >= 60")
        with suppress(SessionEndedError):
            session.above(100, where="age >= 90")
    far = {"above the line": "kappa > 3 and age < 60", "creatinine": "creatinine > 2.5"}
    watch = client.watch_model("kappa of 2026", "flchain", far, threshold=2000, epsilon=0.1)
    watch.price(12)
    watch.run()


def open_hospital(demo: Any, manifest: Path, rows: Path) -> tuple[Any, str]:
    """Register a dataset with a budget of ε = 3; return the hospital, and the token of an analyst."""
    hospital = demo.Hospital(demo.OUTPUT / "curator-data")
    budget = ("--adjacency", "add_remove", "--epsilon", "3", "--delta", "1e-6")
    hospital.run("populations", "create", "olmsted", *budget)
    hospital.run("datasets", "add", str(manifest), str(rows))
    made = hospital.run("tokens", "create", "anna", "--role", "analyst", "--days", "3650", "--json")
    hospital.run("permits", "grant", "anna", "flchain")
    return hospital, json.loads(made)["token"]


@contextmanager
def serve(demo: Any, manifest: Path, rows: Path) -> Iterator[tuple[CuratorClient, Recorder]]:
    """Serve a dataset with a budget of ε = 3 to one analyst, whose requests are recorded."""
    hospital, token = open_hospital(demo, manifest, rows)
    recorder = Recorder()
    with hospital.serve() as url, CuratorClient(url, token, memory=None, transport=recorder) as client:
        yield client, recorder


def store(recorder: Recorder, answers: Path, key: Path) -> None:
    """Keep what was answered, and the curator's public key."""
    listing = next(answer for answer in recorder.answers if answer["request"]["path"] == "/v1/keys")
    key.write_text(json.loads(listing["text"])["keys"][0]["public_key"] + "\n", encoding="utf-8")
    text = (json.dumps(recorder.answers, indent=1, ensure_ascii=False) + "\n").encode()
    answers.write_bytes(gzip.compress(text, mtime=0) if answers.suffix == ".gz" else text)


def main(session: str) -> None:
    """Record one session."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "flchain"))
    import demo  # noqa: PLC0415 -- needs the server

    with tempfile.TemporaryDirectory() as folder:
        demo.OUTPUT = Path(folder)
        {
            "first_fit": record_first_fit,
            "paper": record_paper,
            "one_call": record_one_call,
            "methods": record_methods,
        }[session](demo)


if __name__ == "__main__":
    main(sys.argv[1])
