"""Flaws on purpose: each is a patch of the source that breaks a promise, with what ought to turn red.

Texts are replaced exactly once; a text that is not found means that this list is behind the source.
"""

from dataclasses import dataclass

_PRODUCT = "curator_service/"
_TESTS = "tests/unit/privacy/test_privacy_"
ACCOUNTANT, DESIGN, LATTICE, MECHANISMS, PLANNING, ROWS, SAMPLERS, SENSITIVITY, STATISTICS = (
    f"{_TESTS}{name}.py"
    for name in (
        "accountant",
        "design",
        "lattice",
        "mechanisms",
        "planning",
        "rows",
        "samplers",
        "sensitivity",
        "statistics",
    )
)
PASS_WORK = "tests/unit/datasets/test_pass_work.py"
EXPRESSIONS, SELECTION = "tests/unit/privacy/test_expressions.py", "tests/unit/privacy/test_selection.py"
MARGINALS = "tests/unit/privacy/test_marginals_sensitivity.py"
COMBINATIONS, SCORES = (f"tests/unit/privacy/test_{name}.py" for name in ("combinations", "score_sensitivity"))
SCORE_REQUESTS = "tests/integration/test_score_requests.py"
EXPRESSION_ATTACKS = "tests/unit/privacy/test_expressions_attacks.py"
EXACT_NUMBERS = "tests/integration/test_exact_numbers.py"
FAILURES = "tests/integration/test_release_failures.py"
LEDGER = "tests/integration/test_release_ledger.py"
PERMITS = "tests/integration/test_permits.py"
SESSION_TESTS = "tests/integration/test_sessions.py"
THRESHOLDS = "tests/unit/privacy/test_thresholds.py"
SESSION_ENTRIES = "tests/unit/ledger/test_session_entries.py"
LOCAL_LAWS, PARTICIPANTS = (f"tests/unit/analyst_client/test_local_{name}.py" for name in ("laws", "participant"))
SHARING = "sharing"
"""The name of the check of fresh noise and of a spent budget, which is no cell of the game."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A flaw.

    Attributes
    ----------
    name : str
    path : str
        The file that is patched, unless a replacement names another.
    replacements : tuple of tuple of str
        Old text and new text, and another file.
    cells : tuple of str
        Cells of the game, and `SHARING`, that are tried first.
    tests : tuple of str
        Test files that are tried next, until one is red, and single tests, each of which must be, on every database.
    sign : str
        What each failure of single tests says.
    """

    name: str
    path: str
    replacements: tuple[tuple[str, ...], ...]
    cells: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    sign: str = ""


def _mutant(
    name: str,
    file: str,
    *replacements: tuple[str, ...],
    cells: tuple[str, ...] = (),
    tests: tuple[str, ...] = (),
    sign: str = "",
) -> Mutant:
    return Mutant(name, f"{_PRODUCT}{file}", replacements, cells, tests, sign)


_DRAWS = "    return np.array(noise.sample(distribution, _scales(plan)), dtype=np.int64)\n"
_FLAT = "    flat = _scales(plan)\n"
_WORDS = "    return np.frombuffer(os.urandom(count * 8), dtype=np.uint64)\n"
_CLIP_STORED = ("    np.clip(scaled, -STORED_UNIT, STORED_UNIT, out=scaled)\n", "")
_CLIP_REQUEST = (
    "    bounded = np.clip(stored, _LOWEST, _HIGHEST, out=work)\n",
    "    bounded = np.positive(stored, out=work)\n",
)
_GAUSSIAN_BOX, _LAPLACE_BOX = "gaussian box, add_remove", "laplace box, add_remove"
_LATER = """        with self.database.begin() as later:
            later.cursor().execute(
                "UPDATE populations SET posted_units = posted_units + :cost WHERE name = :name",
                {"cost": prepared.plan.cost, "name": prepared.dataset.population},
            )
"""
_SESSION, _TWO_POSITIVES = "a session below, add_remove", "a session of two positive answers, add_remove"
_EVERY_DRAW = f"{SESSION_TESTS}::test_every_draw_has_the_scale_that_was_charged"
_THRESHOLD_DRAW = "self._draw(opening.noise.threshold_scale)"
_COMPETING = "tests/integration/test_competing_charges.py::test_of_two_charges_for_the_whole_budget_one_is_refused"
_MACHINE = "tests/integration/test_ledger_state_machine.py::test_the_ledger_agrees_with_a_serial_model"
_WRITE_FROM_MEMORY = """

_SEEN = __import__("threading").local()
_VALUES = {"posted_units": _POSTED, "pending_units": _PENDING, "head_sequence": PopulationRow.head_sequence + 1}
_WRITE = Statement(update(PopulationRow).where(_THIS).values(_VALUES).returning(*_HEAD))


def _move(connection, population, posted, pending):
    statement, seen = _MOVE, getattr(_SEEN, "account", None)
    if posted + pending > 0 and seen is not None and seen.name == population:
        if posted + pending > seen.remaining:
            return None
        statement, posted, pending = _WRITE, seen.posted + posted, seen.pending + pending
    return statement.first(connection, population=population, posted=posted, pending=pending)
"""
_READ_CHECK_WRITE = (
    (
        "    return None if row is None else _population(row)\n\n\ndef list_populations(",
        "    _SEEN.account = None if row is None else _population(row)\n    return _SEEN.account\n"
        + _WRITE_FROM_MEMORY
        + "\n\ndef list_populations(",
    ),
    (
        "_MOVE.first(connection, population=population, posted=posted, pending=pending)",
        "_move(connection, population, posted, pending)",
    ),
)
_VOID = """self.connection, reservation.id, outcome):
            head = self._take(reservation.population, posted=-reservation.units, pending=0)
            repository.move_share(
                self.connection, reservation.population, reservation.permit_id, principal=reservation.principal_id,
                dataset=reservation.dataset_id, posted=-reservation.units, pending=0, moment=moment,
            )
            said = {"reservation": reservation.id, "holder": reservation.principal_id, "outcome": outcome}
            void = Void(**_payer(reservation).stated | {"actor": actor}, **said, time=moment)
            return self.record(head, void, reservation.units)
"""
_CLOSED_ANYWAY = (
    "    return _CLOSE.changed(connection, reservation=reservation_id, ended=outcome, drawn=drawn) == 1\n",
    "    return True\n",
)

MUTANTS = (
    # --- Noise
    _mutant(
        "half of the noise",
        "privacy/mechanism.py",
        ("(sums + draws).tolist()", "(sums + draws // 2).tolist()"),
        cells=(_GAUSSIAN_BOX, _LAPLACE_BOX),
        tests=(MECHANISMS,),
    ),
    _mutant(
        "noise narrower by √2, Laplace",
        "privacy/mechanism.py",
        ("(sums + draws).tolist()", "(sums + draws // 7 * 5).tolist()"),
        cells=("laplace lambda_min, replace_one",),
        tests=(MECHANISMS,),
    ),
    _mutant(
        "entries off the diagonal drawn twice, the mean added",
        "privacy/mechanism.py",
        (
            _DRAWS,
            _FLAT
            + "    size = len(plan.design.terms)\n"
            + "    once = [i == j for i in range(size) for j in range(i, size)]\n"
            + "    pairs = zip(noise.sample(distribution, flat), noise.sample(distribution, flat))\n"
            + "    once += [True] * (len(flat) - len(once))\n"
            + "    return np.array([a if single else (a + b) // 2 for single, (a, b) in zip(once, pairs)])\n",
        ),
        cells=("gaussian ball, add_remove",),
        tests=(MECHANISMS,),
    ),
    _mutant(
        "one draw for every entry",
        "privacy/mechanism.py",
        (_DRAWS, _FLAT + "    return np.repeat(noise.sample(distribution, flat[:1]), len(flat))\n"),
        cells=(_GAUSSIAN_BOX,),
        tests=(MECHANISMS,),
    ),
    _mutant(
        "the same draws for every release",
        "privacy/mechanism.py",
        (
            _DRAWS,
            _FLAT + "    return np.array(_KEPT.setdefault((distribution, *flat), noise.sample(distribution, flat)))\n",
        ),
        ("\n\ndef draw_noise(", "\n\n_KEPT: dict = {}\n\n\ndef draw_noise("),
        cells=(SHARING,),
        tests=(MECHANISMS,),
    ),
    _mutant(
        "a generator with a seed",
        "privacy/samplers.py",
        (_WORDS, "    return _GENERATOR.integers(0, 2**64, count, dtype=np.uint64)\n"),
        ("\n\ndef _random_words(", "\n\n_GENERATOR = np.random.default_rng(7)\n\n\ndef _random_words("),
        cells=(SHARING,),
        tests=(SAMPLERS,),
    ),
    _mutant(
        "a generator that a fork inherits",
        "privacy/samplers.py",
        (_WORDS, "    return _GENERATOR.integers(0, 2**64, count, dtype=np.uint64)\n"),
        ("\n\ndef _random_words(", "\n\n_GENERATOR = np.random.default_rng()\n\n\ndef _random_words("),
        cells=(SHARING,),
        tests=(SAMPLERS,),
    ),
    _mutant(
        "minus zero kept",
        "privacy/samplers.py",
        ("kept & ~((value == 0) & negative)", "kept"),
        tests=(SAMPLERS, "tests/statistical/test_noise_law.py"),
    ),
    # --- Lattice and row maps
    _mutant("no clip at ingest", "privacy/lattice.py", _CLIP_STORED, tests=(LATTICE,)),
    _mutant("no clip on the request's lattice", "privacy/lattice.py", _CLIP_REQUEST, tests=(LATTICE,)),
    _mutant(
        "no clip at all",
        "privacy/lattice.py",
        _CLIP_STORED,
        _CLIP_REQUEST,
        cells=("gaussian box, values beyond bounds, add_remove",),
        tests=(LATTICE,),
    ),
    _mutant(
        "a shrunk row rounded to nearest, not towards zero",
        "privacy/row_maps/integers.py",
        ("    return np.trunc(scaled, out=scaled)\n", "    return np.rint(scaled, out=scaled)\n"),
        tests=(ROWS,),
    ),
    _mutant(
        "no ball",
        "privacy/row_maps/ball.py",
        (
            "        return shrink(rows, squared, min(self.radius, _LENGTH_MAX), out)\n",
            "        return rows\n",
        ),
        cells=("gaussian ball, long rows, add_remove",),
        tests=(ROWS,),
    ),
    _mutant(
        "rows of combinations not shrunk",
        "privacy/row_maps/linear.py",
        ("row_maps.ball import Ball\n", "row_maps.box import Box\n"),
        ("    row_map: ClassVar = Ball.of_norm(1.0)", "    row_map: ClassVar = Box()"),
        cells=("gaussian combinations, add_remove",),
    ),
    _mutant(
        "long combinations not cut",
        "privacy/combinations.py",
        ("        return np.clip(rounded, -LONGEST, LONGEST, out=rounded)\n", "        return rounded\n"),
        tests=(COMBINATIONS,),
    ),
    _mutant(
        "combinations rounded towards zero",
        "privacy/combinations.py",
        ("        np.rint(rounded, out=rounded)\n", "        np.trunc(rounded, out=rounded)\n"),
        tests=(COMBINATIONS,),
    ),
    _mutant(
        "weights of any size",
        "privacy/combinations.py",
        ("if (size := sum(map(abs, column))) > WEIGHTS_MAX:", "if (size := sum(map(abs, column))) > 2**99:"),
        tests=(COMBINATIONS,),
    ),
    _mutant(
        "no unit map",
        "privacy/row_maps/unit.py",
        ("        return _divide_by_norm(rows, design, len(design.terms), out)\n", "        return rows\n"),
        cells=("gaussian unit, add_remove",),
        tests=(ROWS,),
    ),
    _mutant(
        "no clip of a divided target",
        "privacy/row_maps/unit.py",
        ("        np.clip(targets, -UNIT, UNIT, out=targets)\n", ""),
        cells=("gaussian unit_xy, add_remove",),
        tests=(ROWS,),
    ),
    _mutant(
        "the constant left out of the unit map's bound",
        "privacy/row_maps/unit.py",
        ("        return (1 + design.has_constant) * UNIT**2\n", "        return UNIT**2\n"),
        cells=("gaussian unit, add_remove",),
        tests=(ROWS,),
    ),
    # --- What is computed, selected and weighed
    _mutant(
        "splines rounded to the nearest, not down",
        "privacy/bases.py",
        ("np.floor(values[span] * (UNIT * (1 - 2.0**-40)))", "np.rint(values[span] * UNIT)"),
        tests=(f"{EXPRESSIONS}::test_splines_are_rounded_down",),
    ),
    _mutant(
        "a product of terms rounded to the nearest, not towards zero",
        "privacy/design.py",
        ("                np.trunc(out, out=out)\n", "                np.rint(out, out=out)\n"),
        tests=(f"{SELECTION}::test_products_are_integers_and_rounded_towards_zero",),
    ),
    _mutant(
        "a product of terms not rounded",
        "privacy/design.py",
        ("                np.trunc(out, out=out)\n", ""),
        tests=(f"{EXPRESSIONS}::test_no_row_exceeds_a_bound",),
    ),
    _mutant(
        "a computed column not clipped to its bounds",
        "privacy/expressions/derive.py",
        (
            "to_stored(values.numbers, self.lower, self.upper)",
            "np.rint((values.numbers - (self.lower + self.upper) / 2) / ((self.upper - self.lower) / 2) * 2**30)",
        ),
        tests=(f"{EXPRESSIONS}::test_a_computed_value_beyond_its_bounds_becomes_the_bound",),
    ),
    _mutant(
        "a pass over the filled rows alone",
        "datasets/engines/numpy.py",
        (
            "            return sum_range(kernel, rows, 0, rows.capacity)\n",
            "            return sum_range(kernel, rows, 0, sum(part.rows for part in rows.parts))\n",
        ),
        tests=(PASS_WORK,),
    ),
    _mutant(
        "a public time of a score that forgets its directions",
        "kinds/score/kernel.py",
        ("        return terms * (count + 1) + meat", "        return terms * 2 + meat"),
        tests=(PASS_WORK,),
    ),
    _mutant(
        "a condition dropped",
        "privacy/selection.py",
        ("counted & (self.where.read(stored, len(counted)) == 1)", "counted"),
        tests=(f"{SELECTION}::test_only_rows_in_which_a_condition_is_true_count",),
    ),
    _mutant(
        "a condition that is missing taken for true",
        "privacy/selection.py",
        ("(self.where.read(stored, len(counted)) == 1)", "(self.where.read(stored, len(counted)) != 0)"),
        tests=(f"{SELECTION}::test_only_rows_in_which_a_condition_is_true_count",),
    ),
    _mutant(
        "a row without its weight counted",
        "privacy/selection.py",
        ("counted & (self.weight.read(stored, len(counted)) != MISSING)", "counted"),
        tests=(f"{SELECTION}::test_a_row_without_its_weight_does_not_count",),
    ),
    _mutant(
        "rows weighed before they are mapped",
        "kinds/gram/kernel.py",
        ("        self.row_map.apply(rows, self.design, rows)\n", ""),
        (
            "            np.trunc(rows, out=rows)\n",
            "            np.trunc(rows, out=rows)\n        self.row_map.apply(rows, self.design, rows)\n",
        ),
        tests=(f"{SELECTION}::test_a_row_is_weighed_after_it_was_mapped",),
    ),
    _mutant(
        "a row multiplied by its weight, not by the root",
        "kinds/gram/kernel.py",
        ("np.sqrt(weights)[:, None]", "weights[:, None]"),
        tests=(f"{SELECTION}::test_a_row_is_multiplied_by_the_root_of_its_weight",),
    ),
    _mutant(
        "weighed rows not rounded",
        "kinds/gram/kernel.py",
        ("            np.trunc(rows, out=rows)\n", ""),
        tests=(f"{SELECTION}::test_weighed_rows_are_integers_and_rounded_towards_zero",),
    ),
    _mutant(
        "weighed counts not rounded",
        "kinds/counting.py",
        ("        np.trunc(out[:, -1], out=out[:, -1])\n", ""),
        tests=(f"{SELECTION}::test_weighed_counts_are_integers_and_rounded_down",),
    ),
    # --- Sensitivity
    _mutant(
        "XᵀX in a ball: added instead of replaced",
        "kinds/gram/sensitivity.py",
        ("norm_squared**2 * (2 if adjacency is _REPLACE else 1)", "norm_squared**2"),
        cells=("gaussian ball, replace_one",),
        tests=(SENSITIVITY,),
    ),
    _mutant(
        "XᵀX in the box: added instead of replaced",
        "kinds/gram/sensitivity.py",
        (
            "    if adjacency is _REPLACE:\n"
            "        return Fraction(UNIT**4 * (group_count**2 + wide_group_count))\n"
            "    return Fraction(UNIT**4 * (group_count**2 + group_count), 2)\n",
            "    return Fraction(UNIT**4 * (group_count**2 + group_count), 2)\n",
        ),
        cells=("gaussian box, replace_one",),
        tests=(SENSITIVITY,),
    ),
    _mutant(
        "Xᵀy: added instead of replaced",
        "kinds/gram/sensitivity.py",
        ("norm_squared * UNIT**2 * (4 if adjacency is _REPLACE else 1)", "norm_squared * UNIT**2"),
        cells=("gaussian box, replace_one",),
        tests=(SENSITIVITY,),
    ),
    _mutant(
        "Xᵀy in L1: added instead of replaced",
        "kinds/gram/sensitivity.py",
        ("    return added * 2 if adjacency is _REPLACE else added\n", "    return added\n"),
        cells=("laplace box, replace_one",),
        tests=(SENSITIVITY,),
    ),
    _mutant(
        "Xᵀy in L1: rows made longer, and splines still 1 together",
        "kinds/gram/sensitivity.py",
        ("(support if lengthens else 1)", "1"),
        tests=(EXPRESSION_ATTACKS,),
    ),
    _mutant(
        "knots that are one float",
        "privacy/bases.py",
        ("other - one < KNOT_DISTANCE", "other < one"),
        tests=(EXPRESSION_ATTACKS,),
    ),
    _mutant(
        "a table of a basis that nobody looked at",
        "privacy/bases.py",
        ('        raise AssertionError("a basis exceeds its bound")\n', "        pass\n"),
        tests=(EXPRESSION_ATTACKS,),
    ),
    _mutant(
        "groups counted by kind, not by column",
        "privacy/design.py",
        ("len({term.group for term in self.terms})", "len({term.group[0] for term in self.terms})"),
        cells=(_GAUSSIAN_BOX,),
        tests=(DESIGN, SENSITIVITY),
    ),
    _mutant(
        "wide groups forgotten",
        "kinds/gram/sensitivity.py",
        ("Fraction(UNIT**4 * (group_count**2 + wide_group_count))", "Fraction(UNIT**4 * group_count**2)"),
        cells=("gaussian box, two categories, replace_one",),
        tests=(SENSITIVITY,),
    ),
    _mutant(
        "wide groups forgotten in L1",
        "kinds/gram/sensitivity.py",
        (" + 2 * wide * single + wide**2 + wide)", " + wide * single + (wide**2 + wide) // 2)"),
        cells=("laplace box, two categories, replace_one",),
        tests=(SENSITIVITY,),
    ),
    _mutant(
        "Laplace noise for the L2 sensitivity",
        "kinds/gram/plan.py",
        (
            "bound = sensitivity.xtx_box_l1(groups, wide, self.adjacency)",
            "bound = Fraction(sensitivity.root_up(sensitivity.xtx_box_l2_squared(groups, wide, self.adjacency)))",
        ),
        cells=("laplace box, two terms, add_remove",),
        tests=(PLANNING, SENSITIVITY),
    ),
    _mutant(
        "the float error of λ_min forgotten",
        "kinds/gram/sensitivity.py",
        ("rows_per_person * norm_squared + 3 * tolerance", "rows_per_person * norm_squared"),
        tests=(STATISTICS, SENSITIVITY),
    ),
    _mutant(
        "rows per person ignored, Gaussian",
        "kinds/gram/plan.py",
        ("        return squared * self.rows_per_person**2\n", "        return squared\n"),
        cells=("gaussian box, persons of two rows, add_remove",),
        tests=(PLANNING,),
    ),
    _mutant(
        "rows per person ignored, Laplace",
        "kinds/gram/plan.py",
        ("        return bound * self.rows_per_person\n", "        return bound\n"),
        cells=("laplace box, persons of two rows, add_remove",),
        tests=(PLANNING,),
    ),
    _mutant(
        "rows beyond a person's share counted",
        "datasets/engines/numpy.py",
        ("kernel.map(tile, tile[MARK] == 1, mapped[:count])", "kernel.map(tile, tile[MARK] > -1, mapped[:count])"),
        cells=("gaussian ball, persons of two rows, replace_one",),
        tests=("tests/unit/datasets/test_dataset_ingest.py",),
    ),
    # --- Cost and charge
    _mutant(
        "two float tolerances in the bound of λ_min, in place of three",
        "kinds/gram/sensitivity.py",
        ("norm_squared + 3 * tolerance)", "norm_squared + 2 * tolerance)"),
        tests=(STATISTICS,),
    ),
    _mutant(
        "the number of rows in place of their capacity in the tolerance of λ_min",
        "kinds/gram/kind.py",
        (
            "        row_capacity=dataset.manifest.row_capacity,\n        price=price,",
            "        row_capacity=dataset.row_count,\n        price=price,",
        ),
        tests=(EXACT_NUMBERS,),
    ),
    _mutant(
        "the joint bound where rows are added",
        "kinds/gram/plan.py",
        ("self.adjacency is Adjacency.REPLACE_ONE and Statistic.XTX", "Statistic.XTX"),
        cells=(_GAUSSIAN_BOX,),
        tests=(PLANNING, SENSITIVITY),
    ),
    _mutant(
        "the joint bound without yᵀy",
        "kinds/gram/sensitivity.py",
        ("max(yty, xty / 4 + joint_constant * xty**2 / (16 * xtx))", "xty / 4 + joint_constant * xty**2 / (16 * xtx)"),
        cells=("gaussian box, omitted row, replace_one",),
        tests=(SENSITIVITY,),
    ),
    _mutant(
        "a variance of σ² in place of σ² − 9",
        "privacy/accountant.py",
        ("VARIANCE_LOSS = 9\n", "VARIANCE_LOSS = 0\n"),
        tests=(ACCOUNTANT, PLANNING),
    ),
    _mutant(
        "half of the cost",
        "privacy/accountant.py",
        (
            "if joint is None else joint.cost(gaussian)))",
            "if joint is None else joint.cost(gaussian))) // 2",
        ),
        cells=(_GAUSSIAN_BOX,),
        tests=(ACCOUNTANT,),
    ),
    _mutant(
        "targets after the first for free",
        "privacy/parts.py",
        ("self.copies * self.sensitivity_squared / variance", "self.sensitivity_squared / variance"),
        cells=("gaussian box, two targets, add_remove",),
        tests=(ACCOUNTANT, PLANNING),
    ),
    _mutant(
        "replaced rows counted as added ones",
        "kinds/counts/sensitivity.py",
        ("    return 2 if adjacency is Adjacency.REPLACE_ONE else 1\n", "    return 1\n"),
        cells=("counts, one table, replace_one", "laplace counts, replace_one"),
    ),
    _mutant(
        "one row counted of a person with two",
        "kinds/counts/sensitivity.py",
        ("(rows_per_person * UNIT**2) ** 2", "(UNIT**2) ** 2"),
        cells=("counts, persons of two rows, add_remove",),
    ),
    _mutant(
        "cells counted for half of what they are",
        "kinds/counts/sensitivity.py",
        ("    return Fraction(_cells(adjacency) * (", "    return Fraction(1, 4) * Fraction(_cells(adjacency) * ("),
        cells=("counts, one table, add_remove",),
    ),
    _mutant(
        "a tree counted for one of its levels",
        "kinds/marginals/sensitivity.py",
        ("    levels = marginal.levels if isinstance(marginal, Tree) else 1\n", "    levels = 1\n"),
        cells=("marginals, tree, add_remove",),
        tests=(MARGINALS,),
    ),
    _mutant(
        "bins: added instead of replaced",
        "kinds/marginals/sensitivity.py",
        ("levels * (2 if adjacency is Adjacency.REPLACE_ONE else 1)", "levels"),
        cells=("marginals, flat, replace_one", "laplace marginals, flat, replace_one"),
        tests=(MARGINALS,),
    ),
    _mutant(
        "moments: added instead of replaced",
        "kinds/marginals/sensitivity.py",
        (
            "        return Fraction(4) if adjacency is Adjacency.REPLACE_ONE else Fraction(3, 2)\n",
            "        return Fraction(3, 2)\n",
        ),
        cells=("marginals, moments, replace_one",),
        tests=(MARGINALS,),
    ),
    _mutant(
        "moments in L1: added instead of replaced",
        "kinds/marginals/sensitivity.py",
        (
            "        return Fraction(9, 4) if adjacency is Adjacency.REPLACE_ONE else Fraction(2)\n",
            "        return Fraction(2)\n",
        ),
        cells=("laplace marginals, moments, replace_one",),
        tests=(MARGINALS,),
    ),
    _mutant(
        "columns after the first for free",
        "kinds/marginals/sensitivity.py",
        ("len(marginal.columns) * _column_l2_squared(", "_column_l2_squared("),
        cells=("marginals, moments, add_remove",),
        tests=(MARGINALS,),
    ),
    _mutant(
        "columns after the first for free, in L1",
        "kinds/marginals/sensitivity.py",
        ("len(marginal.columns) * _column_l1(", "_column_l1("),
        cells=("laplace marginals, two columns, replace_one",),
        tests=(MARGINALS,),
    ),
    _mutant(
        "gradients not shrunk",
        "kinds/score/kernel.py",
        ("        shrink(contributions, squared, UNIT, out[:, :count])\n", "        out[:, :count] = contributions\n"),
        cells=("score, one of each, add_remove",),
    ),
    _mutant(
        "gradients shrunk by their norms, rounded to the nearest",
        "kinds/score/kernel.py",
        (
            "        shrink(contributions, squared, UNIT, out[:, :count])\n",
            "        lengths = np.maximum(np.sqrt(squared), UNIT)\n"
            "        out[:, :count] = np.rint(contributions * (UNIT / lengths)[:, None])\n",
        ),
        tests=(SCORES,),
    ),
    _mutant(
        "long gradients not cut before they are squared",
        "kinds/score/kernel.py",
        ("        np.clip(contributions, -LONGEST, LONGEST, out=contributions)\n", ""),
        tests=(SCORE_REQUESTS,),
    ),
    _mutant(
        "a score that is replaced moves as one that is added",
        "kinds/score/sensitivity.py",
        ("squared = Fraction((4 if replaces else 1) * UNIT**4)", "squared = Fraction(UNIT**4)"),
        cells=("score, residuals of either sign, replace_one",),
        tests=(SCORES,),
    ),
    _mutant(
        "norms of a replaced row in one bin",
        "kinds/score/sensitivity.py",
        ("squared = Fraction((2 if replaces else 1) * UNIT**4)", "squared = Fraction(UNIT**4)"),
        cells=("score, norms and meat, replace_one",),
        tests=(SCORES,),
    ),
    _mutant(
        "products of gradients that are replaced move as added",
        "kinds/score/sensitivity.py",
        ("xtx_norm_l2_squared(UNIT**2, adjacency))", "xtx_norm_l2_squared(UNIT**2, Adjacency.ADD_REMOVE))"),
        cells=("score, norms and meat, replace_one",),
        tests=(SCORES,),
    ),
    _mutant(
        "scores of one row of a person with two",
        "kinds/score/sensitivity.py",
        ("    return squared * rows_per_person**2\n", "    return squared\n"),
        cells=("score, persons of two rows, add_remove",),
        tests=(SCORES,),
    ),
    _mutant(
        "a score of one direction, for Laplace noise",
        "kinds/score/sensitivity.py",
        ("twice * root_up(Fraction(count * UNIT**4))", "twice * UNIT**2"),
        tests=(SCORES,),
    ),
    _mutant(
        "the second move of a replaced score left out, for Laplace noise",
        "kinds/score/sensitivity.py",
        ("    twice = 2 if adjacency is Adjacency.REPLACE_ONE else 1\n", "    twice = 1\n"),
        cells=("laplace score, replace_one",),
        tests=(SCORES,),
    ),
    _mutant(
        "the weights of scores ignored",
        "kinds/score/kernel.py",
        ("            out[:, :count] *= weights[:, None]\n", ""),
        tests=(SCORE_REQUESTS,),
    ),
    _mutant(
        "rows that do not count among the norms",
        "kinds/score/kernel.py",
        ("        out[:, count] = places * counts\n", "        out[:, count] = places\n"),
        tests=(SCORE_REQUESTS,),
    ),
    _mutant(
        "a link of another table",
        "privacy/losses.py",
        ("STEPS, REACH = 2**12, 16\n", "STEPS, REACH = 2**11, 16\n"),
        tests=(SCORES,),
    ),
    _mutant(
        "marginals of one row of a person with two",
        "kinds/marginals/sensitivity.py",
        ("(rows_per_person * UNIT**2) ** 2", "UNIT**4"),
        cells=("marginals, persons of two rows, add_remove",),
        tests=(MARGINALS,),
    ),
    _mutant(
        "squares not brought to their middle",
        "kinds/marginals/marginals.py",
        ("values * values - (HALF + 1) * present", "values * values"),
        tests=(MARGINALS,),
    ),
    _mutant(
        "moments of a missing value",
        "kinds/marginals/marginals.py",
        ("        values *= stored != MISSING\n", ""),
        tests=(MARGINALS,),
    ),
    _mutant(
        "the weights of marginals ignored",
        "kinds/marginals/kernel.py",
        ("None if self.selection.weight is None else rows[:, -1]", "None"),
        tests=(MARGINALS,),
    ),
    _mutant(
        "weighed moments rounded to the nearest, not towards zero",
        "kinds/marginals/marginals.py",
        ("weighed: RowArray = np.trunc(", "weighed: RowArray = np.rint("),
        tests=(f"{MARGINALS}::test_no_two_weighted_rows_beat_the_bounds_of_moments",),
    ),
    _mutant(
        "half of the cost booked",
        "ledger/accounts/unit_of_work.py",
        ("moment, posted=cost, pending=0)", "moment, posted=cost // 2, pending=0)"),
        cells=(_GAUSSIAN_BOX,),
        tests=(LEDGER,),
    ),
    _mutant(
        "nothing booked",
        "ledger/repository.py",
        (
            "posted_units=PopulationRow.posted_units + _POSTED,\n        pending",
            "posted_units=PopulationRow.posted_units,\n        pending",
        ),
        cells=(SHARING,),
        tests=(LEDGER,),
    ),
    _mutant(
        "booked after the answer is durable",
        "releases/publisher.py",
        (
            "ledger.charge(dataset.population, dataset.id, prepared.cost, submission.payer, moment)\n",
            "ledger.next(dataset.population)\n",
        ),
        (
            "            return self._publish(ledger, submission, draft, head)\n\n"
            "        return self._decide(work, submission)\n",
            "            return self._publish(ledger, submission, draft, head)\n\n"
            "        release = self._decide(work, submission)\n" + _LATER + "        return release\n",
        ),
        tests=(FAILURES, LEDGER),
    ),
    # --- Ledger: permits
    _mutant(
        "a permit charged after its end",
        "ledger/repository.py",
        ("        _THIS_SHARE,\n        IS_PERMITTED,\n", "        _THIS_SHARE,\n"),
        tests=(f"{PERMITS}::TestTheEnd::test_the_clock_passes_it_between_the_look_and_the_charge",),
    ),
    _mutant(
        "a permit's end asked of the service's clock alone",
        "ledger/repository.py",
        (", ShareRow.expires_at > ThisMoment()", ""),
        tests=(f"{PERMITS}::TestTheEnd::test_by_the_clock_of_the_database",),
    ),
    _mutant(
        "a permit's limit not asked",
        "ledger/repository.py",
        ("_POSTED + _PENDING <= ShareRow.limit_units,", "_POSTED + _PENDING <= ShareRow.limit_units + 10**15,"),
        tests=(f"{PERMITS}::test_its_limit_binds_all_of_its_people_together",),
    ),
    _mutant(
        "a permit not held against the chain",
        "ledger/accounts/unit_of_work.py",
        ("        self.trust.check_permit(self.connection, dataset, payer)\n", ""),
        tests=(f"{PERMITS}::TestTheTables::test_an_invented_permit_is_none",),
    ),
    # --- Ledger: accounts, keys, reservations, anchor
    _mutant(
        "an account read, checked, and then written",
        "ledger/repository.py",
        *_READ_CHECK_WRITE,
        tests=(_COMPETING,),
        sign="is not what its last entry says",
    ),
    _mutant(
        "the same, and the last entry not compared",
        "ledger/repository.py",
        *_READ_CHECK_WRITE,
        (
            "        self.check(head, limit=head.limit, posted=head.posted - posted, pending=head.pending - pending)\n",
            "",
            "curator_service/ledger/accounts/unit_of_work.py",
        ),
        tests=(
            _COMPETING,
            "tests/e2e/test_overspending.py::test_of_four_hundred_requests_for_a_hundred_exactly_a_hundred_are_granted",
        ),
        sign="exceed the limit",
    ),
    _mutant(
        "a key looked up, and then written",
        "releases/repository.py",
        (
            "insertion.on_conflict_do_update(\n"
            "            index_elements=[IdempotencyKeyRow.principal_id, IdempotencyKeyRow.key],\n",
            "insertion.on_conflict_do_nothing()\n        dict(\n",
        ),
        ("    return claimed == 1\n", "    return True\n"),
        tests=("tests/e2e/test_races.py::test_two_who_race_with_one_new_key_get_one_answer_for_one_charge",),
        sign="a phantom charge",
    ),
    _mutant(
        "a reservation posted, open or not",
        "ledger/accounts/unit_of_work.py",
        (
            "reservations.DONE, drawn=units):\n            raise Refused\n",
            "reservations.DONE, drawn=units):\n"
            "            place = reservation.population, reservation.dataset_id, _payer(reservation), moment\n"
            "            return self._spend(*place, posted=units, pending=0)\n",
        ),
        tests=(
            "tests/e2e/test_stopped_servers.py::"
            "test_a_server_that_slept_past_its_lease_neither_charges_again_nor_sends_a_second_draw",
        ),
        sign="a second draw leaves",
    ),
    _mutant(
        "an answer sent whether the anchor moved or not",
        "ledger/trust/guard.py",
        (
            '            raise Unavailable(\n                "The answer is stored',
            '            return\n            raise Unavailable(\n                "The answer is stored',
        ),
        tests=("tests/e2e/test_full_disks.py::test_no_answer_leaves_before_the_anchor_is_written",),
        sign="201",
    ),
    _mutant(
        "a job's amount given back, charged or not",
        "ledger/accounts/unit_of_work.py",
        ("self.connection, reservation.id, outcome):\n            raise Refused\n", _VOID),
        (
            "if reservation is None or reservation.state != reservations.OPEN:",
            "if reservation is None:",
            "curator_service/ledger/service.py",
        ),
        tests=("tests/e2e/test_faults.py::test_a_charge_whose_outcome_is_not_known_is_never_given_back",),
        sign="the account is not what was charged",
    ),
    _mutant(
        "an analyst's own limit not asked",
        "ledger/repository.py",
        ("    return moved == 1\n", "    return True\n"),
        tests=(_MACHINE,),
    ),
    _mutant(
        "what was charged given back",
        "ledger/accounts/reservations.py",
        (
            "None if row is None else Reservation(*row)\n",
            'None if row is None else __import__("dataclasses").replace(Reservation(*row), state=OPEN, drawn=0)\n',
        ),
        _CLOSED_ANYWAY,
        tests=(_MACHINE,),
    ),
    _mutant("what was given up posted", "ledger/accounts/reservations.py", _CLOSED_ANYWAY, tests=(_MACHINE,)),
    _mutant(
        "no key claimed",
        "releases/repository.py",
        ("    claimed = _CLAIM_KEY.changed(\n", "    return True\n    claimed = _CLAIM_KEY.changed(\n"),
        tests=(_MACHINE,),
    ),
    _mutant(
        "the anchor left as it is",
        "ledger/trust/guard.py",
        ("if self.anchor.is_written(signed.checkpoint) or (not just_written and self.reason()):", "if True:"),
        tests=(_MACHINE,),
    ),
    # --- Threshold sessions
    _mutant(
        "no noise of a session's threshold",
        "sessions/service.py",
        (_THRESHOLD_DRAW, "0"),
        cells=(_SESSION,),
        tests=(_EVERY_DRAW,),
    ),
    _mutant(
        "no noise of a session's questions",
        "sessions/service.py",
        ("self._draw(int(opened.said.question_scale))", "0"),
        cells=(_SESSION,),
        tests=(_EVERY_DRAW,),
    ),
    _mutant(
        "one noise for the thresholds of two sessions",
        "sessions/service.py",
        (
            _THRESHOLD_DRAW,
            "_KEPT.pop(opening.noise, None)\n            if drawn is None:\n"
            f"                drawn = _KEPT[opening.noise] = {_THRESHOLD_DRAW}",
        ),
        ("\n_LAPLACE = ", "\n_KEPT: dict = {}\n_LAPLACE = "),
        cells=("two sessions at once, add_remove",),
        tests=(_EVERY_DRAW,),
    ),
    _mutant(
        "another noise of the threshold after a positive answer, at the same price",
        "sessions/service.py",
        (
            "        number = state.answered + 1\n",
            "        if is_positive:\n"
            "            scale, about = int(asking.opened.said.threshold_scale), asking.opening.entry_hash\n"
            "            sealed = seal(self.ledger.guard.keys, self._draw(scale), about)\n"
            "            repository.forget_noise(connection, session.id)\n"
            "            repository._INSERT_NOISE.execute(\n"
            "                connection, session_id=session.id, key_id=sealed.key_id, sealed=sealed.sealed\n"
            "            )\n"
            "        number = state.answered + 1\n",
        ),
        tests=(_EVERY_DRAW,),
    ),
    _mutant(
        "the noise of questions not scaled by positive answers",
        "privacy/thresholds.py",
        ("self.directions * self.positives * self.sensitivity", "self.directions * self.sensitivity"),
        ("(1 if is_monotone else 2) * positives\n", "(1 if is_monotone else 2)\n"),
        cells=(_TWO_POSITIVES,),
        tests=(THRESHOLDS,),
    ),
    _mutant(
        "questions of either direction priced as of one",
        "privacy/thresholds.py",
        ("        return 1 if self.is_monotone else 2\n", "        return 1\n"),
        ("(1 if is_monotone else 2) * positives\n", "positives\n"),
        cells=("a session of either direction, replace_one",),
        tests=(THRESHOLDS,),
    ),
    _mutant(
        "a session of one direction where people are replaced",
        "sessions/service.py",
        ("    if is_monotone and dataset.adjacency is not Adjacency.ADD_REMOVE:\n", "    if False:\n"),
        tests=(f"{SESSION_TESTS}::test_a_session_of_one_direction_is_refused_where_people_are_replaced",),
    ),
    _mutant(
        "questions moved by one row of a person with two",
        "sessions/questions.py",
        ("    return rows_per_person * STEP\n", "    return STEP\n"),
        cells=("a session, persons of two rows, add_remove",),
        tests=(f"{SESSION_TESTS}::test_a_person_of_two_rows_moves_a_question_twice_as_far",),
    ),
    _mutant(
        "half of a session charged",
        "privacy/thresholds.py",
        ("return units_up(accountant.laplace(self.epsilon))", "return units_up(accountant.laplace(self.epsilon)) // 2"),
        cells=(_SESSION,),
        tests=(_EVERY_DRAW,),
    ),
    _mutant(
        "a session goes on after its last positive answer",
        "entries/account.py",
        ("if positives == found.positives_max:", "if positives < 0:"),
        (
            "            and self._count_answers(session)[1] < opened.said.positives\n",
            "",
            "curator_service/sessions/service.py",
        ),
        ("if answered.positives_left == 0:", "if False:", "curator_service/sessions/service.py"),
        cells=(_SESSION,),
    ),
    _mutant(
        "a session ended by what a first look says alone",
        "entries/account.py",
        ("if positives == found.positives_max:", "if positives < 0:"),
        tests=(SESSION_ENTRIES,),
    ),
    _mutant(
        "a session not ended by a cut",
        "entries/account.py",
        ("[session for session, found in self.items() if found.dataset == dataset]", "[]"),
        tests=(SESSION_ENTRIES,),
    ),
    _mutant(
        "an answer with the noisy number",
        "sessions/service.py",
        (
            "        number = state.answered + 1\n",
            "        self.noisy = sums.tolist(), drawn\n        number = state.answered + 1\n",
        ),
        (
            "            positives_left=asking.opened.said",
            '            noisy=str(getattr(self, "noisy", "")),\n            positives_left=asking.opened.said',
        ),
        (
            "    receipt: Annotated[dict[str, Any], Described(AnswerQuestion)]\n",
            '    receipt: Annotated[dict[str, Any], Described(AnswerQuestion)]\n    noisy: str = ""\n',
            "curator_service/sessions/response_models.py",
        ),
        cells=(_SESSION,),
        tests=("tests/contract/test_client_contract.py::test_the_interface_is_the_reviewed_one",),
    ),
    _mutant(
        "a fresh answer for a key that was answered",
        "sessions/service.py",
        (
            "key, session = check_key(key), self.find(session_id)",
            'key, session = new_id("key_"), self.find(session_id)',
        ),
        tests=(f"{SESSION_TESTS}::test_a_key_gives_its_answer_for_ever",),
    ),
    # --- Local reports
    Mutant(
        "half of the noise of a report",
        "analyst_client/local/questions.py",
        (("return odds_within(self.cost)", "return odds_within(2 * self.cost)"),),
        cells=("a report, randomised response", "a report, one number"),
    ),
    Mutant(
        "e^ε in floats",
        "analyst_client/local/exact.py",
        (("return Fraction(exp_below(epsilon), 1 << BITS)", 'return Fraction(__import__("math").exp(epsilon))'),),
        tests=(f"{LOCAL_LAWS}::test_odds_are_at_most_the_exponential_and_near_it",),
    ),
    Mutant(
        "corners between two halves in both, as they were printed",
        "analyst_client/local/mechanisms.py",
        (("(a if j >= near else b)", "(a * (2 * j >= self.size) + b * (2 * j <= self.size))"),),
        cells=("a report, two numbers",),
        tests=(LOCAL_LAWS,),
    ),
    Mutant(
        "a question answered anew",
        "analyst_client/local/participant.py",
        (("            if question.digest not in state.reports:\n", "            if question:\n"),),
        tests=(f"{PARTICIPANTS}::test_the_same_question_gets_the_same_report_at_no_cost",),
    ),
    Mutant(
        "a report beyond a person's limit",
        "analyst_client/local/participant.py",
        (("                self._check(state, question.cost)\n", ""),),
        tests=(f"{PARTICIPANTS}::test_a_report_beyond_the_limit_is_refused_before_the_record_is_read",),
    ),
)
