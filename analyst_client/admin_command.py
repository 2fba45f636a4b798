"""The command ``curator-admin``: what a privacy officer, an auditor or a steward does from their own desk."""

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from getpass import getpass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from analyst_client.admin import GROUPS, CuratorAdmin
from analyst_client.display.displayable import Displayable
from analyst_client.error_base import CuratorError
from analyst_client.errors import AuthenticationError, TransportError

REFUSED, WRONG, UNREACHABLE = 1, 2, 3
OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "population": ("population", {}),
    "proposal": ("proposal", {}),
    "permit": ("permit", {}),
    "file": ("file", {"type": Path, "help": "its terms, as JSON"}),
    "changed": ("--permit", {"help": "the permit that is to be changed"}),
    "epsilon": ("--epsilon", {"type": float}),
    "delta": ("--delta", {"type": float}),
    "mu": ("--mu", {"type": float}),
    "rho": ("--rho", {"type": float}),
    "adjacency": ("--adjacency", {"required": True, "choices": ("add_remove", "replace_one")}),
    "accountant": ("--accountant", {"default": "gdp", "choices": ("gdp", "zcdp", "pure")}),
    "reason": ("--reason", {"required": True, "help": "why; it is written down"}),
    "comment": ("--reason", {"default": "", "help": "why; it is written down"}),
    "by": ("--by", {"action": "append", "choices": GROUPS, "help": "again for each; all if none"}),
    "after": ("--after", {"type": int, "default": 0, "help": "show entries after this sequence"}),
    "count": ("--limit", {"type": int, "default": 100, "help": "how many entries"}),
    "yes": ("--yes", {"action": "store_true", "help": "do not ask whether it is meant"}),
}
LIMIT = ("epsilon", "delta", "mu", "rho")
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Act:
    """What a command does, and which of the options it takes; what cannot be undone is asked about first."""

    text: str
    do: Callable[[CuratorAdmin, argparse.Namespace], Any]
    options: tuple[str, ...] = ()
    consequence: str = ""


def _limit(given: argparse.Namespace) -> dict[str, float]:
    return {name: value for name in LIMIT if (value := getattr(given, name)) is not None}


ACTS: Mapping[str, Act] = {
    "populations list": Act("every population with its account", lambda admin, _: admin.populations()),
    "populations propose": Act(
        "propose to give people a budget",
        lambda admin, given: admin.propose_population(
            given.population,
            adjacency=given.adjacency,
            accountant=given.accountant,
            limit=_limit(given),
            reason=given.reason,
        ),
        ("population", "adjacency", "accountant", *LIMIT, "reason"),
    ),
    "limits set": Act(
        "lower a limit at once, or propose to raise it",
        lambda admin, given: admin.set_limit(given.population, _limit(given), given.reason),
        ("population", *LIMIT, "reason", "yes"),
        "A limit that is lowered takes two people to be raised again",
    ),
    "proposals list": Act("what was proposed and decided", lambda admin, _: admin.proposals()),
    "proposals approve": Act(
        "approve what somebody else proposed",
        lambda admin, given: admin.approve(given.proposal, given.reason),
        ("proposal", "comment", "yes"),
        "What is approved holds at once, and the ledger names you",
    ),
    "proposals reject": Act(
        "reject a proposal, or take one's own back",
        lambda admin, given: admin.reject(given.proposal, given.reason),
        ("proposal", "reason"),
    ),
    "permits list": Act("permits, the newest first", lambda admin, _: admin.permits()),
    "permits ask": Act(
        "ask for a permit, or for other terms of one",
        lambda admin, given: admin.ask_permit(json.loads(given.file.read_text(encoding="utf-8")), given.permit),
        ("file", "changed"),
    ),
    "permits end": Act(
        "end a permit before its time",
        lambda admin, given: admin.end_permit(given.permit, given.reason),
        ("permit", "reason", "yes"),
        "A permit that was ended is not revived",
    ),
    "spending": Act("who spent what", lambda admin, given: admin.spending(given.by or GROUPS), ("by",)),
    "ledger": Act(
        "a page of a population's entries",
        lambda admin, given: admin.ledger(given.population, after=given.after, limit=given.limit),
        ("population", "after", "count"),
    ),
    "seal": Act("why the curator is sealed", lambda admin, _: {"reason": admin.seal()}),
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="curator-admin",
        description="Administer a curator from afar. What needs rows is done at its machine, with `curator`.",
        epilog="Exit status: 0 done, 1 refused, 2 a wrong argument, 3 not reached or not signed in.",
    )
    parser.add_argument("--version", action="version", version=f"curator-admin {version('dp-curator')}")
    parser.add_argument("--server", default=os.environ.get("CURATOR_SERVER"), help="its address; or CURATOR_SERVER")
    parser.add_argument("--json", action="store_true", help="print JSON")
    groups = parser.add_subparsers(required=True, metavar="COMMAND")
    nested: dict[str, Any] = {}
    for words, act in ACTS.items():
        group, _, name = words.partition(" ")
        if name and group not in nested:
            own = groups.add_parser(group, help=f"see `curator-admin {group} --help`")
            nested[group] = own.add_subparsers(required=True, metavar="ACT")
        place = nested[group] if name else groups
        command = place.add_parser(name or group, help=act.text, description=act.text)
        command.set_defaults(act=act)
        for option in act.options:
            flag, how = OPTIONS[option]
            command.add_argument(flag, **how)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `curator-admin`; return 0 when done, 1 when refused, 2 for a wrong argument, 3 when nobody answered."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if not options.server:
        parser.error("say which curator: --server, or CURATOR_SERVER")
    act: Act = options.act
    if act.consequence and not options.yes and not _is_meant(act.consequence):
        sys.stderr.write("nothing was done: say --yes where nobody can be asked\n")
        return REFUSED
    token = os.environ.get("CURATOR_TOKEN") or getpass("Token: ")
    try:
        with CuratorAdmin(options.server, token) as admin:
            _show(act.do(admin, options), as_json=options.json)
    except (AuthenticationError, TransportError) as error:
        sys.stderr.write(f"error: {error}\n")
        return UNREACHABLE
    except CuratorError as error:
        sys.stderr.write(f"error: {error}\n")
        return REFUSED
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return WRONG
    return 0


def _is_meant(consequence: str) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(f"{consequence}. Is that meant? [y/N] ").strip().lower() in {"y", "yes"}


def _show(found: Any, *, as_json: bool) -> None:
    if as_json or not isinstance(found, Displayable):
        written = json.dumps(_plain(found), indent=2, ensure_ascii=False, allow_nan=False)
        # A terminal obeys some characters, and others wrote these texts: JSON has another way to write them.
        sys.stdout.write(_OBEYED.sub(lambda one: f"\\u{ord(one[0]):04x}", written) + "\n")
    else:
        sys.stdout.write(f"{found}\n")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        own = asdict(value)
        return _plain(own.get("items", own))
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
