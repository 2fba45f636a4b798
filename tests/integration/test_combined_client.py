"""Rows of combinations with the real client and the real curator: XᵀX of the terms, and fits, through the matrix."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ZeroNoise, client_of, make_rows, open_world

from analyst_client import (
    OLS,
    AdaSSP,
    CuratorClient,
    EstimationError,
    LogisticRegression,
    Release,
    RequestInvalidError,
    describe,
)
from analyst_client.errors import ServiceError
from analyst_client.kinds import CombinedRows
from analyst_client.kinds.gram.request import ReleaseRequest

ROWS = make_rows(400, seed=3)
MATRIX = {
    "(constant)": [0.3, 0.02, 0.01, 0.1],
    "age": [0.0, 0.3, 0.04, -0.02],
    "sex[M]": [0.0, 0.0, 0.3, 0.01],
    "sex[X]": [0.1, 0.0, 0.0, 0.4],
}
WHITE = CombinedRows(MATRIX, norm=1.3)
ASKED: dict[str, Any] = {"target": "kappa", "mu": 0.03}
FEATURES = ["sex", "age"]
FRAME = {"age": [60.0, 80.0, 200.0], "sex": ["F", "X", "M"], "other": [1, 2, 3]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuratorClient]:
    """Return a client of a curator that adds no noise."""
    with open_world(tmp_path_factory.mktemp("combined"), noise=ZeroNoise(), rows=ROWS) as world:
        yield client_of(world)


@pytest.fixture(scope="module")
def plain(client: CuratorClient) -> Release:
    """Return the release of the terms themselves."""
    return client.release("cohort", FEATURES, rows="box", **ASKED)


@pytest.fixture(scope="module")
def combined(client: CuratorClient) -> Release:
    return client.release("cohort", FEATURES, rows=WHITE, **ASKED)


def test_sums_are_those_of_the_terms_through_the_matrix(plain: Release, combined: Release) -> None:
    assert combined.term_names == tuple(f"combination[{k}]" for k in (1, 2, 3, 4))
    assert [term.name for term in combined.combined] == ["(constant)", "sex[M]", "sex[X]", "age"]
    assert combined.feature_names == ("sex", "age")
    M = combined.combinations
    assert M is not None
    assert not M.flags.writeable
    assert M.tolist() == [WHITE.posted[term.name].tolist() for term in combined.combined]
    assert plain.combinations is None
    assert np.abs(M).sum(axis=0).max() < 1.0  # so no row is shrunk
    assert combined.xtx == pytest.approx(M.T @ plain.xtx @ M, abs=400 * 4 / 131_071)
    assert combined.xty == pytest.approx(M.T @ plain.xty, abs=400 / 131_071)
    assert combined.yty == pytest.approx(plain.yty)


def test_a_quote_states_the_combinations(client: CuratorClient, combined: Release) -> None:
    quote = client.quote("cohort", FEATURES, rows=WHITE, **ASKED)
    assert quote.stored_release == combined.id
    assert quote.combined == combined.combined
    assert quote.posted == combined.posted == WHITE.combinations
    assert quote.feature_names == ("sex", "age")


def test_posted_weights_are_the_same_request_when_they_are_sent_again(client: CuratorClient, combined: Release) -> None:
    assert combined.combinations is not None
    named = dict(zip([term.name for term in combined.combined], combined.combinations, strict=True))
    for rows in (CombinedRows(named), WHITE.members, {"map": "linear", "bits": 30, "matrix": _at_30_bits()}):
        again = client.release("cohort", ["age", "sex"], rows=rows, **ASKED)
        assert (again.id, again.answer) == (combined.id, "stored")
        assert [term.name for term in again.combined] == ["(constant)", "age", "sex[M]", "sex[X]"]
        assert again.combinations is not None
        assert again.combinations[[0, 2, 3, 1]].tolist() == combined.combinations.tolist()


def _at_30_bits() -> dict[str, list[int]]:
    numbers, bits = WHITE.combinations.numbers, WHITE.combinations.bits
    return {name: [number * 2 ** (30 - bits) for number in row] for name, row in numbers.items()}


def test_a_fit_predicts_from_raw_columns(plain: Release, combined: Release) -> None:
    fit, expected = OLS().fit(combined), OLS().fit(plain)
    assert fit.predict(FRAME, clip=True) == pytest.approx(expected.predict(FRAME, clip=True), abs=1e-3)
    assert list(fit.feature_names_in_) == ["sex", "age"]
    assert list(fit.term_names_) == list(combined.term_names)
    assert combined.combinations is not None
    assert combined.combinations @ fit.scaled_coef_ == pytest.approx(expected.scaled_coef_, abs=1e-3)
    assert "Rows whose combinations are longer than 1 count for less" in " ".join(str(fit.summary()).split())
    assert np.isfinite(AdaSSP().fit(combined).predict(FRAME, clip=True)).all()


def test_a_fit_leads_back_to_the_terms_in_raw_units(plain: Release, combined: Release) -> None:
    found, expected = OLS().fit(combined).combined_terms(), OLS().fit(plain)
    assert [row.label for row in found.estimates] == [(name,) for name in ("(constant)", "sex[M]", "sex[X]", "age")]
    raw = [expected.intercept_, *expected.coef_]
    assert [row.value for row in found.estimates] == pytest.approx(raw, abs=2e-3)
    with pytest.raises(EstimationError, match="those of the terms already"):
        expected.combined_terms()
    powers = OLS().fit(combined).raw_powers()
    assert [row.value for row in powers.estimates] == pytest.approx(raw, abs=2e-3)


def test_the_number_of_rows_is_told_where_combinations_hold_the_constant(
    client: CuratorClient, combined: Release
) -> None:
    assert OLS().fit(combined).results_[0].equations.rows == pytest.approx(400, abs=0.5)
    assert OLS().fit(combined, rows=390).results_[0].equations.rows == 390
    single = client.release("cohort", FEATURES, rows=CombinedRows({"age": [0.5]}), **ASKED)
    fit = OLS().fit(single, rows=400)
    assert fit.coef_.shape == (1,)
    assert fit.predict(FRAME, clip=True).shape == (3,)
    assert [row.label for row in fit.combined_terms().estimates] == [("(constant)",), ("age",)]
    with pytest.raises(EstimationError, match="the release does not tell by how much"):
        _ = fit.scale_


def test_a_release_is_saved_loaded_and_pickled(combined: Release, tmp_path: Path) -> None:
    combined.save(tmp_path / "combined.json")
    loaded = Release.load(tmp_path / "combined.json")
    assert loaded == combined
    assert loaded.combinations is not None
    again = pickle.loads(pickle.dumps(combined))
    assert [term.name for term in again.combined] == [term.name for term in combined.combined]
    assert "Combinations (4) of terms (4) and targets (1)" in str(combined)
    assert "row map" in combined._repr_html_()


def test_one_of_several_targets_is_selected(client: CuratorClient) -> None:
    both = client.release("cohort", FEATURES, targets=["kappa", "dose"], mu=0.03, rows=WHITE)
    part = both.select(target="dose")
    assert part.combinations is not None
    assert part.xty is not None
    assert both.xty is not None
    assert part.xty[:, 0].tolist() == both.xty[:, 1].tolist()
    assert part.select(["age", "sex"]).combinations[[0, 2, 3, 1]].tolist() == part.combinations.tolist()  # type: ignore[index]
    with pytest.raises(ValueError, match="rows are of combinations of all features"):
        both.select(["age"])
    with pytest.raises(ValueError, match="rows are of combinations of all features"):
        both.select(["sex"], target="age")


def test_what_is_of_single_terms_is_refused_in_a_sentence(
    client: CuratorClient, combined: Release, tmp_path: Path
) -> None:
    with pytest.raises(EstimationError, match=r"combinations are longer than 1 count for less.*rows='box'"):
        describe(combined)
    with pytest.raises(ValueError, match="the release is of combinations of these"):
        combined.export(tmp_path / "combined.do")
    with pytest.raises(ValueError, match="rows of combinations are not made here"):
        Release.from_public(FRAME, combined)
    with pytest.raises(EstimationError, match="combinations of these"):
        LogisticRegression().fit(client.release("cohort", FEATURES, target="alive", rows=WHITE, mu=0.03))


def test_releases_of_other_combinations_do_not_fit_together(client: CuratorClient, combined: Release) -> None:
    other = client.release("cohort", FEATURES, rows=CombinedRows(MATRIX, norm=1.4), **ASKED)
    assert other.id != combined.id
    with pytest.raises(ValueError, match="releases are of other combinations"):
        OLS().fit([combined, other])


def test_an_answer_of_other_combinations_is_refused(plain: Release, combined: Release) -> None:
    for rows, release in (
        (CombinedRows(MATRIX, norm=1.4), combined),
        ("box", combined),
        (WHITE, plain),
    ):
        with pytest.raises(ServiceError, match="combined otherwise than was asked"):
            ReleaseRequest(FEATURES, rows=rows, **ASKED).arrange(release)


def test_an_unknown_term_is_refused_by_the_curator(client: CuratorClient) -> None:
    with pytest.raises(RequestInvalidError, match="make no term 'weight'"):
        client.quote("cohort", FEATURES, rows=CombinedRows({"weight": [1.0]}), **ASKED)
