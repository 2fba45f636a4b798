"""Fits side by side: each column is its fit's own, and what a fit does not tell is left out."""

import numpy as np
import pandas as pd
import pytest
from client_examples import release_of_rows

from analyst_client import OLS, AdaSSP, Column, LogisticRegression, PoissonRegression, Release, compare, tutorial
from analyst_client.refinement import Refinement
from bench.ideal import IdealCurator

pytestmark = pytest.mark.filterwarnings("ignore:the log odds:analyst_client.EstimationWarning")
RELEASE = Release.load(tutorial.RELEASE)
WHOLE, PART = OLS().fit(RELEASE), OLS().fit(RELEASE, features=["age", "sex"])


def refined(mu: float, n: int = 3000) -> Refinement:
    generator = np.random.default_rng(5)
    x = generator.uniform(-1.0, 1.0, (n, 2))
    y = np.minimum(generator.poisson(np.exp(x @ [1.0, -0.5])), 40).astype(float)
    curator = IdealCurator.of_rows(np.column_stack([x, y]), [(-2.0, 2.0)] * 2 + [(0.0, 40.0)], generator)
    return curator.refine(mu, family="poisson")


def test_a_column_is_its_fit() -> None:
    found = compare(large=WHOLE, small=PART, level=0.9)
    assert [fit.name for fit in found.fits] == ["large", "small"]
    tidy = found.tidy()
    for name, fit in {"large": WHOLE, "small": PART}.items():
        own = fit.tidy(0.9)
        shown = tidy[tidy["fit"] == name].reset_index(drop=True)
        for column in ("term", "estimate", "std_error", "conf_low", "conf_high", "p_value", "privacy_share"):
            pd.testing.assert_series_equal(shown[column], own[column])
    text = str(found)
    for fit in (WHOLE, PART):
        assert fit.table(0.9)["age"].interval.replace(" ", "") in text.replace(" ", "").replace("\n", "")
    for line in ("5,244 rows", "ε = 1 at δ = 1e-06", "98% to 100%", "90% intervals"):
        assert line in text


def test_it_is_shown_everywhere() -> None:
    name = "<b>|100%_$x$"
    found = compare({name: WHOLE}, PART)
    assert r"\textless{}b\textgreater{}\textbar{}100\%\_\$x\$" in found.to_latex()
    assert r"\begin{tabular}{lrr}" in found.to_latex()
    assert r"| term | &lt;b&gt;\|100%\_\$x\$ | OLS |" in found.to_markdown()
    assert "&lt;b&gt;|100%_$x$" in found._repr_html_()


def test_names_are_those_that_are_given_or_of_classes() -> None:
    fits = compare(WHOLE, PART, AdaSSP().fit(RELEASE), {"mine": WHOLE}, yours=PART).fits
    assert [fit.name for fit in fits] == ["OLS", "OLS (2)", "AdaSSP", "mine", "yours"]


def test_what_cannot_be_compared_says_why() -> None:
    with pytest.raises(ValueError, match="needs at least one fit"):
        compare()
    with pytest.raises(ValueError, match="two fits have the name mine"):
        compare({"mine": WHOLE}, mine=PART)
    with pytest.raises(ValueError, match="a comparison is of fits, and a Release is none"):
        compare(RELEASE)  # type: ignore[arg-type]
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (200, 2))
    both = OLS().fit(release_of_rows(X, X[:, ::-1], targets=["u", "v"], noise=0.1))
    with pytest.raises(ValueError, match="say which of u, v"):
        compare(both)
    assert compare(both, target="v").fits[0].target == "v"


def test_a_fit_of_points_has_them_and_the_reason() -> None:
    boolean = Release.from_arrays(
        [[100.0, 0.0], [0.0, 25.0]], [50.0, 5.0], features=["age"], targets=[Column.boolean("ill")]
    )
    found = compare(LogisticRegression().fit(boolean), few=PoissonRegression().fit(refined(0.15, 40)))
    assert found.tidy()["conf_low"].isna().all()
    assert found.tidy()["estimate"].notna().all()
    text = " ".join(str(found).split())
    assert "LogisticRegression: points alone, as a release of XᵀX tells no standard errors" in text
    assert "few: points alone, as the price was not enough for XᵀX" in text
    assert "[" not in str(found).partition("target")[0]


def test_the_share_of_noise_in_a_generalised_fit_falls_with_its_price() -> None:
    cheap, dear = (PoissonRegression().fit(refined(mu)) for mu in (0.3, 30.0))
    low, high = (fit.tidy()["privacy_share"].to_numpy() for fit in (dear, cheap))
    assert ((low > 0.0) & (low < 0.1) & (high > 0.3) & (high < 1.0)).all()
    noisy = compare(cheap, dear).fits[1].noise
    assert noisy.rstrip("%").rpartition(" ")[2] == f"{low[1:].max():.0%}".rstrip("%")
