"""A draft of a manifest, from headers and what columns look like: a person completes it.

Bounds are never read off the rows: their lines are comments, and a manifest without them is refused. Of the rows a
draft shows levels of short lists alone.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise

from curator_service.datasets.manifest import LEVEL, CsvOptions
from curator_service.datasets.profiles import LEVELS_FEW, NUMBERS_FEW, Profile, profile_columns
from curator_service.datasets.reading import read_apart
from curator_service.datasets.sources.base import Progress, Source
from curator_service.kit.apart import Bounds
from curator_service.kit.names import DECEIVING, NAME

ROWS_MAX = 50_000
"""How many rows a draft reads unless told to read all."""
_BOUNDS = Bounds(2**31, 3600)
"""Of a reading: how many columns there are is not known before."""
_UNITS = {
    "mg_dl": "mg/dL", "g_dl": "g/dL", "ug_dl": "µg/dL", "mg_l": "mg/L", "g_l": "g/L", "ug_l": "µg/L", "ng_ml": "ng/mL",
    "pg_ml": "pg/mL", "mmol_l": "mmol/L", "umol_l": "µmol/L", "nmol_l": "nmol/L", "iu_l": "IU/L", "u_l": "U/L",
    "mmhg": "mmHg", "bpm": "1/min", "kg_m2": "kg/m²", "kg": "kg", "mg": "mg", "cm": "cm", "mm": "mm", "ml": "mL",
    "years": "years", "yrs": "years", "months": "months", "weeks": "weeks", "days": "days", "hours": "hours",
    "hrs": "hours", "minutes": "minutes", "mins": "minutes", "seconds": "seconds", "pct": "%", "percent": "%",
    "usd": "USD", "eur": "EUR", "gbp": "GBP",
}  # fmt: skip
_IN_BRACKETS = re.compile(r"^(.*\S)\s*[(\[]\s*([^()\[\]]{1,15}?)\s*[)\]]$")
_IDENTIFYING = {"email", "mail", "phone", "telephone", "mobile", "fax", "ssn", "passport", "iban", "address", "street"}
_IDENTIFYING |= {"surname", "firstname", "lastname", "fullname", "forename"}
_NAMING = {"name", "names"}
_KEYS = {"id", "ids", "identifier", "mrn", "pid", "nhs", "patient", "subject", "person", "participant", "individual"}
_ROW_NUMBERS = {"index", "row", "rownames", "row_names", "rowid", "unnamed"}
_FALSE_TRUE = ({"false", "true"}, {"f", "t"}, {"no", "yes"}, {"n", "y"}, {"0", "1"}, {"0.0", "1.0"})
_KEY_SHARE = 0.1
_ALONE_SHARE = 0.95
_ALONE_ROWS_MIN = 20
_MANY_SHARE = 0.5
TO_FILL = "   # from knowledge, never from the rows"
"""Behind a bound that a person fills in."""


def draft_manifest(
    source: Source,
    options: CsvOptions | None,
    *,
    name: str,
    population: str | None = None,
    row_capacity: int | None = None,
    rows_max: int | None = ROWS_MAX,
) -> str:
    """Return TOML that a person completes.

    Parameters
    ----------
    source : Source
    options : CsvOptions, optional
        How a CSV file seems to be written.
    name : str
        Of the dataset; made legal where it is not.
    population : str, optional
    row_capacity : int, optional
        Both are lines to fill in if not given.
    rows_max : int, optional
        How many rows are read; None reads all.

    Raises
    ------
    IngestError
    """
    work = partial(_draft, source, options, name, population, row_capacity, rows_max)
    return str(read_apart(work, source.label, _BOUNDS, lambda _rows, _share: None)["text"])


def _draft(
    source: Source,
    options: CsvOptions | None,
    name: str,
    population: str | None,
    row_capacity: int | None,
    rows_max: int | None,
    _progress: Progress,
) -> dict[str, str]:
    profiles, left_out, is_whole = profile_columns(source, rows_max)
    rows = max((profile.rows for profile in profiles), default=0)
    subject = _find_subject(profiles)
    notes, columns, taken = [*left_out], [], set[str]()
    for profile in profiles:
        if profile is subject:
            continue
        reason = _find_reason(profile, rows)
        if reason:
            notes.append(f"{quote(profile.header)} {reason}")
        else:
            columns.append(_draft_column(profile, taken))
    # How many rows there are is no matter of a file that becomes public.
    read = "all rows" if is_whole else f"the first {rows_max:,} rows"
    lines = [
        f"# A draft, from {read}. Fill in what is empty, look at each `check`, then run `curator manifest check`.",
        "",
        *draft_head(make_name(name, set(), "dataset"), population, row_capacity),
        *_draft_subject(subject),
        *_draft_missing(profiles),
        *_draft_csv(options),
        *(["", "# Left out:", *(f"# - {note}" for note in notes)] if notes else []),
    ]
    return {"text": "\n".join([*lines, *(line for column in columns for line in column)]) + "\n"}


def draft_head(name: str, population: str | None, row_capacity: int | None) -> list[str]:
    """Return the lines that every manifest begins with; what is not given is for a person to fill in."""
    return [
        f"name = {quote(name)}",
        f"population = {quote(population)}"
        if population
        else "# population =   # must exist: curator populations create",
        f"row_capacity = {row_capacity}"
        if row_capacity
        else f"# row_capacity ={TO_FILL}: a round public bound on rows",
    ]


def make_name(header: str, taken: set[str], otherwise: str) -> str:
    """Return a legal name like a header, that is not taken yet; it is then."""
    plain = unicodedata.normalize("NFKD", header.replace("ß", "ss")).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", plain).strip("_.-")[:50] or otherwise
    name = name if name[0].isalpha() else f"x_{name}"
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    assert NAME.fullmatch(found)
    return found


def _tokens(header: str) -> set[str]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", header)
    words = [word for word in re.split(r"[^a-z0-9]+", apart.lower()) if word]
    return {*words, *(one + other for one, other in pairwise(words))}


def _find_subject(profiles: Iterable[Profile]) -> Profile | None:
    """Return the column that most likely tells persons apart."""
    found = [
        one
        for one in profiles
        if _tokens(one.header) & _KEYS and one.present == one.rows and one.distinct_share > _KEY_SHARE and _is_key(one)
    ]
    return max(found, key=lambda one: one.distinct_share, default=None)


def _is_key(profile: Profile) -> bool:
    return not profile.are_numbers or profile.are_whole


def _find_reason(profile: Profile, rows: int) -> str:
    """Return why a column is not released, or nothing."""
    if not profile.present:
        return "has no value"
    tokens, few = _tokens(profile.header), profile.has_few_words and len(profile.words) <= LEVELS_FEW
    is_text = not profile.are_numbers and not profile.are_instants
    many = profile.distinct_share > _MANY_SHARE or not few
    if tokens & _IDENTIFYING or (is_text and (profile.are_addresses or (tokens & _NAMING and many))):
        return "looks like names, addresses or numbers that identify a person: never release it"
    alone = profile.distinct_share > _ALONE_SHARE and rows >= _ALONE_ROWS_MIN and _is_key(profile)
    if alone and not is_text and tokens & _ROW_NUMBERS:
        return "numbers the rows"
    if alone and (is_text or tokens & _KEYS):
        return "has another value in nearly every row: if it tells persons apart, make it the subject"
    return "" if not is_text else _find_fault_of_levels(profile, few=few)


def _find_fault_of_levels(profile: Profile, *, few: bool) -> str:
    if not few:
        return f"is text with more than {LEVELS_FEW} levels: if it matters, group it before"
    if len(profile.words) < 2:
        return "has one level: it explains nothing"
    wrong = [word for word in profile.words if not LEVEL.fullmatch(word) or DECEIVING.search(word)]
    return "has levels with signs that a manifest does not take, such as brackets" if wrong else ""


def _draft_column(profile: Profile, taken: set[str]) -> list[str]:
    header, unit = profile.header, _find_unit(profile.header)
    bracketed = _IN_BRACKETS.match(header)
    name = make_name(bracketed[1] if bracketed and unit else header, taken, "column")
    lines = ["", "[[columns]]", f"name = {quote(name)}"]
    lines += [f"source = {quote(header)}"] if name != header else []
    lowered = {word.lower() for word in profile.words}
    if profile.has_few_words and any(lowered <= pair for pair in _FALSE_TRUE):
        return [*lines, 'type = "boolean"']
    if profile.are_instants and not profile.are_numbers:
        form = "date" if profile.are_dates else "datetime"
        lines += ['type = "numeric"', f'format = "{form}"', 'origin = "1970-01-01"', 'unit = "days"']
        return [*lines, f"# lower ={TO_FILL}, such as 2010-01-01", "# upper ="]
    if not profile.are_numbers:
        levels = ", ".join(map(quote, sorted(profile.words)))
        return [
            *lines,
            'type = "categorical"',
            f"levels = [{levels}]   # check: levels come from knowledge, not from the rows",
        ]
    whole = sorted({int(float(word.replace(",", "."))) for word in profile.words}) if profile.are_whole else []
    levels = f"[{', '.join(map(str, whole))}]"
    if len(whole) == 2 and profile.has_few_words:
        said = "   # check: levels come from knowledge, not from the rows"
        return [*lines, 'type = "categorical"', f"levels = {levels}{said}"]
    lines.append('type = "numeric"')
    if profile.has_few_words and 0 < len(whole) <= NUMBERS_FEW:
        lines.append(f'# check: amounts, or codes? If codes: type = "categorical", levels = {levels}, and no bounds')
    lines += [f"unit = {quote(unit)}   # check: from the header"] if unit else []
    if profile.codes:
        codes = ", ".join(map(str, profile.codes))
        lines.append(f"# missing_values = [{codes}]   # check: numbers, or codes of a missing value?")
    return [*lines, f"# lower ={TO_FILL}", "# upper ="]


def _find_unit(header: str) -> str | None:
    """Return what the header says of a unit: in brackets, or as its last words."""
    if bracketed := _IN_BRACKETS.match(header):
        return bracketed[2]
    words = re.split(r"[^a-z0-9]+", header.lower().strip())
    for count in (2, 1):
        if len(words) > count and (unit := _UNITS.get("_".join(words[-count:]))):
            return unit
    return None


def _draft_subject(subject: Profile | None) -> list[str]:
    if subject is None:
        return []
    said = "   # check: does it tell persons apart? It is read, never stored, never released"
    return [f"subject = {quote(subject.header)}{said}", "rows_per_subject = 1"]


def _draft_missing(profiles: Sequence[Profile]) -> list[str]:
    words = sorted({word for profile in profiles for word in profile.missing_words})
    shown = ", ".join(map(quote, words))
    return [f"missing_values = [{shown}]   # check: words that mean that there is no value"] if words else []


def _draft_csv(options: CsvOptions | None) -> list[str]:
    if options is None:
        return []
    plain, found = CsvOptions().model_dump(), options.model_dump()
    lines = [f"{name} = {quote(value)}" for name, value in found.items() if value != plain[name]]
    return ["", "[csv]", *lines] if lines else []


def quote(text: str) -> str:
    """Return a text as TOML has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
