"""Programs of other statistics packages that hold the moments of a release as their data."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Literal, NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.gram.exports.moments import FLOOR, RawMoments
from analyst_client.kinds.gram.exports.names import comment_lines, safe_names
from analyst_client.schema.columns import Term

Package = Literal["sas", "spss", "stata", "lavaan"]
NUMBERS_PER_LINE = 4


class Data(NamedTuple):
    """Moments that are written into a program, and safe names of the P variables, the target last."""

    names: tuple[str, ...]
    moments: RawMoments

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms."""
        return self.names[:-1]

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.names[-1]


class Writer(NamedTuple):
    """The format of a package's programs: `comment` stands before and after a line of one."""

    title: str
    suffix: str
    comment: tuple[str, str]
    program: Callable[[Data], str]


def find_package(path: str, package: str | None) -> Package:
    """Return the package that is named, or that has files of the path's end. Raise `ValueError` when none is known."""
    suffix = PurePath(path).suffix.lower()
    for known, writer in WRITERS.items():
        if package == known or (package is None and suffix == writer.suffix.lower()):
            return known
    listed = ", ".join(f"{known!r} ({writer.suffix})" for known, writer in WRITERS.items())
    raise ValueError(f"package must be one of {listed}, or the file must end so")


def write_program(
    package: Package, moments: RawMoments, origin: Iterable[str], *, noisy: bool = True, people: bool = True
) -> str:
    """Write the program of a package in ASCII, with paragraphs on the origin of the moments at its head.

    `noisy` says that they may hold privacy noise, `people` that every row counts for 1.
    """
    writer = WRITERS[package]
    names = safe_names([variable.name for variable in moments.variables])
    before, after = writer.comment
    stated = [
        *origin,
        *warnings_of(writer.title, moments, noisy=noisy, people=people),
        *describe(names, moments.variables),
    ]
    head = [f"{before}{line}{after}" for text in stated for line in comment_lines(text)]
    return "\n".join([*head, "", writer.program(Data(names, moments))])


def warnings_of(title: str, moments: RawMoments, *, noisy: bool, people: bool) -> list[str]:
    """Return what a reader of the package's results must know."""
    found = [
        f"BEWARE: standard errors, tests, intervals and measures of fit of {title} ignore the privacy noise in these "
        "moments. Standard errors are too small and intervals too short. Intervals that hold the noise come from "
        "analyst_client: OLS().fit(release).summary()"
        if noisy
        else "These are the moments of rows that the analyst owns, without privacy noise",
        f"N is the released number of rows, {moments.rows!r}, rounded. Covariances are centred sums over N - 1, in raw "
        "units",
    ]
    if not people:
        found.append(
            "WEIGHTED: rows do not count for 1 each, so N, means and standard deviations are not those of people. "
            "Coefficients are those of the weighted rows"
        )
    if moments.smallest is not None:
        found.append(
            "PROJECTED: the released moments were no covariance matrix (smallest eigenvalue "
            f"{moments.smallest:.4g} for each row, in scaled units). These are the nearest ones with eigenvalues of at "
            f"least {FLOOR:g} of the largest, N and means as released. Estimates rest on this choice where the noise "
            "outweighs the data"
        )
    return found


def describe(names: Sequence[str], variables: Sequence[Term]) -> list[str]:
    """Return what each safe name stands for."""
    *terms, target = [
        f"{name}: {variable.name}{_units(variable)}" for name, variable in zip(names, variables, strict=True)
    ]
    return ["Names of this file, and of the release:", *terms, f"{target}, the target"]


def _units(variable: Term) -> str:
    if variable.factors:
        return ", a product as the coefficients of analyst_client are of: of raw values where the model has its parts"
    if (basis := variable.basis) is not None:
        return f", a function of ({basis.column} - {basis.center!r}) over {basis.scale!r}"
    if variable.kind in {"level", "missing", "boolean"}:
        return ", 0 or 1"
    return "" if variable.unit is None else f", in {variable.unit}"


def write_sas(data: Data) -> str:
    """Write a data set of the type SSCP and a call of PROC REG [1]_.

    References
    ----------
    .. [1] SAS/STAT User's Guide, appendix "Special SAS Data Sets".
    """
    names = ("intercept", *data.names)
    rows = [f"SSCP {name}\n{flow(row)}" for name, row in zip(names, data.moments.sums, strict=True)]
    counts = flow([data.moments.whole_rows] * len(names))
    return "\n".join(
        [
            "data release(type=sscp);",
            "  length _type_ $ 8 _name_ $ 32;",
            f"  input _type_ $ _name_ $\n{words(names)};",
            "  datalines;",
            *rows,
            f"N .\n{counts}",
            ";",
            "run;",
            "",
            "proc reg data=release;",
            f"  model {data.target} =\n{words(data.terms)};",
            "run;",
            "quit;",
            "",
        ]
    )


def write_spss(data: Data) -> str:
    """Write matrix data, whose records may go on in further lines, and a regression that reads them."""
    moments, sd = data.moments, np.sqrt(np.diag(data.moments.covariances))
    correlations = moments.covariances / np.outer(sd, sd)
    np.fill_diagonal(correlations, 1.0)
    vectors = {"N": [moments.whole_rows] * len(sd), "MEAN": moments.means, "STDDEV": sd}
    triangle = [("CORR", row[: i + 1]) for i, row in enumerate(correlations)]
    return "\n".join(
        [
            f"MATRIX DATA VARIABLES=ROWTYPE_\n{words(data.names)}",
            "  /FORMAT=LOWER DIAGONAL.",
            "BEGIN DATA",
            *(f"{name} {flow(values).lstrip()}" for name, values in [*vectors.items(), *triangle]),
            "END DATA.",
            "",
            "REGRESSION /MATRIX=IN(*)",
            f"  /VARIABLES=\n{words(data.names)}",
            f"  /DEPENDENT={data.target}",
            "  /METHOD=ENTER.",  # all the others; PSPP takes no list of them
            "",
        ]
    )


def write_stata(data: Data) -> str:
    """Write summary statistics data and a call of sem, for a session without data in memory."""
    triangle = [flow(row[: i + 1], " ///") for i, row in enumerate(data.moments.covariances)]
    return "\n".join(
        [
            f"ssd init ///\n{words(data.names, ' ///')}",
            f"ssd set observations {data.moments.whole_rows}",
            f"ssd set means ///\n{flow(data.moments.means, ' ///')}",
            "ssd set covariances ///",
            " \\ ///\n".join(triangle),
            f"sem ({data.target} <- ///\n{words(data.terms, ' ///')})",
            "",
        ]
    )


def write_lavaan(data: Data) -> str:
    """Write an R script that fits with lavaan."""
    means = ",\n".join(
        f"  {name} = {mean!r}" for name, mean in zip(data.names, data.moments.means.tolist(), strict=True)
    )
    rows = ",\n".join(flow(row, ",", by=", ").rstrip() for row in data.moments.covariances)
    # In one line: where a formula goes on in another, lavaan 0.6-14 takes some names for the begin of a new one.
    model = f"{data.target} ~ {' + '.join(data.terms)}"
    return "\n".join(
        [
            f"sample.nobs <- {data.moments.whole_rows}",
            f"sample.mean <- c(\n{means}\n)",
            f"sample.cov <- matrix(c(\n{rows}\n), nrow = {len(data.names)}, byrow = TRUE,",
            "  dimnames = list(names(sample.mean), names(sample.mean)))",
            f'model <- "{model}"',
            "",
            "library(lavaan)",
            "fit <- sem(model, sample.cov = sample.cov, sample.mean = sample.mean, sample.nobs = sample.nobs,",
            "  meanstructure = TRUE)",
            "summary(fit)",
            "",
        ]
    )


def flow(values: Sequence[float] | FloatArray, end: str = "", by: str = " ") -> str:
    """Write numbers in short lines, to the last bit, all but the last line with an end."""
    return words(list(map(repr, np.asarray(values).tolist())), end, by)


def words(listed: Sequence[str], end: str = "", by: str = " ") -> str:
    """Write words in short lines, all but the last with an end."""
    parts = [listed[i : i + NUMBERS_PER_LINE] for i in range(0, len(listed), NUMBERS_PER_LINE)]
    return f"{end}\n".join(f"    {by.join(part)}" for part in parts)


WRITERS: dict[Package, Writer] = {
    "sas": Writer("PROC REG", ".sas", ("/* ", " */"), write_sas),
    "spss": Writer("SPSS", ".sps", ("* ", " ."), write_spss),
    "stata": Writer("Stata", ".do", ("* ", ""), write_stata),
    "lavaan": Writer("lavaan", ".R", ("# ", ""), write_lavaan),
}
