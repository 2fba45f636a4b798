"""A draft of a manifest, from headers and what columns look like: a person completes it.

Bounds and levels are never read off the rows, and nothing says whose rows they are: their lines are comments, and a
manifest without them is refused. Of the rows a draft shows the words that `candidates` lets it show, in comments alone.
Counts are told apart from it, for the operator alone.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from curator_service.datasets.candidates import PERSONS_MIN, find_key, is_called_key, is_called_number
from curator_service.datasets.columns.texts import LEVEL
from curator_service.datasets.identifying import ends_as_name, is_identifying, is_name
from curator_service.datasets.keys import KeyOf, find_persons, looks_like_key
from curator_service.datasets.levels import find_levels, find_yes_and_no
from curator_service.datasets.manifest import CsvOptions
from curator_service.datasets.profiles import KNOWN_WORDS, LEVELS_FEW, NUMBERS_FEW, Profile
from curator_service.datasets.profiling import FAULTY_SHARE_MAX, Profiles, profile_columns
from curator_service.datasets.reading import read_apart
from curator_service.datasets.sources.base import IngestError, Progress, Source
from curator_service.datasets.sources.sniffing import SEPARATORS
from curator_service.kit.apart import Bounds
from curator_service.kit.names import DECEIVING, NAME

ROWS_MAX = 50_000
"""How many rows a draft looks at, and blocks of those behind them, unless told to look at all."""
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
_MANY_SHARE = 0.5
_CANDIDATES_SHOWN = 20
TO_FILL = "   # from knowledge, never from the rows"
"""Behind a bound that a person fills in."""
_WHOSE = (
    "# Whose rows are they? Complete subject and rows_per_subject, or keep rows_are_persons alone.",
    "# subject =   # the column that tells persons apart; it is read, never stored, never released",
    "# rows_per_subject =",
    "# rows_are_persons = true   # if each row is another person",
)


def draft_manifest(
    source: Source,
    options: CsvOptions | None,
    *,
    name: str,
    population: str | None = None,
    row_capacity: int | None = None,
    rows_max: int | None = ROWS_MAX,
    tell: Callable[[str], None] = lambda _said: None,
    progress: Progress = lambda _rows, _share: None,
) -> str:
    """Return TOML that a person completes.

    Parameters
    ----------
    options : CsvOptions, optional
        How a CSV file seems to be written.
    name : str
        Of the dataset; made legal where it is not.
    row_capacity : int, optional
        Both are lines to fill in if not given.
    rows_max : int, optional
        How many rows are looked at, and blocks of those behind them; None looks at all.
    tell : callable
        Called with lines for the operator alone: they hold exact counts of the rows.
    progress : callable
        Called with the number of rows that were read, and their share of all, where it is known.

    Raises
    ------
    IngestError
    """
    work = partial(_draft, source, options, name, population, row_capacity, rows_max)
    drafted = read_apart(work, source.label, _BOUNDS, progress)
    for line in drafted["told"]:
        tell(line)
    return str(drafted["text"])


def _draft(
    source: Source,
    options: CsvOptions | None,
    name: str,
    population: str | None,
    row_capacity: int | None,
    rows_max: int | None,
    progress: Progress,
) -> dict[str, Any]:
    is_declared = options is not None and options.header is not None
    found = profile_columns(source, rows_max, progress, is_declared=is_declared)
    _check_faults(found, source, options)
    notes, columns, taken = [*found.left_out], [], set[str]()
    for profile in found.columns:
        if reason := _find_reason(profile):
            notes.append(f"{quote(profile.header)} {reason}")
        else:
            columns.append(_draft_column(profile, taken))
    if not columns:
        written = _describe_separators(source, options)
        raise IngestError(f"{source.label}: no column can be released.{written} Left out: {'; '.join(notes)}")
    # The number of rows may be private, and this file becomes public.
    read = "all rows" if found.is_whole else "blocks of rows from the whole source"
    lines = [
        f"# A draft, from {read}. Fill in what is empty, look at each `check`, then run `curator manifest check`.",
        "",
        *draft_head(make_name(name, set(), "dataset"), population, row_capacity),
        *_WHOSE,
        *_draft_missing(found.columns),
        *_draft_csv(options),
        *(["", "# Left out:", *(f"# - {note}" for note in notes)] if notes else []),
    ]
    text = "\n".join([*lines, *(line for column in columns for line in column)]) + "\n"
    return {"text": text, "told": [*_tell_candidates(found), *_tell_faults(found, source), *_tell_words(found)]}


def _check_faults(found: Profiles, source: Source, options: CsvOptions | None) -> None:
    """Refuse a source of which too much cannot be read."""
    faulty = sum(fault.count for fault in found.faults)
    if faulty > FAULTY_SHARE_MAX * (found.rows + faulty):
        said = "; ".join(fault.word(source.place) for fault in found.faults)
        written = _describe_separators(source, options)
        raise IngestError(
            f"{source.label}: {faulty:,} of {found.rows + faulty:,} {source.place}s cannot be read, more than "
            f"{FAULTY_SHARE_MAX:.0%}: {said}.{written}"
        )


def _describe_separators(source: Source, options: CsvOptions | None) -> str:
    """Return a sentence on the separator of a CSV file, and on the signs in its header that may be it."""
    if options is None:
        return ""
    header = "".join(source.list_columns())
    others = [repr(sign) for sign in SEPARATORS if sign != options.separator and sign in header]
    seen = f"; the header also has {', '.join(others)}" if others else ""
    return f" The separator was taken to be {options.separator!r}{seen}."


def _tell_candidates(found: Profiles) -> list[str]:
    """Return lines on the columns that may tell persons apart, those that are called so first."""
    keys = [profile for profile in found.columns if find_key(profile)]
    keys.sort(key=lambda profile: looks_like_key(profile.header) is not KeyOf.PERSON)
    lines = [f"  {_tell_candidate(profile, found)}" for profile in keys[:_CANDIDATES_SHOWN]]
    if len(keys) > len(lines):
        lines.append(f"  and {len(keys) - len(lines)} more")
    for known in find_persons([profile.header for profile in found.columns]):
        lines.append(f"  in the schema of {known.schema} a person is {', '.join(map(quote, known.columns))}")
    return ["Columns that may tell persons apart:", *lines] if lines else ["No column seems to tell persons apart."]


def _tell_candidate(profile: Profile, found: Profiles) -> str:
    rows = profile.distinct_rows
    if profile.distinct == rows == found.rows:
        return f"{quote(profile.header)}: all different"
    among = f"{rows:,} rows" if rows == found.rows else f"{rows:,} of {found.rows:,} rows"
    return f"{quote(profile.header)}: {profile.distinct:,} values in {among}"


def _tell_faults(found: Profiles, source: Source) -> list[str]:
    return [f"Not read: {fault.word(source.place)}; `curator manifest check` refuses it." for fault in found.faults]


def _tell_words(found: Profiles) -> list[str]:
    """Return lines on the words beside numbers."""
    lines = []
    for profile in found.columns:
        if profile.are_numbers and profile.apart and not _find_reason(profile):
            shown = _find_words_beside(profile)
            words = f": {', '.join(map(quote, shown))}" if shown else ""
            rest = (
                "" if len(shown) == len(profile.apart) else f"; words of fewer than {PERSONS_MIN} persons are not shown"
            )
            lines.append(
                f"{quote(profile.header)}: {sum(profile.apart.values()):,} values are no numbers{words}{rest}."
            )
    return lines


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


def _find_reason(profile: Profile) -> str:
    """Return why a column is not drafted as one to release, or nothing."""
    if profile.distinct < 2:
        return "has one value: it explains nothing" if profile.present else "has no value"
    if is_identifying(profile.header) or (profile.are_texts and _names_persons(profile)):
        return "looks like names, addresses or numbers that identify a person: never release it"
    if 2 * profile.fraction_rows > profile.present:
        return "has numbers with another decimal sign than the file: write it anew, or declare decimal"
    if fault := _find_fault_of_key(profile):
        return fault
    return _find_fault_of_levels(profile) if profile.are_texts else ""


def _find_fault_of_key(profile: Profile) -> str:
    key, is_called = find_key(profile), is_called_key(profile.header)
    if not key or (profile.are_texts and not (is_called or profile.are_alone or profile.are_together)):
        return ""
    if profile.are_numbers and profile.are_alone and is_called_number(profile.header):
        return "numbers the rows"
    if profile.are_numbers and not is_called:
        return f"{key}: if it is an amount, declare it"
    return f"{key}: never release it; declare it as the subject or, if it is no person's, under not_persons"


def _names_persons(profile: Profile) -> bool:
    if profile.are_addresses or is_name(profile.header):
        return True
    return ends_as_name(profile.header) and (
        looks_like_key(profile.header) is KeyOf.PERSON
        or profile.distinct > LEVELS_FEW
        or profile.distinct > _MANY_SHARE * profile.distinct_rows
    )


def _find_fault_of_levels(profile: Profile) -> str:
    if not profile.has_few_words or len(profile.counts) > LEVELS_FEW:
        return f"is text with more than {LEVELS_FEW} levels: if it matters, group it before"
    if not profile.shown and not profile.are_boolean:
        return f"has no text that {PERSONS_MIN} persons have: if it is no identifier, declare it"
    wrong = [word for word in profile.counts if not LEVEL.fullmatch(word) or DECEIVING.search(word)]
    return "has levels with signs that a manifest does not take, such as brackets" if wrong else ""


def _draft_column(profile: Profile, taken: set[str]) -> list[str]:
    header, unit = profile.header, _find_unit(profile.header)
    name = _name_column(header, taken)
    lines = ["", "[[columns]]", f"name = {quote(name)}"]
    lines += [f"source = {quote(header)}"] if name != header else []
    kind = guess_kind(profile)
    if kind in ("date", "datetime"):
        lines += ['type = "numeric"', f'format = "{kind}"', 'origin = "1970-01-01"', 'unit = "days"']
        return [*lines, f"# lower ={TO_FILL}, such as 2010-01-01", "# upper ="]
    if profile.are_boolean:
        return [*lines, 'type = "boolean"']
    if not profile.are_numbers:
        return [*lines, *_draft_levels(profile)]
    if kind == "categorical":
        return [*lines, 'type = "categorical"', _propose_levels(_list_whole(profile, profile.shown))]
    lines.append('type = "numeric"')
    if 0 < len(_list_whole(profile)) <= NUMBERS_FEW:
        lines.append('# check: amounts, or codes? If codes: type = "categorical" with levels, and no bounds')
    lines += [f"unit = {quote(unit)}   # check: from the header"] if unit else []
    if profile.apart:
        words = ", ".join(map(quote, _find_words_beside(profile)))
        lines.append(f"# missing_values = [{words}]   # check: some values are words; do they mean that there is none?")
    if profile.codes:
        codes = ", ".join(map(str, profile.codes))
        lines.append(f"# missing_values = [{codes}]   # check: numbers, or codes of a missing value?")
    return [*lines, f"# lower ={TO_FILL}", "# upper ="]


def _name_column(header: str, taken: set[str]) -> str:
    bracketed = _IN_BRACKETS.match(header)
    return make_name(bracketed[1] if bracketed and _find_unit(header) else header, taken, "column")


def guess_kind(profile: Profile) -> str:
    """Return what the values of a column seem to be: boolean, date, datetime, categorical or numeric."""
    if profile.are_boolean:
        return "boolean"
    if profile.are_instants and not profile.are_numbers:
        return "date" if profile.are_dates else "datetime"
    if not profile.are_numbers:
        return "boolean" if _find_truths(profile) else "categorical"
    is_code = len(_list_whole(profile)) == 2 and profile.has_few_words and not profile.apart
    return "categorical" if is_code else "numeric"


def _find_truths(profile: Profile) -> Sequence[str] | None:
    """Return the two words of a boolean in another language, the false one first."""
    return find_yes_and_no(profile.shown) if len(profile.counts) == 2 else None


def propose_columns(source: Source, progress: Progress = lambda _rows, _share: None) -> list[dict[str, str]]:
    """Return the header of each column with a name, a unit from the header, and what its values seem to be.

    Call it within a process of its own. Nothing else of the rows is told; the kind is empty where a column is not
    proposed.

    Raises
    ------
    IngestError
    """
    found = profile_columns(source, ROWS_MAX, progress)
    _check_faults(found, source, None)
    taken: set[str] = set()
    return [
        {
            "source": one.header,
            "name": _name_column(one.header, taken),
            "unit": _find_unit(one.header) or "",
            "kind": "" if _find_reason(one) else guess_kind(one),
        }
        for one in found.columns
    ]


def _draft_levels(profile: Profile) -> list[str]:
    """Return the lines of a category, or of a boolean in another language."""
    words = profile.shown
    if pair := _find_truths(profile):
        return ['type = "boolean"', f"levels = [{', '.join(map(quote, pair))}]   # check: false, then true"]
    rest = '# other = "other"   # if a level of this name shall take every word that is no level'
    if known := find_levels(words):
        levels = ", ".join(map(quote, known))
        return ['type = "categorical"', f"levels = [{levels}]   # check: a list that is often used", rest]
    return ['type = "categorical"', _propose_levels(map(quote, sorted(words))), rest]


def _propose_levels(words: Iterable[object]) -> str:
    """Return an empty line for levels, and words of the rows that enough persons have."""
    shown = ", ".join(map(str, words))
    return f"# levels = [{shown}]   # from knowledge, such as a dictionary: shown is what {PERSONS_MIN} persons have"


def _list_whole(profile: Profile, words: Collection[str] | None = None) -> list[int]:
    """Return the whole numbers among words, or among all of a column that has few."""
    if not profile.are_whole:
        return []
    found = set(profile.counts if words is None else words) - profile.apart.keys()
    return sorted({int(float(word.replace(",", "."))) for word in found})


def _find_words_beside(profile: Profile) -> list[str]:
    """Return the words beside numbers that may be shown: those of a public list, or of enough persons."""
    return sorted(word for word in profile.apart if word in profile.shown or word.lower() in KNOWN_WORDS)


def _find_unit(header: str) -> str | None:
    """Return what the header says of a unit: in brackets, or as its last words."""
    if bracketed := _IN_BRACKETS.match(header):
        return bracketed[2]
    words = re.split(r"[^a-z0-9]+", header.lower().strip())
    for count in (2, 1):
        if len(words) > count and (unit := _UNITS.get("_".join(words[-count:]))):
            return unit
    return None


def _draft_missing(profiles: Sequence[Profile]) -> list[str]:
    words = sorted({word for profile in profiles for word in profile.missing_words})
    shown = ", ".join(map(quote, words))
    return [f"missing_values = [{shown}]   # check: words that mean that there is no value"] if words else []


def _draft_csv(options: CsvOptions | None) -> list[str]:
    if options is None:
        return []
    plain, found = CsvOptions().model_dump(), options.model_dump()
    header = f"header = [{', '.join(map(quote, options.header))}]" if options.header is not None else None
    lines = [header] if header else []
    lines += [f"{name} = {quote(value)}" for name, value in found.items() if name != "header" and value != plain[name]]
    return ["", "[csv]", *lines] if lines else []


def quote(text: str) -> str:
    """Return a text as TOML has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
