"""The R package on a served curator: it passes its check, fits what the library fits, and loses no charge."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import scaled
from served_worlds import serve_world
from support import COUNTED, World

from analyst_client import CuratorClient, LogisticRegression, PoissonRegression, RefinedRegression
from analyst_client.kinds import Axis, CountsRequest
from analyst_client.terms import col, log
from curator_service.privacy.accountant import Price

pytestmark = [pytest.mark.slow, pytest.mark.package]

ROOT = Path(__file__).parents[2]
COUNT = 900
COLUMNS: list[tuple[str, str, str, tuple[Any, ...], str | None]] = [
    ("age", "numeric", "complete", (20.0, 100.0), "years"),
    ("ward", "categorical", "complete", ("a", "b", "c"), None),
    ("years", "numeric", "complete", (0.5, 4.0), "years"),
    ("marker", "numeric", "complete", (0.0, 10.0), "mg/dL"),
    ("ill", "boolean", "complete", ("no", "yes"), None),
    ("falls", "numeric", "complete", (0.0, 30.0), COUNTED),
]
PRICE = {"mu": 4.0, "expected_rows": COUNT}
HEAD = """
library(curator)
hospital <- curator(Sys.getenv("URL"))
show <- function(...) cat(jsonlite::toJSON(list(...), auto_unbox = TRUE, digits = NA, null = "null"), "\\n", sep = "")
rows <- data.frame(age = c(50, 70), ward = factor(c("a", "c")), years = c(1, 2))
"""


@dataclass(frozen=True)
class Clinic:
    """A served curator, and an R that has the package."""

    world: World
    client: CuratorClient
    url: str
    library: Path

    @property
    def environment(self) -> dict[str, str]:
        environment = os.environ | {"R_LIBS": str(self.library), "CURATOR_PYTHON": sys.executable, "LANG": "C.UTF-8"}
        return environment | {"URL": self.url, "CURATOR_TOKEN": self.world.tokens["ada"], "HOME": str(self.library)}

    def start(self, script: str, url: str | None = None) -> subprocess.Popen[str]:
        """Start a script, of a session without a person."""
        command = ["Rscript", "--vanilla", "-e", HEAD + script]
        environment, pipe = self.environment | {"URL": url or self.url}, subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def run(self, script: str, url: str | None = None) -> Any:
        """Return what a script shows, of which the token is no part."""
        done = self.start(script, url)
        out, error = done.communicate(timeout=scaled(120))
        assert done.returncode == 0, error
        assert self.world.tokens["ada"] not in out + error
        return json.loads(out)


def make_rows() -> list[dict[str, str]]:
    rng = np.random.default_rng(3)
    age = rng.normal(60.0, 12.0, COUNT).clip(21.0, 99.0)
    ward, years = rng.choice(["a", "b", "c"], COUNT), rng.uniform(0.6, 3.9, COUNT)
    marker = (5.0 + 0.05 * (age - 60.0) + 0.8 * (ward == "c") + rng.normal(0.0, 0.5, COUNT)).clip(0.1, 9.9)
    ill = rng.uniform(size=COUNT) < 1.0 / (1.0 + np.exp(-0.06 * (age - 60.0) - 0.8 * (ward == "b")))
    falls = rng.poisson(years * np.exp(0.5 + 0.03 * (age - 60.0))).clip(0, 30)
    columns = {"age": age, "ward": ward, "years": years, "marker": marker, "ill": np.where(ill, "yes", "no")}
    return [{name: str(values[i]) for name, values in columns.items()} | {"falls": str(falls[i])} for i in range(COUNT)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package in a library of its own."""
    if shutil.which("Rscript") is None:
        pytest.skip("The R package is NOT tested: Rscript is not installed")
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(ROOT / "r", folder / "curator-source")
    command = ["R", "CMD", "INSTALL", f"--library={folder}", str(folder / "curator-source")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def clinic(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    with serve_world(tmp_path_factory.mktemp("clinic"), limit=Price(mu=20.0)) as (world, url):
        world.grant("ada", world.register("clinic", "town", make_rows(), columns=COLUMNS))
        with CuratorClient(url, world.tokens["ada"], memory=None) as client:
            yield Clinic(world, client, url, library)


def spent(clinic: Clinic) -> int:
    return clinic.client.budget("clinic").posted.units or 0


@pytest.mark.parametrize(
    ("script", "formula", "options", "estimator"),
    [
        (
            "curator_lm(marker ~ I(age / 10) + relevel(ward, 'b'), hospital, 'clinic', where = ~ age > 30, PRICE)",
            "marker ~ I(age / 10) + C(ward, Treatment('b'))",
            {"where": "age > 30"},
            RefinedRegression(),
        ),
        (
            "curator_glm(ill ~ age + ward, hospital, 'clinic', binomial, PRICE)",
            "ill ~ age + ward",
            {},
            LogisticRegression(),
        ),
        (
            "curator_glm(falls ~ age + offset(log(years)), hospital, 'clinic', poisson(), PRICE)",
            "falls ~ age",
            {"offset": log(col("years"))},
            PoissonRegression(),
        ),
    ],
    ids=["gaussian", "binomial", "poisson"],
)
def test_a_fit_is_that_of_the_library_and_charged_once(
    clinic: Clinic, script: str, formula: str, options: dict[str, Any], estimator: Any
) -> None:
    before = spent(clinic)
    found = clinic.run(
        f"fit <- {script.replace('PRICE', f'mu = 4, expected_rows = {COUNT}, yes = TRUE')}\n"
        """show(coef = unname(coef(fit)), ci = unname(confint(fit, level = 0.9)), names = names(coef(fit)),
        tidy = tidy(fit)$estimate, se = unname(sqrt(diag(vcov(fit)))), predicted = unname(predict(fit, rows)))"""
    )
    charged = spent(clinic) - before
    assert charged == pytest.approx(16e12, rel=1e-4)
    family = {"gaussian": RefinedRegression, "binomial": LogisticRegression, "poisson": PoissonRegression}
    name = next(name for name, kind in family.items() if isinstance(estimator, kind))
    fit = estimator.fit(clinic.client.refine("clinic", formula, family=name, **PRICE, **options))
    assert spent(clinic) - before == charged
    assert found["names"] == ["(Intercept)", *fit.term_names_]
    rows = {"age": [50.0, 70.0], "ward": ["a", "c"], "years": [1.0, 2.0]}
    predicted = fit.predict_proba(rows)[:, 1] if name == "binomial" else fit.predict(rows)
    for told, here in (
        ("coef", fit.params_),
        ("ci", fit.conf_int(0.9)),
        ("se", fit.std_errors_),
        ("predicted", predicted),
    ):
        np.testing.assert_allclose(found[told], here, rtol=1e-9)


def test_a_table_is_that_of_the_library_and_its_key_pays_once(clinic: Clinic) -> None:
    before = spent(clinic)
    script = """
    model <- ~ ward + cut(age, c(20, 50, 100)) + I(ill)
    table <- curator_counts(model, hospital, "clinic", mu = 2, yes = TRUE, key = "a-key-of-one-call")
    again <- curator_counts(model, hospital, "clinic", mu = 2, yes = TRUE, key = "a-key-of-one-call")
    frame <- as.data.frame(table)
    two <- curator_counts(~ ward + ill, hospital, "clinic", mu = 1, yes = TRUE)
    show(same = identical(table, again), shape = dim(table), first = frame[2, ], total = sum(frame$count),
      value = table["b", 1, 1], p = summary(two)$p_value)"""
    found = clinic.run(script)
    assert found["same"]
    assert spent(clinic) - before == pytest.approx(4e12, rel=1e-4)  # and a margin of what was bought costs nothing
    request = CountsRequest([["ward", Axis("age", [20, 50, 100]), "ill"]], mu=2.0)
    table = clinic.client.release("clinic", request).tables[0]
    assert found["shape"] == list(table.values.shape)
    assert found["value"] == pytest.approx(table.values[1, 0, 0])
    assert found["first"][0]["count"] == pytest.approx(table.values[1, 0, 0])
    assert found["total"] == pytest.approx(table.values.sum())
    assert 0.0 <= found["p"] <= 1.0


def test_a_saved_fit_needs_neither_curator_nor_process(clinic: Clinic, tmp_path: Path) -> None:
    file = tmp_path / "fit.rds"
    bought = clinic.run(
        f"""fit <- curator_lm(marker ~ age, hospital, "clinic", mu = 4, expected_rows = {COUNT}, yes = TRUE)
        saveRDS(list(fit, hospital), "{file}")
        show(ci = unname(confint(fit, level = 0.8)))"""
    )
    assert (
        clinic.world.tokens["ada"].encode()
        not in subprocess.run(["gzip", "-dc", str(file)], capture_output=True, check=True).stdout
    )
    again = clinic.run(
        f'fit <- readRDS("{file}")[[1]]; show(ci = unname(confint(fit, level = 0.8)))', url="http://127.0.0.1:9"
    )
    assert again == bought


def test_the_budget_of_a_served_curator_and_what_it_refuses(clinic: Clinic) -> None:
    found = clinic.run(
        """bought <- curator_counts(~ ill, hospital, "clinic", mu = 2.5, yes = TRUE)
        refused <- tryCatch(curator_lm(marker ~ age, hospital, "clinic", mu = 19.9, yes = TRUE), error = identity)
        missing <- tryCatch(budget(hospital, "nothing"), curator_dataset_not_found = function(e) class(e))
        show(names = datasets(hospital)$name, levels = datasets(hospital, "clinic")$levels[2], refused = class(refused),
          limit = budget(hospital, "clinic")$limit$mu, missing = missing)"""
    )
    assert "clinic" in found["names"]
    assert found["levels"] == "a, b, c"
    assert found["limit"] == pytest.approx(20.0)
    assert found["refused"][:2] == ["curator_budget_exceeded", "curator_error"]
    assert "curator_dataset_not_found" in found["missing"]


def test_progress_is_shown_and_a_fit_of_points_says_why(clinic: Clinic) -> None:
    done = clinic.start(
        f"""fit <- curator_lm(marker ~ ward, hospital, "clinic", mu = 0.01, expected_rows = {COUNT}, even_so = TRUE,
          yes = TRUE, progress = TRUE)
        said <- tryCatch(confint(fit), error = identity)
        show(names = names(coef(fit)), class = class(said), text = capture.output(print(summary(fit))))"""
    )
    out, error = done.communicate(timeout=scaled(120))
    assert done.returncode == 0, error
    assert "refining marker: step 1" in error
    found = json.loads(out)
    assert found["names"] == "(Intercept)"
    assert found["class"][0] == "curator_estimation"
    assert any("Warning" in line for line in found["text"])


@pytest.mark.parametrize(("answer", "shown"), [("y", "bought 2"), ("n", "not bought")])
def test_a_person_is_asked_before_anything_is_charged(clinic: Clinic, answer: str, shown: str) -> None:
    price = f"mu = {'1.5' if answer == 'y' else '1.6'}, expected_rows = {COUNT}"
    lines = [
        f'fit <- tryCatch(curator_lm(marker ~ age, hospital, "clinic", {price}), curator_error = conditionMessage)',
        answer,
        'cat("\\n", if (is.character(fit)) fit else paste("bought", length(coef(fit))), "\\n")',
    ]
    command, before = ["R", "--vanilla", "--quiet", "--interactive", "--no-readline"], spent(clinic)
    text = HEAD + "\n".join(lines) + "\n"
    done = subprocess.run(
        command, env=clinic.environment, input=text, capture_output=True, text=True, timeout=scaled(120), check=False
    )
    assert f" {shown} " in done.stdout, done.stderr
    assert "Buy it?" in done.stderr
    assert (spent(clinic) > before) == (answer == "y")


def test_an_interrupted_fit_says_what_is_held_and_the_same_call_goes_on(clinic: Clinic) -> None:
    call = f'curator_lm(marker ~ age + ward, hospital, "clinic", mu = 2.2, expected_rows = {COUNT}, yes = TRUE'
    before = spent(clinic)
    started = clinic.start(
        f"""found <- tryCatch({call}, progress = TRUE), error = identity)
        show(class = class(found), notes = found$notes, held = reservations(hospital)$text)"""
    )
    assert started.stderr is not None
    said = ""
    while "step 2" not in said:
        more = started.stderr.read(1)
        assert more, said
        said += more
    started.send_signal(signal.SIGINT)
    out, error = started.communicate(timeout=scaled(60))
    assert started.returncode == 0, error
    found = json.loads(out)
    assert found["class"][0] == "curator_interrupted"
    held = found["notes"].partition("close_reservation(curator, '")[2].partition("'")[0]
    assert held in found["held"]
    clinic.run(f"show(names(coef({call}))))")
    assert 0 < spent(clinic) - before <= 2.2e6**2 * (1.0 + 1e-4)  # some steps are stored, of other tests


@pytest.mark.parametrize("ended", ["curator_interrupted", "curator_process_ended"])
def test_an_interruption_tells_the_key_of_what_may_have_been_charged(clinic: Clinic, ended: str) -> None:
    """A server that never answers has the request when the session is interrupted, or Python is killed."""
    script = """
    found <- tryCatch(curator_counts(~ ward, hospital, "clinic", mu = 1, yes = TRUE), error = identity)
    show(class = class(found), key = found$key, message = conditionMessage(found),
      later = nrow(datasets(curator_recorded(), "flchain")))"""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = clinic.start(script, f"http://127.0.0.1:{silent.getsockname()[1]}")
        connection, _ = silent.accept()
        connection.recv(1)
        if ended == "curator_interrupted":
            asked.send_signal(signal.SIGINT)
        else:
            os.kill(int(subprocess.check_output(["pgrep", "-P", str(asked.pid)], text=True).split()[0]), signal.SIGKILL)
        out, error = asked.communicate(timeout=scaled(60))
        connection.close()
    assert asked.returncode == 0, error
    found = json.loads(out)
    assert found["class"][0] == ended
    assert len(found["key"]) > 20
    assert found["key"] in found["message"]
    assert found["later"] == 6  # the session goes on


def test_the_package_passes_its_check(library: Path, tmp_path: Path) -> None:
    """`make test-r`: no error, no warning, no note."""
    command = [
        "make",
        "--no-print-directory",
        "-o",
        ".venv/.installed",
        "test-r",
        f"R_FOLDER={tmp_path}",
        f"R_PYTHON={sys.executable}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "Status: OK" in done.stdout
