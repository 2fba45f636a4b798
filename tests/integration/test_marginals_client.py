"""Marginals with the real client and the real curator: what is asked, in its order, is what the rows are."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import ZeroNoise, client_of, make_rows, open_world

from analyst_client import CuratorClient, Flat, MarginalsRequest, Moments, RequestInvalidError, Tree
from analyst_client.kinds import MarginalsQuote, MarginalsRelease
from analyst_client.terms import log

ROWS = make_rows(400, seed=3)
LOG = log("age")
ASKED = MarginalsRequest(
    [Moments(["kappa", LOG]), Tree([LOG, "age", "kappa"], levels=5), Flat(["kappa"], bins=12)],
    mu=0.05,
    shares=[0.25, 0.5, 0.25],
)


def column(name: str, *, where: str | None = None) -> np.ndarray:
    """Return the values of the rows that have one."""
    kept = [row for row in ROWS if where is None or row["sex"] == where]
    return np.array([float(row[name]) for row in kept if row[name] != ""])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuratorClient]:
    """Return a client of a curator that adds no noise."""
    with open_world(tmp_path_factory.mktemp("marginals"), noise=ZeroNoise(), rows=ROWS) as world:
        yield client_of(world)


def test_a_quote_is_that_of_what_was_asked(client: CuratorClient) -> None:
    quote = client.quote("cohort", ASKED)
    assert isinstance(quote, MarginalsQuote)
    assert [item.shape for item in quote.marginals] == [(2, 3), (3, 62), (1, 12)]
    assert [item.columns[0].name for item in quote.marginals] == ["kappa", "log(age)", "kappa"]
    sds = [quote.noise.sd[item.name] for item in quote.marginals]
    squares = np.array([2 * 1.5 / 0.25, 3 * 5 / 0.5, 1 / 0.25])
    assert np.array(sds) / sds[0] == pytest.approx(np.sqrt(squares / squares[0]), rel=1e-6)


def test_what_is_told_is_what_the_rows_are(client: CuratorClient, tmp_path: Path) -> None:
    release = client.release("cohort", ASKED)
    assert [marginal.title for marginal in release.marginals] == [
        "moments of kappa, log(age)",
        "tree of log(age), age, kappa",
        "flat of kappa",
    ]
    ages, kappas = np.clip(column("age"), 50, 100), np.clip(column("kappa"), 0, 6)
    for name, values, reach in (("age", ages, 50 / 2**6), ("kappa", kappas, 0.0), (LOG, np.log(ages), 0.0)):
        assert release.count(name).value == pytest.approx(len(values), abs=1e-6)
        assert release.mean(name).value == pytest.approx(values.mean(), abs=reach + 1e-4)  # of age there are bins alone
    # The estimate takes off a little for the noise that there would be.
    moments = release.marginals[0].values[0]
    assert 3.0 * (moments[2] + moments[0]) == pytest.approx(np.sum((kappas - 3.0) ** 2) / 3.0, rel=1e-4)
    assert release.marginals[2].values[0] == pytest.approx(np.histogram(kappas, 12, (0, 6))[0])
    assert release.histogram("age").values == pytest.approx(np.histogram(ages, 32, (50, 100))[0])
    assert release.histogram("kappa").edges == pytest.approx(np.linspace(0, 6, 33))
    median = release.quantiles("age", 0.5)
    assert median.low <= np.quantile(ages, 0.5, method="inverted_cdf") <= median.high
    release.save(tmp_path / "marginals.json")
    loaded = MarginalsRelease.load(tmp_path / "marginals.json")
    assert loaded == release == client.fetch_release(release.id)
    assert release.verify()


def test_a_condition_and_what_was_bought_before(client: CuratorClient) -> None:
    first = client.release("cohort", MarginalsRequest([Tree(["age"], levels=3)], where="sex == 'F'", mu=0.05))
    assert first.count("age").value == pytest.approx(len(column("age", where="F")), abs=1e-6)
    again = client.release("cohort", MarginalsRequest([Tree(["age"], levels=3)], where="sex == 'F'", mu=0.05))
    assert (again.id, again.answer) == (first.id, "stored")


def test_laplace_noise_is_asked_for(client: CuratorClient) -> None:
    request = MarginalsRequest([Flat(["age"], bins=4)], epsilon=0.1, mechanism="laplace")
    release = client.release("cohort", request)
    assert release.marginals[0].is_laplace
    assert release.marginals[0].sd == pytest.approx(2**0.5 / 0.1, rel=1e-3)


def test_what_is_no_number_is_refused(client: CuratorClient) -> None:
    with pytest.raises(RequestInvalidError, match="ask for counts"):
        client.quote("cohort", MarginalsRequest([Moments(["age", "sex"])], mu=0.05))
