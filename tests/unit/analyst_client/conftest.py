"""Every test has a state folder of its own, and a terminal of 80 columns."""

from functools import partial
from pathlib import Path

import pytest

from analyst_client.inference import results
from analyst_client.inference.corrected_posterior import draw_posterior


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty state folder: no test reads or writes what a person's client remembers."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "80")
    return folder


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw 1,200 times from the posterior of a fit without its own: a quantile errs by 0.02 of an interval's width."""
    monkeypatch.setattr(results, "draw_posterior", partial(draw_posterior, draws=300))
