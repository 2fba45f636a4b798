"""The command ``curator-admin``: the work of privacy officers, auditors and stewards at their own desks."""

import argparse
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from analyst_client._version import __version__
from analyst_client.admin.acts import COMMANDS
from analyst_client.admin.curator_admin import CuratorAdmin
from analyst_client.admin.listing import to_json, write_csv, write_jsonl
from analyst_client.admin.sending import Command
from analyst_client.display.displayable import Displayable
from analyst_client.error_base import CuratorError, ServiceError
from analyst_client.errors import AuthenticationError, TransportError
from analyst_client.schema.administration import GROUPS, EndedPermit, NewToken, Seal
from analyst_client.schema.wire import Fields, parse_json
from analyst_client.spelling import is_unicode, let_print

REFUSED, WRONG, UNREACHABLE = 1, 2, 3
FORMATS = ("table", "json", "csv", "jsonl")
EVERYWHERE: Mapping[str, Mapping[str, Any]] = {
    "--server": {"help": "its address; or CURATOR_SERVER"},
    "--sign-in": {"action": "store_true", "help": "sign in at the curator's identity provider; else CURATOR_TOKEN"},
    "--provider": {"help": "name of the provider at which to sign in, where there are several"},
    "--json": {"action": "store_true", "help": "print JSON"},
}
_PARAMETER = re.compile(r"^(\w+) : .*\n((?:    .*\n?)+)", re.MULTILINE)
NOTIONS = ("epsilon", "delta", "mu", "rho")
AMOUNT = Mapping[str, float]
"""The type of an amount of privacy: a command has an option for each notion."""
_OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
"""Characters that a terminal obeys, or that UTF-8 cannot encode; rows of CSV end in CR and LF."""


@dataclass(frozen=True)
class Written:
    """Pieces of text that are printed as they are, one after another."""

    pieces: Iterable[str]


def _spend(admin: CuratorAdmin, given: Mapping[str, Any]) -> Any:
    groups = list(dict.fromkeys(given["by"] or GROUPS))
    found = admin.list_spending(groups, given["population"])
    if given["json"] or given["format"] == "json":
        return to_json(found)
    if given["format"] == "table":
        return found
    return Written([write_csv(found, groups) if given["format"] == "csv" else write_jsonl(found)])


def _list_entries(admin: CuratorAdmin, given: Mapping[str, Any]) -> Any:
    population, after = given["population"], given["after"]
    if given["all"]:
        return Written(write_jsonl([entry]) for entry in admin.iterate_entries(population, after=after))
    return admin.list_entries(population, after=after, limit=given["limit"])


def _list_register(admin: CuratorAdmin, given: Mapping[str, Any]) -> Any:
    if given["all"]:
        return Written(write_jsonl([entry]) for entry in admin.iterate_register(after=given["after"]))
    return admin.list_register(after=given["after"], limit=given["limit"])


def _save(admin: CuratorAdmin, given: Mapping[str, Any]) -> Any:
    path = given["path"] or Path(f"{given['subject']}.zip")
    admin.evidence(given["subject"], path, with_answers=given["with_answers"])
    return {"evidence": given["subject"], "file": str(path)}


TABLE = {**COMMANDS, "evidence": Command("evidence", ("subject",), {"path": "--out"})}
_ALL = {"--all": {"action": "store_true", "help": "every entry, as a line of JSON each"}}
OWN: Mapping[str, tuple[Callable[[CuratorAdmin, Mapping[str, Any]], Any], Mapping[str, Mapping[str, Any]]]] = {
    "spending": (
        _spend,
        {
            "--by": {"action": "append", "choices": GROUPS, "help": "again for each; all if none"},
            "--format": {"choices": FORMATS, "default": "table", "help": "csv is safe to open in a spreadsheet"},
        },
    ),
    "ledger show": (_list_entries, _ALL),
    "ledger register": (_list_register, _ALL),
    "evidence": (_save, {"--out": {"dest": "path", "type": Path, "help": "the file to write; else the id and .zip"}}),
}
"""Commands that do more than their method: what they do, and their own options."""


def _options(words: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the arguments of a command: those of its method, and its own."""
    command = TABLE[words]
    own = OWN[words][1] if words in OWN else {}
    method = getattr(CuratorAdmin, command.method)
    told = dict(_PARAMETER.findall(inspect.cleandoc(method.__doc__ or "")))
    hints = get_type_hints(method)
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        how: dict[str, Any] = {"help": " ".join(told.get(name, "").split())}
        flag = command.options.get(name, f"--{name.replace('_', '-')}")
        if hints[name] == AMOUNT:
            yield from ((f"--{notion}", {"type": float, "dest": f"{name}_{notion}"}) for notion in NOTIONS)
        elif name == "terms":
            yield "file", {"type": Path, "help": "its terms, as JSON"}
        elif name == "idempotency_key":
            yield "--key", {"dest": name, "help": "the same for each retry of one request"}
        elif name in command.positional:
            yield name, how | {"metavar": name.removesuffix("_id").upper()}
        elif flag not in own:
            yield flag, how | {"dest": name} | _kind(hints[name], parameter.default)
    yield from ((flag, dict(how)) for flag, how in own.items())


def _kind(hint: Any, default: Any) -> dict[str, Any]:
    """Return how argparse reads a value of a type."""
    if hint is bool:
        return {"action": "store_true"}
    kind = get_args(hint)[0] if get_origin(hint) is Sequence else hint
    how: dict[str, Any] = {"action": "append"} if kind is not hint else {}
    if get_origin(kind) is Literal:
        how["choices"] = get_args(kind)
    elif kind in (int, float):
        how["type"] = kind
    return how | ({"required": True} if default is inspect.Parameter.empty else {"default": default})


def _do(words: str, admin: CuratorAdmin, given: dict[str, Any]) -> Any:
    """Do what a command says."""
    if words in OWN:
        return OWN[words][0](admin, given)
    command = TABLE[words]
    asked = {name: given[name] for name in _names(command) if name in given}
    for name in (
        name for name, hint in get_type_hints(getattr(CuratorAdmin, command.method)).items() if hint == AMOUNT
    ):
        stated = {notion: given[f"{name}_{notion}"] for notion in NOTIONS}
        asked[name] = {notion: value for notion, value in stated.items() if value is not None}
    if "file" in given:
        asked["terms"] = _read_terms(given["file"])
    return getattr(admin, command.method)(**asked)


def _read_terms(file: Path) -> dict[str, Any]:
    """Read a file as strictly as an answer."""
    try:
        return Fields(parse_json(file.read_text(encoding="utf-8"))).members
    except ServiceError:
        raise ValueError(f"{file}: it is not one object of JSON that names each member once") from None


def _names(command: Command) -> list[str]:
    return list(inspect.signature(getattr(CuratorAdmin, command.method)).parameters)[1:]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="curator-admin",
        description="Administer a curator from afar. What needs rows is done at its machine, with `curator`.",
        epilog="Exit status: 0 done, 1 refused, 2 a wrong argument, 3 not reached or not signed in.",
        allow_abbrev=False,  # --yes is meant where it is written out
    )
    parser.add_argument("--version", action="version", version=f"curator-admin {__version__}")
    for flag, how in EVERYWHERE.items():
        parser.add_argument(flag, **how)
    parser.set_defaults(server=os.environ.get("CURATOR_SERVER"))
    groups = parser.add_subparsers(required=True, metavar="COMMAND")
    nested: dict[str, Any] = {}
    for words, act in TABLE.items():
        group, _, name = words.partition(" ")
        if name and group not in nested:
            own = groups.add_parser(group, help=f"see `curator-admin {group} --help`")
            nested[group] = own.add_subparsers(required=True, metavar="ACT")
        place = nested[group] if name else groups
        line = (getattr(CuratorAdmin, act.method).__doc__ or "").partition("\n")[0]
        command = place.add_parser(name or group, help=line, description=line, allow_abbrev=False)
        command.set_defaults(words=words)
        for flag, how in EVERYWHERE.items():  # where it is not said before the command, it may be said after it
            command.add_argument(flag, **{**how, "default": argparse.SUPPRESS})
        for flag, how in _options(words):
            command.add_argument(flag, **how)
        if act.consequence:
            command.add_argument("--yes", action="store_true", help="do not ask for a confirmation")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `curator-admin`; return 0 when done, 1 when refused, 2 for a wrong argument, 3 when nobody answered."""
    let_print(sys.stderr, "backslashreplace")
    parser = make_parser()
    options = parser.parse_args(arguments)
    if not options.server:
        parser.error("say which curator: --server, or CURATOR_SERVER")
    words, given = options.words, vars(options)
    must_ask = bool(TABLE[words].consequence) and not options.yes
    if must_ask and not sys.stdin.isatty():
        sys.stderr.write("nothing was done: say --yes where nobody can be asked\n")
        return REFUSED
    try:
        with _enter(options) as admin:
            if must_ask and not _is_meant(words, admin, given):
                sys.stderr.write("nothing was done\n")
                return REFUSED
            found = _do(words, admin, given)
            _show(found, as_json=options.json)
            return REFUSED if isinstance(found, Seal) and found.sealed else 0
    except (AuthenticationError, TransportError) as error:
        sys.stderr.write(f"error: {_on_one_line(error)}\n")
        return UNREACHABLE
    except CuratorError as error:
        sys.stderr.write(f"error: {_on_one_line(error)}\n")
        return REFUSED
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {_on_one_line(error)}\n")
        return WRONG


def _enter(options: argparse.Namespace) -> CuratorAdmin:
    if options.sign_in:  # each command is a process of its own: what renews the sign-in is kept
        return CuratorAdmin.sign_in(options.server, provider=options.provider, keep=True)
    return CuratorAdmin(options.server, os.environ.get("CURATOR_TOKEN") or getpass("Token: "))


def _is_meant(words: str, admin: CuratorAdmin, given: Mapping[str, Any]) -> bool:
    """Show the object of an act that cannot be undone, where a command shows such; then ask."""
    shown = COMMANDS.get(f"{words.partition(' ')[0]} show")
    if shown is not None and shown.positional == TABLE[words].positional:
        (named,) = shown.positional
        sys.stderr.write(_visible(f"{getattr(admin, shown.method)(given[named])}\n"))
    sys.stderr.write(f"{TABLE[words].consequence}. Is that meant? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _show(found: Any, *, as_json: bool) -> None:
    match found:
        case Written():
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8")  # a program reads it
            for piece in found.pieces:
                sys.stdout.write(_visible(piece))
        case NewToken() if not as_json:
            about = found.about
            said = f"token of {about.name} ({', '.join(about.roles)}), until {about.expires_at}:"
            sys.stderr.write(f"{_on_one_line(said)}\n")
            sys.stdout.write(f"{found.text}\n")
        case EndedPermit() if not as_json:
            sys.stdout.write(_visible("\n".join([str(found.permit), *map(str, found.still_usable)])) + "\n")
        case Seal() if not as_json:
            said = f"sealed since {found.since}: {found.reason}\n{found.way_out}" if found.sealed else "open"
            sys.stdout.write(f"{_visible(said)}\n")
        case Displayable() if not as_json:
            sys.stdout.write(_visible(f"{found}\n"))
        case _:
            _write_json(found)


def _write_json(found: Any) -> None:
    content = to_json(found)
    if isinstance(found, NewToken):
        content = to_json(found.about) | {"token": found.text}
    elif isinstance(found, EndedPermit):
        content = to_json(found.permit) | {"still_usable": to_json(found.still_usable)}
    sys.stdout.write(
        _visible(json.dumps(content, indent=2, ensure_ascii=not is_unicode(sys.stdout), allow_nan=False)) + "\n"
    )


def _visible(text: str) -> str:
    """Return a text without characters that a terminal obeys, for others wrote it: JSON has another way to say them."""
    return _OBEYED.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def _on_one_line(said: object) -> str:
    return _visible(str(said)).replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
