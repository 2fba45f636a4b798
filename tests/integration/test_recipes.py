"""docs/recipes.md runs as written, and without noise each recipe is the regression on rows mapped as the theses say."""

import functools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from support import PERSONS, Api, World, ZeroNoise, body, open_population, open_world, problem

import analyst_client
from analyst_client import OLS, AdaSSP, CuratorClient, EmpiricalBayes, Release
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price

ROOT = Path(__file__).resolve().parents[2]
FLCHAIN = ROOT / "examples" / "flchain"
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
FEATURES = ["age", "creatinine", "lambda"]
Floats = npt.NDArray[np.float64]
# In units of half a column's width. Values are rounded to 1/131,071 of it, and so are directions under `unit`.
PRECISION = 1e-4
HALF_WIDTH = 3.0  # the least of the target's, in mg/dL


def sections() -> dict[str, list[tuple[str, str]]]:
    """Return the blocks of each section, with their language."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    fence = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return {title: fence.findall(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


SHARED = "What the blocks share"
BOUGHT = "Means and deviations, released first"
CHANGED = "Hospitals with other words and units"
BLOCKS = sections()
RECIPES = [title for title, blocks in BLOCKS.items() if title != SHARED and any(kind == "python" for kind, _ in blocks)]


class Wire(httpx.BaseTransport):
    """Carries requests to the application in this process."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        path = request.url.raw_path.decode()
        answer = self.api.request(request.method, path, token=None, headers=headers, content=request.read())
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A curator without noise that holds flchain, and what the page declares."""
    with open_world(tmp_path_factory.mktemp("recipes"), noise=ZeroNoise()) as made:
        open_population(made.curator, "olmsted", Price(mu=10.0))
        made.add_token("eve", Role.ANALYST)
        register(made, (FLCHAIN / "manifest.toml").read_text(encoding="utf-8"))
        for kind, text in (block for blocks in BLOCKS.values() for block in blocks):
            if kind == "toml":
                register(made, text)
        yield made


def register(world: World, manifest: str) -> None:
    """Register the rows of flchain once more, as an admin does."""
    path = world.folder / "manifest.toml"
    path.write_text(manifest, encoding="utf-8")
    data = FLCHAIN / "flchain.csv"
    if 'name = "sued"' in manifest:
        frame = pd.read_csv(data).assign(creatinine=lambda rows: 88.42 * rows["creatinine"])
        frame["sex"] = frame["sex"].map({"F": "w", "M": "m"})
        data = world.folder / "sued.csv"
        frame.rename(columns={"age": "alter", "sex": "geschlecht", "creatinine": "kreatinin"}).to_csv(data, index=False)
    dataset = world.curator.datasets.register(path, data, actor="operator:test")
    world.grant("eve", dataset.id)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    frame = pd.read_csv(FLCHAIN / "flchain.csv")[[*FEATURES, "kappa"]]
    return frame.dropna().astype(np.float64)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """Whom to predict for, one of them beyond every bound."""
    return pd.DataFrame(
        {"age": [52.0, 71.5, 88.0, 110.0], "creatinine": [0.7, 1.1, 2.0, 4.0], "lambda": [0.9, 1.6, 3.3, 7.0]}
    )


@dataclass
class Run:
    """Results that the blocks of a section left behind."""

    names: dict[str, Any]

    @property
    def release(self) -> Release:
        """The release that they bought last."""
        found = self.names["release"]
        assert isinstance(found, Release)
        return found


@pytest.fixture(scope="module")
def runs(world: World, people: pd.DataFrame) -> dict[str, Run]:
    """Run every section of the page, each in names of its own."""
    with pytest.MonkeyPatch.context() as patch:
        made = functools.partial(CuratorClient, transport=Wire(world.api("eve")), memory=None)
        patch.setattr(analyst_client, "CuratorClient", made)
        shared: dict[str, Any] = {"token": world.tokens["eve"], "people": people}
        for kind, text in BLOCKS[SHARED]:
            if kind == "python":
                exec(text, shared)
        found = {}
        for title in RECIPES:
            names = dict(shared)
            for kind, text in BLOCKS[title]:
                if kind == "python":
                    exec(text, names)
                if title == BOUGHT and "release" not in names:  # between its blocks the admin acts
                    register(world, manifest_of("flchain-rescaled", names["bounds"]))
            found[title] = Run(names)
    return found


def manifest_of(name: str, bounds: dict[str, tuple[float, float]]) -> str:
    """Write a manifest of numeric columns."""
    columns = (
        f'{{name = "{column}", type = "numeric", missing = "omit", lower = {float(low)!r}, upper = {float(high)!r}}}'
        for column, (low, high) in bounds.items()
    )
    head = f'name = "{name}"\npopulation = "olmsted"\nrow_capacity = 20_000\n{PERSONS}\n'
    return f"{head}columns = [{', '.join(columns)}]\n"


def declared(dataset: str) -> dict[str, tuple[float, float]]:
    """Return the bounds that the page, or flchain's manifest, declares."""
    texts = [text for blocks in BLOCKS.values() for kind, text in blocks if kind == "toml"]
    manifests = [tomllib.loads(text) for text in (*texts, (FLCHAIN / "manifest.toml").read_text(encoding="utf-8"))]
    (found,) = [manifest for manifest in manifests if manifest["name"] == dataset]
    return {column["name"]: (column["lower"], column["upper"]) for column in found["columns"] if "lower" in column}


@dataclass(frozen=True)
class Prepared:
    """Rows as a thesis prepares them: X, y, and the rows Z to predict for; a target is center + scale · y."""

    X: Floats
    y: Floats
    Z: Floats
    center: float
    scale: float

    @classmethod
    def standardised(
        cls, rows: pd.DataFrame, people: pd.DataFrame, bounds: dict[str, tuple[float, float]], k: float
    ) -> "Prepared":
        """Clip, subtract m, divide by σ, where bounds are m ± kσ; the target over y_max, about its middle."""
        low, high = (np.array([bounds[name][side] for name in FEATURES]) for side in (0, 1))
        mean, sd = (low + high) / 2, (high - low) / (2 * k)
        X, Z = ((np.clip(frame[FEATURES].to_numpy(), low, high) - mean) / sd for frame in (rows, people))
        bottom, top = bounds["kappa"]
        center, y_max = (top + bottom) / 2, (top - bottom) / 2
        return cls(X, (np.clip(rows["kappa"].to_numpy(), bottom, top) - center) / y_max, Z, center, y_max)

    def row_norms(self) -> "Prepared":
        """Equation 3.3."""
        return replace(self, X=self.X / norms(self.X), Z=self.Z / norms(self.Z))

    def row_norms_with_y(self, y_max2: float) -> "Prepared":
        """Equation 3.4, ratios beyond y_max2 clipped; a prediction is multiplied by the norm again."""
        ratio = np.clip(self.y / norms(self.X)[:, 0] / y_max2, -1.0, 1.0)
        return replace(self, X=self.X / norms(self.X), y=ratio, scale=self.scale * y_max2)

    def over(self, x_max: float) -> "Prepared":
        """Equation 3.5."""
        return replace(self, X=self.X / x_max, Z=self.Z / x_max)

    def with_constant(self) -> "Prepared":
        """Section 4.2.1."""
        X, Z = (np.column_stack([np.ones(len(rows)), rows]) for rows in (self.X, self.Z))
        return replace(self, X=X, Z=Z)

    def within(self, norm: float) -> "Prepared":
        """Weight rows that are longer than a norm, targets too."""
        weight = np.minimum(1.0, norm / norms(self.X))
        return replace(self, X=self.X * weight, y=self.y * weight[:, 0])

    def coefficients(self, penalties: Floats | float = 0.0) -> Floats:
        """Fit with scikit-learn; a penalty λ is a row of √λ with the target 0."""
        d = self.X.shape[1]
        extra = np.diag(np.sqrt(np.broadcast_to(penalties, d)))
        fit = LinearRegression(fit_intercept=False).fit(
            np.vstack([self.X, extra]), np.concatenate([self.y, np.zeros(d)])
        )
        return np.asarray(fit.coef_, dtype=np.float64)

    def predict(self, theta: Floats) -> Floats:
        return np.asarray(self.center + self.scale * (self.Z @ theta), dtype=np.float64)


def norms(rows: Floats) -> Floats:
    """Return the norms of rows, as a column."""
    return np.linalg.norm(rows, axis=1, keepdims=True)


def prepare(title: str, rows: pd.DataFrame, people: pd.DataFrame, k: float = 4.0) -> Prepared:
    """Prepare rows as the section of the page says; k is what its manifest takes for x_max."""
    standard = Prepared.standardised(rows, people, declared("flchain-standard"), k)
    clipped = Prepared.standardised(rows, people, declared("flchain-clipped"), 1.0)
    raw = Prepared.standardised(rows, people, declared("flchain"), 1.0)
    made = {
        "Row norms": standard.row_norms(),
        "Row norms, with a constant": standard.row_norms().with_constant(),
        "Row norms, y too": standard.row_norms_with_y(1.0 / k),
        "Maximum norm": standard.over(k).within(1.0),
        "Maximum norm, with a constant": standard.over(k).with_constant().within(2**0.5),
        "Unstandardised coefficients": raw.with_constant(),
        "Clipped above": clipped.with_constant(),
        "Algorithms 2 and 3": standard.row_norms(),
        "Nieminen's projection": clipped.with_constant(),
    }
    return made[title]


@pytest.mark.parametrize("title", [title for title in RECIPES if title not in {BOUGHT, CHANGED}])
def test_without_noise_a_recipe_is_least_squares_on_the_thesis_rows(
    title: str, runs: dict[str, Run], rows: pd.DataFrame, people: pd.DataFrame
) -> None:
    expected = prepare(title, rows, people)
    found = OLS().fit(runs[title].release).predict(people, clip=True)
    np.testing.assert_allclose(found, expected.predict(expected.coefficients()), atol=PRECISION * HALF_WIDTH)


@pytest.mark.parametrize("title", [title for title in RECIPES if title not in {BOUGHT, CHANGED}])
def test_the_fit_on_the_page_is_penalised_least_squares_on_those_rows(
    title: str, runs: dict[str, Run], rows: pd.DataFrame, people: pd.DataFrame
) -> None:
    fit = runs[title].names["fit"]
    if title == "Nieminen's projection":
        assert isinstance(fit, EmpiricalBayes)
        assert np.isfinite(fit.predict(people, clip=True)).all()
        return
    assert isinstance(fit, AdaSSP)
    penalties = np.full(len(fit.terms_), fit.penalty_)
    if fit.terms_[0].kind == "constant":
        penalties[0] = fit.constant_penalty_
    expected = prepare(title, rows, people)
    np.testing.assert_allclose(
        fit.predict(people, clip=True), expected.predict(expected.coefficients(penalties)), atol=PRECISION * HALF_WIDTH
    )


def test_the_manifests_are_of_the_typical_values_that_the_page_names() -> None:
    typical = {"age": (65.0, 10.0), "creatinine": (1.0, 0.3), "lambda": (1.5, 0.8)}
    standard, clipped = declared("flchain-standard"), declared("flchain-clipped")
    for name, (mean, deviation) in typical.items():
        assert standard[name] == pytest.approx((mean - 4 * deviation, mean + 4 * deviation))
        assert clipped[name][1] == pytest.approx(mean + 1.5 * deviation)


def test_row_norms_are_those_of_any_multiple_of_the_deviation(rows: pd.DataFrame, people: pd.DataFrame) -> None:
    near, far = (prepare("Row norms", rows, people, k) for k in (1.0, 4.0))
    np.testing.assert_allclose(near.X, far.X, atol=1e-12)


def test_raw_coefficients_are_those_of_rows_in_raw_units(
    runs: dict[str, Run], rows: pd.DataFrame, people: pd.DataFrame
) -> None:
    fit = OLS().fit(runs["Unstandardised coefficients"].release)
    bounds = declared("flchain")
    clipped = pd.DataFrame({name: rows[name].clip(*bounds[name]) for name in (*FEATURES, "kappa")})
    expected = LinearRegression().fit(clipped[FEATURES].to_numpy(), clipped["kappa"].to_numpy())
    np.testing.assert_allclose(fit.coef_, expected.coef_, rtol=PRECISION)
    assert fit.intercept_ == pytest.approx(expected.intercept_, rel=1e-3)
    # Equation 3.7 itself.
    center, scale = (np.array([getattr(term, part) for term in fit.terms_[1:]]) for part in ("center", "scale"))
    target, theta = fit.targets_[0], fit.scaled_coef_
    np.testing.assert_allclose(fit.coef_, theta[1:] * target.scale / scale)
    assert fit.intercept_ == pytest.approx(target.center + target.scale * theta[0] - fit.coef_ @ center)


def test_weighted_ratios_have_coefficients_in_raw_units(runs: dict[str, Run], people: pd.DataFrame) -> None:
    fit = OLS().fit(runs["Row norms, y too"].release)
    inside = people.iloc[:3]
    np.testing.assert_allclose(fit.predict(inside), fit.intercept_ + inside[FEATURES].to_numpy() @ fit.coef_)


def test_bought_means_and_deviations_are_those_of_the_rows(runs: dict[str, Run], rows: pd.DataFrame) -> None:
    names = runs[BOUGHT].names
    for name, (low, high) in declared("flchain").items():
        values = rows[name].clip(low, high)
        center, deviation = values.mean(), values.std(ddof=0)
        expected = max(low, center - 3 * deviation), min(high, center + 3 * deviation)
        assert names["bounds"][name] == pytest.approx(expected, abs=PRECISION * (high - low))
    assert names["release"].dataset == "flchain-rescaled"
    # A release of these columns that the page bought before is quieter, and served for nothing; bought alone it is 162.
    assert names["first"].answer == "stored"
    assert names["first"].noise.xtx_offdiagonal < 162


def test_published_noise_is_that_of_the_formulas(runs: dict[str, Run]) -> None:
    noise, cost = runs["Algorithms 2 and 3"].release.noise, runs["Algorithms 2 and 3"].release.cost
    classical = np.sqrt(2 * np.log(3.75 / 1e-6)) / (1 / 3)
    assert (noise.xtx_diagonal, noise.xty, noise.lambda_min) == pytest.approx((classical,) * 3, rel=1e-6)
    assert cost.epsilon == pytest.approx(0.42, abs=0.005)
    laplace = runs["Nieminen's projection"].release
    scales = np.array([4 * 5 / 0.35, 2 * 4 / 0.6, 1 / 0.05]) * np.sqrt(2)
    assert (laplace.noise.xtx_diagonal, laplace.noise.xty, laplace.noise.yty) == pytest.approx(tuple(scales), rel=1e-6)
    assert laplace.cost.pure_epsilon == pytest.approx(0.525)


def test_the_classical_formula_is_refused_where_it_proves_nothing(world: World) -> None:
    request = body(
        features=FEATURES,
        calibration="classical",
        statistics=["xtx", "xty", "lambda_min"],
        rows={"map": "unit"},
        price={"epsilon": 3.0, "delta": 1e-6},
    )
    problem(world.api("eve").post("/v1/datasets/flchain/quotes", json=request), "request-invalid", 422)
    request["price"]["epsilon"] = 2.9
    assert world.api("eve").post("/v1/datasets/flchain/quotes", json=request).status_code == 200


def test_a_request_brings_no_scales_of_its_own(world: World) -> None:
    request = body(features=FEATURES, scaling={"age": {"center": 65.0, "scale": 40.0}})
    problem(world.api("eve").post("/v1/datasets/flchain/quotes", json=request), "request-invalid", 422)


def test_the_page_says_what_a_larger_norm_costs(runs: dict[str, Run]) -> None:
    for plain, constant in (
        ("Row norms", "Row norms, with a constant"),
        ("Maximum norm", "Maximum norm, with a constant"),
    ):
        small, large = (runs[title].release.noise for title in (plain, constant))
        assert large.xtx_diagonal == pytest.approx(2 * small.xtx_diagonal, rel=1e-4)
        assert large.xty == pytest.approx(2**0.5 * small.xty, rel=1e-4)


def test_hospitals_with_other_words_are_fitted_as_their_rows(runs: dict[str, Run]) -> None:
    """They have the same rows here: the fit of both is that of one."""
    names = runs[CHANGED].names
    alone, fit, of_women = OLS().fit(names["north"]), names["fit"], names["fit_of_women"]
    assert fit.coef_ == pytest.approx(alone.coef_, rel=0.1)  # row weights follow from each one's bounds
    slopes = [dict(zip(one.term_names_, one.coef_, strict=True)) for one in (fit, of_women)]
    assert slopes[1]["sex[F]"] == pytest.approx(-slopes[0]["sex[M]"], rel=1e-2)
    assert names["south"].verify()


def test_every_recipe_of_the_table_has_a_section() -> None:
    links = re.findall(r"\]\(#([a-z0-9-]+)\)", PAGE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in BLOCKS}
    assert set(links) <= anchors
    assert len(RECIPES) == 11
