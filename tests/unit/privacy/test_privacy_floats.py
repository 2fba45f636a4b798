"""No float enters before the noise but where it is proved exact, and each released value is rounded once.

Three parts: the code is read, for float operations outside of an explicit list; bits are read, of what is added and of
what is sent; and the conditions of the proofs are tested on this machine, each with a check that the test has power.
"""

import ast
import inspect
import json
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grams import SufficientStatistics, perturb, split_gram
from hypothesis import given
from hypothesis import strategies as st
from support import World, ZeroNoise, body, open_world

from curator_service import privacy
from curator_service.kinds.gram import kernel
from curator_service.kinds.gram.plan import GramPlan, default_shares, plan_gram
from curator_service.kinds.gram.sensitivity import xtx_box_l2_squared, xtx_norm_l2_squared, xty_l2_squared
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy import mechanism as mechanisms
from curator_service.privacy import row_maps
from curator_service.privacy import sums as sums_module
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, code_rows, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, center_and_scale, to_request_lattice, to_stored
from curator_service.privacy.mechanism import ExactSums, NoisyStatistics, add_noise_to_limbs, draw_noise
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY
from curator_service.privacy.samplers import Distribution
from curator_service.privacy.sums import EXACT_BLOCK_ROWS, compute_gram, split_integer
from curator_service.releases import publisher

Q_SQUARED = UNIT**2
MAPS = [Box(), Ball.of_norm(1.3), Unit(), UnitXY()]

# --- the code -------------------------------------------------------------------------------------------------------

_EXACT = "exact: Fraction"
_ONE_ROUNDING = "values to the lattice: one rounding each"
_HELD_EXACTLY = "integers held in float64"

FLOATS: dict[tuple[str, str], tuple[str, str]] = {
    # (module, function): (its float operations, why they are right)
    ("privacy/lattice", "center_and_scale"): ("/ literal", "public bounds"),
    ("privacy/lattice", "decimals_of"): ("/ Decimal literal", "public bounds"),
    ("privacy/lattice", "to_decimals"): (
        "float np.asarray np.divide np.multiply np.rint",
        "each rounded once, of the number alone",
    ),
    ("privacy/lattice", "to_stored"): ("/ np.asarray np.clip np.float64 np.fmax np.rint", _ONE_ROUNDING),
    ("privacy/lattice", "to_request_lattice"): ("/ np.clip np.multiply np.rint", _HELD_EXACTLY),
    ("privacy/design", "Column"): ("literal", "public bounds"),
    ("privacy/design", "Column.number"): ("literal", "public bounds"),
    ("privacy/design", "Term"): ("literal", "public bounds"),
    ("privacy/design", "code_rows"): ("np.empty np.float64", _HELD_EXACTLY),
    ("privacy/design", "_code"): (
        "/ np.empty_like np.float64 np.multiply np.trunc",
        "integers held in float64; a product below 2^34 by q, towards zero: no quotient is near enough to an integer",
    ),
    ("privacy/selection", "Selection.weigh"): ("/ literal np.clip", "a number in [0, 1] of the row alone"),
    ("kinds/gram/kernel", "GramKernel.map"): ("np.sqrt np.trunc", "by a root in [0, 1], towards zero: no entry grows"),
    ("privacy/row_maps/unit", "_divide_by_norm"): ("np.float64", "integers below 2^53"),
    ("privacy/row_maps/unit", "UnitXY.apply"): ("np.clip", _HELD_EXACTLY),
    ("privacy/row_maps/integers", "norms_squared"): ("np.einsum", "exact: every partial sum is below 2^52"),
    ("privacy/row_maps/integers", "scale"): ("/ np.multiply np.trunc", "exact floor, proved"),
    ("privacy/row_maps/integers", "root"): ("np.floor np.sqrt", "exact integer root, proved below 2^52"),
    ("privacy/row_maps/ball", "BallRows.fill"): ("math.sqrt", "of terms: the longest norm that may be asked for"),
    ("privacy/row_maps/ball", "small_norm"): (
        "/ math.sqrt",
        "of terms: a norm, which is then taken at its exact value",
    ),
    ("privacy/row_maps/linear", "LinearRows"): ("literal", "a norm, which is taken at its exact value"),
    ("privacy/row_maps/ball", "shrink"): ("float np.add np.float64", "integers below 2^53"),
    ("privacy/combinations", "Combinations.sums"): ("@ np.array np.float64", "exact: partial sums are below 2^52"),
    ("kinds/score/kernel", "ScoreKernel.map"): (
        "/ literal np.clip np.float64 np.fmax np.fmin np.ones_like np.rint np.trunc",
        "elementwise, of the row alone; then rounded, cut and shrunk in integers, and weighed towards zero",
    ),
    ("privacy/losses", "link_table"): ("/ literal np.rint", "a public table, held against its digest"),
    ("privacy/losses", "residuals"): ("/ literal np.clip np.minimum np.rint", "elementwise, of the row alone"),
    ("privacy/combinations", "Combinations.round"): ("literal np.clip np.rint", "a power of two divides exactly"),
    ("privacy/row_maps/integers", "isqrt"): ("np.float64 np.sqrt", "exact integer root, corrected in integers"),
    ("privacy/sums", "compute_gram"): ("@ np.float64", "exact product: every partial sum is below 2^53"),
    ("kinds/gram/kernel", "typical_kernel"): ("literal", "public numbers of a request that nobody made"),
    ("kinds/score/kernel", "<module>"): ("literal", "a bound of residuals, which float64 holds"),
    ("kinds/score/kernel", "typical_kernel"): ("literal", "public numbers of a request that nobody made"),
    ("privacy/sums", "round_limbs"): ("literal np.float64", "two integers below 2^53, and one rounding of their sum"),
    ("kinds/gram/kernel", "compute_lambda_min"): (
        "/ float np.eye np.float64 np.linalg.LinAlgError np.linalg.eigvalsh",
        "a first guess, which the factorisation decides",
    ),
    ("kinds/gram/kernel", "compute_lambda_min.is_definite"): (
        "float np.linalg.LinAlgError np.linalg.cholesky",
        "its proved error joins the sensitivity",
    ),
    ("privacy/parts", "GaussianPart.relative_cost"): ("/", _EXACT),
    ("privacy/parts", "LaplacePart.epsilon"): ("/", _EXACT),
    ("kinds/gram/sensitivity", "joint_cost"): ("/", _EXACT),
    ("kinds/gram/plan", "default_shares"): ("/", _EXACT),
    ("kinds/gram/plan", "_formula_parts"): ("/ float", "exact: Fraction; floats in a message alone"),
    ("privacy/allocation", "_gaussian_parts"): ("/", _EXACT),
    ("privacy/allocation", "laplace_parts"): ("/ float", "a guess, which the exact cost decides"),
    ("privacy/calibration", "sigma_of_formula"): ("/", _EXACT),
    ("privacy/calibration", "scale_for"): ("/", _EXACT),
    ("privacy/calibration", "_log_up"): ("/ mpmath.MPContext", "50 digits, rounded up"),
    ("privacy/samplers", "SystemNoise.sample"): ("np.asarray", "it refuses what is not of integers"),
    ("privacy/samplers", "propose"): ("/ literal np.exp", "a coin that a float decides only beyond doubt"),
    ("privacy/samplers", "_floor_exp"): (
        "libmp.from_rational libmp.mpf_exp libmp.mpf_mul libmp.mpf_shift libmp.to_int",
        "64 guard bits, an error below 1",
    ),
    ("privacy/samplers", "_make_law"): ("/ np.array np.float64", "chances for the float's part of the coin"),
    ("privacy/samplers", "<module>"): ("/", "γ for the float's part of the coin"),
    ("privacy/mechanism", "NoisyStatistics.scaled"): ("/", "after the noise: one rounding"),
    ("privacy/mechanism", "noise_sd"): ("/ math.sinh math.sqrt", "public, of the scale alone"),
    ("privacy/accountant", "GdpAccountant.sigma_squared"): ("/", _EXACT),
    ("privacy/accountant", "ZcdpAccountant.gaussian"): ("/", _EXACT),
    ("privacy/accountant", "ZcdpAccountant.sigma_squared"): ("/", _EXACT),
    ("privacy/accountant", "ZcdpAccountant.laplace"): ("/", _EXACT),
    ("privacy/conversions", "exact"): ("float", "reads the digits that were written"),
    ("privacy/conversions", "mu_squared_of_pure"): ("float", "a guess, which the exact bound decides"),
    ("privacy/conversions", "mu_squared_of_pure.too_small"): (
        "/ _context.exp _context.mpf _context.ncdf _context.sqrt",
        "60 digits, rounded up",
    ),
    ("privacy/conversions", "_mpf"): ("/ _context.mpf", "60 digits"),
}

MODULES: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(
        [
            *(f"kinds/gram/{name}" for name in ("kernel", "plan", "sensitivity", "statistics")),
            *(f"privacy/{name}" for name in ("allocation", "calibration", "design", "lattice", "mechanism")),
            # What expressions compute of a row is a value like a stored one: rounded to the lattice, then clipped.
            "privacy/selection",
            # What they post and what losses make of it is shrunk in integers: see the kernel's list.
            *(f"kinds/score/{name}" for name in ("kernel", "sensitivity", "statistics")),
            *(f"privacy/{name}" for name in ("combinations", "losses")),
            *(f"privacy/{name}" for name in ("parts", "samplers", "sums")),
            *(f"privacy/row_maps/{path.stem}" for path in Path(row_maps.__file__).parent.glob("*.py")),
        ],
        lambda _function: True,
    ),
    # What decides a cost; the rest are views of amounts, and prices.
    "privacy/accountant": lambda f: f.rpartition(".")[2] in {"cost", "gaussian", "laplace", "sigma_squared"},
    "privacy/conversions": lambda f: (
        f.partition(".")[0] in {"exact", "units_up", "mu_squared_of_pure", "_last_true", "_mpf"}
    ),
}

_INTEGER_ONLY = {
    "math": {"isqrt", "ceil", "floor", "isfinite", "prod"},
    "np": {"int32", "int64", "uint64", "bool_", "arange", "repeat", "frombuffer", "flatnonzero", "diagonal", "errstate"}
    | {"where", "concatenate", "stack", "triu_indices"},
}
_BUILDERS = {"array", "zeros", "ones", "empty", "full"}
_INTEGER_TYPES = {"np.int32", "np.int64", "np.uint64", "np.bool_"}
_NUMERIC_PACKAGES = {"math", "cmath", "numpy", "scipy", "mpmath", "statistics", "random", "decimal"}


class FloatOperations(ast.NodeVisitor):
    """Collect, per function, what is or may be a float operation; annotations aside.

    True divisions and matrix products, float literals, `float`, and every name of a numerical package that is not known
    to compute with integers alone.
    """

    def __init__(self, source: str) -> None:
        self.found: dict[str, set[str]] = {}
        self._stack: list[str] = []
        self._packages = {"_context"}
        self.visit(ast.parse(source))

    def _add(self, operation: str) -> None:
        self.found.setdefault(".".join(self._stack) or "<module>", set()).add(operation)

    def _inside(self, name: str, nodes: Sequence[ast.AST | None]) -> None:
        self._stack.append(name)
        for node in nodes:
            if node is not None:
                self.visit(node)
        self._stack.pop()

    def visit_Import(self, node: ast.Import) -> None:
        self._packages |= {a.asname or a.name for a in node.names if a.name.partition(".")[0] in _NUMERIC_PACKAGES}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").partition(".")[0] in _NUMERIC_PACKAGES:
            self._packages |= {alias.asname or alias.name for alias in node.names}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node.name, [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, *node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node.name, node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if ast.unparse(node.value) not in {"npt.NDArray", "Callable"}:
            self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator(node.op)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._operator(node.op)
        self.generic_visit(node)

    def _operator(self, operator: ast.operator) -> None:
        if isinstance(operator, ast.Div):
            self._add("/")
        elif isinstance(operator, ast.MatMult):
            self._add("@")

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, float | complex):
            self._add("literal")

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in {"float", "complex"} | self._packages:
            self._add(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        named = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        function = node.func
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "np" and function.attr in _BUILDERS:
            if named.get("dtype") not in _INTEGER_TYPES:
                self._add(f"np.{function.attr}")
            for child in (*node.args, *node.keywords):
                self.visit(child)
            return
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not (isinstance(root, ast.Name) and root.id in self._packages):
            self.generic_visit(node)
            return
        full = ast.unparse(node)
        package, _, name = full.partition(".")
        if name not in _INTEGER_ONLY.get(package, set()):
            self._add(full)


def float_operations(source: str) -> dict[str, set[str]]:
    return FloatOperations(source).found


def test_no_float_operation_is_on_the_path_of_a_release_but_the_listed_ones() -> None:
    folder = Path(inspect.getfile(privacy)).parents[1]
    found = {
        (module, function): " ".join(sorted(operations))
        for module, is_on_path in MODULES.items()
        for function, operations in float_operations((folder / f"{module}.py").read_text(encoding="utf-8")).items()
        if is_on_path(function)
    }
    assert found == {place: operations for place, (operations, _reason) in FLOATS.items()}


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("value + draw / 2", "/"),
        ("total @ rows", "@"),
        ("value * 0.5", "literal"),
        ("int(float(value))", "float"),
        ("rows.astype(np.float64)", "np.float64"),
        ("rows.astype(float)", "float"),
        ("np.zeros((2, 2))", "np.zeros"),
        ("np.array(values)", "np.array"),
        ("np.mean(rows)", "np.mean"),
        ("np.random.default_rng()", "np.random.default_rng"),
        ("math.sqrt(value)", "math.sqrt"),
        ("list(map(math.exp, values))", "math.exp"),
        ("root(value)", "root"),
        ("erfcx(value)", "erfcx"),
    ],
)
def test_the_reader_of_the_code_sees_a_float_operation(line: str, operation: str) -> None:
    imports = "import math\nimport numpy as np\nfrom math import sqrt as root\nfrom scipy.special import erfcx\n"
    source = f"{imports}class A:\n    def f(value: float, *, scale: float) -> float:\n        return {line}\n"
    assert float_operations(source)["A.f"] == {operation}


def test_the_reader_of_the_code_passes_integers() -> None:
    source = (
        "import math\nimport numpy as np\n"
        "def f(x: float, rows: npt.NDArray[np.float64]) -> float:\n"
        "    y: float = x // 2 + math.isqrt(5) * 3\n"
        "    return np.zeros(3, dtype=np.int64) + np.flatnonzero(rows) + y % 2\n"
    )
    assert float_operations(source) == {}


# --- the bits -------------------------------------------------------------------------------------------------------


def make_plan(row_map: RowMap, mechanism: Mechanism) -> GramPlan:
    design = make_design(
        tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(3)),
        tuple(Column(f"y{i}", ColumnType.NUMERIC) for i in range(2)),
        intercept=True,
    )
    price = Price(epsilon=1.0, delta=1e-6) if mechanism is Mechanism.GAUSSIAN else Price(epsilon=1.0)
    shares = default_shares(tuple(Statistic), mechanism)
    return plan_gram(
        design, row_map, Adjacency.ADD_REMOVE, row_capacity=10**6, price=price, shares=shares, mechanism=mechanism
    )


def make_statistics() -> SufficientStatistics:
    rows = np.random.default_rng(3).integers(-UNIT, UNIT, size=(200, 6), endpoint=True)
    return split_gram(compute_gram([rows.astype(np.float64)], 6), 4)


class Sealed(np.ndarray):  # type: ignore[type-arg]
    """Integers that can be picked as a whole and added to other sealed ones, and nothing else: no look at any.

    Sums are sealed, and draws: what looks at one of them, or makes a Python integer of it, may cost more for some.
    """

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: object) -> Any:
        assert (ufunc, method, len(inputs)) == (np.add, "__call__", 2), "something computes with a sealed number"
        sums, draws = inputs
        assert type(sums) is type(draws) is Sealed
        return np.add(sums.view(np.ndarray), draws.view(np.ndarray))

    def __array_function__(self, function: Any, _types: object, arguments: Any, options: Any) -> Any:
        assert function in {np.concatenate, np.diagonal}, "something computes with a sealed number"
        assert options == ({"axis": -1} if function is np.concatenate else {})
        (given,) = arguments
        plain = given.view(np.ndarray) if function is np.diagonal else [part.view(np.ndarray) for part in given]
        return function(plain, **options).view(Sealed)

    def __getitem__(self, index: Any) -> Any:
        picked = super().__getitem__(index)
        assert type(picked) is Sealed, "something picks one number"
        return picked

    def _refuse(self, *_: object, **__: object) -> Any:
        raise AssertionError("something looks at a sealed number")

    tolist = item = astype = tobytes = __int__ = __float__ = __index__ = __bool__ = __iter__ = _refuse
    __repr__ = __str__ = __format__ = __contains__ = any = all = min = max = sum = nonzero = _refuse


class SealedDraws(Sealed):
    """Draws that may be cut into limbs too, all of them alike."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: object) -> Any:
        plain = [given.view(np.ndarray) if isinstance(given, Sealed) else given for given in inputs]
        if ufunc is np.add:
            assert {type(given) for given in inputs} == {Sealed, SealedDraws}
            return np.add(*plain)
        assert (ufunc in {np.bitwise_and, np.right_shift}, method, len(inputs)) == (True, "__call__", 2)
        return ufunc(*plain).view(SealedDraws)

    def __array_function__(self, function: Any, _types: object, arguments: Any, options: Any) -> Any:
        assert (function is np.stack, options) == (True, {})
        return np.stack([part.view(np.ndarray) for part in arguments[0]]).view(SealedDraws)


def test_noise_is_added_to_limbs_and_nothing_looks_at_a_sum_or_at_a_draw() -> None:
    sums, draws = [2**70, 0, -1, 5], np.array([-(2**60), 7, 2**26, 0])
    limbs = np.concatenate([split_integer(value) for value in sums], axis=1)
    noisy = add_noise_to_limbs(limbs.view(Sealed), draws.view(SealedDraws))
    assert noisy == [a + b for a, b in zip(sums, draws.tolist(), strict=True)]


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize("row_map", MAPS, ids=repr)
def test_noise_is_added_in_integers_and_nothing_looks_at_a_sum_or_at_a_draw(
    monkeypatch: pytest.MonkeyPatch, row_map: RowMap, mechanism: Mechanism
) -> None:
    monkeypatch.setattr(kernel, "compute_lambda_min", lambda *_: 5)  # it looks, and ends at a public time
    plan, noise, plain = make_plan(row_map, mechanism), KnownNoise(), make_statistics()
    gram = np.block([[plain.xtx, plain.xty], [plain.xty.T, np.diag(plain.yty)]]).view(Sealed)
    sums = kernel.flatten(gram, 4, plan.outputs, plan.lambda_min_tolerance).view(Sealed)
    draws = draw_noise(plan, noise).view(Sealed)
    noisy = mechanisms.perturb(ExactSums(sums), plan, draws)
    expected = perturb(plain, plan, np.array(noise.given, dtype=np.int64))
    assert noisy == expected
    assert all(type(value) is int for values in noisy.values.values() for value in values)


def test_a_sealed_number_shows_whoever_looks() -> None:
    sealed = np.arange(4).view(Sealed)
    looks: list[Callable[[], object]] = [sealed.tolist, lambda: list(sealed), lambda: sealed[0], lambda: sealed == 0]
    looks += [lambda: sealed * 2, lambda: sealed + 1, lambda: np.abs(sealed), lambda: np.sum(sealed), sealed.any]
    for look in looks:
        with pytest.raises(AssertionError):
            look()


def test_statistics_are_integers_whatever_held_the_rows() -> None:
    for dtype in (np.float64, np.int64):
        rows = np.full((3, 4), UNIT, dtype=dtype)
        exact = split_gram(compute_gram([rows], 4), 3)
        assert exact.xtx.dtype == exact.xty.dtype == exact.yty.dtype == np.int64
    assert compute_gram([], 2).dtype == np.int64


def bits(values: Sequence[float]) -> bytes:
    return np.array(values, dtype=np.float64).tobytes()


MANTISSAS = st.integers(2**52, 2**53 - 1)
NOISY = st.one_of(
    st.integers(-(2**64), 2**64),
    st.integers(-5, 5),
    st.builds(lambda e, d, sign: sign * (2**e + d), st.integers(0, 80), st.integers(-3, 3), st.sampled_from([-1, 1])),
    # Beside a midpoint of two floats, where a second rounding would show.
    st.builds(lambda m, e, d: ((2 * m + 1) * Q_SQUARED >> e) + d, MANTISSAS, st.integers(1, 40), st.integers(-1, 1)),
)


@given(st.lists(NOISY, min_size=1))
def test_a_released_value_is_the_noisy_integer_times_the_step_rounded_once(values: list[int]) -> None:
    scaled = NoisyStatistics({Statistic.YTY: values}).scaled(Statistic.YTY)
    assert bits(scaled) == bits([float(Fraction(value, Q_SQUARED)) for value in values])


def test_a_second_rounding_would_be_seen() -> None:
    values = [2**60 + k for k in range(2000)]
    scaled = NoisyStatistics({Statistic.YTY: values}).scaled(Statistic.YTY)
    assert bits(scaled) == bits([float(Fraction(value, Q_SQUARED)) for value in values])
    assert bits(scaled) != bits([float(value) / Q_SQUARED for value in values])
    assert bits(scaled) != bits([value * (1 / Q_SQUARED) for value in values])


class KnownNoise:
    """A source of known integers of every size that is drawn; each call goes on where the last one ended."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        first = len(self.given)
        draws = [(-1) ** k * (2 ** (k * 7 % 60) + k) for k in range(first, first + len(scales))]
        self.given += draws
        return draws


@pytest.fixture(scope="module")
def rich_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("floats"), limit=Price(mu=100.0), noise=ZeroNoise()) as world:
        yield world


REQUESTS = {
    f"{row_map}-{mechanism}": body(
        features=["age", "sex", "creatinine", "weight"],
        targets=["kappa", "lambda"],
        rows={"map": row_map},
        statistics=[s.value for s in Statistic],
        mechanism=mechanism.value,
        price={"mu": 0.05},
        fresh=True,
    )
    for row_map in ("box", "ball", "unit", "unit_xy")
    for mechanism in Mechanism
}


@pytest.mark.parametrize("name", list(REQUESTS))
def test_the_values_of_an_answer_are_the_noisy_integers_bit_for_bit(rich_world: World, name: str) -> None:
    def release(noise: Any, key: str) -> dict[str, Any]:
        answer = rich_world.api(noise=noise).post(
            "/v1/datasets/cohort/releases", json=REQUESTS[name], key=f"{name}-{key}"
        )
        assert answer.status_code == 201, answer.text
        # Numbers are kept as the text that was sent.
        content: dict[str, Any] = json.loads(answer.text, parse_float=str)["statistics"]
        return content

    noise = KnownNoise()
    exact, noisy = release(ZeroNoise(), "exact"), release(noise, "noisy")
    draws = iter(noise.given)
    for statistic in Statistic:
        step = exact[statistic]["step"]
        assert float(step) == 1 / Q_SQUARED
        for without, value in zip(exact[statistic]["values"], noisy[statistic]["values"], strict=True):
            integer = round(Fraction(float(without)) * Q_SQUARED)  # below 2^52: the float tells it exactly
            assert float(without) == float(Fraction(integer, Q_SQUARED))
            total = integer + next(draws)
            assert bits([float(value)]) == bits([float(Fraction(total, Q_SQUARED))])
            if abs(total) < 2**51:
                assert round(Fraction(float(value)) * Q_SQUARED) == total
    assert next(draws, None) is None


def test_from_the_stored_sums_to_the_noisy_values_nothing_looks_at_a_sum(
    monkeypatch: pytest.MonkeyPatch, rich_world: World
) -> None:
    """Such a release has no public time: whatever depended on a sum would show in how long its answer takes."""
    asked = body(
        features=["age", "sex", "ward"], targets=["kappa"], rows={"map": "box"}, price={"mu": 0.05}, fresh=True
    )
    api, curator = rich_world.api(noise=ZeroNoise()), rich_world.apps[-1].state.curator
    plain = api.post("/v1/datasets/cohort/releases", json=asked, key="sums-plain").json()
    held = curator.datasets.storage._grams._held
    assert held
    for dataset, ((positions, gram), size) in held.items():
        held[dataset] = (positions, gram.view(Sealed)), size
    monkeypatch.setattr(publisher, "draw_noise", lambda plan, noise: draw_noise(plan, noise).view(Sealed))
    sealed = api.post("/v1/datasets/cohort/releases", json=asked, key="sums-sealed").json()
    assert sealed["statistics"] == plain["statistics"]


# --- one rounding per operation -------------------------------------------------------------------------------------

Round = Callable[[Fraction], Fraction]


def to_double(number: Fraction) -> Fraction:
    """Round once, correctly, as IEEE arithmetic does."""
    return Fraction(float(number))


def to_extended(number: Fraction) -> Fraction:
    """Round to the 64 bits of a wide register."""
    if number == 0:
        return number
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    step = Fraction(2) ** (exponent - 63 if abs(number) >= Fraction(2) ** exponent else exponent - 64)
    return round(number / step) * step


def flush(number: Fraction) -> Fraction:
    """Round, and flush what is subnormal to zero."""
    rounded = to_double(number)
    return Fraction(0) if abs(rounded) < Fraction(2) ** -1022 else rounded


def divide(a: Fraction, b: Fraction) -> Fraction:
    return a / b


def times_reciprocal(a: Fraction, b: Fraction) -> Fraction:
    """Divide as compilers do under fast-math."""
    return a * to_double(1 / b)


def stored_of(value: float, lower: float, upper: float, step: Round, quotient: Callable[..., Fraction] = divide) -> int:
    """Emulate `to_stored`, each operation rounded by `step`."""
    low, high = step(Fraction(lower) / 2), step(Fraction(upper) / 2)
    center, scale = step(low + high), step(high - low)
    scaled = step(step(quotient(step(Fraction(value) - center), scale)) * STORED_UNIT)
    return max(-STORED_UNIT, min(STORED_UNIT, round(scaled)))  # to the nearest integer, half to even


def adversarial_values() -> dict[tuple[float, float], list[float]]:
    """Return values beside the midpoints of the lattice, and where results are subnormal."""
    rng = np.random.default_rng(11)
    cases: dict[tuple[float, float], list[float]] = {
        (0.0, 2.0): [(k + 0.5) * 2.0**-30 + d * 2.0**-60 for k in range(40) for d in (-1, 0, 1)],
        (-49.0, 49.0): [49 * (k + 0.5) / 2**30 for k in range(-300, 300)],
        (-2e-300, 2e-300): [k * 3e-309 for k in range(-60, 60)],
        (-1.7e308, 1.7e308): [1.7e308 * (k / 64) for k in range(-64, 65)],
    }
    for lower, upper in ((50.0, 100.0), (0.0, 6.0), (-0.1, 0.7), (140.3, 200.9), (1e-9, 1e9)):
        center, scale = center_and_scale(lower, upper)
        near = center + scale * ((rng.integers(-(2**30), 2**30, size=200) + 0.5) / 2**30)
        cases[lower, upper] = [
            *near.tolist(),
            *np.nextafter(near, np.inf).tolist(),
            *np.nextafter(near, -np.inf).tolist(),
            *rng.uniform(lower, upper, size=100).tolist(),
        ]
    return cases


@pytest.mark.parametrize(("bounds", "values"), adversarial_values().items(), ids=lambda case: repr(case)[:24])
def test_values_are_stored_with_one_rounding_per_operation(bounds: tuple[float, float], values: list[float]) -> None:
    expected = [stored_of(value, *bounds, to_double) for value in values]
    assert to_stored(np.array(values), *bounds).tolist() == expected


@pytest.mark.parametrize(
    ("step", "quotient"),
    [(to_extended, divide), (flush, divide), (to_double, times_reciprocal)],
    ids=["wide register", "flush to zero", "reciprocal"],
)
def test_the_values_would_show_other_arithmetic(step: Round, quotient: Callable[..., Fraction]) -> None:
    assert any(
        stored_of(value, *bounds, step, quotient) != stored_of(value, *bounds, to_double)
        for bounds, values in adversarial_values().items()
        for value in values
        if max(map(abs, bounds)) < 1e300
    )


def test_no_multiplication_is_fused_with_an_addition() -> None:
    rng = np.random.default_rng(12)
    for size in (1, 2, 3, 5, 8, 17, 64, 1001):
        a, b = rng.uniform(1, 2, size=(2, size))
        a[0] = b[0] = 1 + 2.0**-30  # the square's last bit is at 2^-60
        product = a * b
        assert (a * b - product == 0).all()
        fused = [float(Fraction(x) * Fraction(y) - Fraction(z)) for x, y, z in zip(a, b, product, strict=True)]
        assert any(fused)  # what a fused operation would have left


def test_subnormal_numbers_are_kept_by_every_operation() -> None:
    for size in (1, 3, 8, 33):
        tiny = np.full(size, 3 * 2.0**-1074)
        assert (tiny * 2 == 6 * 2.0**-1074).all()
        assert (np.full(size, 2.0**-1060) / 2 == 2.0**-1061).all()
        assert (np.full(size, 1.5 * 2.0**-1022) - 2.0**-1022 == 2.0**-1023).all()
        assert (np.sqrt(np.full(size, 2.0**-1074)) == 2.0**-537).all()


@given(st.lists(st.one_of(st.integers(-STORED_UNIT, STORED_UNIT), st.just(MISSING)), min_size=1, max_size=40))
def test_the_request_lattice_is_the_exact_product_rounded_to_an_integer(stored: list[int]) -> None:
    expected = [0 if z == MISSING else round(Fraction(z * UNIT, STORED_UNIT)) for z in stored]
    assert to_request_lattice(np.array(stored, dtype=np.int32)).tolist() == expected


def test_midpoints_of_the_request_lattice_go_to_the_even_integer() -> None:
    # z q / 2^30 is k + 1/2 where z q is an odd multiple of 2^29, that is z one of ±2^29.
    assert to_request_lattice(np.array([2**29, -(2**29)], dtype=np.int32)).tolist() == [2**16, -(2**16)]
    assert round(Fraction(UNIT, 2)) == 2**16


# --- classical products ---------------------------------------------------------------------------------------------


def worst_pattern(columns: int, period: int = 64) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return rows of odd entries at and beside q: a column of ones, one of alternating signs, one that cancels."""
    place = np.arange(period * columns).reshape(period, columns)
    pattern = np.where(place % 7 % 2 == 0, 1, -1) * (UNIT - 2 * (place % 5))
    pattern[:, 0] = UNIT
    pattern[:, 1] = np.where(np.arange(period) % 2 == 0, UNIT, -UNIT)
    pattern[:, 2] = np.where(np.arange(period) < period // 2, UNIT, -UNIT)
    return pattern


def gram_in_python(pattern: np.ndarray[Any, np.dtype[np.int64]], repeats: int) -> list[list[int]]:
    columns = pattern.T.tolist()
    return [[repeats * sum(a * b for a, b in zip(x, y, strict=True)) for y in columns] for x in columns]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("step", [2**16, EXACT_BLOCK_ROWS], ids=["in blocks", "in one block"])
def test_the_gram_of_a_worst_block_of_the_most_rows_is_exact(
    step: int, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums_module, "_BLOCK_ROWS", step)
    pattern = worst_pattern(6)
    repeats, rest = divmod(EXACT_BLOCK_ROWS, len(pattern))
    block = np.vstack([np.tile(pattern, (repeats, 1)), pattern[:rest]]).astype(np.float64, order=order)
    assert len(block) == EXACT_BLOCK_ROWS
    whole, part = gram_in_python(pattern, repeats), gram_in_python(pattern[:rest], 1)
    expected = [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(whole, part, strict=True)]
    assert compute_gram([block], 6).tolist() == expected
    assert expected[0][0] == EXACT_BLOCK_ROWS * Q_SQUARED <= 2**53 < expected[0][0] + Q_SQUARED


def test_the_gram_at_full_width_is_exact() -> None:
    # The most terms and some targets; odd sums of 34 + 12 bits that a reduced-precision product would not hold.
    width, period, repeats = 1003, 16, 64
    pattern = worst_pattern(width, period)
    columns = pattern.T.astype(object)
    exact = compute_gram([np.tile(pattern, (repeats, 1)).astype(np.float64)], width)
    chosen = [*range(40), *range(480, 530), *range(width - 40, width)]
    expected = (columns[chosen] @ columns[chosen].T * repeats).tolist()
    assert exact[np.ix_(chosen, chosen)].tolist() == expected
    assert (exact == exact.T).all()
    in_integers = pattern.T @ pattern * repeats  # int64: no BLAS
    assert (exact == in_integers).all()


# --- a row's contribution -------------------------------------------------------------------------------------------

COLUMNS = (
    Column("age", ColumnType.NUMERIC, lower=50.0, upper=100.0),
    Column("weight", ColumnType.NUMERIC, MissingRule.INDICATOR, lower=40.0, upper=160.0),
    Column("dose", ColumnType.NUMERIC, MissingRule.MIDPOINT, lower=-1e-3, upper=7e5),
    Column("sex", ColumnType.CATEGORICAL, MissingRule.INDICATOR, levels=("F", "M", "X")),
    Column("frail", ColumnType.BOOLEAN, MissingRule.MIDPOINT, levels=("no", "yes")),
)
TARGETS = (
    Column("kappa", ColumnType.NUMERIC, MissingRule.COMPLETE, lower=0.0, upper=6.0),
    Column("lambda", ColumnType.NUMERIC, lower=-3.0, upper=1e9),
)
DESIGN = make_design(COLUMNS, TARGETS, intercept=True)


def raw_values(count: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(21)
    values: dict[str, np.ndarray[Any, Any]] = {}
    for column in (*COLUMNS, *TARGETS):
        if column.type is ColumnType.NUMERIC:
            span = column.upper - column.lower
            numbers = rng.uniform(column.lower - 0.1 * span, column.upper + 0.1 * span, size=count)
            numbers[rng.random(count) < 0.1] = np.nan
            numbers[:4] = (np.inf, -np.inf, column.lower, column.upper)
            values[column.name] = numbers
        else:
            codes = rng.integers(0, max(2, len(column.levels)), size=count).astype(np.int32)
            codes[rng.random(count) < 0.1] = MISSING
            values[column.name] = codes
    return values


def store(values: dict[str, np.ndarray[Any, Any]], rows: Any) -> dict[str, np.ndarray[Any, Any]]:
    bounds = {column.name: (column.lower, column.upper) for column in (*COLUMNS, *TARGETS)}
    return {
        name: to_stored(column[rows], *bounds[name]) if column.dtype == np.float64 else column[rows]
        for name, column in values.items()
    }


def contribution_bits(row_map: RowMap, values: dict[str, np.ndarray[Any, Any]], rows: Any) -> list[bytes]:
    """Return the mapped entries of each row, to the last bit, from raw values on."""
    stored = store(values, rows)
    mapped = row_map.apply(code_rows(stored, DESIGN, len(stored["age"])), DESIGN)
    return [row.tobytes() for row in mapped]


@pytest.mark.parametrize("row_map", MAPS, ids=repr)
def test_a_row_contributes_the_same_bits_alone_and_in_any_batch(row_map: RowMap) -> None:
    count = 400
    values = raw_values(count)
    alone = [contribution_bits(row_map, values, slice(k, k + 1))[0] for k in range(count)]
    rng = np.random.default_rng(22)
    batches: list[Any] = [slice(None), slice(None, None, -1), slice(1, None, 3), slice(5, 6), *map(slice, range(1, 70))]
    batches += [rng.permutation(count), rng.integers(0, count, size=1500)]
    for batch in batches:
        assert contribution_bits(row_map, values, batch) == [alone[k] for k in np.arange(count)[batch]]


@pytest.mark.parametrize("row_map", MAPS, ids=repr)
def test_a_row_moves_the_gram_by_its_own_products_exactly(row_map: RowMap) -> None:
    mapped = row_map.apply(code_rows(store(raw_values(60), slice(None)), DESIGN, 60), DESIGN)
    width = mapped.shape[1]
    whole = compute_gram([mapped], width)
    for k in range(len(mapped)):
        row = [int(z) for z in mapped[k].tolist()]
        without = compute_gram([np.delete(mapped, k, axis=0)], width)
        assert (whole - without).tolist() == [[a * b for b in row] for a in row]


@pytest.mark.parametrize("row_map", MAPS, ids=repr)
def test_a_row_that_counts_for_nothing_is_within_every_bound(row_map: RowMap) -> None:
    values = raw_values(50)
    values["age"][:20] = np.nan  # declared with omit
    values["lambda"][20:30] = np.nan  # a target omits too
    mapped = row_map.apply(code_rows(store(values, slice(None)), DESIGN, 50), DESIGN)
    assert not mapped[:30].any()
    terms = len(DESIGN.terms)
    norm_squared = row_map.norm_squared(DESIGN)
    null, groups, wide = np.zeros(mapped.shape[1]), DESIGN.group_count, DESIGN.wide_group_count
    for row in mapped:
        for other in (null, mapped[40]):
            moved = split_gram(compute_gram([row[None]], len(row)) - compute_gram([other[None]], len(row)), terms)
            entries = moved.xtx.astype(object)
            adjacency = Adjacency.ADD_REMOVE if other is null else Adjacency.REPLACE_ONE
            if isinstance(row_map, Box):
                squares = (np.triu(entries) ** 2).sum()
                assert squares <= xtx_box_l2_squared(groups, wide, adjacency)
            else:
                assert (entries**2).sum() <= xtx_norm_l2_squared(norm_squared, adjacency)
            assert ((moved.xty.astype(object) ** 2).sum(axis=0) <= xty_l2_squared(norm_squared, adjacency)).all()
            assert np.abs(moved.yty).max() <= Q_SQUARED


def test_the_centre_of_the_noise_is_an_integer_for_every_released_entry() -> None:
    # The accounting of the discrete Gaussian is for integer centres.
    d, t = len(DESIGN.terms), len(DESIGN.targets)
    for row_map in MAPS:
        stored = store(raw_values(200), slice(None))
        exact = split_gram(compute_gram([row_map.apply(code_rows(stored, DESIGN, 200), DESIGN)], d + t), d)
        plan = plan_of(DESIGN, row_map)
        centres = perturb(exact, plan, draw_noise(plan, ZeroNoise())).values
        assert [len(centres[s]) for s in Statistic] == [d * (d + 1) // 2, d * t, t, 1]
        assert all(type(value) is int for values in centres.values() for value in values)


def plan_of(design: Design, row_map: RowMap) -> GramPlan:
    return plan_gram(
        design,
        row_map,
        Adjacency.ADD_REMOVE,
        row_capacity=1000,
        price=Price(mu=0.1),
        shares=default_shares(tuple(Statistic)),
    )


def test_released_floats_of_every_size_are_finite() -> None:
    assert all(map(math.isfinite, NoisyStatistics({Statistic.YTY: [2**80, -(2**80)]}).scaled(Statistic.YTY)))
