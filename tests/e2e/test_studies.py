"""An experiment from its command to its tables and its figure, on a few rows that are made up."""

import csv
import os
import signal
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from process_factory import Child, ProcessFactory

from analyst_client import RobustPrivateRegression
from bench import serving
from studies import cps, kalaja, local_sgd, nieminen, overview, wang

pytestmark = pytest.mark.slow


class Forked:
    """A server of a study, as `subprocess` holds one."""

    def __init__(self, child: Child) -> None:
        self._child, self.pid = child, child.pid

    def terminate(self) -> None:
        self._child.signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> int:
        return self._child.wait(timeout_s)


@pytest.fixture(autouse=True)
def _forked(process_factory: ProcessFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server of a study be forked, of the same words."""

    def popen(command: list[str], *, cwd: Path, env: dict[str, str]) -> Forked:
        assert (command[1:3], cwd) == (["-m", "uvicorn"], serving.ROOT)
        changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
        words = {"words": command[3:]}
        return Forked(process_factory.fork("deployments:run_uvicorn", words, changed, tmp_path / "server.log"))

    monkeypatch.setattr(serving, "subprocess", SimpleNamespace(Popen=popen))


def write_workers(path: Path, count: int) -> None:
    """Write rows like those of the study."""
    generator = np.random.default_rng(11)
    frame = cps.made_up_workers(count)
    frame["earnings"] = frame["earnings"] * np.exp(generator.normal(0.0, 0.5, count))
    frame["region"] = ["South"] * count
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(frame)
        writer.writerows(zip(*frame.values(), strict=True))


def test_the_verdict_is_asked_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, few in {"EPSILONS": (0.5, 1.0), "NORMS": cps.NORMS[:2], "SHARES": cps.SHARES[::7]}.items():
        monkeypatch.setattr(cps, name, few)
    write_workers(tmp_path / cps.FILE, 300)
    figure = tmp_path / "verdict.png"
    cps.main(["--data", str(tmp_path), "--releases", "2", "--many", "2", "--figure", str(figure)])
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    for model in (cps.LINEAR, cps.CUBIC, cps.TOLD, cps.RAW):
        for epsilon in cps.EPSILONS:
            names = [row[2] for row in rows if row[:2] == [model.name, f"{epsilon:g}"] and len(row) == 10]
            assert names == [*model.names, "**all slopes**"]
    assert sum(row[:1] == ["linear"] and row[-1:] in (["yes"], ["no"], ["all slopes, not each"]) for row in rows) == 4
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_verdict_is_asked_as_it_is_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cps, "AS_TYPED", cps.AS_TYPED[2:])  # the longest, and the one of another shape
    write_workers(tmp_path / cps.FILE, 5_000)
    cps.main(["--data", str(tmp_path), "--typed", "1", "--draws", "2"])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()[2:]]
    wanted = product(
        ("refine", "release"), (model.name for model in cps.AS_TYPED), (("a server's", "1"), ("drawn", "2"))
    )
    assert [(row[0], row[2], (row[1], row[3])) for row in rows] == list(wanted)


def test_without_privacy_a_fit_is_the_textbook_s(tmp_path: Path) -> None:
    write_workers(tmp_path / cps.FILE, 300)
    workers = cps.Workers.read(tmp_path / cps.FILE)
    powers, curves = (cps.Plain.of(model, workers) for model in (cps.RAW, cps.CUBIC))
    X = cps.RAW.design(workers)
    covariance = np.linalg.inv(X.T @ X) * np.sum((workers.log_earnings - X @ powers.inferred.values) ** 2) / (300 - 6)
    np.testing.assert_allclose(powers.std_errors, np.sqrt(np.diag(covariance)), rtol=1e-4)
    assert powers.rmse == pytest.approx(curves.rmse)  # the same model in other terms
    for j in (1, 5):
        np.testing.assert_allclose(powers.inferred.intervals[j], curves.inferred.intervals[j], rtol=1e-6)


def write_set(folder: Path, count: int) -> None:
    """Write a set with two folds, as the collection of UCI sets has them."""
    generator = np.random.default_rng(13)
    features = generator.gamma(2.0, size=(count, 3))
    target = features @ [0.5, -0.2, 0.1] + generator.normal(0.0, 0.1, count)
    folder.mkdir()
    np.savetxt(folder / "data.csv.gz", np.column_stack([features, target]), delimiter=",")
    fold = np.arange(count) % 2
    np.savetxt(folder / "test_mask.csv.gz", np.column_stack([fold, 1 - fold]), delimiter=",", fmt="%d")


def lines_of(printed: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("study", [wang, kalaja], ids=["wang", "kalaja"])
def test_a_study_of_uci_sets_runs_end_to_end(
    study: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kalaja, "EPSILONS", (0.3, 1.0))
    write_set(tmp_path / "airfoil", 300)
    figure = tmp_path / "figure.png"
    study.main(["--data", str(tmp_path), "--sets", "airfoil", "--releases", "1", "--figure", str(figure)])
    lines = lines_of(capsys.readouterr().out)
    if study is kalaja:
        assert [line[0] for line in lines[2:]] == list(kalaja.VARIANTS)
    else:
        assert [line[0] for line in lines].count("airfoil") == 1 + len(wang.EPSILONS)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_studies_of_made_up_rows_run_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small: dict[str, Any] = {"POPULATION": 20_000, "TRIALS": 2, "LENGTHS": (1.0, 10.0)}
    for name, value in small.items():
        monkeypatch.setattr(local_sgd, name, value)
    monkeypatch.setitem(nieminen.ESTIMATORS, nieminen.GAMMA, RobustPrivateRegression(draws=50, seed=7))
    monkeypatch.setattr(overview, "PEOPLE", (140, 200, 280, 350))
    monkeypatch.setattr(overview, "STEPS", 100)
    figures = tmp_path / "nieminen.png", tmp_path / "local.png", tmp_path / "overview.png"
    few = ["--folds", "2", "--no-splits", "--epsilons", "2", "--rows", "0", "100"]
    nieminen.main([*few, "--figure", str(figures[0])])
    local_sgd.main(["--repeats", "2", "--people", "1000", "2000", "--figure", str(figures[1])])
    overview.main(["--repeats", "2", "--figure", str(figures[2])])
    lines = lines_of(capsys.readouterr().out)
    for name in ("published", *nieminen.DRAWN, nieminen.CUT, nieminen.PLAIN):
        assert [line[0] for line in lines].count(name) == 2
    assert [line[0] for line in lines].count("2,000") == 2 * len(local_sgd.EPSILONS)
    assert all([line[0] for line in lines].count(name) == 2 for name in overview.MODELS)
    assert all(figure.read_bytes().startswith(b"\x89PNG") for figure in figures)
