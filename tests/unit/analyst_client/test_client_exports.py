"""Exports of a release: the packages that are here run them, and the others' are read by their grammar."""

import doctest
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from client_examples import compact, release_body, with_products
from numpy.typing import NDArray

from analyst_client import OLS, Column, Release, tutorial
from analyst_client.kinds.gram.exports.moments import is_covariance, project, raw_moments
from analyst_client.kinds.gram.exports.names import comment_lines, safe_names
from analyst_client.kinds.gram.exports.programs import WRITERS, Package

PAGE = Path(__file__).parents[3] / "docs" / "exports.md"
PACKAGES = get_args(Package)
NAME = "[a-z][a-z0-9_]{0,31}"
NAMES = rf"{NAME}(?:\s+{NAME})*"
NUMBER = r"-?\d[-+.e\d]*"
NUMBERS = rf"{NUMBER}(?:\s+{NUMBER})*"
COMMENT = r"[A-Za-z0-9 _.,:()\[\]=<>+*\\-]*"
HOSTILE = (
    '"; DROP TABLE x; --',
    "*/ proc print; run; /*",
    "a\nquit()\nEND DATA.\n.",
    "a\r\n\u2028system('id')\x0b\x1b[2J",
    "`=1' $S_ADO ///",
    "%let x=1; &x %sysexec(id)",
    "### \\",
    "Ähnlich, größer",
    "人",
    "if",
    "_all",
    "str7",
    "1st",
    "x" * 5000,
    "x" * 5001,
    "",
    " ",
)
FloatArray = NDArray[np.float64]


@pytest.fixture(scope="module")
def release() -> Release:
    return Release.load(tutorial.RELEASE)


@pytest.fixture(scope="module")
def hostile() -> Release:
    """Return a release whose dataset, columns, levels, units and condition are made to break out of a program."""
    rng = np.random.default_rng(1)
    columns = [
        Column.categorical("if", ["reference", *HOSTILE]),
        Column.numeric("*/ x ;\nquit()\n/*", 0, 1, unit="';\nEND DATA.\n*/"),
    ]
    frame = {
        "if": [columns[0].levels[i] for i in rng.integers(len(HOSTILE) + 1, size=400)],
        columns[1].name: rng.random(400),
        'y"\n': rng.random(400),
    }
    made = Release.from_public(frame, columns, Column.numeric('y"\n', 0, 1), dataset="*/ END DATA.\nquit() `=1'")
    body = json.loads(made.text)
    body["id"] = "rel_*/\n;"
    body["request"] |= {"where": {"in": ["if", list(HOSTILE)]}, "weight": "*/;\nquit()"}
    return Release.from_text(compact(body))


def write(release: Release, package: str, folder: Path, **options: Any) -> str:
    path = folder / f"release.{package}"
    release.export(path, package, **options)  # type: ignore[arg-type]
    return path.read_bytes().decode("ascii")


def run(command: list[str], folder: Path) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def least_squares(release: Release) -> FloatArray:
    """Return the client's intercept and coefficients."""
    fit = OLS().fit(release)
    return np.concatenate([[fit.intercept_], fit.coef_])


def solve(means: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return the intercept and the coefficients that moments have, the target last."""
    coefficients = np.linalg.solve(covariances[:-1, :-1], covariances[:-1, -1])
    return np.concatenate([[means[-1] - means[:-1] @ coefficients], coefficients])


# --- What the moments are --------------------------------------------------------------------------------------------


def test_moments_of_public_rows_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(2)
    frame = {"age": rng.uniform(50, 100, 50), "sex": rng.choice(["F", "M"], 50), "y": rng.uniform(0, 6, 50)}
    columns = [Column.numeric("age", 50, 100), Column.categorical("sex", ["F", "M"])]
    release = Release.from_public(frame, columns, Column.numeric("y", 0, 6))
    moments = raw_moments(release, release.row_map, nearest=False)
    rows = np.column_stack([frame["age"], frame["sex"] == "M", frame["y"]])
    assert moments.whole_rows == 50
    np.testing.assert_allclose(moments.means, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.covariances, np.cov(rows.T), rtol=1e-10)
    both = np.column_stack([np.ones(50), rows])
    np.testing.assert_allclose(moments.sums, both.T @ both, rtol=1e-12)


def test_products_and_bases_have_the_coefficients_of_a_fit() -> None:
    release = with_products()
    moments = raw_moments(release, release.row_map, nearest=False)
    assert {term.kind for term in moments.variables} == {"level", "numeric", "basis", "product"}
    np.testing.assert_allclose(solve(moments.means, moments.covariances), least_squares(release), rtol=1e-7)


def test_a_noisy_release_has_the_coefficients_of_a_fit(release: Release) -> None:
    moments = raw_moments(release, release.row_map, nearest=False)
    np.testing.assert_allclose(solve(moments.means, moments.covariances), least_squares(release), rtol=1e-9)
    sums = moments.sums
    np.testing.assert_allclose(np.linalg.solve(sums[:-1, :-1], sums[:-1, -1]), least_squares(release), rtol=1e-7)


def test_a_feature_may_be_the_target() -> None:
    part = with_products().select(["sex"], target="age")
    moments = raw_moments(part, part.row_map, nearest=False)
    np.testing.assert_allclose(solve(moments.means, moments.covariances), least_squares(part), rtol=1e-9)


# --- What the files are ----------------------------------------------------------------------------------------------


def program_of(text: str, package: str) -> str:
    """Return a file without its head, every line of which must be a whole comment of harmless characters."""
    before, after = map(re.escape, WRITERS[package].comment)  # type: ignore[index]
    head, _, program = text.partition("\n\n")
    assert [line for line in head.split("\n") if not re.fullmatch(before + COMMENT + after, line)] == []
    return program


def read(pattern: str, program: str) -> dict[str, str]:
    """Match a whole program and return its parts."""
    found = re.fullmatch(pattern, program)
    assert found, program
    return found.groupdict()


def numbers(text: str) -> FloatArray:
    return np.array(text.split(), dtype=np.float64)


def triangle(rows: list[FloatArray]) -> FloatArray:
    """Return the symmetric matrix of rows of a lower triangle, each with one number more than the one before."""
    assert [len(row) for row in rows] == list(range(1, len(rows) + 1))
    lower = np.array([np.pad(row, (0, len(rows) - len(row))) for row in rows])
    return lower + np.tril(lower, -1).T


def unique_names(text: str) -> list[str]:
    """Return the names of a list; the target must be the last one."""
    found = text.split()
    assert len(set(found)) == len(found)
    return found


def read_sas(text: str) -> FloatArray:
    """Read a SAS program by its grammar, and return what a regression on its sums is."""
    parts = read(
        r"data release\(type=sscp\);\n  length _type_ \$ 8 _name_ \$ 32;\n"
        rf"  input _type_ \$ _name_ \$\s+intercept\s+(?P<names>{NAMES});\n  datalines;\n"
        rf"(?P<rows>(?:SSCP {NAME}\s+{NUMBERS}\s+)+)N \.\s+(?P<counts>{NUMBERS})\n;\nrun;\n\n"
        rf"proc reg data=release;\n  model (?P<target>{NAME}) =\s+(?P<terms>{NAMES});\nrun;\nquit;\n",
        program_of(text, "sas"),
    )
    names = unique_names(parts["names"])
    assert parts["terms"].split() == names[:-1]
    assert parts["target"] == names[-1]
    rows = [row.split() for row in parts["rows"].split("SSCP ")[1:]]
    assert [row[0] for row in rows] == ["intercept", *names]
    sums = np.array([row[1:] for row in rows], dtype=np.float64)
    np.testing.assert_array_equal(sums, sums.T)
    assert set(parts["counts"].split()) == {str(round(sums[0, 0]))}
    assert len(parts["counts"].split()) == len(sums)
    solution: FloatArray = np.linalg.solve(sums[:-1, :-1], sums[:-1, -1])
    return solution


def read_stata(text: str) -> FloatArray:
    """Read a do-file by its grammar, and return what a regression on its moments is."""
    parts = read(
        rf"ssd init\s+(?P<names>{NAMES})\nssd set observations \d+\nssd set means\s+(?P<means>{NUMBERS})\n"
        rf"ssd set covariances\s+(?P<rows>{NUMBERS}(?: \\\s+{NUMBERS})*)\n"
        rf"sem \((?P<target>{NAME}) <-\s+(?P<terms>{NAMES})\)\n",
        program_of(text, "stata").replace(" ///\n", " "),
    )
    names, means = unique_names(parts["names"]), numbers(parts["means"])
    assert [*parts["terms"].split(), parts["target"]] == names
    covariances = triangle([numbers(row) for row in parts["rows"].split("\\")])
    assert len(means) == len(names) == len(covariances)
    return solve(means, covariances)


def read_spss(text: str) -> tuple[dict[str, str], FloatArray]:
    """Read SPSS syntax by its grammar; return its parts and what a regression on its moments is."""
    parts = read(
        rf"(?P<data>MATRIX DATA VARIABLES=ROWTYPE_\s+(?P<names>{NAMES})\s+/FORMAT=LOWER DIAGONAL\.\nBEGIN DATA\n"
        rf"N (?P<counts>{NUMBERS})\nMEAN (?P<means>{NUMBERS})\nSTDDEV (?P<sd>{NUMBERS})\n"
        rf"(?P<rows>(?:CORR {NUMBERS}\n)+)END DATA\.\n)\n"
        rf"(?P<regression>REGRESSION /MATRIX=IN\(\*\)\s+/VARIABLES=\s+(?P<variables>{NAMES})\s+"
        rf"/DEPENDENT=(?P<target>{NAME})\s+/METHOD=ENTER\.\n)",
        program_of(text, "spss"),
    )
    names, sd = unique_names(parts["names"]), numbers(parts["sd"])
    assert parts["variables"].split() == names
    assert parts["target"] == names[-1]
    correlations = triangle([numbers(row) for row in parts["rows"].split("CORR")[1:]])
    assert len(parts["counts"].split()) == len(names) == len(correlations)
    return parts, solve(numbers(parts["means"]), correlations * np.outer(sd, sd))


def test_sas_has_the_sums_of_a_fit(release: Release, tmp_path: Path) -> None:
    np.testing.assert_allclose(read_sas(write(release, "sas", tmp_path)), least_squares(release), rtol=1e-7)


def test_stata_has_the_moments_of_a_fit(release: Release, tmp_path: Path) -> None:
    np.testing.assert_allclose(read_stata(write(release, "stata", tmp_path)), least_squares(release), rtol=1e-8)


def test_spss_has_the_moments_of_a_fit(release: Release, tmp_path: Path) -> None:
    _, found = read_spss(write(release, "spss", tmp_path))
    np.testing.assert_allclose(found, least_squares(release), rtol=1e-8)


def test_no_name_breaks_out_of_what_is_read(hostile: Release, tmp_path: Path) -> None:
    expected = least_squares(hostile)
    for found in (
        read_sas(write(hostile, "sas", tmp_path)),
        read_stata(write(hostile, "stata", tmp_path)),
        read_spss(write(hostile, "spss", tmp_path))[1],
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_head_says_what_it_is_and_what_to_beware_of(release: Release, package: str, tmp_path: Path) -> None:
    before, after = WRITERS[package].comment  # type: ignore[index]
    lines = write(release, package, tmp_path).partition("\n\n")[0].split("\n")
    head = " ".join(line.removeprefix(before).removesuffix(after) for line in lines)
    for said in (
        f"dataset flchain, release {release.id}",
        "epsilon = 1.0 at delta = 1e-06",
        "Row map: box",
        "ignore the privacy noise",
        "sex_m: sex[M], 0 or 1",
        "kappa: kappa, in mg\\x2fdL, the target",
    ):
        assert said in head
    assert "PROJECTED" not in head
    assert "WEIGHTED" not in head


def test_the_head_of_public_rows_speaks_of_no_noise(hostile: Release, tmp_path: Path) -> None:
    assert "without privacy noise" in write(hostile, "lavaan", tmp_path)
    assert "BEWARE" not in write(hostile, "lavaan", tmp_path)


def test_the_head_states_condition_weight_and_caveats(tmp_path: Path) -> None:
    body = release_body()
    body["request"] |= {"where": {"greater": ["age", 60.0]}, "weight": "age"}
    text = " ".join(write(Release.from_text(compact(body)), "lavaan", tmp_path).replace("\n# ", " ").split())
    assert "Rows that count: age > 60" in text
    assert "Weight of a row: age. N is the sum of weights" in text
    assert "Note: rows count by age" in text
    assert "WEIGHTED: rows do not count for 1 each, so N, means and standard deviations are not those of people" in text


# --- What the packages make of them ----------------------------------------------------------------------------------


def need(command: str) -> None:
    """Skip where a command is not installed."""
    if shutil.which(command) is None:
        pytest.skip(f"An export is NOT tested: {command} is not installed")


def need_lavaan() -> None:
    need("Rscript")
    found = subprocess.run(["Rscript", "--vanilla", "-e", "library(lavaan)"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip("An export is NOT tested: the package lavaan of R is not installed")


def pspp(program: str, folder: Path) -> list[str]:
    need("pspp")
    (folder / "program.sps").write_text(program, encoding="ascii")
    return run(["pspp", "-O", "format=csv", "program.sps"], folder).splitlines()


def in_matrix_language(text: str) -> str:
    """Return a file of SPSS with what the page has for PSPP in place of REGRESSION, which knows no matrix there."""
    parts, _ = read_spss(text)
    (lines,) = re.findall(r"^MATRIX\.\n.*?END MATRIX\.\n", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names = parts["names"].split()
    return text.replace(parts["regression"], lines.replace("age TO kappa", f"{names[0]} TO {names[-1]}"))


@pytest.mark.parametrize("which", ["release", "hostile"])
def test_pspp_solves_the_matrix_data_as_the_page_says(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    release = request.getfixturevalue(which)
    printed = pspp(in_matrix_language(write(release, "spss", tmp_path)), tmp_path)
    expected = least_squares(release)
    np.testing.assert_allclose([float(line) for line in printed[-len(expected) :]], expected, rtol=0, atol=1.5e-8)


def test_pspp_runs_the_regression_on_rows_with_these_moments(release: Release, tmp_path: Path) -> None:
    parts, _ = read_spss(write(release, "spss", tmp_path))
    moments = raw_moments(release, release.row_map, nearest=False)
    drawn = np.random.default_rng(4).normal(size=(40, len(moments.means)))
    drawn -= drawn.mean(axis=0)
    white = drawn @ np.linalg.inv(np.linalg.cholesky(np.cov(drawn.T))).T
    rows = white @ np.linalg.cholesky(moments.covariances).T + moments.means
    rows[:, -1] *= 1e6  # PSPP prints six digits of large numbers, and two decimals of others
    data = "\n".join(" ".join(map(repr, row)) for row in rows.tolist())
    regression = parts["regression"].replace(" /MATRIX=IN(*)", "")
    assert "MATRIX" not in regression
    before = f"DATA LIST LIST /{parts['names']}.\nBEGIN DATA\n{data}\nEND DATA.\n"
    printed = [line.split(",") for line in pspp(before + regression, tmp_path)]
    (first,) = (i for i, cells in enumerate(printed) if cells[0] == "(Constant)")
    found = {cells[0]: float(cells[1]) / 1e6 for cells in printed[first:]}
    expected = least_squares(release)
    names = ["(Constant)", *parts["names"].split()[:-1]]
    np.testing.assert_allclose([found[name] for name in names], expected, rtol=0, atol=5.1e-7)


def rscript(script: str, folder: Path) -> FloatArray:
    (folder / "script.R").write_text(script, encoding="ascii")
    return numbers(run(["Rscript", "--vanilla", "script.R"], folder))


@pytest.mark.parametrize("which", ["release", "hostile"])
def test_r_reads_the_moments(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    need("Rscript")
    release = request.getfixturevalue(which)
    write(release, "lavaan", tmp_path)
    found = rscript(
        """
        parts <- parse("release.lavaan")
        stopifnot(length(parts) == 7, identical(parts[[5]], quote(library(lavaan))))
        for (i in 1:4) eval(parts[[i]])
        stopifnot(isSymmetric(sample.cov), nrow(sample.cov) == length(sample.mean))
        words <- all.vars(as.formula(model))
        stopifnot(identical(words, names(sample.mean)[c(length(words), seq_len(length(words) - 1))]))
        cat(sprintf("%.17g", c(sample.nobs, sample.mean, t(sample.cov))))
        """,
        tmp_path,
    )
    moments = raw_moments(release, release.row_map, nearest=False)
    expected = [moments.whole_rows, *moments.means, *moments.covariances.ravel()]
    np.testing.assert_array_equal(found, np.array(expected))


def test_lavaan_fits_what_this_client_fits(release: Release, tmp_path: Path) -> None:
    need_lavaan()
    script = write(release, "lavaan", tmp_path).replace("summary(fit)\n", "")
    printed = """
        estimates <- subset(parameterEstimates(fit), lhs == "kappa")
        cat(sprintf("%.12g", c(estimates$est[estimates$op == "~1"], estimates$est[estimates$op == "~"])))
        """
    np.testing.assert_allclose(rscript(script + printed, tmp_path), least_squares(release), rtol=1e-4)


WORDS = (
    *("start", "equal", "efa", "efa_2", "group", "level", "block", "n", "mean", "corr", "stddev", "rowtype", "varname"),
    *(
        "enter",
        "dependent",
        "method",
        "matrix",
        "model",
        "run",
        "data",
        "e",
        "c",
        "t",
        "exp",
        "log",
        "cons",
        "with",
        "if",
    ),
    *("for", "function", "intercept", "all", "by", "to", "using", "str3", "true", "collect"),
)


@pytest.fixture(scope="module")
def wordy() -> Release:
    """Return a release whose terms have names that are words of a package."""
    rng = np.random.default_rng(6)
    X = np.column_stack([np.ones(200), rng.normal(size=(200, len(WORDS)))])
    y = X @ rng.normal(size=X.shape[1]) + rng.normal(size=200)
    return Release.from_arrays(X.T @ X, X.T @ y, y @ y, features=list(WORDS))


def test_pspp_takes_words_of_packages_as_names(wordy: Release, tmp_path: Path) -> None:
    printed = pspp(in_matrix_language(write(wordy, "spss", tmp_path)), tmp_path)
    np.testing.assert_allclose(
        [float(line) for line in printed[-len(WORDS) - 1 :]], least_squares(wordy), rtol=0, atol=1.5e-8
    )


def test_lavaan_takes_words_of_packages_as_names(wordy: Release, tmp_path: Path) -> None:
    need_lavaan()
    script = write(wordy, "lavaan", tmp_path).replace("summary(fit)\n", 'cat(sprintf("%.12g", coef(fit)))\n')
    np.testing.assert_allclose(rscript(script, tmp_path)[: len(WORDS)], least_squares(wordy)[1:], rtol=1e-3)


# --- What is refused -------------------------------------------------------------------------------------------------

XTX, XTY, YTY = [[9.0, 1.0], [1.0, 5.0]], [[3.0], [2.0]], [4.0]


def mapped(row_map: str) -> Release:
    body = release_body()
    body["request"]["rows"] = {"map": row_map}
    return Release.from_text(compact(body))


REFUSED: list[tuple[Release, str]] = [
    (Release.from_arrays(XTX, XTY), r"lacks yty, .* ask for statistics=\['xtx', 'xty', 'yty'\]"),
    (Release.from_arrays(XTX, XTY, YTY, constant=False), "without a constant .* intercept=True"),
    (Release.from_arrays(XTX), r"of one target: release.select\(target=…\).* a feature as the target"),
    (
        Release.from_arrays(XTX, [[3.0, 1.0], [2.0, 1.0]], [4.0, 4.0], targets=["a", "b"]),
        "of one target: .* one of a, b",
    ),
    (Release.from_arrays([[9.0]], [[3.0]], [4.0]), "needs a term beside the constant"),
    (Release.from_arrays([[2.3, 1.0], [1.0, 5.0]], XTY, YTY), "2.3 rows, too few for 2 coefficients: a larger price"),
    (Release.from_arrays([[-9.0, 1.0], [1.0, 5.0]], XTY, YTY), "-9.0 rows, too few"),
    (Release.from_arrays([[9.0, 7.0], [7.0, 5.0]], XTY, YTY), "no covariance matrix: .* larger price .* nearest=True"),
    (Release.from_arrays(XTX, XTY, [0.5]), "no covariance matrix"),
    (mapped("unit"), "'unit' were divided by their norm: .* rows='box'"),
    (mapped("unit_xy"), "'unit_xy' were divided by their norm"),
]


@pytest.mark.parametrize(("refused", "said"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_has_no_moments_is_refused_with_what_would_have_worked(
    refused: Release, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        refused.export(tmp_path / "release.sas")
    assert list(tmp_path.iterdir()) == []


def test_one_of_several_targets_is_exported(tmp_path: Path) -> None:
    both = Release.from_arrays(XTX, [[3.0, 1.0], [2.0, 1.0]], [4.0, 4.0], features=["x"], targets=["a", "b"])
    part = both.select(target="b")
    np.testing.assert_allclose(read_sas(write(part, "sas", tmp_path)), least_squares(part), rtol=1e-9)


def test_the_nearest_covariances_are_taken_on_demand_and_said_to_be(tmp_path: Path) -> None:
    indefinite = Release.from_arrays([[50.0, 5.0, 5.0], [5.0, 8.0, 9.0], [5.0, 9.0, 8.0]], [[3.0], [2.0], [1.0]], [4.0])
    moments = raw_moments(indefinite, None, nearest=True)
    assert is_covariance(moments.covariances)
    np.testing.assert_allclose(moments.sums[0], [50.0, 5.0, 5.0, 3.0], rtol=1e-12)  # as released
    for package in PACKAGES:
        assert "PROJECTED" in write(indefinite, package, tmp_path, nearest=True)
    np.testing.assert_allclose(
        read_stata(write(indefinite, "stata", tmp_path, nearest=True)),
        solve(moments.means, moments.covariances),
        rtol=1e-6,
    )


def test_nearest_leaves_covariances_as_they_are(release: Release, tmp_path: Path) -> None:
    assert write(release, "sas", tmp_path, nearest=True) == write(release, "sas", tmp_path)


def test_the_projection_is_the_nearest_of_its_kind() -> None:
    rng = np.random.default_rng(5)
    drawn = rng.normal(size=(4, 4))
    matrix = drawn + drawn.T
    found = project(matrix)
    distance = np.linalg.norm(found - matrix)
    assert np.linalg.eigvalsh(found)[0] > 0.0
    for _ in range(200):  # of semidefinite matrices around it none is nearer, up to the floor
        root = np.linalg.cholesky(found + 1e-9 * np.eye(4)) + rng.normal(scale=0.1, size=(4, 4))
        assert np.linalg.norm(root @ root.T - matrix) > distance - 1e-4


def test_where_nothing_varies_no_projection_helps(tmp_path: Path) -> None:
    hidden = Release.from_arrays([[9.0, 1.0], [1.0, -5.0]], [[0.0], [0.0]], [-4.0])
    with pytest.raises(ValueError, match="only a larger price helps"):
        hidden.export(tmp_path / "release.sas", nearest=True)


# --- Names and files -------------------------------------------------------------------------------------------------


def test_names_are_safe_and_distinct_whatever_they_were() -> None:
    names = safe_names(["sex[M]", "SEX(m)", *HOSTILE, *HOSTILE])
    assert all(re.fullmatch(NAME, name) and not name.endswith("_") for name in names)
    assert len(set(names)) == len(names)
    assert safe_names(["if", "IF", "intercept", "str7", "größer"]) == (
        "v_if",
        "v_if_2",
        "v_intercept",
        "v_str7",
        "grosser",
    )


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_comments_hold_no_character_that_is_obeyed(text: str) -> None:
    for line in comment_lines(text):
        assert re.fullmatch(COMMENT, line)
        assert len(line) <= 100


@pytest.mark.parametrize(
    ("file", "begins"), [("a.SAS", "/*"), ("a.sps", "* "), ("a.do", "* "), ("a.R", "#"), ("a.r", "#")]
)
def test_the_end_of_a_path_says_which_package(release: Release, file: str, begins: str, tmp_path: Path) -> None:
    release.export(tmp_path / file)
    assert (tmp_path / file).read_text(encoding="ascii").startswith(begins)


@pytest.mark.parametrize(("file", "package"), [("a.txt", None), ("a.sas", "SAS")])
def test_an_unknown_package_is_refused(release: Release, file: str, package: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"one of 'sas' \(.sas\), 'spss' \(.sps\)"):
        release.export(tmp_path / file, package)


def test_the_page_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert (found.failed, found.attempted > 5) == (0, True)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("flchain.sas", "flchain.sps", "flchain.do", "flchain.R", "smaller.txt")
    }
