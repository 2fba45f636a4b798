"""The cells of the audit: which request on which neighbours."""

import math
from typing import Any

from audit.neighbours import Cell, Coded, Row

EPSILON = 2 * math.atanh(math.erf(1 / math.sqrt(8)))
"""The ε of a pure mechanism whose µ is 1: e^ε/(1 + e^ε) = Φ(1/2)."""

ADD, REPLACE = "add_remove", "replace_one"
BOX, UNIT, UNIT_XY = {"map": "box"}, {"map": "unit"}, {"map": "unit_xy"}
T = 0.415 / (4 * 0.5)
"""t = B/4A at the default shares: how parallel the worst pair of rows is."""


def _ball(norm: float) -> dict[str, Any]:
    return {"map": "ball", "norm": norm}


def _linear(bits: int, **matrix: list[int]) -> dict[str, Any]:
    """Return rows of combinations of the constant and numeric columns, in order."""
    constant = {"(constant)": matrix.pop("constant")} if "constant" in matrix else {}
    return {"map": "linear", "bits": bits, "matrix": constant | matrix}


def _ask(features: str, rows: dict[str, Any], *, targets: str = "y", **more: Any) -> dict[str, Any]:
    """Return a fresh request; columns are single letters."""
    named: dict[str, Any] = {"targets": list(targets)} if targets else {}
    return {"features": list(features), **named, "rows": rows, "price": {"mu": 1.0}, "fresh": True, **more}


def _pure(rows: dict[str, Any], heavy: str, epsilon: float = EPSILON, **more: Any) -> dict[str, Any]:
    """Return a request with Laplace noise and one term, which spends nearly all on one statistic.

    The more entries a price is spread over, the further Laplace noise is from its own worst case.
    """
    shares = {name: 0.96 if name == heavy else 0.02 for name in ("xtx", "xty", "yty")}
    laplace: dict[str, Any] = {
        "mechanism": "laplace",
        "price": {"epsilon": epsilon},
        "intercept": False,
        "shares": shares,
    }
    return _ask("a", rows, **(laplace | more))


def _row(**values: float | str | None) -> dict[str, float | str | None]:
    return values


def _pair_on_circle(cosine: float, length: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return two values of (a, b) of a given length, mirrored at the first axis, at a given angle."""
    along, across = length * math.sqrt((1 + cosine) / 2), length * math.sqrt((1 - cosine) / 2)
    return {"a": along, "b": across}, {"a": along, "b": -across}


def _gaussian_cells() -> list[Cell]:
    in_ball = math.sqrt(0.44 / 2)  # (1, a, b) has the norm 1.2
    # In the ball of R² = 2: 1 + a² + b² = 2 and 1 + a² − b² = 2T.
    a, b = math.sqrt(T), math.sqrt(1 - T)
    # The constant stays outside the norm and has a full 1 of the 2 = R²: (1 + cosine)/2 = T.
    one, other = _pair_on_circle(2 * T - 1, 0.1)
    whole, mirrored = _pair_on_circle(T, 1.0)
    lambda_alone = {"intercept": False, "statistics": ["xtx", "lambda_min"]}
    groups = dict.fromkeys("gh", ("p", "q", "r"))
    corner = {"xtx": 0.4, "xty": 0.3, "yty": 0.3}
    return [
        Cell("gaussian box", ADD, _ask("ab", BOX), _row(a=1.0, b=-1.0, y=1.0)),
        # Five terms: x·v can be 1, which is R²/5, close to T.
        Cell(
            "gaussian box",
            REPLACE,
            _ask("abcd", BOX),
            _row(a=1.0, b=1.0, c=1.0, d=1.0, y=1.0),
            _row(a=1.0, b=1.0, c=-1.0, d=-1.0, y=-1.0),
        ),
        Cell("gaussian ball", ADD, _ask("ab", _ball(1.2)), _row(a=in_ball, b=in_ball, y=1.0)),
        Cell("gaussian ball", REPLACE, _ask("ab", _ball(math.sqrt(2))), _row(a=a, b=b, y=1.0), _row(a=a, b=-b, y=-1.0)),
        Cell("gaussian unit", ADD, _ask("abcd", UNIT), _row(a=1.0, b=1.0, c=1.0, d=-1.0, y=1.0)),
        Cell("gaussian unit", REPLACE, _ask("ab", UNIT), _row(**one, y=1.0), _row(**other, y=-1.0)),
        Cell("gaussian unit_xy", ADD, _ask("ab", UNIT_XY), _row(a=0.06, b=0.08, y=0.5)),
        Cell("gaussian unit_xy", REPLACE, _ask("ab", UNIT_XY), _row(**one, y=0.5), _row(**other, y=-0.5)),
        Cell("gaussian ball, long rows", ADD, _ask("ab", _ball(1.0), targets=""), _row(a=1.0, b=1.0)),
        Cell(
            "gaussian combinations",
            ADD,
            _ask("ab", _linear(3, constant=[4, 0], a=[0, 8], b=[1, 1])),
            _row(a=math.sqrt(0.75), b=0.0, y=1.0),
        ),
        Cell(
            "gaussian combinations",
            REPLACE,
            _ask("ab", _linear(3, a=[8, 0], b=[0, 8]), intercept=False),
            _row(**whole, y=1.0),
            _row(**mirrored, y=-1.0),
        ),
        Cell(
            "gaussian combinations, huge weights",
            ADD,
            _ask("ab", _linear(0, constant=[2**34, 5], a=[1, 2**34 - 9], b=[-7, 3]), targets=""),
            _row(a=1.0, b=-1.0),
        ),
        Cell(
            "gaussian combinations, persons of two rows",
            REPLACE,
            _ask("ab", _linear(3, a=[8, 0], b=[0, 8]), intercept=False),
            _row(**whole, y=1.0),
            _row(**mirrored, y=-1.0),
            rows_per_person=2,
        ),
        Cell("gaussian box, values beyond bounds", ADD, _ask("ab", BOX), _row(a=1.6, b=-1.9, y=1.7), omit=True),
        Cell("gaussian box, two targets", ADD, _ask("ab", BOX, targets="yz"), _row(a=1.0, b=1.0, y=1.0, z=-1.0)),
        Cell(
            "gaussian box, omitted row",
            REPLACE,
            _ask("a", BOX, intercept=False, shares=corner),
            _row(a=1.0, y=1.0),
            _row(a=None, y=1.0),
            omit=True,
        ),
        Cell(
            "gaussian box, two categories",
            REPLACE,
            _ask("gh", BOX, targets=""),
            _row(g="q", h="q"),
            _row(g="r", h="r"),
            categories=groups,
        ),
        Cell("gaussian box, persons of two rows", ADD, _ask("ab", BOX), _row(a=1.0, b=-1.0, y=1.0), rows_per_person=2),
        Cell(
            "gaussian ball, persons of two rows",
            REPLACE,
            _ask("ab", _ball(math.sqrt(2))),
            _row(a=a, b=b, y=1.0),
            _row(a=a, b=-b, y=-1.0),
            rows_per_person=2,
        ),
        Cell(
            "gaussian lambda_min",
            ADD,
            _ask("a", BOX, intercept=False, statistics=["xtx", "xty", "yty", "lambda_min"]),
            _row(a=1.0, y=1.0),
        ),
        Cell("gaussian lambda_min", REPLACE, _ask("a", BOX, targets="", **lambda_alone), _row(a=1.0), _row(a=0.0)),
    ]


def _laplace_cells() -> list[Cell]:
    cells = []
    for name, rows, size in (
        ("box", BOX, 1.0),
        ("ball", _ball(0.8), 0.8),
        ("unit", UNIT, 0.1),
        ("unit_xy", UNIT_XY, 0.1),
        ("combination", _linear(2, a=[4]), 1.0),
    ):
        y = 0.5 if name == "unit_xy" else 1.0
        cells += [
            Cell(f"laplace {name}", ADD, _pure(rows, "xtx"), _row(a=size, y=y)),
            Cell(f"laplace {name}", REPLACE, _pure(rows, "xty"), _row(a=size, y=y), _row(a=size, y=-y)),
        ]
    wide: dict[str, Any] = {"intercept": True, "statistics": ["xtx"], "shares": None, "targets": ""}
    alone: dict[str, Any] = {"statistics": ["lambda_min"], "shares": None, "targets": ""}
    groups = dict.fromkeys("gh", ("p", "q", "r"))
    return [
        *cells,
        Cell(
            "laplace box, two categories",
            REPLACE,
            _ask("gh", BOX, targets="", mechanism="laplace", price={"epsilon": 2.0}),
            _row(g="q", h="q"),
            _row(g="r", h="r"),
            categories=groups,
            sharp=False,
        ),
        # Three entries move; a larger ε makes up for what the spread hides.
        Cell("laplace box, two terms", ADD, _pure(BOX, "xtx", epsilon=2.0, **wide), _row(a=-1.0)),
        Cell("laplace box, persons of two rows", ADD, _pure(BOX, "xtx"), _row(a=1.0, y=1.0), rows_per_person=2),
        Cell("laplace lambda_min", REPLACE, _pure(BOX, "", **alone), _row(a=1.0), _row(a=0.0)),
        # An account of pure ε holds 1000: enough for 1,600 releases of each dataset.
        Cell("laplace box, pure account", ADD, _pure(BOX, "xtx", epsilon=0.6), _row(a=1.0, y=1.0), accountant="pure"),
    ]


def _rare(row: Row) -> float:
    """Return 1 for the rare level of g, which the condition of these cells selects."""
    return float(row["g"] == "r")


def _hats(u: float) -> list[float]:
    """Return the three hats over −1, 0 and 1: splines of degree 1 with a knot at 0."""
    return [max(0.0, -u), 1 - abs(u), max(0.0, u)]


def _computed_cells() -> list[Cell]:
    """Return requests that compute, select and weigh; what that means is stated here once more."""
    in_ball = math.sqrt(0.44 / 2)  # (1, a, b) has the norm 1.2
    rare: dict[str, Any] = {"where": {"in": ["g", ["r"]]}}
    groups = {"g": ("p", "q", "r")}
    weight: dict[str, Any] = {"weight": {"maximum": ["w", 0]}}
    hats: dict[str, Any] = {"intercept": False, "features": [{"spline": ["a", [0], 1]}]}
    curve: dict[str, Any] = {"features": [{"polynomial": ["a", 3]}]}
    product: dict[str, Any] = {"features": [{"interaction": ["a", "b"]}, {"log": [{"add": ["a", 2]}]}]}
    corner: dict[str, Any] = {"intercept": False, "shares": {"xtx": 0.4, "xty": 0.3, "yty": 0.3}}

    def plain(row: Row) -> Coded:
        return _rare(row), [1.0, _number(row, "a"), _number(row, "b")], [_number(row, "y")]

    def alone(row: Row) -> Coded:
        return _rare(row), [_number(row, "a")], [_number(row, "y")]

    def weighed(row: Row) -> Coded:
        return max(_number(row, "w"), 0.0), [1.0, _number(row, "a")], [_number(row, "y")]

    def spline(row: Row) -> Coded:
        return 1.0, _hats(_number(row, "a")), [_number(row, "y")]

    def legendre(row: Row) -> Coded:
        u = _number(row, "a")
        return 1.0, [1.0, u, (3 * u * u - 1) / 2, (5 * u**3 - 3 * u) / 2], [_number(row, "y")]

    def computed(row: Row) -> Coded:
        a, b = _number(row, "a"), _number(row, "b")
        return 1.0, [1.0, a * b, 2 * math.log(a + 2) / math.log(3) - 1], [_number(row, "y")]

    return [
        Cell("a rare condition, box", ADD, _ask("ab", BOX) | rare, _row(a=1.0, b=-1.0, y=1.0, g="r"), code=plain,
             categories=groups),
        Cell("a rare condition, ball", ADD, _ask("ab", _ball(1.2)) | rare, _row(a=in_ball, b=in_ball, y=1.0, g="r"),
             code=plain, categories=groups),
        # As where a row is omitted: who leaves the selection is replaced by nobody.
        Cell("a rare condition", REPLACE, _ask("a", BOX) | rare | corner, _row(a=1.0, y=1.0, g="r"),
             _row(a=1.0, y=1.0, g="q"), code=alone, categories=groups),
        Cell("a rare condition, counts", ADD, _count([{"column": "a", "bins": 4}]) | rare, _row(a=0.9, g="r"),
             code=lambda row: (_rare(row), [], []), categories=groups),
        Cell("a rare condition, laplace", ADD, _pure(BOX, "xtx") | rare, _row(a=1.0, y=1.0, g="r"), code=alone,
             categories=groups),
        Cell("a weight beyond its bounds", ADD, _ask("a", BOX) | weight, _row(a=1.0, y=1.0, w=1.9), code=weighed),
        Cell("a weight, counts", ADD, _count([{"column": "a", "bins": 4}]) | weight, _row(a=0.9, w=1.0),
             code=lambda row: (max(_number(row, "w"), 0.0), [], [])),
        # All hats of a row cost what one level of a category does.
        Cell("hats", ADD, _ask("a", BOX) | hats, _row(a=1.0, y=1.0), code=spline),
        Cell("hats", REPLACE, _ask("a", BOX, targets="") | hats, _row(a=1.0), _row(a=-1.0),
             code=lambda row: (1.0, _hats(_number(row, "a")), [])),
        Cell("hats, laplace, unit", ADD, _pure(UNIT, "xty") | hats, _row(a=0.5, y=1.0), code=spline),
        Cell("polynomials", ADD, _ask("a", BOX) | curve, _row(a=1.0, y=-1.0), code=legendre),
        Cell("a logarithm and a product", ADD, _ask("ab", BOX) | product, _row(a=1.0, b=-1.0, y=1.0), code=computed),
    ]  # fmt: skip


def _number(row: Row, column: str) -> float:
    value = row[column]
    assert not isinstance(value, str)
    return 0.0 if value is None else min(1.0, max(-1.0, value))


def _count(*tables: Any, **more: Any) -> dict[str, Any]:
    """Return a fresh request of tables, in their canonical order."""
    asked = [{"axes": axes} for axes in tables]
    return {"kind": "counts", "tables": asked, "price": {"mu": 1.0}, "fresh": True, **more}


def _counts_cells() -> list[Cell]:
    groups = {"g": ("p", "q", "r")}
    of_a, of_g = {"column": "a", "bins": 4}, {"column": "g"}
    pure: dict[str, Any] = {"mechanism": "laplace", "price": {"epsilon": EPSILON}}
    here, there = _row(a=0.9, g="q"), _row(a=-0.9, g="r")
    return [
        Cell("counts, one table", ADD, _count([of_a, of_g]), here, categories=groups),
        Cell("counts, one table", REPLACE, _count([of_a, of_g]), here, there, categories=groups),
        Cell("counts, two tables", REPLACE, _count([of_a], [of_g], shares=[0.7, 0.3]), here, there, categories=groups),
        Cell("counts, persons of two rows", ADD, _count([of_a]), here, categories=groups, rows_per_person=2),
        Cell("counts, persons of two rows", REPLACE, _count([of_g]), here, there, categories=groups, rows_per_person=2),
        Cell(
            "counts, a missing value",
            REPLACE,
            _count([of_a | {"missing": True}]),
            _row(a=None),
            _row(a=0.9),
            omit=True,
        ),
        Cell("laplace counts", ADD, _count([of_g], **pure), here, categories=groups),
        Cell("laplace counts", REPLACE, _count([of_g], **pure), here, there, categories=groups),
        Cell("laplace counts, two tables", ADD, _count([of_a], [of_g], **pure), here, categories=groups),
    ]


def _marginals(*asked: Any, **more: Any) -> dict[str, Any]:
    """Return a fresh request of marginals, in their canonical order: by type, then by columns."""
    return {"kind": "marginals", "marginals": list(asked), "price": {"mu": 1.0}, "fresh": True, **more}


def _marginals_cells() -> list[Cell]:
    flat: dict[str, Any] = {"type": "flat", "columns": ["a", "b"], "bins": 4}
    tree: dict[str, Any] = {"type": "tree", "columns": ["a", "b"], "levels": 3}
    moments: dict[str, Any] = {"type": "moments", "columns": ["a", "b"]}
    alone = {"columns": ["a"]}
    pure: dict[str, Any] = {"mechanism": "laplace", "price": {"epsilon": EPSILON}}
    weight: dict[str, Any] = {"weight": {"maximum": ["w", 0]}}
    rare: dict[str, Any] = {"where": {"in": ["g", ["r"]]}}
    high, low = _row(a=1.0, b=1.0), _row(a=-1.0, b=-1.0)

    def weighed(row: Row) -> Coded:
        return max(_number(row, "w"), 0.0), [], []

    return [
        Cell("marginals, tree", ADD, _marginals(tree), high),
        Cell("marginals, tree", REPLACE, _marginals(tree), high, low),
        Cell("marginals, flat", ADD, _marginals(flat), high),
        Cell("marginals, flat", REPLACE, _marginals(flat), high, low),
        Cell("marginals, moments", ADD, _marginals(moments), high),
        Cell("marginals, moments", REPLACE, _marginals(moments), high, low),
        Cell("marginals, one of each", ADD, _marginals(flat, moments, tree, shares=[0.2, 0.3, 0.5]), high),
        Cell("marginals, one of each", REPLACE, _marginals(flat, moments, tree, shares=[0.2, 0.3, 0.5]), high, low),
        Cell("marginals, persons of two rows", ADD, _marginals(moments, tree), high, rows_per_person=2),
        Cell("marginals, persons of two rows", REPLACE, _marginals(moments, tree), high, low, rows_per_person=2),
        # Who has no value is replaced by somebody: less than a row for another.
        Cell("marginals, a missing value", REPLACE, _marginals(moments, tree), high, _row(a=None, b=None), omit=True,
             sharp=False),
        Cell("marginals, values beyond bounds", ADD, _marginals(moments, tree), _row(a=1.9, b=-1.6)),
        Cell("marginals, a rare condition", ADD, _marginals(flat, moments) | rare, high | _row(g="r"),
             code=lambda row: (_rare(row), [], []), categories={"g": ("p", "q", "r")}),
        Cell("marginals, a weight", ADD, _marginals(moments, tree) | weight, high | _row(w=1.0), code=weighed),
        Cell("marginals, a weight", REPLACE, _marginals(moments, tree) | weight, high | _row(w=1.0),
             low | _row(w=1.0), code=weighed),
        Cell("marginals, a small weight", ADD, _marginals(moments, tree) | weight, high | _row(w=0.3), code=weighed,
             sharp=False),
        Cell("laplace marginals, tree", ADD, _marginals(tree | alone | {"levels": 2}, **pure), _row(a=1.0)),
        Cell("laplace marginals, flat", REPLACE, _marginals(flat | alone, **pure), _row(a=1.0), _row(a=-1.0)),
        Cell("laplace marginals, moments", ADD, _marginals(moments | alone, **pure), _row(a=1.0)),
        Cell("laplace marginals, moments", REPLACE, _marginals(moments | alone, **pure), _row(a=1.0), _row(a=-0.5)),
        Cell("laplace marginals, two columns", REPLACE, _marginals(moments, **pure), high, _row(a=-0.5, b=-0.5)),
    ]  # fmt: skip


def _score(
    features: str, theta: list[int], directions: list[list[int]], *statistics: str, **more: Any
) -> dict[str, Any]:
    """Return a fresh request of scores; a number for each term, the constant first."""
    terms = ["(constant)", *features]
    return {
        "kind": "score",
        "features": list(features),
        "target": "y",
        "loss": "linear",
        "coefficients": {"bits": 2, "weights": dict(zip(terms, theta, strict=True))},
        "directions": {"bits": 2, "matrix": dict(zip(terms, directions, strict=True))},
        "statistics": list(statistics),
        "price": {"mu": 1.0},
        "fresh": True,
        **more,
    }


def _score_cells() -> list[Cell]:
    every, two = ("score", "norms", "meat"), [[1, 3], [16, -2], [0, 24]]
    pure: dict[str, Any] = {"mechanism": "laplace", "price": {"epsilon": EPSILON}}
    axes = [[0, 0], [8, 0], [0, 8]]
    high = _row(a=1.0, b=-1.0, y=1.0)
    of_sign: dict[str, Any] = {"loss": "logistic", "target": {"greater": ["y", 0]}}
    of_counts: dict[str, Any] = {"loss": "poisson", "target": {"maximum": ["y", 0]}}
    weight: dict[str, Any] = {"weight": {"maximum": ["w", 0]}}
    rare: dict[str, Any] = {"where": {"in": ["g", ["r"]]}}

    def terms(row: Row) -> list[float]:
        return [1.0, _number(row, "a"), _number(row, "b")]

    def sign(row: Row) -> Coded:
        return 1.0, terms(row), [float(_number(row, "y") > 0)]

    def counts(row: Row) -> Coded:
        return 1.0, terms(row), [max(_number(row, "y"), 0.0)]

    def weighed(row: Row) -> Coded:
        return max(_number(row, "w"), 0.0), terms(row), [_number(row, "y")]

    def rarely(row: Row) -> Coded:
        return _rare(row), terms(row), [_number(row, "y")]

    return [
        Cell("score, one of each", ADD, _score("ab", [1, -2, 1], two, *every), high),
        Cell("score, residuals of either sign", REPLACE, _score("ab", [0, 0, 0], two, "score"), high,
             high | _row(y=-1.0)),
        # Gradients at a right angle, of unlike lengths.
        Cell("score, norms and meat", REPLACE, _score("ab", [0, 0, 0], axes, "norms", "meat"),
             _row(a=1.0, b=0.0, y=1.0), _row(a=0.0, b=0.51, y=1.0)),
        Cell("score, logistic", ADD, _score("ab", [-2, -1, 3], two, *every) | of_sign, high, code=sign),
        Cell("score, logistic", REPLACE, _score("ab", [0, 0, 0], two, "score") | of_sign, high, high | _row(y=-1.0),
             code=sign),
        Cell("score, counts", ADD, _score("ab", [-9, 0, 0], two, *every) | of_counts, high, code=counts),
        Cell("score, huge weights", ADD, _score("ab", [2**33, 5, -3], [[2**34], [-7], [3]], *every), high),
        Cell("score, persons of two rows", ADD, _score("ab", [1, -2, 1], two, *every), high, rows_per_person=2),
        Cell("score, persons of two rows", REPLACE, _score("ab", [0, 0, 0], two, "score"), high, high | _row(y=-1.0),
             rows_per_person=2),
        Cell("score, values beyond bounds", ADD, _score("ab", [0, 0, 0], two, "score"), _row(a=1.9, b=-1.2, y=1.7)),
        Cell("score, a missing value", REPLACE, _score("ab", [0, 0, 0], two, "score", "meat"), high,
             high | _row(a=None), omit=True, sharp=False),
        Cell("score, a weight", ADD, _score("ab", [0, 0, 0], two, *every) | weight, high | _row(w=1.0), code=weighed),
        Cell("score, a small weight", ADD, _score("ab", [0, 0, 0], two, *every) | weight, high | _row(w=0.3),
             code=weighed, sharp=False),
        Cell("score, a rare condition", ADD, _score("ab", [0, 0, 0], two, *every) | rare, high | _row(g="r"),
             code=rarely, categories={"g": ("p", "q", "r")}),
        Cell("laplace score", ADD, _score("a", [0, 0], [[0], [8]], "score", **pure), _row(a=1.0, y=1.0)),
        Cell("laplace score", REPLACE, _score("a", [0, 0], [[0], [8]], "score", **pure), _row(a=1.0, y=1.0),
             _row(a=1.0, y=-1.0)),
        Cell("laplace score, norms", REPLACE, _score("a", [0, 0], [[0], [8]], "norms", **pure), _row(a=1.0, y=1.0),
             _row(a=0.1, y=1.0)),
        Cell("laplace score, meat", ADD, _score("a", [0, 0], [[0], [8]], "meat", **pure), _row(a=1.0, y=1.0)),
    ]  # fmt: skip


_ALL = (
    *_gaussian_cells(),
    *_laplace_cells(),
    *_counts_cells(),
    *_marginals_cells(),
    *_score_cells(),
    *_computed_cells(),
)
CELLS = {f"{cell.name}, {cell.adjacency}": cell for cell in _ALL}
