"""Tables of acts, entries and database columns in the documentation: `python docs/site/acts.py` writes them anew."""

import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from curator_service.acts import SLICES
from curator_service.api.acts import Act, Host
from curator_service.entries.base import KINDS, Event, ProposalId
from curator_service.identity.policy import POLICY, PUBLIC, Objects, Role
from curator_service.kit.wire import Digest, Digits, Moment
from curator_service.ledger.trust.beliefs import BELIEFS

DOCS = Path(__file__).parents[1]
OF_THE_MACHINE = {"datasets list", "datasets show", "spending"}
"""Commands of the machine that say more than the act of the same words."""
BY = {None: "", Host.OPERATOR: "operator", Host.HOLDER: "holder of a token"}


def list_acts() -> list[Act]:
    """Return every act, by slice."""
    return [act for acts in SLICES for act in acts]


def make_routes(acts: Iterable[Act]) -> str:
    """Return the table of addresses."""
    rows = [f"| `{act.method} {act.path}` | {act.line} | {_roles(act)} |" for act in acts if act.path]
    return "\n".join(["| address | what it does | who may |", "| --- | --- | --- |", *rows])


def make_commands(acts: Iterable[Act]) -> str:
    """Return the table of commands: who acts with `curator`, and what may with `curator-admin`."""
    rows = [
        f"| `{act.words}` | {act.line} | {_host(act)} | {_roles(act) if act.path else ''} |"
        for act in sorted(acts, key=lambda act: act.words)
        if act.words
    ]
    head = ["| command | what it does | `curator`, by | `curator-admin`, by |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows])


def _host(act: Act) -> str:
    return BY[Host.OPERATOR if act.words in OF_THE_MACHINE else act.host]


def _roles(act: Act) -> str:
    if act.action in PUBLIC or act.action is None:
        return "anybody"
    granted = POLICY[act.action]
    if set(granted) == set(Role):
        return "everybody with a token"
    names = [role.value.replace("_", " ") + ("*" if granted[role] is Objects.GRANTED else "") for role in granted]
    return ", ".join(names)


def make_entries(_: Iterable[Act]) -> str:
    """Return the table of entries."""
    head = ["| kind | stands in | `units` | meaning | members |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *(_describe(kind) for kind in KINDS.values())])


def _describe(kind: type[Event]) -> str:
    chains = " and ".join(["populations"] * kind.in_populations + ["register"] * kind.in_register)
    own = {name: field for name, field in kind.model_fields.items() if name not in Event.model_fields}
    needed = [_name(name, field) for name, field in own.items() if field.is_required()]
    others = [_name(name, field) for name, field in own.items() if not field.is_required()]
    members = "; where they apply ".join(", ".join(names) for names in (needed, others) if names)
    return f"| `{kind.kind}` | {chains} | {kind.units_are} | {kind.meaning} | {members} |"


def _name(name: str, field: FieldInfo) -> str:
    said = field.description or ""
    if not said or said in _OF_TYPES:
        return f"`{field.alias or name}`"
    return f"`{field.alias or name}` ({said if said[1].isupper() else said[0].lower() + said[1:]})"


_OF_TYPES = {TypeAdapter(one).json_schema()["description"] for one in (Digest, Digits, Moment, ProposalId)}
"""What types say of every member that has them."""


def make_beliefs(_: Iterable[Act]) -> str:
    """Return the table of columns, and why each is believed."""
    rows = [
        f"| `{one.table}` | {one.belief.value} | {', '.join(f'`{name}`' for name in one.names)} | {one.why} |"
        for one in BELIEFS
    ]
    return "\n".join(["| table | | columns | why |", "| --- | --- | --- | --- |", *rows])


TABLES = {"api.md": make_routes, "cli.md": make_commands, "ledger.md": make_entries, "threat-model.md": make_beliefs}
"""What is made of each page."""


def fill(page: str) -> str:
    """Return a page with its table as the acts have it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    made = f"<!-- acts -->\n{TABLES[page](list_acts())}\n<!-- /acts -->"
    filled, count = re.subn(r"<!-- acts -->.*?<!-- /acts -->", lambda _: made, text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page} has no one place for its table")
    return filled


if __name__ == "__main__":
    for name in TABLES:
        (DOCS / name).write_text(fill(name), encoding="utf-8")
