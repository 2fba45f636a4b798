"""The command ``curator-admin``: the work of privacy officers, auditors and stewards at their own desks."""

import argparse
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import Any

from analyst_client._version import __version__
from analyst_client.admin import CuratorAdmin
from analyst_client.admin_listing import to_json, write_csv, write_jsonl
from analyst_client.display.displayable import Displayable
from analyst_client.error_base import CuratorError
from analyst_client.errors import AuthenticationError, TransportError
from analyst_client.schema.administration import GROUPS, EndedPermit, NewToken, Seal
from analyst_client.spelling import is_unicode, let_print

REFUSED, WRONG, UNREACHABLE = 1, 2, 3
FORMATS = ("table", "json", "csv", "jsonl")
OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "population": ("population", {}),
    "one": ("--population", {"help": "of one population; of all if it is left out"}),
    "proposal": ("proposal", {}),
    "permit": ("permit", {}),
    "analyst": ("analyst", {}),
    "dataset": ("dataset", {}),
    "job": ("job", {}),
    "reservation": ("reservation", {}),
    "token": ("token", {"help": "its id, the part between the underscores"}),
    "name": ("name", {"help": "whose token: a person or a program"}),
    "subject": ("subject", {"help": "a release (rel_…) or a permit (prm_…)"}),
    "file": ("file", {"type": Path, "help": "its terms, as JSON"}),
    "out": ("--out", {"type": Path, "help": "the file to write; else the id and .zip"}),
    "answers": ("--with-answers", {"action": "store_true", "help": "with the released numbers, of a permit"}),
    "own": ("--own", {"action": "store_true", "help": "what you have proposed yourself"}),
    "changed": ("--permit", {"help": "the permit that is to be changed"}),
    "role": (
        "--role",
        {"action": "append", "required": True, "choices": ("analyst", "auditor"), "help": "again for each"},
    ),
    "read_only": ("--read-only", {"action": "store_true", "help": "it may only look"}),
    "days": ("--days", {"type": int, "default": 90, "help": "days until it ends"}),
    "grace": ("--grace", {"type": int, "default": 60, "help": "seconds for which the old one goes on"}),
    "epsilon": ("--epsilon", {"type": float}),
    "delta": ("--delta", {"type": float}),
    "mu": ("--mu", {"type": float}),
    "rho": ("--rho", {"type": float}),
    "adjacency": ("--adjacency", {"required": True, "choices": ("add_remove", "replace_one")}),
    "accountant": ("--accountant", {"default": "gdp", "choices": ("gdp", "zcdp", "pure")}),
    "replaces": (
        "--replaces",
        {"action": "store_true", "help": "propose it in the place of a limit given by mistake and never used"},
    ),
    "reason": ("--reason", {"required": True, "help": "why; it is written down"}),
    "comment": ("--reason", {"default": "", "help": "why; it is written down"}),
    "by": ("--by", {"action": "append", "choices": GROUPS, "help": "again for each; all if none"}),
    "format": ("--format", {"choices": FORMATS, "default": "table", "help": "csv is safe to open in a spreadsheet"}),
    "after": ("--after", {"type": int, "default": 0, "help": "show entries after this sequence"}),
    "count": ("--limit", {"type": int, "default": 100, "help": "how many entries"}),
    "all": ("--all", {"action": "store_true", "help": "every entry, as a line of JSON each"}),
    "key": ("--key", {"help": "the same for each time that this is asked, where an answer was lost"}),
    "yes": ("--yes", {"action": "store_true", "help": "do not ask whether it is meant"}),
}
EVERYWHERE: Mapping[str, Mapping[str, Any]] = {
    "--server": {"help": "its address; or CURATOR_SERVER"},
    "--sign-in": {"action": "store_true", "help": "sign in at the curator's identity provider; else CURATOR_TOKEN"},
    "--provider": {"help": "name of the provider at which to sign in, where there are several"},
    "--json": {"action": "store_true", "help": "print JSON"},
}
LIMIT = ("epsilon", "delta", "mu", "rho")
_OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
"""Characters that a terminal obeys, or that UTF-8 cannot encode; rows of CSV end in CR and LF."""


@dataclass(frozen=True)
class Written:
    """Pieces of text that are printed as they are, one after another."""

    pieces: Iterable[str]


@dataclass(frozen=True)
class Act:
    """A command: its function, its options, and the consequence that is confirmed before an irreversible act."""

    text: str
    do: Callable[[CuratorAdmin, argparse.Namespace], Any]
    options: tuple[str, ...] = ()
    consequence: str = ""
    preview: Callable[[CuratorAdmin, argparse.Namespace], Any] | None = None
    """Shows what would be done, before somebody is asked whether it is meant."""


def _limit(given: argparse.Namespace) -> dict[str, float]:
    return {name: value for name in LIMIT if (value := getattr(given, name)) is not None}


def _ask(admin: CuratorAdmin, given: argparse.Namespace) -> Any:
    terms = json.loads(given.file.read_text(encoding="utf-8"))
    return admin.ask_permit(terms, given.permit, idempotency_key=given.key)


def _spend(admin: CuratorAdmin, given: argparse.Namespace) -> Any:
    groups = list(dict.fromkeys(given.by or GROUPS))
    found = admin.spending(groups, given.population)
    if given.json or given.format == "json":
        return to_json(found)
    if given.format == "table":
        return found
    return Written([write_csv(found, groups) if given.format == "csv" else write_jsonl(found)])


def _lines(entries: Iterable[Any]) -> Written:
    return Written(write_jsonl([entry]) for entry in entries)


def _save(admin: CuratorAdmin, given: argparse.Namespace) -> Any:
    path = given.out or Path(f"{given.subject}.zip")
    admin.evidence(given.subject, path, with_answers=given.with_answers)
    return {"evidence": given.subject, "file": str(path)}


ACTS: Mapping[str, Act] = {
    "whoami": Act("who you are for the curator, as what, and until when", lambda admin, _: admin.whoami()),
    "populations list": Act("every population with its account", lambda admin, _: admin.populations()),
    "populations propose": Act(
        "propose to give people a budget",
        lambda admin, given: admin.propose_population(
            given.population,
            adjacency=given.adjacency,
            accountant=given.accountant,
            limit=_limit(given),
            reason=given.reason,
            idempotency_key=given.key,
        ),
        ("population", "adjacency", "accountant", *LIMIT, "reason", "key"),
    ),
    "limits set": Act(
        "lower a limit at once, or propose to raise it, or to replace it",
        lambda admin, given: admin.set_limit(
            given.population, _limit(given), given.reason, replaces=given.replaces, idempotency_key=given.key
        ),
        ("population", *LIMIT, "replaces", "reason", "key", "yes"),
        "A limit that is lowered takes two people to be raised again",
    ),
    "datasets list": Act("every dataset that you may see", lambda admin, _: admin.datasets()),
    "datasets show": Act(
        "the public declaration of a dataset", lambda admin, given: admin.dataset(given.dataset), ("dataset",)
    ),
    "proposals list": Act(
        "what was proposed and decided", lambda admin, given: admin.proposals(own=given.own), ("own",)
    ),
    "proposals show": Act(
        "one proposal, with what holds now beside what is asked",
        lambda admin, given: admin.proposal(given.proposal, own=given.own),
        ("proposal", "own"),
    ),
    "proposals approve": Act(
        "approve what somebody else proposed",
        lambda admin, given: admin.approve(given.proposal, given.reason),
        ("proposal", "comment", "yes"),
        "What is approved holds at once, and the ledger names you",
        lambda admin, given: admin.proposal(given.proposal),
    ),
    "proposals reject": Act(
        "reject a proposal",
        lambda admin, given: admin.reject(given.proposal, given.reason),
        ("proposal", "reason"),
    ),
    "proposals withdraw": Act(
        "take a proposal of one's own back",
        lambda admin, given: admin.withdraw(given.proposal, given.reason),
        ("proposal", "comment"),
    ),
    "permits list": Act("permits, the newest first", lambda admin, _: admin.permits()),
    "permits show": Act("one permit", lambda admin, given: admin.permit(given.permit), ("permit",)),
    "permits grant": Act(
        "ask that an analyst may use a dataset, without a project, a limit or an end",
        lambda admin, given: admin.grant(given.analyst, given.dataset, given.reason, idempotency_key=given.key),
        ("analyst", "dataset", "reason", "key"),
    ),
    "permits revoke": Act(
        "take back what an analyst may use without a project",
        lambda admin, given: admin.revoke_grant(given.analyst, given.dataset, given.reason),
        ("analyst", "dataset", "reason", "yes"),
        "To give it again takes two people",
    ),
    "permits ask": Act("ask for a permit, or for other terms of one", _ask, ("file", "changed", "key")),
    "permits end": Act(
        "end a permit before its time",
        lambda admin, given: admin.end_permit(given.permit, given.reason),
        ("permit", "reason", "yes"),
        "A permit that was ended is not revived",
    ),
    "principals list": Act("who may act, and as what", lambda admin, _: admin.principals()),
    "tokens list": Act("tokens, without what their holders send", lambda admin, _: admin.tokens()),
    "tokens create": Act(
        "make a token for an analyst or an auditor",
        lambda admin, given: admin.create_token(
            given.name, given.role, read_only=given.read_only, days=given.days, idempotency_key=given.key
        ),
        ("name", "role", "read_only", "days", "key"),
    ),
    "tokens rotate": Act(
        "make a token in the place of your own",
        lambda admin, given: admin.rotate_token(grace_s=given.grace),
        ("grace", "yes"),
        "The token that you use now ends after its grace",
    ),
    "tokens revoke": Act(
        "revoke a token from the next request on, and what was rotated of it",
        lambda admin, given: admin.revoke_token(given.token),
        ("token", "yes"),
        "A token that was revoked does not come back",
    ),
    "jobs list": Act("jobs that wait or run", lambda admin, _: admin.jobs()),
    "jobs cancel": Act(
        "give a job up before it is charged",
        lambda admin, given: admin.cancel_job(given.job),
        ("job", "yes"),
        "The job's work is lost, and whoever asked has to ask again",
    ),
    "reservations list": Act("reservations that are open", lambda admin, _: admin.reservations()),
    "reservations release": Act(
        "give back what is left of a reservation",
        lambda admin, given: admin.release_reservation(given.reservation),
        ("reservation", "yes"),
        "What it held can be spent by others at once",
    ),
    "spending": Act("who spent what", _spend, ("by", "one", "format")),
    "evidence": Act("save what a release or a permit is checked by", _save, ("subject", "answers", "out")),
    "ledger show": Act(
        "entries of a population",
        lambda admin, given: (
            _lines(admin.iterate_ledger(given.population, after=given.after))
            if given.all
            else admin.ledger(given.population, after=given.after, limit=given.limit)
        ),
        ("population", "after", "count", "all"),
    ),
    "ledger register": Act(
        "the curator's own acts",
        lambda admin, given: (
            _lines(admin.iterate_register(after=given.after))
            if given.all
            else admin.register(after=given.after, limit=given.limit)
        ),
        ("after", "count", "all"),
    ),
    "ledger checkpoint": Act(
        "the signed checkpoint of a population's last entry",
        lambda admin, given: admin.checkpoint(given.population),
        ("population",),
    ),
    "ledger status": Act("whether the curator is sealed, and what lifts it", lambda admin, _: admin.seal()),
    "keys list": Act("the keys that sign, the oldest first", lambda admin, _: admin.keys()),
}


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
    for words, act in ACTS.items():
        group, _, name = words.partition(" ")
        if name and group not in nested:
            own = groups.add_parser(group, help=f"see `curator-admin {group} --help`")
            nested[group] = own.add_subparsers(required=True, metavar="ACT")
        place = nested[group] if name else groups
        command = place.add_parser(name or group, help=act.text, description=act.text, allow_abbrev=False)
        command.set_defaults(act=act)
        for flag, how in EVERYWHERE.items():  # where it is not said before the command, it may be said after it
            command.add_argument(flag, **{**how, "default": argparse.SUPPRESS})
        for option in act.options:
            flag, how = OPTIONS[option]
            command.add_argument(flag, **how)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `curator-admin`; return 0 when done, 1 when refused, 2 for a wrong argument, 3 when nobody answered."""
    let_print(sys.stderr, "backslashreplace")
    parser = make_parser()
    options = parser.parse_args(arguments)
    if not options.server:
        parser.error("say which curator: --server, or CURATOR_SERVER")
    act: Act = options.act
    must_ask = bool(act.consequence) and not options.yes
    if must_ask and not sys.stdin.isatty():
        sys.stderr.write("nothing was done: say --yes where nobody can be asked\n")
        return REFUSED
    try:
        with _enter(options) as admin:
            if must_ask and not _is_meant(act, admin, options):
                sys.stderr.write("nothing was done\n")
                return REFUSED
            found = act.do(admin, options)
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


def _is_meant(act: Act, admin: CuratorAdmin, options: argparse.Namespace) -> bool:
    if act.preview is not None:
        sys.stderr.write(_visible(f"{act.preview(admin, options)}\n"))
    sys.stderr.write(f"{act.consequence}. Is that meant? [y/N] ")
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
