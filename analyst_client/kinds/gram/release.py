"""A release: one published answer, with everything needed to fit regressions on it and to check where it comes from."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from analyst_client.display.model import Note, View, facts, folded, join, number, quiet, table
from analyst_client.display.terminal import plain
from analyst_client.errors import ServiceError
from analyst_client.kinds.gram import KIND
from analyst_client.kinds.gram.arguments import check_list, check_target
from analyst_client.kinds.gram.exports.moments import raw_moments
from analyst_client.kinds.gram.exports.origin import list_origin
from analyst_client.kinds.gram.exports.programs import Package, find_package, write_program
from analyst_client.kinds.gram.local import Coding, coding_of, write_public, write_release
from analyst_client.kinds.gram.quote import Noise, list_noise, write_formula
from analyst_client.kinds.gram.row_lengths import describe_choice
from analyst_client.kinds.gram.rows import LINEAR, asked_combinations
from analyst_client.kinds.gram.saving import unwrap, unwrap_steps, wrap, wrap_steps
from analyst_client.kinds.gram.selection import find_part, select_statistics
from analyst_client.kinds.gram.statistics import NoisyStatistics, read_statistics
from analyst_client.kinds.published import PublishedAnswer, list_published
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.ledger.files import replace_file
from analyst_client.schema.amounts import write_cost
from analyst_client.schema.columns import Column
from analyst_client.schema.quotes import list_request, write_expression
from analyst_client.schema.receipts import fold_receipt
from analyst_client.schema.wire import Fields, as_float, parse_json
from analyst_client.terms.expression import Expression
from analyst_client.terms.matching import match_features, name_of


@dataclass(frozen=True, eq=False, repr=False)
class Release(NoisyStatistics, PublishedAnswer):
    """Noisy sufficient statistics of D terms and T targets, and their terms of use.

    A curator keeps one text for everybody who means the same, with columns in an order of its own. What
    `CuratorClient.release` returns stands in the order that was asked. Read from a file, or fetched by its id, a
    release stands in that of its text, and `select` gives it another.

    Made by `CuratorClient.release`, `load`, `from_text`, `from_arrays` or `from_public`. Arrays are read-only and in
    scaled units (a term lies in [−1, 1]); a statistic that was not asked is None. Two releases are equal when their
    texts are.

    Attributes
    ----------
    text : str
        The exact text of the answer, which `save` writes and `verify` checks.
    id, dataset, created_at : str
    request : dict
        The request with every default filled in.
    features : tuple of Column
        Columns that are features by themselves: not those that only a basis or an interaction is made of.
    inner_columns : tuple of Column
        Columns that only a basis or an interaction is made of, and targets that are computed.
    terms, targets : tuple of Term
        Rows of `xtx`, the constant first if there is one; columns of `xty`.
    combined : tuple of Term
        Of rows of combinations, see `CombinedRows`, the terms that `terms` are combined of; else none.
    combinations : ndarray of shape (D', D) or None
        The weights of these D' terms in the D combinations, exactly as the curator used them.
    expressions : mapping of str to Expression
        Features and targets as they are asked for, by name.
    xtx : ndarray of shape (D, D) or None
    xty : ndarray of shape (D, T) or None
    yty : ndarray of shape (T,) or None
    lambda_min : float or None
        Noisy smallest eigenvalue of XᵀX.
    noise : Noise
        Standard deviations of the noise.
    cost : Cost or None
    receipt : Receipt or None
        The ledger entry of the charge. None when the release was made of arrays.
    answer : str or None
        Way of the answer: ``"new"``, ``"replayed"`` (same idempotency key), ``"stored"`` (free) or
        ``"derived"`` (computed, free, from the stored release `derived_from`).
    derived_from : str or None
    selected_from : Release or None
        The whole that this is a part of, see `select`.
    steps : tuple of ScoreRelease
        Counts of rows by their length, where the row map was chosen by them, and Σ g gᵀ of this model, where robust
        standard errors were bought. A file keeps them, and their receipts.

    Examples
    --------
    >>> release = Release.from_arrays([[4.0, 1.0], [1.0, 2.0]], [[3.0], [2.0]], features=["age"], targets=["kappa"])
    >>> release.term_names
    ('(constant)', 'age')
    >>> release.xty.shape
    (2, 1)
    """

    _kind = KIND
    selected_from: "Release | None" = None
    steps: tuple[ScoreRelease, ...] = ()

    @property
    def row_map(self) -> str | None:
        """Row map of the curator: ``"box"``, ``"ball"``, ``"unit"``, ``"unit_xy"`` or ``"linear"``, or None."""
        rows = self.request.get("rows")
        return rows.get("map") if isinstance(rows, dict) else None

    @property
    def norm(self) -> float | None:
        """The norm R that longer rows were shrunk to under ``"ball"``, in scaled units; None under another row map."""
        rows = self.request.get("rows")
        norm = rows.get("norm") if isinstance(rows, dict) and rows.get("map") == "ball" else None
        return as_float(norm) if isinstance(norm, int | float) else None

    @property
    def longest_squared(self) -> int:
        """The squared norm of the longest possible row that was weighted, in scaled units.

        1 for the constant and for each group of terms; rows of a part were weighted as rows of the whole.
        """
        return len({term.group for term in (self.selected_from or self).terms})

    @property
    def weights_rows(self) -> bool:
        """True if a row may count for less than another: under ``"ball"``, unless no row exceeds the norm.

        Under ``"linear"`` a row whose combinations are longer than 1 counts for less.
        """
        if self.row_map == LINEAR:
            return True
        return self.row_map == "ball" and (self.norm is None or self.norm**2 < self.longest_squared)

    @property
    def weighting(self) -> str | None:
        """Weighting of rows, as a clause; None where each row counts for 1, so that sums are of people."""
        found = [f"rows count by {write_expression(self.request['weight'])}"] if "weight" in self.request else []
        if self.row_map in {"unit", "unit_xy"}:
            found.append("rows are divided by their norm")
        elif self.row_map == LINEAR:
            found.append("rows whose combinations are longer than 1 count for less")
        elif self.weights_rows:
            longer = "" if self.norm is None else f" than {number(self.norm)} in scaled units, the constant included,"
            found.append(f"rows longer{longer} count for less" if longer else "long rows count for less")
        return " and ".join(found) or None

    @property
    def people(self) -> tuple[str, str] | None:
        """People whose budget was charged, by the receipt: the population's name, and the id of the curator's key."""
        if self.receipt is None:
            return None
        return str(self.receipt.get("population")), str(self.receipt.get("key_id"))

    @property
    def is_public(self) -> bool:
        """True if it was made of rows that the analyst owns, see `from_public`."""
        return self.request.get("public") is True

    @property
    def weights_target(self) -> bool:
        """True if a target took part in the weights of its rows: a fit then has an unknown bias."""
        names = {column.name for column in (self.selected_from or self).features}
        return self.weights_rows and any(target.column in names for target in self.targets)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Differences between a fit of this part and one of a request of the same columns; and weights of rows."""
        return (*self._weight_caveats, *self._part_caveats)

    @property
    def _weight_caveats(self) -> tuple[str, ...]:
        robust = self.selected_from is None and any(step.meat is not None for step in self.steps)
        if "weight" not in self.request or robust:
            return ()
        weight = write_expression(self.request["weight"])
        return (
            f"rows count by {weight}: standard errors take a row's weight for its square, and are too wide where "
            "weights are small.",
        )

    @property
    def _part_caveats(self) -> tuple[str, ...]:
        if self.selected_from is None:
            return ()
        kept = {*self.feature_names, *self.target_names}
        dropped = [name for name in self.selected_from.feature_names if name not in kept]
        still = {column.name for column in self.columns}
        left = [column for column in self.selected_from.columns if column.name not in still]
        omitting = [column.name for column in left if column.missing == "omit"]
        omitting += [name for name in self.selected_from.target_names if name not in kept]
        found = []
        if omitting:
            found.append(
                f"rows are those of the full request: a row that misses {' or '.join(omitting)} counts for nothing "
                "here either."
            )
        if self.weights_rows and (dropped or self.weights_target):
            names = ", ".join(self.selected_from.feature_names)
            found.append(
                f"weights are those of the full request ({names}): coefficients are those of the best linear "
                "prediction of rows so weighted, and a request of these columns alone would weight them differently."
            )
        if self.weights_target:
            found.append(
                f"{', '.join(self.target_names)} took part in the weights of the rows, which biases the coefficients: "
                "there are no intervals, standard errors or tests. Ask for it as the target, or with rows='box'."
            )
        return tuple(found)

    def __repr__(self) -> str:
        """Show the dataset, the targets, the features and the cost."""
        cost = "" if self.cost is None else f", epsilon={self.cost.epsilon:.4g}, delta={self.cost.delta:.4g}"
        targets = ", ".join(self.target_names) or "no target"
        part = "" if self.selected_from is None else "part of "
        return plain(
            f"<Release {part}{self.id} of {self.dataset!r}: {targets} ~ {', '.join(self.feature_names)}{cost}>"
        )

    def _view(self) -> View:
        return show_release(self)

    @property
    def _signed_texts(self) -> tuple[str, ...]:
        """The whole answer's, and those of its steps: nobody signed what stands beside these."""
        return ((self.selected_from or self).text, *(step.text for step in self.steps))

    @property
    def _saved_text(self) -> str:
        """A part's own text holds its steps already."""
        if not self.steps or self.selected_from is not None:
            return self.text
        return wrap_steps(self.text, [step.text for step in self.steps])

    def __reduce__(self) -> "tuple[Callable[..., Release], tuple[Any, ...]]":
        """Pickle the text and the order of columns: read anew, the arrays are read-only again."""
        return _read_arranged, (self._saved_text, self.answer, self.feature_names, self.target_names)

    def _arranged(self, features: Sequence[str], targets: Sequence[str]) -> "Release":
        """Return the same release, with the same text, with its columns in another order.

        Raises
        ------
        ValueError
            When these are not its columns.
        """
        if (tuple(features), tuple(targets)) == (self.feature_names, self.target_names):
            return self
        if sorted(features) != sorted(self.feature_names) or sorted(targets) != sorted(self.target_names):
            raise ValueError("the release has other columns")
        return replace(
            self, **select_statistics(self, find_part(self, self, tuple(features), tuple(targets), self.row_map))
        )

    def arranged_as(self, request: Mapping[str, Any]) -> "Release":
        """Return this release with its columns in the order of a request.

        Raises
        ------
        ServiceError
            When they are others than were asked.
        """
        named = match_features(self.expressions, self.columns, request)
        if named is None:
            raise ServiceError(f"malformed answer: {self.id} has other columns than were asked")
        if self.posted != asked_combinations(request):
            raise ServiceError(f"malformed answer: the terms of {self.id} are combined otherwise than was asked")
        return self._arranged(*named)

    def select(
        self, features: "Sequence[str | Expression] | None" = None, target: "str | Expression | None" = None
    ) -> "Release":
        """Return a part of this release: fewer features, or one of them as the target. It costs nothing.

        The part keeps the receipt, and `verify` checks the whole answer that it was cut out of. Its rows and weights
        are those of the whole: `caveats` says where that changes what a fit is about.

        Parameters
        ----------
        features : sequence of str or Expression, optional
            Names of features that explain, in order, or what they were asked for as. Default all but the target.
        target : str or Expression, optional
            One of the targets, or a numeric or boolean feature. Default all targets.

        Returns
        -------
        Release
            The part, in the order of `features`; the whole where everything is kept.

        Raises
        ------
        ValueError
            When there is no such column, or what is asked for cannot be cut out.

        Notes
        -----
        A feature as the target has its Xᵀy and yᵀy in XᵀX: off-diagonal entries of its row, and its diagonal one. Each
        entry above the diagonal has noise of its own, and none of these is an entry of the part's XᵀX, so the part's
        statistics have independent noise too: Xᵀy that of an off-diagonal entry, yᵀy that of a diagonal one.

        Under ``"ball"`` a row's weight follows from all features. A feature that becomes the target took part in it:
        the fit is biased, and there are no intervals.

        Examples
        --------
        >>> release = Release.from_arrays([[9.0, 1.0, 2.0], [1.0, 5.0, 0.5], [2.0, 0.5, 4.0]], [3.0, 1.0, 0.7])
        >>> release.select(["x2"])
        <Release part of local of 'local': y ~ x2>
        >>> other = release.select(target="x2")
        >>> other.feature_names, other.xty.tolist(), other.yty.tolist()
        (('x1',), [[2.0], [0.5]], [4.0])
        """
        check_target(target)
        targets = self.target_names if target is None else (self._name_of(target),)
        if features is None:
            chosen = tuple(name for name in self.feature_names if name not in targets)
        else:
            check_list(features, "features")
            chosen = tuple(map(self._name_of, features))
        return self._select(chosen, targets)

    def _name_of(self, asked: "str | Expression") -> str:
        known = (self.selected_from or self).columns
        return name_of(asked, self.expressions, known)

    def _select(self, features: tuple[str, ...], targets: tuple[str, ...]) -> "Release":
        whole = self.selected_from or self
        part = find_part(self, whole, features, targets, self.row_map)
        if (features, targets) == (whole.feature_names, whole.target_names):
            return whole
        return replace(
            whole,
            text=wrap(whole._saved_text, features, targets),
            selected_from=whole,
            **select_statistics(whole, part),
        )

    def export(
        self, path: "str | os.PathLike[str]", package: "Package | None" = None, *, nearest: bool = False
    ) -> None:
        r"""Write the moments as a program of another statistics package, whole or not at all. It costs nothing.

        The package's standard errors and tests ignore the privacy noise; its coefficients are those of `OLS`. The head
        of the file says so, and what the release is, and maps the terms to names that the package takes.

        Parameters
        ----------
        path : path-like
            Replaced if it exists.
        package : str, optional
            ``"sas"``: a data set of the type SSCP and PROC REG. ``"spss"``: MATRIX DATA and REGRESSION. ``"stata"``:
            summary statistics data and sem. ``"lavaan"``: an R script with sem. Default by the end of the path:
            ``.sas``, ``.sps``, ``.do`` or ``.R``.
        nearest : bool
            Whether to take the nearest covariance matrix where the noisy moments are none. The file says so.

        Raises
        ------
        OSError
            When the file cannot be written.
        ValueError
            When the package is not known, or the release has no moments of one target: no constant, no yᵀy, several
            targets, rows divided by their norm, too few rows, or noise that outweighs the data.

        Notes
        -----
        Moments are in raw units. A product is what a fit's coefficient is of: of raw values where the model has its
        parts, such as age beside ``sex[M]:age``. Functions of a basis are of scaled values, as in a fit.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> release = Release.from_arrays([[9.0, 1.0], [1.0, 5.0]], [3.0, 2.0], 4.0, features=["Age at entry"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "local.do"
        ...     release.export(file)
        ...     print(file.read_text().partition("sem ")[2])
        (y <- ///
            age_at_entry)
        <BLANKLINE>
        """
        chosen = find_package(os.fspath(path), package)
        moments = raw_moments(self, self.row_map, nearest=nearest)
        origin, people = list_origin(self, self, self.caveats), self.weighting is None
        program = write_program(chosen, moments, origin, noisy=not self.is_public, people=people)
        replace_file(Path(path), program.encode("ascii"))

    @classmethod
    def from_text(cls, text: str, answer: str | None = None) -> "Release":
        """Read the text of an answer, or of a saved file. Raise `ServiceError` when it is neither.

        Parameters
        ----------
        text : str
            Body of a release, or what `save` wrote.
        answer : str, optional
            The header ``Curator-Answer``.
        """
        body = Fields(parse_json(text))
        if (part := unwrap(body)) is not None:
            return cls.from_text(part.text, answer)._select(part.features, part.targets)
        if (found := unwrap_steps(body)) is not None:
            return replace(cls.from_text(found[0], answer), steps=tuple(map(ScoreRelease.from_text, found[1])))
        return super().from_text(text, answer)

    @classmethod
    def _read_statistics(cls, body: Fields) -> dict[str, Any]:
        return read_statistics(body)

    @classmethod
    def from_arrays(
        cls,
        xtx: ArrayLike,
        xty: ArrayLike | None = None,
        yty: ArrayLike | None = None,
        *,
        lambda_min: float | None = None,
        features: Sequence[str | Column] | None = None,
        targets: Sequence[str | Column] | None = None,
        constant: bool = True,
        noise: float | Noise = 0.0,
        norm: float | None = None,
        dataset: str = "local",
    ) -> "Release":
        r"""Make a release of one's own arrays, to work offline; it has no cost and no receipt.

        Parameters
        ----------
        xtx : array-like of shape (D, D)
            Symmetric, finite; the constant first if there is one, then the terms of `features` in order.
        xty : array-like of shape (D, T) or (D,), optional
            One column for each target. Default the release has none.
        yty : array-like of shape (T,) or scalar, optional
            Sum of squares of each target. Default the release has none.
        lambda_min : float, optional
            Smallest eigenvalue of XᵀX. Default the release has none.
        features : sequence of str or Column, optional
            A string is a numeric column without bounds, whose raw values are the scaled ones. A numeric `Column`
            with bounds says that the arrays were made of ``(x - center) / scale``. A categorical one with L levels
            stands for L − 1 terms beside a constant and for L without. Default ``x1``, ``x2``, ….
        targets : sequence of str or Column, optional
            Default ``y``, or ``y1``, ``y2``, ….
        constant : bool
            Whether the first row of `xtx` is the constant's.
        noise : float or Noise
            Standard deviation of the noise: one for all entries, or one for each statistic.
        norm : float, optional
            Radius to which rows were weighted, as the row map ``"ball"`` does. Default rows were not weighted.
        dataset : str
            A name to show.

        Raises
        ------
        ValueError
            When the shapes do not fit together or a number is not finite.

        Examples
        --------
        >>> import numpy as np
        >>> age, y = np.array([-1.0, 0.0, 1.0]), np.array([0.2, 0.5, 0.8])
        >>> X = np.column_stack([np.ones(3), age])
        >>> age_in_years = Column.numeric("age", 50, 100, unit="years")
        >>> release = Release.from_arrays(X.T @ X, X.T @ y, y @ y, features=[age_in_years], targets=["kappa"])
        >>> release
        <Release local of 'local': kappa ~ age>
        """
        text = write_release(
            xtx,
            xty,
            yty,
            lambda_min=lambda_min,
            features=features,
            targets=targets,
            constant=constant,
            noise=noise,
            norm=norm,
            dataset=dataset,
        )
        try:
            return cls.from_text(text)
        except ServiceError as error:
            raise ValueError(str(error).removeprefix("malformed answer: ")) from None

    @classmethod
    def from_public(
        cls,
        frame: Any,
        features: "Release | Sequence[Column]",
        target: str | Column | Sequence[Column] | None = None,
        *,
        constant: bool = True,
        dataset: str = "public",
    ) -> "Release":
        """Make a release, without noise, of rows that the analyst owns: to be fitted beside hospitals' releases.

        A fit keeps its residual variance apart, and tests whether its coefficients agree before it borrows.

        Parameters
        ----------
        frame : data frame, or mapping of str to array-like
            Raw units. Rows that miss a value are coded as the columns' rule for missing values says.
        features : Release or sequence of Column
            A release whose columns, targets and coding are taken over; or the columns themselves, with the bounds to
            which values are clipped.
        target : str, Column or sequence of Column, optional
            Beside columns: the column or columns to explain. Beside a release: one of its targets, default all.
        constant : bool
            Beside columns: whether the terms hold a constant.
        dataset : str
            A name to show.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number, or no row is complete.

        Examples
        --------
        >>> rows = {"age": [50.0, 75.0, 100.0], "kappa": [1.0, 2.0, 3.0]}
        >>> columns = [Column.numeric("age", 50, 100)], Column.numeric("kappa", 0, 6)
        >>> Release.from_public(rows, *columns).xty.round(2).tolist()
        [[-1.0], [0.67]]
        """
        if isinstance(features, Release):
            if features.combined:
                raise ValueError("rows of combinations are not made here: ask for a release of the terms themselves")
            coding = features._coding(target)
        else:
            coding = coding_of(features, target, constant=constant)
        return cls.from_text(write_public(frame, coding, dataset=dataset))

    def _coding(self, target: str | Column | Sequence[Column] | None) -> Coding:
        """Return how the rows of this release were coded, with one of its targets or all."""
        if not isinstance(target, str | None):
            raise ValueError("beside a release the target must be the name of one of its targets")  # noqa: TRY004
        targets = tuple(term for term in self.targets if target in {None, term.name})
        if not targets:
            raise ValueError(f"the release has no target {target!r}; it has {', '.join(self.target_names)}")
        # A curator's targets have bounds; those of a release made here have none where its units are the raw ones.
        clipped = tuple(self.receipt is not None or (t.center, t.scale) != (0.0, 1.0) for t in targets)
        return Coding(self.features, self.columns, self.terms, targets, self.expressions, clipped, self.row_map)


def _read_arranged(text: str, answer: str | None, features: Sequence[str], targets: Sequence[str]) -> Release:
    return Release.from_text(text, answer)._arranged(features, targets)


def show_release(release: Release) -> View:
    """Show what was released, its cost and its noise; terms and receipt on demand."""
    stated = list_published(release)
    if release.selected_from is not None:
        whole = release.selected_from
        stated.append(("part of", write_formula(whole.dataset, whole.feature_names, whole.targets)))
    if release.cost is not None:
        stated.append(("cost", write_cost(release.cost)))
    for step in release.steps:
        if step.cost is not None:
            bought = "Σ g gᵀ" if step.norms is None else "row lengths"
            stated.append((f"cost of {bought}", write_cost(step.cost)))
    stated += list_request(release.request)
    if (choice := describe_choice(release)) is not None:
        stated.append(("chosen", choice))
    heads = ("term", "kind", "column", "center", "scale", "unit")
    terms = [
        (term.name, term.kind, term.column or "", number(term.center), number(term.scale), term.unit or "")
        for term in (*release.coded_terms, *release.targets)
    ]
    listed = f"terms ({len(release.coded_terms):,}) and targets ({len(release.targets):,})"
    title = f"Combinations ({len(release.terms):,}) of {listed}" if release.combined else listed.capitalize()
    caption = quiet("A raw value x stands in the statistics as (x − center) / scale")
    return (
        facts(join("Release ", write_formula(release.dataset, release.feature_names, release.targets)), stated),
        list_noise(release.noise, len(release.terms), len(release.targets)),
        *map(Note, release.caveats),
        folded(title, table(caption, heads, terms, numeric=(3, 4))),
        *([] if release.receipt is None else [fold_receipt(release.receipt)]),
    )
