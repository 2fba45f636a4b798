"""The inbox: files of this machine that a steward looks at, declares and registers; no row is on a page."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from fastapi import APIRouter, Response

from curator_service.dashboard.page import SEEN, PageContext, go_to, list_faults, page
from curator_service.dashboard.pages.parts import read_number
from curator_service.dashboard.sessions import BrowserSessions
from curator_service.datasets.inbox import Inbox, InboxFault, InboxFile
from curator_service.datasets.manifest import CsvOptions, Manifest, ManifestError, read_content
from curator_service.datasets.service import REASON_MAX, OtherPeople
from curator_service.identity.policy import Action
from curator_service.kit.problems import BodyMalformed, NotFound, Problem
from curator_service.ledger.service import LedgerService
from curator_service.privacy.design import MissingRule

router = APIRouter(prefix="/admin")
PAGE = 50
KINDS = {
    "": "leave it out",
    "numeric": "numbers",
    "whole": "whole numbers",
    "date": "dates",
    "datetime": "dates with times",
    "categorical": "a category",
    "boolean": "yes or no",
    "subject": "tells persons apart (never stored)",
    "not_persons": "leave it out; one value may be of several persons",
}
"""What a column of a file may be."""
_LEFT_OUT = {"", "subject", "not_persons"}
_OF_COLUMNS = ("source", "kind", "column", "unit", "lower", "upper", "levels", "missing", "about")
"""Fields of which a form has one for each column."""
_CSV = [name for name in CsvOptions.model_fields if name != "header"]
"""How a file is written; one without a header is prepared at the machine."""
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,14}")
_LOOKED = "inbox"
"""Proves no row of a table: that a form was made of a file of this content. A digest of rows is no page's to state."""


@router.get("/inbox")
@page(Action.REGISTER)
def show_inbox(context: PageContext) -> Response:
    """Show the files of the inbox."""
    inbox, asked, start = context.get(Inbox), context.browser.query.get("q", "").strip(), context.count("start", 0)
    files, has_more = inbox.list_files() if inbox.is_on else ([], False)
    found = [file for file in files if asked.lower() in file.name.lower()]
    return context.render(
        "inbox.html",
        is_on=inbox.is_on,
        files=found[start : start + PAGE],
        has_more=has_more,
        asked=asked,
        start=start,
        page_size=PAGE,
        found=len(found),
    )


@router.get("/inbox/{file_id}")
@page(Action.REGISTER)
def show_file(context: PageContext, file_id: str) -> Response:
    """Show the form for a file, with the names and kinds of its columns."""
    inbox = context.get(Inbox)
    with inbox.open(file_id) as (file, path):
        try:
            look = inbox.look(path)
        except InboxFault as fault:
            return _show(context, file, None, fault.faults, 422)
    seen = context.get(BrowserSessions).proofs.prove(_LOOKED, [file_id, look.digest])
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", file.name.partition(".")[0]).strip("_.-")
    entered = {"name": stem[:63], SEEN: seen} | {f"csv_{name}": value for name, value in look.csv.items()}
    columns = [dict.fromkeys(_OF_COLUMNS, "") | one | {"column": one["name"]} for one in look.columns]
    return _show(context, file, columns, [], 200, entered)


def _describe(context: PageContext, file_id: str) -> tuple[str, list[tuple[str, str]]]:
    with context.get(Inbox).open(file_id) as (file, _):
        return f"Register the file {file.name}", []


@router.post("/inbox/{file_id}")
@page(Action.REGISTER, act=_describe)
def register(context: PageContext, file_id: str) -> Response:
    """Register a file as it is declared, if nobody has changed it since the form was shown."""
    inbox, proofs = context.get(Inbox), context.get(BrowserSessions).proofs
    columns = _read_columns(context)
    with inbox.open(file_id) as (file, path):
        try:
            dataset = inbox.register(
                path,
                read_content(_declare(context, columns), Manifest),
                actor=context.principal.id,
                other_people=_read_other_people(context),
                is_meant=lambda digest: proofs.holds(_LOOKED, [file_id, digest], context.text(SEEN)),
            )
        except InboxFault as fault:
            return _show(context, file, columns, fault.faults, 422)
        except ManifestError as error:
            return _show(context, file, columns, str(error).splitlines(), 422)
        except NotFound:
            raise
        except Problem as problem:
            return _show(context, file, columns, list_faults(problem), int(problem.status))
    return go_to(f"/admin/datasets/{dataset.name}?done=registered")


def _show(
    context: PageContext,
    file: InboxFile,
    columns: list[dict[str, str]] | None,
    faults: Sequence[str],
    status: int,
    entered: Mapping[str, str] | None = None,
) -> Response:
    return context.render(
        "inbox_file.html",
        status,
        file=file,
        columns=columns,
        faults=faults,
        entered=context.entered if entered is None else entered,
        populations=[one.name for one in context.get(LedgerService).list_populations()],
        kinds=KINDS,
        rules=list(MissingRule),
        csv={name: get_args(CsvOptions.model_fields[name].annotation) for name in _CSV},
        signs={"\t": "tab", "": "none"},
        reason_max=REASON_MAX,
    )


def _read_columns(context: PageContext) -> list[dict[str, str]]:
    """Return the fields of each column of a form, in the order in which the form has them."""
    fields = [context.form.get(name, []) for name in _OF_COLUMNS]
    if len({len(values) for values in fields}) > 1:
        raise BodyMalformed("The form states a field of a column without the others.")
    return [dict(zip(_OF_COLUMNS, map(str.strip, values), strict=True)) for values in zip(*fields, strict=True)]


def _read_other_people(context: PageContext) -> OtherPeople | None:
    """Return the word of whoever may decide on budgets that rows are of other people; another one must agree."""
    reason = context.text("other_people")
    if not reason or not context.may(Action.SET_LIMIT):
        return None
    if len(reason) > REASON_MAX:
        raise InboxFault(f"other_people: a reason has up to {REASON_MAX} characters")
    return OtherPeople(context.principal, reason)


def _declare(context: PageContext, columns: list[dict[str, str]]) -> dict[str, Any]:
    """Return a manifest as a form states it; a field that is left empty is left out."""
    subject = [one["source"] for one in columns if one["kind"] == "subject"]
    content: dict[str, Any] = {name: context.text(name) for name in ("name", "population", "description", "library")}
    content |= {name: read_number(context.text(name), int) for name in ("row_capacity", "rows_per_subject")}
    content |= {
        "same_people_as": context.text("same_people_as").replace(",", " ").split(),
        "missing_values": _lines(context.text("missing_values")),
        "subject": subject[0] if len(subject) == 1 else subject,
        "rows_are_persons": context.text("whose") == "persons",
        "not_persons": [one["source"] for one in columns if one["kind"] == "not_persons"],
        "csv": {name: context.form[f"csv_{name}"][0] for name in _CSV if f"csv_{name}" in context.form},
        "columns": [_declare_column(one) for one in columns if one["kind"] not in _LEFT_OUT],
    }
    return {name: value for name, value in content.items() if value not in ("", [], {}, False)}


def _declare_column(entered: dict[str, str]) -> dict[str, Any]:
    kind, lower, upper = entered["kind"], entered["lower"], entered["upper"]
    declared: dict[str, Any] = {"name": entered["column"], "source": entered["source"], "missing": entered["missing"]}
    declared |= {"description": entered["about"]}
    match kind:
        case "numeric" | "whole":
            bounds = {"lower": read_number(lower, float), "upper": read_number(upper, float)}
            declared |= {"type": "numeric", "unit": entered["unit"], **bounds}
            declared |= {"whole": True} if kind == "whole" else {}
        case "date" | "datetime":
            dates = {"format": kind, "origin": "1970-01-01", "unit": "days"}
            declared |= {"type": "numeric", **dates, "lower": lower, "upper": upper}
        case _:
            declared |= {"type": kind, "levels": [_read_level(line) for line in _lines(entered["levels"])]}
    if declared["source"] == declared["name"]:
        del declared["source"]
    return {name: value for name, value in declared.items() if value not in ("", [])}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _read_level(line: str) -> int | str:
    """Return a level, as a number where it is a whole one: columns of numbers have no other levels."""
    return int(line) if _WHOLE.fullmatch(line) else line
