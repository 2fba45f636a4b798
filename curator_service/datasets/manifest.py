"""The manifest: a dataset's public declaration, in TOML, read and checked by an admin."""

import hashlib
import operator
import re
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from curator_service.datasets.catalogue import Catalogue
from curator_service.datasets.columns.base import UNFILLED, AnyColumn, ColumnDeclaration
from curator_service.datasets.columns.texts import Header, Name, Text, Words, is_unset
from curator_service.kit.files import open_regular
from curator_service.kit.names import DECEIVING
from curator_service.privacy.design import Column, MissingRule
from curator_service.privacy.sums import ROW_CAPACITY_MAX

SUBJECT_COLUMNS_MAX = 10
POPULATIONS_MAX = 100
"""Other populations that a manifest may name."""

_Model = TypeVar("_Model", bound=BaseModel)


Subject = Annotated[
    Annotated[Header, Tag("column")]
    | Annotated[tuple[Header, ...], Field(min_length=1, max_length=SUBJECT_COLUMNS_MAX), Tag("columns")],
    Discriminator(lambda value: "columns" if isinstance(value, list | tuple) else "column"),
]

COLUMNS_MAX = 1000
HEADER_MAX = 10_000
"""Columns that a file may have, declared or not."""
ROWS_PER_SUBJECT_MAX = 1000
_BYTES_MAX = 4 * 2**20
_SHOWN_MAX = 80
"""Most characters of a wrong value that a message repeats."""
_ERRORS_SHOWN_MAX = 20
_TEXT_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z)|'
    r"'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)|"
    r'"(?:[^"\\\n]|\\.)*+"?|'
    r"'[^'\n]*+'?|"
    r"#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(r"(?:\.[^.=,\n\[\]{}]*+){16}")
"""Sixteen dots with no end of a key or a value between them: the parser's time grows with the square of a key's."""
_TABLE_OF_COLUMN = re.compile(r"^[ \t]*\[\[", re.MULTILINE)


_UNFILLED_UNIT = "unit_to_fill_in"
_OF_A_FILE = "file"
"""The context of a validation: of what a person wrote, and not of what is stored."""
_UNFILLED_LINE = re.compile(
    r"^[ \t]*(?:lower|upper|row_capacity|levels|subject|rows_per_subject|rows_are_persons)[ \t]*=[ \t]*(?:#.*)?$",
    re.MULTILINE,
)


class ManifestError(ValueError):
    """The manifest breaks a rule; the message names file, place and rule, for the admin."""


ENCODINGS = (
    "utf-8", "ascii", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "iso-8859-1", "iso-8859-2", "iso-8859-15",
    "windows-1250", "windows-1251", "windows-1252", "mac-roman", "shift_jis", "gb18030", "big5", "euc-jp", "euc-kr",
)  # fmt: skip
"""Of text; a name of Python's that is none, such as a compression, is refused."""


class CsvOptions(BaseModel):
    """Format of a CSV file; the defaults are a comma, a point, UTF-8, double quotes, and no compression.

    Without `header` the first line names the columns. With it the first line is a row.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    separator: Literal[",", ";", "\t", "|", ":"] = ","
    decimal: Literal[".", ","] = "."
    encoding: Literal[ENCODINGS] = "utf-8"  # type: ignore[valid-type]
    quote: Literal['"', "'", ""] = '"'
    compression: Literal["none", "gzip", "zstd", "bz2", "xz"] = "none"
    header: tuple[Header, ...] | None = Field(None, min_length=1, max_length=HEADER_MAX, exclude_if=is_unset)

    @model_validator(mode="after")
    def _check_signs(self) -> Self:
        if self.separator == self.decimal:
            raise ValueError("separator and decimal must differ: one sign cannot be both")
        if self.header is not None and len(set(self.header)) < len(self.header):
            raise ValueError("header names each column of the file once: two of its names are equal")
        return self


class Manifest(BaseModel):
    """A dataset's data dictionary.

    The population must exist: a typing error must not give the same people a second budget. Rows are persons, or
    `subject` names the column, or the columns together, that tell persons apart; then rows of a person beyond
    `rows_per_subject` never count. A file must say one of the two. Stored without a subject, rows are persons.
    `not_persons` names columns whose equal values may be of different persons, whatever they look like.
    `same_people_as` names other populations that have people of this dataset: for these people the budgets add up.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: Name
    population: Name
    description: Text = ""
    row_capacity: int = Field(ge=1, le=ROW_CAPACITY_MAX, description="Public bound on the number of rows.")
    subject: Subject | None = None
    rows_per_subject: int | None = Field(None, ge=1, le=ROWS_PER_SUBJECT_MAX, strict=True)
    not_persons: tuple[Header, ...] = Field((), max_length=COLUMNS_MAX, exclude_if=operator.not_)
    same_people_as: tuple[Name, ...] = Field((), max_length=POPULATIONS_MAX, exclude_if=operator.not_)
    rows_are_persons: bool = Field(False, strict=True, validate_default=True, exclude=True)
    keep_by: str | None = Field(None, exclude_if=is_unset)
    library: Literal["shared", "own"] = Field(
        "shared", description="Whether stored releases serve every analyst with access, or whoever asked for them."
    )
    csv: CsvOptions | None = Field(None, exclude_if=is_unset)
    missing_values: Words | None = Field(None, exclude_if=is_unset)
    columns: tuple[AnyColumn, ...] = Field(min_length=1, max_length=COLUMNS_MAX)
    catalogue: Catalogue | None = Field(None, exclude_if=is_unset)

    @field_validator("rows_are_persons")
    @classmethod
    def _check_unit(cls, is_said: bool, info: ValidationInfo) -> bool:
        """Return whether rows are persons. A file must say whose rows they are: no default is right for every table."""
        has_subject = info.data.get("subject") is not None
        if has_subject and is_said:
            raise ValueError("leave out this or the subject: with it no person has more than one row")
        if info.context == _OF_A_FILE and "subject" in info.data and not has_subject and not is_said:
            raise PydanticCustomError(
                _UNFILLED_UNIT,
                'a manifest says whose rows these are: subject = "…", with rows_per_subject, names the column that '
                "tells persons apart, and rows_are_persons = true says that no person has more than one row",
            )
        return not has_subject

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [column.name for column in self.columns]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the column {name!r} is declared twice")
        if (self.subject is None) is not (self.rows_per_subject is None):
            raise ValueError(
                "subject and rows_per_subject go together: whose rows they are, and how many of them count"
            )
        if self.keep_by is not None and (self.subject is None or self.keep_by.removeprefix("-") not in names):
            raise ValueError(
                "keep_by goes with a subject: it names the declared column that decides which rows of a person count, "
                "the lowest first, or the highest with a minus sign before the name"
            )
        named = {self.population, *self.same_people_as}
        if len(named) <= len(self.same_people_as):
            raise ValueError("same_people_as names other populations than the dataset's own, each once")
        if both := set(self.subject_columns) & set(self.not_persons):
            raise ValueError(f"the subject {min(both)!r} tells persons apart, so it must not be in not_persons")
        headers = [*self.subject_columns, *(column.header for column in self.columns)]
        for subject in self.subject_columns:
            if subject in names:
                raise ValueError(f"the subject {subject!r} tells persons apart, so it must not be a column to release")
        for header in {*self.subject_columns, *(column.source for column in self.columns if column.source)}:
            if headers.count(header) > 1:
                raise ValueError(f"the source {header!r} is read twice")
        return self

    @property
    def subject_columns(self) -> tuple[str, ...]:
        """The columns that tell persons apart together; none where rows are persons."""
        if self.subject is None:
            return ()
        return (self.subject,) if isinstance(self.subject, str) else self.subject

    @property
    def csv_options(self) -> CsvOptions:
        """Format of a CSV file."""
        return self.csv or CsvOptions()

    @property
    def rows_per_person(self) -> int:
        """Most rows of one person that count: 1 where a row is a person."""
        return self.rows_per_subject or 1

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Every column's declaration."""
        return {declaration.name: declaration.column for declaration in self.columns}

    @cached_property
    def declared(self) -> dict[str, ColumnDeclaration]:
        """Every column as the manifest has it."""
        return {declaration.name: declaration for declaration in self.columns}

    @property
    def digest(self) -> str:
        """SHA-256 of the declaration as it is stored; the ledger's entry of the registration holds it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def cacheable(self) -> tuple[Column, ...]:
        """The columns whose box Gram is cached at ingest: by declaration, never by the data."""
        return tuple(c.column for c in self.columns if c.missing is not MissingRule.OMIT)


class _CatalogueFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    catalogue: Catalogue


def load_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises
    ------
    ManifestError
        Naming the file, the column and the rule.
    """
    return load_toml(path, Manifest)


def load_catalogue(path: Path) -> Catalogue:
    """Read a file that holds a catalogue block and nothing else.

    Raises
    ------
    ManifestError
        Naming the file, the field and the rule.
    """
    return load_toml(path, _CatalogueFile).catalogue


def load_toml(path: Path, model: type[_Model]) -> _Model:
    """Read a file that a person wrote.

    Raises
    ------
    ManifestError
        Naming the file, the place and the rule.
    """
    text = _read_text(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        empty = [text.count("\n", 0, found.start()) + 1 for found in _UNFILLED_LINE.finditer(text)]
        if empty:
            places = ", ".join(map(str, empty))
            raise ManifestError(f"{path}: a value is to be filled in, from knowledge: line {places}") from None
        raise ManifestError(f"{path}: not valid TOML: {_shorten(str(error))}") from error
    except RecursionError:
        raise ManifestError(f"{path}: not valid TOML: nested too deep") from None
    except ValueError:  # of Python's own conversion
        raise ManifestError(f"{path}: not valid TOML: a whole number of thousands of digits") from None
    try:
        return read_content(content, model)
    except ManifestError as error:
        raise ManifestError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def read_content(content: dict[str, Any], model: type[_Model]) -> _Model:
    """Read what a person stated, as TOML has it.

    Raises
    ------
    ManifestError
        Naming the place and the rule of each mistake, one to a line.
    """
    for location, sign in _find_deceiving(content):
        raise ManifestError(f"{_place(content, location)}U+{ord(sign):04X} changes how a terminal shows a text")
    try:
        return model.model_validate(content, context=_OF_A_FILE)
    except ValidationError as error:
        items = error.errors(include_url=False)
        if any(item["loc"][:1] == ("columns",) != item["loc"] for item in items):
            items = [item for item in items if item["loc"] != ("columns",)]  # it counts columns that are wrong as none
        unfilled = [item for item in items if item["type"] == UNFILLED]
        found = [item for item in items if item["type"] != UNFILLED]
        lines = [f"{_place(content, item['loc'])}{_reason(item)}" for item in found[:_ERRORS_SHOWN_MAX]]
        if len(found) > _ERRORS_SHOWN_MAX:
            lines.append(f"and {len(found) - _ERRORS_SHOWN_MAX} more mistakes")
        if unfilled:
            lines.append(_list_unfilled(content, unfilled))
        raise ManifestError("\n".join(lines)) from error


def _find_deceiving(
    content: object, location: tuple[int | str, ...] = ()
) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Yield what is not seen as it is, and where; what is stored already stays readable."""
    if isinstance(content, str) and (found := DECEIVING.search(content)):
        yield location, found[0]
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        if isinstance(key, str) and (found := DECEIVING.search(key)):
            yield location, found[0]
        yield from _find_deceiving(value, (*location, key))


def _read_text(path: Path) -> str:
    """Read what takes the parser a time that does not matter."""
    try:
        with open_regular(path) as file:
            raw = file.read(_BYTES_MAX + 1)
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 text") from error
    except ValueError as error:
        raise ManifestError(f"{path}: {error}") from None
    if len(raw) > _BYTES_MAX:
        raise ManifestError(f"{path}: more than {_BYTES_MAX} bytes, which no manifest needs")
    bare = _TEXT_OR_COMMENT.sub('""', text)
    if _LONG_KEY.search(bare):
        raise ManifestError(f"{path}: a key of more than 16 parts with dots between them; no manifest has one")
    if len(_TABLE_OF_COLUMN.findall(bare)) > COLUMNS_MAX:
        raise ManifestError(f"{path}: more than {COLUMNS_MAX} columns")
    return text


def _list_unfilled(content: dict[str, Any], items: list[Any]) -> str:
    """Return all bounds and levels that a draft left to a person, in one line."""
    empty = [f"{_place(content, item['loc']).removesuffix(': ')} {item['msg']}" for item in items]
    return (
        "a numeric column needs public bounds, and a category levels, declared, never read from the data: "
        + "; ".join(empty)
    )


def _place(content: dict[str, Any], location: tuple[int | str, ...]) -> str:
    match location:
        case ("columns", int() as index, *rest):
            columns = content.get("columns")
            declared = columns[index] if isinstance(columns, list) and index < len(columns) else None
            name = declared.get("name") if isinstance(declared, dict) else None
            field = "".join(f", {_shorten(str(part))}" for part in rest)
            return f"column {_shown(name)}{field}: " if name else f"column number {index + 1}{field}: "
        case ():
            return ""
    return ", ".join(_shorten(str(part)) for part in location) + ": "


def _reason(item: Any) -> str:
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] in {"value_error", _UNFILLED_UNIT} or isinstance(item["input"], list | dict):
        return message
    return f"{message} (got {_shown(item['input'])})"


def _shown(value: object) -> str:
    try:
        return _shorten(repr(value))
    except ValueError:  # a hexadecimal number may have more digits than Python writes in decimals
        return "a whole number of thousands of digits"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
