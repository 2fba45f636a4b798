"""Figures: what is drawn is what was computed, an interval without an end has none, and nothing is left behind."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from client_examples import release_of_rows
from counts_examples import release_of
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from scipy.stats import gaussian_kde
from test_client_survival import table_of

from analyst_client import (
    OLS,
    AdaSSP,
    Assumptions,
    Axis,
    BayesianRegression,
    Column,
    CountsRequest,
    CuratorClient,
    EmpiricalBayes,
    EstimationError,
    Release,
)
from analyst_client.analyses import kaplan_meier, roc_curve
from analyst_client.estimators import RidgePath, ridge_path
from analyst_client.estimators.linalg import noise_norm_quantile
from analyst_client.kinds.gram.examples import QUOTE
from analyst_client.planning import power_table
from analyst_client.plots import (
    budget_bar,
    coefficient_forest,
    histogram,
    noisy_spectrum,
    posterior_density,
    privacy_accuracy_curve,
    quote_accuracy_curve,
    ridge_path_plot,
    roc_plot,
    survival_plot,
)
from analyst_client.plots.posterior import kernel_density
from analyst_client.plots.style import marker_of, write_tick
from analyst_client.schema import Amount, Budget

mpl.use("Agg")
RNG = np.random.default_rng(17)
U = RNG.uniform(-1.0, 1.0, (400, 3))
Y = 0.2 + U @ [0.3, -0.4, 0.0] + RNG.normal(0.0, 0.1, 400)
AGE, WARD = Column.numeric("age", 50, 100, unit="years"), Column.categorical("ward", ["A", "B", "C"])
KAPPA: list[str | Column] = [Column.numeric("kappa", 0, 6, unit="mg/dL")]


def release(noise: float = 3.0, features: list[str | Column] | None = None, rows: int = 400) -> Release:
    return release_of_rows(
        U[:rows], Y[:rows], features=[AGE, "dose", "x"] if features is None else features, targets=KAPPA, noise=noise
    )


def weak(noise: float = 9.0) -> Release:
    """Return a release whose noise hides how age varies, though not that it explains something."""
    xtx = [[900.0, 20.0, 10.0], [20.0, 12.0, 5.0], [10.0, 5.0, 300.0]]
    return Release.from_arrays(xtx, [90.0, 60.0, 60.0], 90.0, features=[AGE, "dose"], targets=KAPPA, noise=noise)


FIT = OLS().fit(release())
AMOUNT: dict[str, Any] = {"mu": None, "rho": None, "delta": 1e-6}


def budget(posted: int | None = 110, pending: int | None = 50, accountant: str = "gdp") -> Budget:
    units = (1000, posted, pending, None if posted is None or pending is None else 1000 - posted - pending)
    limit, spent, held, left = (
        Amount(epsilon=e, units=u, **AMOUNT) for e, u in zip((3.0, 0.8, 0.3, 2.5), units, strict=True)
    )
    head: Any = None  # no figure reads it
    return Budget("flchain", "olmsted", accountant, "add_remove", 1e-6, limit, spent, held, left, 0.25, head)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Hold every test to the settings that it found, and close what it drew."""
    before = dict(mpl.rcParams)
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()  # whatever cannot be drawn shows here
    plt.close("all")
    assert dict(mpl.rcParams) == before


@pytest.fixture
def ax() -> Axes:
    """Return the Axes of a figure that pyplot does not know."""
    return Figure().add_subplot()


def lines(ax: Axes, count: int) -> list[Line2D]:
    return [line for line in ax.lines if len(np.atleast_1d(line.get_xdata())) == count]


def segments(ax: Axes) -> list[tuple[float, ...]]:
    """Return the ends of horizontal lines in data units."""
    drawn = [line for line in lines(ax, 2) if line.get_transform() == ax.transData and line.get_linestyle() == "-"]
    return [tuple(np.asarray(line.get_xdata(), float)) for line in drawn]


def points(ax: Axes) -> list[tuple[float, float]]:
    """Return where single marks stand in data units."""
    drawn = [line for line in lines(ax, 1) if line.get_transform() == ax.transData]
    return [(float(np.asarray(line.get_xdata())[0]), float(np.asarray(line.get_ydata())[0])) for line in drawn]


def heads(ax: Axes) -> list[str]:
    """Return the arrows at the edges of the Axes."""
    return [str(line.get_marker()) for line in lines(ax, 1) if line.get_transform() != ax.transData]


def words(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def row_names(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


DRAWN: Mapping[str, Any] = {
    "forest": lambda ax: coefficient_forest({"a": FIT, "b": AdaSSP().fit(weak())}, ax=ax),
    "curve": lambda ax: privacy_accuracy_curve([0.1, 1.0, 3.0], [np.inf, 0.3, 0.1], quoted=(1.0, 0.3), ax=ax),
    "budget": lambda ax: budget_bar(budget(), ax=ax),
    "posterior": lambda ax: posterior_density({"a": Y, "b": U[:, 0]}, prior_sd=1.0, ax=ax),
    "spectrum": lambda ax: noisy_spectrum(weak(30.0), ax=ax),
    "path": lambda ax: ridge_path_plot(ridge_path(release()), ax=ax),
}


class TestEveryFigure:
    """Rules that hold for all of them."""

    @pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
    def test_an_axes_goes_in_and_comes_out_and_pyplot_knows_nothing(self, draw: Any, ax: Axes) -> None:
        assert draw(ax) is ax
        assert not plt.get_fignums()
        assert not ax.spines["top"].get_visible()
        ax.figure.canvas.draw()

    @pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
    def test_without_an_axes_a_figure_of_its_own(self, draw: Any) -> None:
        first, second = draw(None), draw(None)
        assert isinstance(first, Axes)
        assert len(plt.get_fignums()) == 2
        assert first.figure is not second.figure
        assert first.get_xlabel()

    @pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
    def test_nothing_is_cut_off(self, draw: Any) -> None:
        figure = draw(None).figure
        figure.canvas.draw()
        page = figure.bbox
        for axes in figure.axes:
            box = axes.get_tightbbox(figure.canvas.get_renderer())
            assert page.contains(*(box.p0 + 1))
            assert page.contains(*(box.p1 - 1))

    @pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
    def test_on_a_dark_page_no_mark_is_dark(self, draw: Any) -> None:
        with plt.style.context("dark_background"):
            drawn = draw(None)
            drawn.figure.canvas.draw()
        assert all(sum(to_rgb(line.get_color())) > 1.0 for line in drawn.lines)
        assert all(sum(to_rgb(text.get_color())) > 1.0 for text in drawn.texts)

    @pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
    def test_nothing_is_fitted_or_fetched(self, draw: Any, ax: Axes, monkeypatch: pytest.MonkeyPatch) -> None:
        prepared = {"forest": FIT, "path": ridge_path(release())}
        fits = {"a": FIT, "b": AdaSSP().fit(weak())}

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise AssertionError("a figure fits and fetches nothing")

        for owner, name in ((OLS, "fit"), (AdaSSP, "fit"), (CuratorClient, "__init__")):
            monkeypatch.setattr(owner, name, refuse)
        if draw is DRAWN["forest"]:
            coefficient_forest(fits, ax=ax)
        elif draw is DRAWN["path"]:
            ridge_path_plot(prepared["path"], ax=ax)  # type: ignore[arg-type]
        else:
            draw(ax)

    def test_the_client_does_not_import_matplotlib(self) -> None:
        code = "import sys, analyst_client; sys.exit('matplotlib' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_without_matplotlib_the_error_says_what_to_install(self) -> None:
        code = "import sys; sys.modules['matplotlib'] = None\nimport analyst_client.plots"
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
        assert "dp-curator-client[plots]" in done.stderr

    def test_thirty_series_are_told_apart(self) -> None:
        assert len({(i % 6, marker_of(i)) for i in range(30)}) == 30

    def test_ticks_are_plain_numbers_as_far_as_they_go(self) -> None:
        assert [write_tick(x) for x in (0.0, 0.0001, 30_000.0, 3e5, -1e-7)] == [
            "0",
            "0.0001",
            "30,000",
            "3·10⁵",
            "−1·10⁻⁷",
        ]


class TestForest:
    """Coefficients."""

    def test_points_and_intervals_are_the_fit_s(self, ax: Axes) -> None:
        coefficient_forest(FIT, ax=ax)
        assert [x for x, _ in points(ax)] == pytest.approx(FIT.coef_)
        assert segments(ax) == [pytest.approx(tuple(pair)) for pair in FIT.conf_int()[1:]]
        assert [y for _, y in points(ax)] == [0.0, 1.0, 2.0]

    @pytest.mark.parametrize("method", ["delta", "bootstrap", "posterior"])
    def test_other_methods(self, method: Any, ax: Axes) -> None:
        coefficient_forest(FIT, level=0.8, method=method, ax=ax)
        assert segments(ax) == [pytest.approx(tuple(pair)) for pair in FIT.conf_int(0.8, method)[1:]]
        assert "80% intervals" in ax.get_xlabel()

    def test_names_and_units(self, ax: Axes) -> None:
        coefficient_forest(FIT, ax=ax)
        assert row_names(ax) == ["age (years)", "dose", "x"]
        assert ax.get_xlabel() == "change of kappa (mg/dL) for one unit of the term\n95% intervals (Fieller)"
        assert ax.yaxis_inverted()

    def test_scaled_coefficients_are_those_of_half_a_range(self, ax: Axes) -> None:
        coefficient_forest(FIT, ["age"], scaled=True, ax=ax)
        assert points(ax)[0][0] == pytest.approx(25.0 * FIT.coef_[0])
        assert segments(ax)[0] == pytest.approx(tuple(25.0 * FIT.conf_int()[1]))
        assert row_names(ax) == ["age (+25 years)"]

    def test_fits_with_other_bounds_are_scaled_alike(self, ax: Axes) -> None:
        wide = OLS().fit(release(features=[Column.numeric("age", 25, 125), "dose", "x"]))
        coefficient_forest({"narrow": FIT, "wide": wide}, ["age"], scaled=True, ax=ax)
        assert [x for x, _ in points(ax)] == pytest.approx([50.0 * FIT.coef_[0], 50.0 * wide.coef_[0]])

    def test_rows_divided_by_their_norm_keep_scaled_coefficients(self, ax: Axes) -> None:
        text = release(0.5).text.replace('"request":{', '"request":{"rows":{"map":"unit"},', 1)
        fit = OLS().fit(Release.from_text(text))
        assert fit.row_map_ == "unit"
        coefficient_forest(fit, scaled=True, ax=ax)
        assert [x for x, _ in points(ax)] == pytest.approx(fit.coef_)

    def test_several_fits_stand_apart_and_have_names(self, ax: Axes) -> None:
        other = AdaSSP().fit(release())
        coefficient_forest({"OLS": FIT, "_AdaSSP $x$": other}, ax=ax)
        assert words(ax) == ["OLS", "_AdaSSP $x$"]
        assert [x for x, _ in points(ax)] == pytest.approx([*FIT.coef_, *other.coef_])
        assert len({y for _, y in points(ax)}) == 6
        ax.figure.canvas.draw()

    def test_sites_with_other_terms(self, ax: Axes) -> None:
        coefficient_forest({"a": FIT, "b": OLS().fit(release(features=[AGE, "dose", "z"]))}, ax=ax)
        assert row_names(ax) == ["age (years)", "dose", "x", "z"]
        assert len(points(ax)) == 6

    def test_levels_and_the_constant(self, ax: Axes) -> None:
        fit = OLS().fit(release(features=[AGE, WARD]))
        coefficient_forest(fit, ["ward[C]", "(constant)"], ax=ax)
        assert row_names(ax) == ["ward[C]", "(constant)"]
        assert [x for x, _ in points(ax)] == pytest.approx([fit.coef_[2], fit.intercept_])

    def test_an_unbounded_interval_leaves_the_axes_and_ends_in_arrows(self, ax: Axes) -> None:
        fit = EmpiricalBayes().fit(weak())
        sets = fit.confidence_sets()
        assert (sets["age"].kind, sets["dose"].kind) == ("rays", "line")
        coefficient_forest(fit, ax=ax)
        left, right = ax.get_xlim()
        below, above, line = segments(ax)
        assert below[0] < left - 100 * (right - left)
        assert below[1] == pytest.approx(sets["age"].lower)
        assert above[0] == pytest.approx(sets["age"].upper)
        assert above[1] > right + 100 * (right - left)
        assert line[0] < left
        assert line[1] > right
        assert left < sets["age"].lower < sets["age"].upper < right
        assert heads(ax) == ["<", ">", "<", ">"]
        assert "arrows: no bound" in ax.get_xlabel()
        gap = [tuple(np.asarray(mark.get_xdata())) for mark in lines(ax, 2) if mark.get_marker() == "|"]
        assert gap == [pytest.approx((sets["age"].lower, sets["age"].upper))]

    def test_bounded_intervals_have_no_arrows_and_fit_in(self, ax: Axes) -> None:
        coefficient_forest(FIT, ax=ax)
        left, right = ax.get_xlim()
        assert heads(ax) == []
        assert left < FIT.conf_int()[1:].min()
        assert right > FIT.conf_int()[1:].max()
        assert left < 0.0 < right

    def test_one_of_several_targets(self, ax: Axes) -> None:
        fit = OLS().fit(release_of_rows(U, np.column_stack([Y, -Y]), targets=["a", "b"], noise=1.0))
        coefficient_forest(fit, target="b", ax=ax)
        assert [x for x, _ in points(ax)] == pytest.approx(fit.coef_[1])
        with pytest.raises(ValueError, match="several targets"):
            coefficient_forest(fit, ax=ax)

    def test_many_terms_with_long_names(self) -> None:
        X = RNG.uniform(-1.0, 1.0, (400, 40))
        names: list[str | Column] = [f"a rather long name of the column with the number {j}" for j in range(40)]
        fit = OLS().fit(release_of_rows(X, X[:, 0], features=names, noise=1.0))
        drawn = coefficient_forest(fit)
        assert len(points(drawn)) == 40
        assert all(len(name) <= 36 for name in row_names(drawn))
        assert drawn.figure.get_figheight() > 8

    def test_what_cannot_be_drawn(self, ax: Axes) -> None:
        with pytest.raises(ValueError, match="at least one fit"):
            coefficient_forest({}, ax=ax)
        with pytest.raises(ValueError, match="no fit has the term"):
            coefficient_forest(FIT, ["height"], ax=ax)
        with pytest.raises(ValueError, match="no term to draw"):
            coefficient_forest(FIT, [], ax=ax)
        with pytest.raises(EstimationError, match="not fitted"):
            coefficient_forest(OLS(), ax=ax)
        with pytest.raises(ValueError, match="method"):
            coefficient_forest(FIT, method="wald", ax=ax)  # type: ignore[arg-type]

    def test_a_refused_figure_is_not_made(self) -> None:
        with pytest.raises(ValueError, match="no fit has"):
            coefficient_forest(FIT, ["height"])
        assert not plt.get_fignums()


class TestCurve:
    """Accuracy against ε."""

    def test_the_curve_is_the_arrays_in_order(self, ax: Axes) -> None:
        privacy_accuracy_curve([3.0, 0.3, 1.0], [0.1, 0.9, 0.3], ax=ax)
        (curve,) = lines(ax, 3)
        assert np.asarray(curve.get_xdata()).tolist() == [0.3, 1.0, 3.0]
        assert np.asarray(curve.get_ydata()).tolist() == [0.9, 0.3, 0.1]
        assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")

    def test_reference_quoted_point_and_labels(self, ax: Axes) -> None:
        more: dict[str, Any] = {"label": "half length of age", "unit": "mg/dL", "delta": 1e-6}
        privacy_accuracy_curve([0.3, 1.0], [0.9, 0.3], reference=0.05, quoted=(0.5, 0.6), ax=ax, **more)
        assert points(ax) == [(0.5, 0.6)]
        assert words(ax) == ["without privacy"]
        assert any(np.all(np.asarray(line.get_ydata()) == 0.05) for line in lines(ax, 2))
        assert ax.get_xlabel() == "ε, at δ = 1e-06"
        assert ax.get_ylabel() == "half length of age (mg/dL)"
        assert [text.get_text() for text in ax.texts] == ["ε = 0.5: 0.6"]

    def test_where_nothing_is_bounded_the_axes_are_shaded(self, ax: Axes) -> None:
        privacy_accuracy_curve([0.1, 0.2, 1.0, 3.0], {"a": [np.inf, np.inf, 0.3, 0.1], "b": [np.inf] * 3 + [2]}, ax=ax)
        (shade,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert shade.get_x() + shade.get_width() == pytest.approx(0.2)
        assert [text.get_text() for text in ax.texts] == ["unbounded"]
        assert words(ax) == ["a", "b"]
        assert (1.0, 0.3) in points(ax)  # an arrow at the first bounded ε
        ax.figure.canvas.draw()

    def test_nothing_bounded_at_all(self, ax: Axes) -> None:
        privacy_accuracy_curve([0.1, 0.2], [np.inf, np.inf], ax=ax)
        ax.figure.canvas.draw()

    def test_an_accuracy_may_be_negative_on_a_linear_axis(self, ax: Axes) -> None:
        privacy_accuracy_curve([0.1, 1.0], [-0.2, 0.8], log=False, label="R²", ax=ax)
        assert ax.get_yscale() == "linear"
        with pytest.raises(ValueError, match="positive"):
            privacy_accuracy_curve([0.1, 1.0], [-0.2, 0.8], ax=ax)

    @pytest.mark.parametrize(
        ("epsilons", "half_lengths", "more"),
        [
            ([0.0, 1.0], [1.0, 1.0], {}),
            ([], [], {}),
            ([1.0], [1.0, 2.0], {}),
            ([1.0], {}, {}),
            ([1.0], [np.nan], {}),
            ([1.0], [1.0], {"quoted": (0.0, 1.0)}),
        ],
    )
    def test_what_cannot_be_drawn(self, epsilons: Any, half_lengths: Any, more: Any, ax: Axes) -> None:
        with pytest.raises(ValueError, match="must be"):
            privacy_accuracy_curve(epsilons, half_lengths, ax=ax, **more)


class TestBudget:
    """Spent, pending, remaining."""

    def test_parts_are_shares_of_the_account_s_unit(self, ax: Axes) -> None:
        budget_bar(budget(), ax=ax)
        bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert [bar.get_width() for bar in bars] == pytest.approx([0.11, 0.05, 0.84])
        assert [bar.get_x() for bar in bars] == pytest.approx([0.0, 0.11, 0.16])
        assert words(ax) == ["spent 11.00% (ε 0.8)", "pending 5.00% (ε 0.3)", "remaining 84.00% (ε 2.5)"]
        assert ax.get_xlabel() == "µ² of olmsted, of a limit of ε = 3, δ = 1e-06; shares add up, ε does not"
        assert ax.get_xlim() == (0.0, 1.0)

    def test_units_that_are_not_stated(self, ax: Axes) -> None:
        budget_bar(budget(None), ax=ax)
        assert [bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle)] == pytest.approx([0.25, 0.0, 0.75])

    def test_epsilons_that_add_up(self, ax: Axes) -> None:
        budget_bar(budget(accountant="pure"), ax=ax)
        assert "add up" not in ax.get_xlabel()
        assert ax.get_xlabel().startswith("ε of olmsted")


class TestPosterior:
    """Densities of draws."""

    DRAWS = RNG.normal(0.3, 0.1, (4, 1000))

    def test_interval_and_median(self, ax: Axes) -> None:
        posterior_density(self.DRAWS, "age", interval=0.8, ax=ax)
        low, middle, high = np.quantile(self.DRAWS, [0.1, 0.5, 0.9])
        assert segments(ax)[0] == pytest.approx((low, high))
        assert points(ax) == [pytest.approx((middle, 0.0))]
        assert row_names(ax) == ["age"]
        assert ax.get_xlabel() == "80% intervals and medians"

    def test_the_density_is_that_of_scipy(self) -> None:
        for values in (self.DRAWS.ravel(), RNG.gamma(2.0, 1.0, 3000)):
            x, density = kernel_density(values)
            spread = min(np.std(values, ddof=1), np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.34)
            factor = 0.9 * spread * len(values) ** -0.2 / np.std(values, ddof=1)
            reference = gaussian_kde(values, factor)(x)
            assert np.max(np.abs(density - reference)) < 0.01 * np.max(reference)
            assert np.trapezoid(density, x) == pytest.approx(1.0, abs=1e-3)

    def test_draws_that_are_all_equal(self, ax: Axes) -> None:
        posterior_density(np.full(10, 0.3), ax=ax)
        posterior_density(np.zeros(10), ax=ax)
        ax.figure.canvas.draw()

    def test_parameters_have_rows_and_priors_the_row_s_own_scale(self, ax: Axes) -> None:
        draws = {"a": self.DRAWS, "b": 2.0 * self.DRAWS.ravel(), "c": self.DRAWS}
        posterior_density(draws, ["b", "a"], prior_sd={"a": 0.2}, label="kappa (mg/dL)", ax=ax)
        assert row_names(ax) == ["b", "a"]
        assert words(ax) == ["posterior", "prior"]
        assert ax.get_xlabel().startswith("kappa (mg/dL)\n")
        of_b, of_a, prior = lines(ax, 1024)
        heights = [row - np.min(np.asarray(one.get_ydata())) for row, one in ((0, of_b), (1, of_a), (1, prior))]
        assert heights[0] == pytest.approx(heights[1]) == 0.86
        _, density = kernel_density(self.DRAWS.ravel())
        peak = 1.0 / (0.2 * np.sqrt(2.0 * np.pi))
        assert heights[2] == pytest.approx(0.86 * peak / np.max(density), rel=1e-3)

    def test_an_array_of_parameters(self, ax: Axes) -> None:
        posterior_density(np.stack([self.DRAWS, -self.DRAWS], axis=2), prior_sd=[1.0, 2.0], ax=ax)
        assert row_names(ax) == ["parameter 1", "parameter 2"]
        assert [x for x, _ in points(ax)] == pytest.approx([np.median(self.DRAWS), -np.median(self.DRAWS)])

    @pytest.mark.parametrize(
        ("draws", "more"),
        [
            ([0.1], {}),
            ([0.1, np.nan], {}),
            ({}, {}),
            ({"a": np.zeros((2, 2, 2))}, {}),
            ({"a": [1.0, 2.0]}, {"names": ["b"]}),
            (np.zeros((2, 2, 2)), {"names": ["b"]}),
            (np.zeros((2, 2, 2, 2)), {}),
            ([0.1, 0.2], {"interval": 1.0}),
            ([0.1, 0.2], {"prior_sd": 0.0}),
        ],
    )
    def test_what_cannot_be_drawn(self, draws: Any, more: Any, ax: Axes) -> None:
        with pytest.raises(ValueError, match=r"draws|need|interval|prior_sd"):
            posterior_density(draws, ax=ax, **more)


class TestSpectrum:
    """Eigenvalues beside the noise."""

    def test_eigenvalues_and_the_noise_around_zero(self, ax: Axes) -> None:
        noisy_spectrum(weak(30.0), ax=ax, failure_probability=0.1)
        (drawn,) = lines(ax, 3)
        xtx = weak(30.0).xtx
        assert xtx is not None
        assert np.asarray(drawn.get_ydata()) == pytest.approx(np.linalg.eigvalsh(xtx)[::-1])
        (band,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert (band.get_y(), band.get_height()) == pytest.approx((-60.0 * np.sqrt(3.0), 120.0 * np.sqrt(3.0)))
        bound = noise_norm_quantile(30.0, 3, 0.1)
        levels = sorted(float(np.asarray(line.get_ydata())[0]) for line in lines(ax, 2))
        assert levels == pytest.approx([-bound, 0.0, bound])
        assert words(ax)[0] == "3 positive"
        assert ax.get_yscale() == "symlog"

    def test_eigenvalues_that_are_not_positive_are_marked(self, ax: Axes) -> None:
        noisy_spectrum(Release.from_arrays(np.diag([50.0, 4.0, -3.0]), noise=2.0), ax=ax)
        assert points(ax) == [(3.0, -3.0)]
        assert words(ax)[:2] == ["2 positive", "1 not positive"]

    def test_of_a_fit_the_pooled_matrix(self, ax: Axes) -> None:
        fit = OLS().fit([release(), release(rows=200)])
        noisy_spectrum(fit, ax=ax)
        pooled = fit.results_[0].equations.xtx
        assert np.asarray(lines(ax, 4)[0].get_ydata()) == pytest.approx(np.linalg.eigvalsh(pooled)[::-1])

    def test_without_noise_there_is_no_band(self, ax: Axes) -> None:
        noisy_spectrum(release(0.0), ax=ax)
        assert not ax.patches
        assert ax.get_yscale() == "log"
        assert ax.get_ylabel() == "eigenvalue of XᵀX (rows)"

    @pytest.mark.parametrize("matrix", [[[0.0]], [[-2.0]], np.diag([3.0, -3.0])])
    @pytest.mark.parametrize("noise", [0.0, 1.0])
    def test_matrices_that_are_hardly_any(self, matrix: Any, noise: float, ax: Axes) -> None:
        noisy_spectrum(Release.from_arrays(matrix, noise=noise, constant=False), ax=ax)
        ax.figure.canvas.draw()

    def test_what_cannot_be_drawn(self, ax: Axes) -> None:
        unstated = release().text.replace('"xtx_offdiagonal":3.0', '"xtx_offdiagonal":null')
        for source in (Release.from_text(unstated), OLS().fit(Release.from_text(unstated))):
            with pytest.raises(EstimationError, match="a spectrum needs the noise"):
                noisy_spectrum(source, ax=ax)
        with pytest.raises(ValueError, match="failure_probability"):
            noisy_spectrum(release(), ax=ax, failure_probability=0.0)


class TestPath:
    """Coefficients along a path of penalties."""

    def test_lines_are_coefficients(self, ax: Axes) -> None:
        path = ridge_path(release())
        ridge_path_plot(path, ax=ax)
        drawn = lines(ax, len(path.penalties))
        assert np.array([line.get_ydata() for line in drawn]) == pytest.approx(path.coef.T[np.argsort(-path.coef[0])])
        assert np.asarray(drawn[0].get_xdata()) == pytest.approx(path.penalties)
        assert sorted(words(ax)) == sorted(path.term_names)
        assert ax.get_ylabel() == "coefficient, in raw units"

    def test_terms_scale_them(self, ax: Axes) -> None:
        path = ridge_path(release())
        ridge_path_plot(path, terms=release().terms, ax=ax)
        age = lines(ax, len(path.penalties))[words(ax).index("age")]
        assert np.asarray(age.get_ydata()) == pytest.approx(25.0 * path.coef[:, 0])
        with pytest.raises(ValueError, match="does not tell"):
            ridge_path_plot(path, terms=release().terms[:1], ax=ax)

    def test_the_best_for_sites_left_out_is_marked(self, ax: Axes) -> None:
        path = ridge_path([release(), release(rows=200)])
        ridge_path_plot(path, ax=ax)
        best = path.penalties[np.argmin(path.errors)]
        assert any(np.all(np.asarray(line.get_xdata()) == best) for line in lines(ax, 2))
        assert any("left out" in text.get_text() for text in ax.texts)

    def test_many_terms_name_only_the_largest(self, ax: Axes) -> None:
        coef = np.outer([1.0, 0.5, 0.1], np.arange(1.0, 13.0))
        names = tuple(f"x{j}" for j in range(12))
        ridge_path_plot(RidgePath(np.array([0.0, 1.0, 10.0]), coef, np.zeros(3), names, np.full(3, np.nan)), ax=ax)
        assert words(ax) == [*(f"x{j}" for j in range(11, 3, -1)), "4 smaller ones"]
        assert ax.get_xscale() == "symlog"
        ax.figure.canvas.draw()

    def test_a_path_of_one_penalty(self, ax: Axes) -> None:
        ridge_path_plot(ridge_path(release(), [1.0]), ax=ax)
        ax.figure.canvas.draw()


# Of fits and quotes


def test_a_quote_is_a_bar_of_its_share(ax: Axes) -> None:
    budget_bar(QUOTE, ax)
    widths = [bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle)]
    assert widths == pytest.approx([QUOTE.cost.share_of_budget, 1.0 - QUOTE.cost.share_of_budget])
    legend = ax.get_legend()
    assert legend is not None
    assert next(text.get_text() for text in legend.get_texts()).startswith("this request 13")


def test_a_quote_and_a_guess_are_a_curve_with_the_quoted_price_on_it(ax: Axes) -> None:
    guess = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})
    quote_accuracy_curve(QUOTE, guess, "age", epsilons=[0.5, 1.0, 2.0], ax=ax)
    curve, point = (line.get_xydata() for line in ax.lines[:2])
    expected = power_table("age", [0.1], QUOTE, guess, epsilons=[0.5, 1.0, 2.0]).half_lengths
    np.testing.assert_allclose(np.asarray(curve)[:, 1], expected)
    np.testing.assert_allclose(np.asarray(point), [[1.0, expected[1]]], rtol=1e-6)
    assert ax.get_xlabel() == "ε, at δ = 1e-06"


@pytest.mark.filterwarnings("ignore:the chains have not mixed")  # they are short
def test_a_bayesian_fit_is_drawn_with_the_priors_that_it_had() -> None:
    fit = BayesianRegression(seed=1, draws=50, chains=2).fit(release())
    (drawn,) = fit.posteriors_
    by_fit, by_hand = posterior_density(fit), plt.figure().add_subplot()
    flat = drawn.beta.reshape(-1, drawn.beta.shape[-1])
    posterior_density(
        drawn.beta[..., 1:],
        list(fit.term_names_),
        prior_sd=(flat.std(axis=0) / drawn.sd_ratio)[1:],
        ax=by_hand,
        label="scaled coefficients",
    )
    assert [text.get_text() for text in by_fit.get_yticklabels()] == list(fit.term_names_)
    assert by_fit.get_xlabel() == by_hand.get_xlabel()
    for mine, other in zip(by_fit.lines, by_hand.lines, strict=True):
        np.testing.assert_allclose(mine.get_xydata(), other.get_xydata())


def test_counts_are_bars_with_the_intervals_of_their_table(ax: Axes) -> None:
    (counts,) = release_of(CountsRequest([[Axis("age", bins=4), "sex"]], mu=0.05)).tables
    assert counts.plot(ax, level=0.8) is ax
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() for bar in bars] == pytest.approx(counts.values.T.ravel().tolist())
    drawn = [np.sort(path.vertices[:, 1]) for lines in ax.collections for path in lines.get_paths()]
    assert np.array(drawn) == pytest.approx(counts.interval(0.8).transpose(1, 0, 2).reshape(-1, 2))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["sex F", "sex M"]
    assert ax.get_xlabel() == "age (years)"
    assert "80% intervals" in ax.get_ylabel()


def test_many_cells_are_named_where_there_is_room(ax: Axes) -> None:
    (counts,) = release_of(CountsRequest([Axis("kappa", bins=60, missing=True)], mu=0.3)).tables
    names = [label.get_text() for label in histogram(counts, ax).get_xticklabels()]
    assert names[0] == "[0, 0.1)"
    assert names[-1] == counts.axes[0].labels[-1] == "(missing)"  # a bar like others, and no bin
    assert 2 <= len(names) <= 12


def test_counts_of_three_columns_are_not_drawn(ax: Axes) -> None:
    (counts,) = release_of(CountsRequest([["sex", "dead", Axis("age", bins=4)]], mu=0.3)).tables
    for wrong in (counts, counts.margin()):
        with pytest.raises(ValueError, match="take a margin"):
            histogram(wrong, ax)


class TestCurves:
    def test_survival_is_a_step_for_each_group_within_its_intervals(self, ax: Axes) -> None:
        curves = kaplan_meier(table_of(2, 9.0, 1), "years", "dead", "arm", 0.9)
        assert curves.plot(ax) is ax
        for g, line in enumerate(lines(ax, 13)):
            assert line.get_drawstyle() == "steps-post"
            assert line.get_xdata().tolist() == [0.0, *curves.times]
            assert np.array_equal(line.get_ydata(), [1.0, *curves.survival[g]], equal_nan=True)
            (path,) = ax.collections[g].get_paths()
            corners = [tuple(corner) for corner in path.vertices.tolist()]
            for k in range(11):  # from its own time on, up to the next one
                for end in (curves.low[g, k], curves.high[g, k]):
                    assert (curves.times[k], end) in corners
                    assert (curves.times[k + 1], end) in corners
        assert words(ax) == ["a", "b"]
        assert ax.get_ylabel() == "survival, with 90% intervals"
        assert ax.get_xlabel() == "years\nno curve where the noise hides who is at risk"

    def test_one_group_without_noise_has_no_legend_and_nothing_hidden(self, ax: Axes) -> None:
        survival_plot(kaplan_meier(table_of(1), "years", "dead"), ax)
        assert ax.get_legend() is None
        assert ax.get_xlabel() == "years"

    def test_a_receiver_operating_characteristic_has_intervals_of_both_rates(self, ax: Axes) -> None:
        curve = roc_curve(table_of(1, 9.0, 1), "years", "dead", 0.9)
        assert curve.plot(ax) is ax
        (drawn,) = lines(ax, 13)
        assert np.column_stack([drawn.get_xdata(), drawn.get_ydata()]) == pytest.approx(
            np.column_stack([curve.false_positive, curve.true_positive])
        )
        bars = [np.column_stack([line.get_xdata(), line.get_ydata()]).tolist() for line in lines(ax, 2)[1:]]
        for x, y, across, up in zip(
            *(curve.false_positive, curve.true_positive),
            *(curve.false_positive_interval, curve.true_positive_interval),
            strict=True,
        ):
            assert [[across[0], y], [across[1], y]] in bars
            assert [[x, up[0]], [x, up[1]]] in bars
        assert words(ax)[0].startswith("AUC 0.")
        assert ax.get_xlabel() == "false positive rate\n90% intervals, one rate at a time"

    def test_several_are_named_and_none_is_refused(self, ax: Axes) -> None:
        curve = roc_curve(table_of(1, 9.0, 1), "years", "dead")
        roc_plot({"$x$": curve, "_b": curve}, ax)
        assert [name.partition(":")[0] for name in words(ax)] == ["$x$", "_b"]
        with pytest.raises(ValueError, match="at least one curve"):
            roc_plot({}, ax)


def test_a_fit_and_a_table_draw_themselves(ax: Axes) -> None:
    assert FIT.plot(["age"], 0.9, ax) is ax
    low, high = FIT.conf_int(0.9)[1]
    assert segments(ax) == [pytest.approx((low, high))]
    assert points(ax) == [(pytest.approx(FIT.coef_[0]), 0.0)]
    other = Figure().add_subplot()
    FIT.margins().plot(other)
    assert len(segments(other)) == 3
    with pytest.raises(EstimationError, match="not fitted yet"):
        OLS().plot()
