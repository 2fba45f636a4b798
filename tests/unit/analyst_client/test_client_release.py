"""A release: unpacked from its text, kept as that text, made of arrays."""

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_examples import RELEASE_TEXT, compact, release_body, with_receipt

from analyst_client import Column, Release
from analyst_client.errors import ServiceError
from analyst_client.kinds import Noise


@pytest.fixture
def release() -> Release:
    return Release.from_text(RELEASE_TEXT, "new")


def test_upper_triangle_becomes_a_symmetric_matrix(release: Release) -> None:
    assert release.xtx.tolist() == [[900.0, 100.0, 400.5], [100.0, 300.0, 50.0], [400.5, 50.0, 390.0]]


def test_other_statistics_have_the_shape_of_the_release(release: Release) -> None:
    assert (release.xty.shape, release.yty.tolist(), release.lambda_min) == ((3, 1), [300.0], 120.0)


def test_arrays_are_read_only(release: Release) -> None:
    for array in (release.xtx, release.xty, release.yty):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_names_tell_columns_from_terms(release: Release) -> None:
    assert release.feature_names == ("age", "sex")
    assert release.term_names == ("(constant)", "age", "sex[M]")
    assert release.target_names == ("kappa",)
    assert release.has_constant


def test_noise_cost_and_receipt_are_read(release: Release) -> None:
    assert release.noise.xtx_offdiagonal == 12.7
    assert release.cost.share_of_budget == 0.11
    assert release.receipt["sequence"] == 12


@pytest.mark.parametrize("name", ["xtx", "xty", "yty", "lambda_min"])
def test_statistic_that_was_not_asked_is_none(name: str) -> None:
    body = release_body()
    del body["statistics"][name]
    assert getattr(Release.from_text(compact(body)), name) is None


def test_repr_is_short(release: Release) -> None:
    assert repr(release) == "<Release rel_1 of 'flchain': kappa ~ age, sex, epsilon=1, delta=1e-06>"


def test_file_holds_exactly_the_text(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "release.json")
    assert (tmp_path / "release.json").read_bytes() == RELEASE_TEXT.encode()


def test_loaded_release_equals_the_saved_one(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "release.json")
    loaded = Release.load(tmp_path / "release.json")
    assert loaded == release
    assert hash(loaded) == hash(release)


def test_unusual_text_survives_a_file(tmp_path: Path) -> None:
    body = release_body()
    body["features"][0] = body["features"][0] | {"description": "âge\r\n\u2028 “receipt”: ☃"}
    release = Release.from_text(with_receipt(body))
    release.save(tmp_path / "release.json")
    assert Release.load(tmp_path / "release.json") == release


def test_save_replaces_whole_files_and_leaves_no_other(release: Release, tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text("older")
    release.save(tmp_path / "release.json")
    assert [path.name for path in tmp_path.iterdir()] == ["release.json"]


def test_save_that_fails_leaves_the_older_file(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("disk full")

    (tmp_path / "release.json").write_text("older")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        release.save(tmp_path / "release.json")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]


def test_pickled_release_is_equal_and_read_only(release: Release) -> None:
    copied = pickle.loads(pickle.dumps(release))
    assert copied == release
    assert copied.answer == "new"
    assert not copied.xtx.flags.writeable


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(terms=[]),
        lambda body: body.update(kind="marginals"),
        lambda body: body["terms"].reverse(),
        lambda body: body["terms"][1].update(column="weight"),
        lambda body: body["terms"][1].update(scale=0.0),
        lambda body: body["terms"][1].update(kind="spline"),
        lambda body: body["terms"][2].update(level="X"),
        lambda body: body["terms"][2].update(name="age"),
        lambda body: body["targets"][0].update(kind="level", level="x"),
        lambda body: body["features"][0].update(lower=100.0, upper=50.0),
        lambda body: body["features"][0].update(missing="guess"),
        lambda body: body["statistics"]["xtx"].update(shape=[2, 2]),
        lambda body: body["statistics"]["xtx"].update(packing="full"),
        lambda body: body["statistics"]["xtx"]["values"].pop(),
        lambda body: body["statistics"]["xtx"]["values"].__setitem__(0, "900"),
        lambda body: body["statistics"]["xtx"]["values"].__setitem__(0, True),
        lambda body: body["statistics"]["xtx"]["values"].__setitem__(0, 10**400),
        lambda body: body["statistics"]["xty"].update(shape=[1, 3]),
        lambda body: body["statistics"]["lambda_min"].update(values=[]),
        lambda body: body["noise"]["sd"].update(xty=-1.0),
    ],
)
def test_malformed_body_is_a_service_error(change: Change) -> None:
    body = copy.deepcopy(release_body())
    change(body)
    with pytest.raises(ServiceError, match="malformed answer"):
        Release.from_text(compact(body))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_number_that_is_not_finite_is_a_service_error(number: str) -> None:
    with pytest.raises(ServiceError, match="malformed answer"):
        Release.from_text(RELEASE_TEXT.replace("900.0", number))


def test_arrays_become_a_release_that_survives_a_file(tmp_path: Path) -> None:
    release = Release.from_arrays([[0.1, 1 / 3], [1 / 3, 2.0]], [0.7, 1e-17], 3.3, lambda_min=0.05, noise=0.5)
    release.save(tmp_path / "release.json")
    loaded = Release.load(tmp_path / "release.json")
    assert loaded == release
    assert loaded.xtx.tolist() == [[0.1, 1 / 3], [1 / 3, 2.0]]
    assert (loaded.lambda_min, loaded.noise.lambda_min, loaded.receipt, loaded.cost) == (0.05, 0.5, None, None)


def test_arrays_have_default_names() -> None:
    release = Release.from_arrays(np.eye(3), np.ones((3, 2)))
    assert (release.term_names, release.target_names) == (("(constant)", "x1", "x2"), ("y1", "y2"))


def test_columns_are_coded_as_the_curator_codes_them() -> None:
    columns = [
        Column.numeric("age", 50, 100, missing="indicator"),
        Column.categorical("sex", ["F", "M"]),
        Column.boolean("mgus"),
    ]
    with_constant = Release.from_arrays(np.eye(5), features=columns)
    assert with_constant.term_names == ("(constant)", "age", "age[missing]", "sex[M]", "mgus")
    without = Release.from_arrays(np.eye(5), features=columns, constant=False)
    assert without.term_names == ("age", "age[missing]", "sex[F]", "sex[M]", "mgus")
    assert (with_constant.terms[1].center, with_constant.terms[1].scale) == (75.0, 25.0)


def test_noise_is_stated_for_released_statistics_alone() -> None:
    noise = Release.from_arrays(np.eye(2), noise=2.0).noise
    assert noise == Noise(xtx_diagonal=2.0, xtx_offdiagonal=2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"xtx": np.ones((2, 3))}, "square"),
        ({"xtx": np.empty((0, 0))}, "square"),
        ({"xtx": [[1.0, 2.0], [3.0, 4.0]]}, "symmetric"),
        ({"xtx": [[np.nan]]}, "finite"),
        ({"xtx": np.eye(2), "xty": np.ones(3)}, "xty must have shape"),
        ({"xtx": np.eye(2), "xty": np.ones(2), "yty": np.ones(2)}, "yty must have shape"),
        ({"xtx": np.eye(2), "xty": [np.inf, 0.0]}, "JSON compliant"),
        ({"xtx": np.eye(2), "features": ["a", "b"]}, "make 3 terms"),
        ({"xtx": np.eye(3), "features": ["a", "a"]}, "listed features"),
        ({"xtx": np.eye(2), "noise": -1.0}, "free of negative"),
        ({"xtx": np.eye(2), "xty": [1, 1], "targets": [Column.categorical("c", ["a"])]}, "cannot be a target"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Release.from_arrays(**arguments)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Column("a", "text"), "unknown type"),
        (lambda: Column.numeric("a", 1), "one bound"),
        (lambda: Column.numeric("a", 2, 1), "lower < upper"),
        (lambda: Column.categorical("a", ["x", "x"]), "each once"),
        (lambda: Column.categorical("a", []), "needs levels"),
        (lambda: Column("a", "boolean", levels=("no",)), "two labels"),
    ],
)
def test_column_that_contradicts_itself_is_refused(declare: Callable[[], Column], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declare()
