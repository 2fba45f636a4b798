"""Answers of acts on a terminal: a table of each list, and a line for each member of one thing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from rich.table import Table

from curator_service.api.acts import Act
from curator_service.approvals.repository import ACCOUNT, ROWS
from curator_service.approvals.response_models import ProposalAnswer
from curator_service.cli.common import emit, err, escape, out
from curator_service.identity.people import Look
from curator_service.ledger.response_models import AccountModel, SealAnswer
from curator_service.ledger.schemas import SPENT_NOTE
from curator_service.permits.response_models import EndedPermitAnswer
from curator_service.privacy.accountant import ACCOUNTANTS
from curator_service.privacy.conversions import UNITS_PER_ONE
from curator_service.register.response_models import NewTokenAnswer

Columns = Mapping[str, Callable[[Any, Look], object]]
"""The cells of a row by their heads, of a thing that is listed and of people as they are displayed."""
_RIGHT = {"limit", "spent", "share", "limit ε", "spent ε", "fits ε", "delta", "amount", "ε"}


def show(act: Act, given: Mapping[str, Any], answer: Any, look: Callable[[], Look], *, as_json: bool) -> None:
    """Print the answer of an act, for a program or for a person; a curator that is sealed ends the command with 1."""
    content = answer if isinstance(answer, Mapping) else answer.__dict__
    items = act.answer.items if act.answer is not None else answer.items
    if as_json:
        emit(content[items] if items else answer, as_json=True, table="")
    elif items:
        out.print(_list(act.words, content[items], look()))
    elif "accountant" in content:
        account = AccountModel.model_construct(**content)
        out.print(_list("populations list", [account], look()))
        if "entries" in content:
            asked = {one["sequence"]: one["words"] for one in content.get("asked", ())}
            viewed = [
                one | {"viewed": _view(int(one["units"]), account), "asked": asked.get(str(one["sequence"]))}
                for one in content["entries"]
            ]
            out.print(_list(act.words, viewed, look(), _name_ledger(account)))
    elif isinstance(answer, SealAnswer):
        out.print(
            f"[red]sealed[/red]: {escape(answer.reason)}"
            if answer.sealed
            else "[green]open[/green]: nothing is sealed",
            soft_wrap=True,
        )
    elif type(answer) is ProposalAnswer:
        out.print(_list("proposals list", [answer], look(), act.words))
    elif isinstance(answer, NewTokenAnswer):
        roles = ", ".join(answer.roles) + (", only to look" if answer.read_only else "")
        err.print(f"token {answer.id} of {answer.name} ({roles}), valid until {answer.expires_at}; it is shown once:")
        typer.echo(answer.token)
    elif act.words in SAID:
        told = SAID[act.words].format(**{name: _write(value) for name, value in {**given, **content}.items()})
        out.print(told, soft_wrap=True)
    else:
        out.print(_describe(act, to_jsonable_python(content)))
    if not as_json:
        for use in answer.still_usable if isinstance(answer, EndedPermitAnswer) else ():
            until = f"; from {use.expires_at} on only to read" if use.expires_at else ""
            by = f"{use.permit} ({use.project or 'no project'})"
            out.print(escape(f"{use.analyst} may still use {use.dataset} by {by}{until}"), soft_wrap=True)
    if isinstance(answer, SealAnswer) and answer.sealed:
        raise typer.Exit(1)


def _list(words: str, found: Iterable[Any], people: Look, title: str = "") -> Table:
    """Return a table with a line for each thing."""
    table = Table(
        title=title or TITLES.get(words, words), caption=_caption(found) if words == "populations list" else None
    )
    for head in COLUMNS[words]:
        table.add_column(head, no_wrap=head in {"id", *_RIGHT}, justify="right" if head in _RIGHT else "left")
    for one in found:
        table.add_row(*(_write(cell(one, people)) for cell in COLUMNS[words].values()))
    return table


def _describe(act: Act, content: Mapping[str, Any]) -> Table:
    """Return a table with a line for each member; of a change, what holds now beside what is asked."""
    before, asked = content.get("before") or {}, content.get("terms") or {}
    amounts = content.get("amounts") or {}
    if len(content) == 1 and isinstance(next(iter(content.values())), Mapping):
        (content,) = content.values()
    heads = ("", "now", "asked") if asked or amounts else ("", "")
    table = Table(*heads, title=act.words, show_header=len(heads) > 2)
    for name, value in content.items():
        if name not in {"before", "terms", "amounts", "still_usable"} and value not in (None, ""):
            table.add_row(name.replace("_", " "), *[""] * (len(heads) - 2), _write(value))
    for name in dict.fromkeys((*asked, *before)):
        table.add_row(name.replace("_", " "), _write(before.get(name)), _write(asked.get(name)))
    if amounts:
        table.add_row("limit", _write(amounts["from"]), _write(amounts["to"]))
        table.add_row("spent and held", _write(amounts["spent_and_held"]), "")
    return table


def _write(value: Any) -> str:
    """Return a value as text that a terminal shows as it is."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping) and "units" in value:
        epsilon = "∞" if value["epsilon"] is None else f"{value['epsilon']:.4g}"
        return f"{value['units']} units, ε {epsilon} at δ {value['delta']:g}"
    if isinstance(value, Mapping):
        return escape(", ".join(f"{name} = {'all' if one is None else repr(one)}" for name, one in value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(map(_write, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape("" if value is None else str(value))


def _units(units: int, account: AccountModel) -> str:
    return f"{units / UNITS_PER_ONE:.5g} {ACCOUNTANTS[account.accountant].symbol}"


def _view(units: int, account: AccountModel) -> str:
    return _epsilon(ACCOUNTANTS[account.accountant].spent(units, account.delta))


def _name_ledger(account: AccountModel) -> str:
    """Name the account of entries, and the unit of their amounts."""
    counted = f"amounts in {ACCOUNTANTS[account.accountant].symbol}, ε at δ {account.delta:g}"
    return f"Ledger of {account.population}: {account.adjacency}, {account.accountant}; {counted}"


def _epsilon(amount: Any) -> str:
    return "inf" if amount.epsilon is None else f"{amount.epsilon:.4g}"


def _caption(found: Iterable[AccountModel]) -> str:
    lowered = [
        f"{one.population} {_units(int(one.highest_limit.units), one)}, ε {_epsilon(one.highest_limit)}"
        for one in found
        if one.highest_limit.units != one.limit.units
    ]
    said = "; ".join(lowered)
    return SPENT_NOTE + (f" The guarantee is that of the highest limit there ever was: {said}" if lowered else "")


def _spent(one: AccountModel) -> int:
    return int(one.posted.units) + int(one.pending.units)


def _member(name: str) -> Callable[[Any, Look], object]:
    return lambda one, _: one.get(name) if isinstance(one, Mapping) else getattr(one, name)


def _who(name: str) -> Callable[[Any, Look], object]:
    return lambda one, people: people.find(one[name]).label


def _day(name: str) -> Callable[[Any, Look], object]:
    return lambda one, _: (getattr(one, name) or "")[:10]


def _minute(one: Mapping[str, Any], _: Look) -> str:
    return one["time"][2:16].replace("T", " ")  # type: ignore[no-any-return]


def _what(one: Any, _: Look) -> str:
    return {ACCOUNT: "the limit", ROWS: "rows of other people"}.get(one.scope, f"{one.scope} {one.label}")


def _may(one: Any, _: Look) -> str:
    return ", ".join(one.roles) + (", only to look" if one.read_only else "")


def _limit(name: str) -> Callable[[Any, Look], object]:
    def cell(one: Any, _: Look) -> str:
        units = getattr(one, name)
        said = "none" if units is None else f"{int(units) / UNITS_PER_ONE:.6g}"
        return said if one.scope in {ACCOUNT, "analyst", "project"} else ""

    return cell


SAID = {
    "principals name": "{name} is displayed as {shown_name} from now on",
    "principals forget": "erased the displayed name and the e-mail of {name}",
    "permits grant": "{analyst} may use {dataset}: {id}",
    "permits revoke": "took {dataset} back from {analyst}: {id}",
    "permits end": "ended {id}",
    "principals appoint": "{name} is {roles} from now on",
    "tokens revoke": "revoked {id}",
    "keys rotate": "{key_id} signs from now on; start the curator again, and keep a copy of its file with your secrets",
    "ledger begin-anchor": "the anchor in {anchor} begins with the ledger as it stands; what left before is not in it",
}
"""What a command says of its answer in one line."""
TITLES = {"populations list": "Budgets: the account's unit first, epsilon at its delta beside it"}
"""Of tables that need more words than their command."""
COLUMNS: Mapping[str, Columns] = {
    "populations list": {
        "population": _member("population"),
        "limit": lambda one, _: _units(int(one.limit.units), one),
        "spent": lambda one, _: f"{_spent(one) / UNITS_PER_ONE:.5g}",
        "share": lambda one, _: f"{one.share_spent:.1%}",
        "limit ε": lambda one, _: _epsilon(one.limit),
        "spent ε": lambda one, _: _view(_spent(one), one),
        "fits ε": lambda one, _: _epsilon(one.remaining),
        "delta": lambda one, _: f"{one.delta:g}",
    },
    "proposals list": {
        "id": _member("id"),
        "population": _member("population"),
        "what": _what,
        "limit": _limit("limit_units"),
        "was": _limit("from_units"),
        "state": _member("state"),
        "reason": _member("reason"),
    },
    "permits list": {
        "id": _member("id"),
        "project": _member("project"),
        "people": lambda one, people: [people.named(name).label for name in one.people],
        "datasets": _member("datasets"),
        "until": lambda one, _: f"ended {one.ended_at}" if one.ended_at else one.expires_at or "no end",
    },
    "principals list": {
        "name": _member("name"),
        "roles": _member("roles"),
        "shown as": _member("shown_name"),
        "e-mail": _member("email"),
        "signs in at": lambda one, _: one.issuer or "the curator",
    },
    "tokens list": {
        "id": _member("id"),
        "name": lambda one, people: people.named(one.name).label,
        "may act as": _may,
        "created": _day("created_at"),
        "used": _day("last_used_at"),
        "expires": _day("expires_at"),
        "revoked": _day("revoked_at"),
    },
    "ledger show": {
        "#": _member("sequence"),
        "UTC": _minute,
        "kind": _member("kind"),
        "who": _who("actor"),
        "what": lambda one, _: one["asked"] or one.get("dataset") or one.get("session"),
        "amount": lambda one, _: f"{int(one['units']) / UNITS_PER_ONE:.5g}" if int(one["units"]) else "",
        "ε": lambda one, _: one["viewed"] if int(one["units"]) else "",
    },
    "ledger questions": {
        "#": _member("sequence"),
        "UTC": lambda one, _: str(one.asked_at)[:16].replace("T", " "),
        "who": lambda one, people: people.named(one.asked_by).label,
        "dataset": _member("dataset"),
        "what was asked": _member("words"),
        "ε": lambda one, _: (
            "free" if one.units == "0" else "over 1000" if one.epsilon is None else f"{one.epsilon:.2g}"
        ),
    },
    "ledger register": {
        "#": _member("sequence"),
        "UTC": _minute,
        "act": _member("kind"),
        "by": _who("actor"),
        "of whom": lambda one, people: _who("principal")(one, people) if "principal" in one else one.get("holder"),
        "what": lambda one, _: one.get("roles") or one.get("scopes"),
    },
    "keys list": {
        "key": _member("key_id"),
        "public key": _member("public_key"),
        "since": _member("created_at"),
        "endorsed by": lambda one, _: one.previous or "nobody: it is the first",
    },
}
