"""Answers of every route and command, recorded in files: a change of the code alone leaves them equal.

PYTHONPATH=tests:tests/golden:tests/contract:tests/api:tests/unit/cli python tests/golden/net.py    writes them anew

`answers.json` has the answers of a life on every route, `refusals.json` the refusals by caller and object, and
`commands.json` the output of commands with ``--json``. Random ids, digests, signatures and secrets are left out. Wanted
differences stand in `differences.md`.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

import click
from httpx import Response
from recorded_answers import record_life
from scenario import _fill, nothing_random
from support import PERSONS, csv_text, make_rows, manifest_text
from test_authorization import CALLERS, ROUTES, STRANGERS, Place, Route, ask_about_all, open_place
from typer.main import get_command
from typer.testing import CliRunner

from analyst_client.admin.command import make_parser
from curator_service.cli.main import app

FOLDER = Path(__file__).parent
_CHANCE = (
    (re.compile(r"cur_[0-9a-f]{16}_[\w-]{43}"), "cur_…"),
    (re.compile(r"\b[0-9a-f]{64}\b|(?<=_)[0-9a-f]{16,32}\b|\b0000[0-9a-f]{12,}\b"), "#"),
    (re.compile(r"(?<![\w/+-])(?=[\w/+-]*[0-9])(?=[\w/+-]*[a-z])(?=[\w/+-]*[A-Z])[\w/+-]{40,}={0,2}"), "~"),
)
_TIME, _DAY = re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), re.compile(r"\b\d{4}-\d\d-\d\d\b")


def without_chance(text: str) -> str:
    """Return a text with signs in the places of what is random."""
    for pattern, sign in _CHANCE:
        text = pattern.sub(sign, text)
    return text


def record_answers(folder: Path) -> list[list[Any]]:
    """Return method, path, status, media type and body of each answer of a life; of polls the last."""
    found: list[list[Any]] = []
    with nothing_random():
        answers = record_life(folder)
    for answer in answers:
        told = [answer.method, *map(without_chance, (answer.path, str(answer.status), answer.media_type, answer.body))]
        if found and found[-1][:3] == told[:3] and answer.path.startswith("/v1/jobs/"):
            found.pop()
        found.append(told)
    return found


def record_refusals(folder: Path) -> dict[str, dict[str, str]]:
    """Return, by route, the status and the problem that each caller gets for each object."""
    with nothing_random(), open_place(folder) as place:
        return {f"{method} {path}": _refusals(place, method, path, route) for (method, path), route in ROUTES.items()}


def _refusals(place: Place, method: str, path: str, route: Route) -> dict[str, str]:
    told: dict[str, dict[str, list[str]]] = {}
    for called in (*CALLERS, *STRANGERS):
        names, answers = ask_about_all(place, called, method, path, route)
        for relation, answer in answers.items():
            name = names[relation]
            told.setdefault(_refusal(answer, name), {}).setdefault(called, []).append(relation)
    place.reject_proposals()
    return {what: "; ".join(f"{who}: {', '.join(of)}" for who, of in found.items()) for what, found in told.items()}


def _refusal(answer: Response, name: str) -> str:
    """Return a status, and a problem without what is of this request alone."""
    if answer.status_code < 400:
        return str(answer.status_code)
    problem = answer.json()
    problem.pop("instance", None)
    text = json.dumps(problem, ensure_ascii=False)
    text = _DAY.sub("DAY", _TIME.sub("TIME", text.replace(name, "NAME") if name else text))
    return without_chance(text)


_TERMS = {
    "project": "kidney", "people": ["ada"], "datasets": ["cohort"], "purpose": "kidneys", "legal_basis": "consent",
    "expires_at": "2099-01-01T00:00:00Z", "reason": "a study",
}  # fmt: skip
_COMMANDS = """
db upgrade
populations create village --adjacency add_remove --epsilon 1 --delta 1e-6
populations create rural --adjacency replace_one --rho 0.5 --accountant zcdp
populations create dale --adjacency add_remove --epsilon 2 --accountant pure
populations create village --adjacency add_remove --mu 1
populations list
manifest check cohort.toml cohort.csv
manifest check visits.toml visits.csv
datasets add cohort.toml cohort.csv
datasets add visits.toml visits.csv
datasets add twins.toml cohort.csv
datasets list
datasets show cohort
datasets show nothing
datasets report visits
datasets hygiene cohort --quasi sex --quasi ward
datasets append visits visits.csv
datasets append visits more.csv
datasets replace cohort cohort.csv
datasets replace cohort cohort.csv --yes
datasets changes
datasets withdraw 9
tokens create ada --role analyst
tokens create olga --role privacy_officer
tokens create otto --role privacy_officer --read-only
tokens create oskar --role privacy_officer
tokens create opal --role operator --days 30
tokens list
tokens rotate {tokens create ada --role analyst}
tokens revoke {tokens create otto --role privacy_officer --read-only}
tokens revoke 0000
principals list
principals appoint opal --role operator --role auditor
principals name opal --display-name Opal --email opal@hospital.example
principals name ada --display-name Аda
principals list
principals forget opal
permits grant ada cohort
permits grant ada cohort
permits list
permits show {permits grant ada cohort}
olga: permits ask terms.json
oskar: proposals list
oskar: proposals show {olga: permits ask terms.json}
olga: proposals approve {olga: permits ask terms.json}
oskar: proposals approve {olga: permits ask terms.json} --reason agreed
olga: permits ask terms.json
oskar: limits set village --epsilon 2 --delta 1e-6 --reason more
oskar: proposals withdraw {oskar: limits set village --epsilon 2 --delta 1e-6 --reason more} --reason no
oskar: limits set village --epsilon 3 --delta 1e-6 --reason most
olga: proposals reject {oskar: limits set village --epsilon 3 --delta 1e-6 --reason most} --reason no
olga: limits set village --epsilon 0.5 --delta 1e-6 --reason less
permits revoke ada cohort
permits end {permits grant ada cohort} --reason over
catalogue export cohort --format dcat
catalogue export cohort --format croissant
catalogue record
spending
spending --by analyst --by month
ledger show village
ledger show nowhere
ledger register --limit 1000
ledger status
ledger verify
ledger verify village
keys list
keys rotate
keys list
datasets retire visits --yes
datasets cut
evidence {permits grant ada cohort} --out evidence
backup b.tar
restore b.tar
restore --reconcile --anchor data-anchor
"""
"""A life at the machine; in braces the id that a command before printed."""
_LOGGED = re.compile(r"^rows for .*\n")
_LINE = re.compile(r"(?:(\w+): )?(.*)")


def record_commands(folder: Path) -> dict[str, list[Any]]:
    """Return the exit code, the JSON and the errors of each command of a life at the machine."""
    visits = [{"who": f"p{i // 4}", **row} for i, row in enumerate(make_rows(240, seed=33))]
    for name, rows in {"cohort": make_rows(), "visits": visits[:200], "more": visits[200:]}.items():
        (folder / f"{name}.csv").write_text(csv_text(rows), encoding="utf-8")
    for name, population in {"cohort": "village", "twins": "rural"}.items():
        (folder / f"{name}.toml").write_text(manifest_text(name, population), encoding="utf-8")
    subject = 'subject = "who"\nrows_per_subject = 3'
    (folder / "visits.toml").write_text(manifest_text("visits", "rural").replace(PERSONS, subject), encoding="utf-8")
    (folder / "terms.json").write_text(json.dumps(_TERMS), encoding="utf-8")
    told: dict[str, list[Any]] = {}
    tokens: dict[str, str] = {}
    ids: dict[str, str] = {}
    with nothing_random(), chdir(folder):
        for line in _COMMANDS.strip().splitlines():
            who, words = _LINE.fullmatch(line).groups()
            given = _fill(words, ids).split() + ([] if words.startswith("catalogue export") else ["--json"])
            result = CliRunner().invoke(app, given, env=_environment(folder, tokens.get(who or "")))
            with suppress(ValueError):
                _remember(line, json.loads(result.stdout), tokens, ids)
            name = line if line not in told else f"{line}, again"
            told[name] = [
                result.exit_code,
                *(_plain(text, folder) for text in (result.stdout, _LOGGED.sub("", result.stderr))),
            ]
    return told


def record_options(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return the options and the help of each command, on the host and from afar."""
    return {"curator": dict(_walk(get_command(app), "")), "curator-admin": dict(_walk_parser(make_parser(), ""))}


def _walk(command: Any, words: str) -> Iterator[tuple[str, list[str]]]:
    context = click.Context(command)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _walk(command.resolve_command(context, [name])[1], f"{words} {name}".strip())
    if not hasattr(command, "list_commands"):
        with context:
            yield words, [command.help or "", *(_option(parameter) for parameter in command.params)]


def _option(parameter: Any) -> str:
    needed = " (needed)" if parameter.required else f" (else {parameter.default})"
    return f"{' '.join(parameter.opts)}{needed}: {getattr(parameter, 'help', '') or ''}"


def _walk_parser(parser: argparse.ArgumentParser, words: str) -> Iterator[tuple[str, list[str]]]:
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for name, inner in nested[0].choices.items() if nested else ():
        yield from _walk_parser(inner, f"{words} {name}".strip())
    if not nested:
        shown = [action for action in parser._actions if action.dest != "help"]
        options = (f"{' '.join(a.option_strings) or a.dest} {a.choices or ''}: {a.help}" for a in shown)
        yield words, [parser.description or "", *options]


def _environment(folder: Path, token: str | None) -> dict[str, str]:
    own = {} if token is None else {"CURATOR_TOKEN": token}
    return {"COLUMNS": "200", "CURATOR_DATA_DIR": str(folder / "data"), **own}


def _remember(line: str, printed: Any, tokens: dict[str, str], ids: dict[str, str]) -> None:
    (found,) = printed if isinstance(printed, list) and len(printed) == 1 else (printed,)
    if isinstance(found, dict):
        ids.setdefault(line, str(found.get("id") or found.get("permit") or ""))
        if "token" in found:
            tokens[found.get("name") or line.split()[2]] = found["token"]


def _plain(text: str, folder: Path) -> Any:
    """Return printed text without details of this machine and this day; parse it if it is JSON."""
    text = without_chance(_TIME.sub("TIME", text.replace(str(folder), "FOLDER")))
    with suppress(ValueError):
        return json.loads(text)
    return " ".join(text.split())


RECORDS: dict[str, Callable[[Path], Any]] = {
    "answers": record_answers,
    "refusals": record_refusals,
    "commands": record_commands,
    "options": record_options,
}


def stored(name: str) -> Any:
    """Return what a file holds."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    for name in sys.argv[1:] or RECORDS:
        with tempfile.TemporaryDirectory() as scratch:
            found = json.dumps(RECORDS[name](Path(scratch)), indent=0, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(found + "\n", encoding="utf-8")
