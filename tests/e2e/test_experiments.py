"""An experiment from its command to its tables and its figure, on a few rows that are made up."""

import csv
from pathlib import Path

import numpy as np
import pytest

from experiments import cps

pytestmark = pytest.mark.slow


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


def test_the_verdict_is_asked_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
