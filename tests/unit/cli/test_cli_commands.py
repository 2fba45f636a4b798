"""Every command: its JSON parses, and what goes wrong ends with a code and a line, never with a traceback."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import make_url
from support import PERSONS, ROWS, World, body, csv_text, manifest_text, open_world
from typer.testing import CliRunner

from curator_service.cli.main import app
from curator_service.kit.db import name_database

POPULATION = ["populations", "create", "village", "--adjacency", "add_remove"]
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


class Cli:
    """The command line on one data folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    def run(self, *arguments: str) -> Result:
        """Run a command; nothing but a clean exit may come out of it."""
        result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", **self.environment})
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        assert "Traceback" not in result.output + result.stderr
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run a command with ``--json`` and read its output."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def error(self, *arguments: str, code: int = 1) -> str:
        """Run a command that must fail; return what it says on the error stream."""
        result = self.run(*arguments)
        assert result.exit_code == code, result.output
        assert result.stderr.strip()
        return " ".join(result.stderr.split())


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Return the command line on an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path, {"CURATOR_DATA_DIR": str(tmp_path / "data")})


@pytest.fixture
def full(tmp_path: Path) -> Iterator[tuple[Cli, World]]:
    """Return the command line on a world with one release."""
    with open_world(tmp_path) as world:
        assert world.api().post("/v1/datasets/cohort/releases", json=body(), key="k").status_code == 201
        yield Cli(tmp_path, {"CURATOR_DATA_DIR": str(world.settings.data_dir)}), world


def write_dataset(folder: Path, name: str = "cohort", population: str = "village") -> tuple[str, str]:
    manifest, data = folder / "manifest.toml", folder / "rows.csv"
    manifest.write_text(manifest_text(name, population), encoding="utf-8")
    data.write_text(csv_text(ROWS), encoding="utf-8")
    return str(manifest), str(data)


def test_every_command_refuses_the_schema_of_a_newer_version(full: tuple[Cli, World]) -> None:
    cli, world = full
    world.sql("UPDATE alembic_version SET version_num = '9999'")
    for words in (["db", "upgrade"], ["populations", "list"], ["ledger", "verify", "town"]):
        assert "that of another version" in cli.error(*words)


def test_the_whole_way_in_json(cli: Cli) -> None:
    assert cli.json("db", "upgrade")["revision"]
    created = cli.json(*POPULATION, *BUDGET)
    assert created["population"] == "village"
    assert created["limit"]["epsilon"] == pytest.approx(1.0)
    assert cli.json("populations", "list") == [created]
    dataset = cli.json("datasets", "add", *write_dataset(cli.folder))
    assert dataset["name"] == "cohort"
    assert dataset["rows"] is None
    listed = cli.json("datasets", "list")
    assert [d["name"] for d in listed] == ["cohort"]
    assert cli.json("datasets", "show", "cohort") == listed[0]
    token = cli.json("tokens", "create", "ada", "--role", "analyst")
    assert token["token"].startswith(f"cur_{token['id']}_")
    assert [t["name"] for t in cli.json("tokens", "list")] == ["ada"]
    granted = cli.json("permits", "grant", "ada", "cohort")
    shown = cli.json("permits", "show", granted["id"])
    assert shown == granted
    assert cli.json("permits", "list") == [shown]
    assert (shown["people"], shown["datasets"], shown["ended_at"]) == (["ada"], ["cohort"], None)
    assert cli.json("permits", "revoke", "ada", "cohort")["id"] == granted["id"]
    assert cli.json("permits", "show", granted["id"])["ended_at"]
    assert cli.json("tokens", "revoke", token["id"])["revoked_at"]
    assert cli.json("tokens", "list")[0]["revoked_at"]
    assert [entry["kind"] for entry in cli.json("ledger", "show", "village")["entries"]] == [
        "open", "dataset", "permit", "permit",
    ]  # fmt: skip
    verified = cli.json("ledger", "verify")
    found = [(v["population"], v["ok"], v["entries"]) for v in verified]
    assert found == [("village", True, 4), ("_register", True, 4)]


def test_a_proposal_is_shown_beside_what_holds_and_taken_back(full: tuple[Cli, World]) -> None:
    cli, world = full
    permit = world.permit(limit={"mu": 0.1})
    terms = {"project": "kidney", "people": ["ada", "ben"], "datasets": ["cohort"], "purpose": "kidneys"}
    terms |= {"legal_basis": "consent", "expires_at": "2099-01-01T00:00:00Z", "reason": "a colleague"}
    (cli.folder / "terms.json").write_text(json.dumps(terms), encoding="utf-8")
    desks = []
    for who, role in (("ada", "analyst"), ("ben", "analyst"), ("olga", "privacy_officer")):
        token = cli.json("tokens", "create", who, "--role", role)["token"]
        desks.append(Cli(cli.folder, cli.environment | {"CURATOR_TOKEN": token}))
    ada, ben, olga = desks
    asked = ada.json("permits", "change", permit, str(cli.folder / "terms.json"))["id"]
    shown = cli.json("proposals", "show", asked)
    assert (shown["proposer"], shown["decider"]) == ("ada", None)
    assert (shown["before"]["people"], shown["terms"]["people"]) == (["ada"], ["ada", "ben"])
    row = next(line for line in cli.run("proposals", "show", asked).stdout.splitlines() if "people" in line)
    assert re.search(r"ada +│ +ada, ben", row)
    assert "no proposal" in ben.error("proposals", "withdraw", asked)
    assert ada.json("proposals", "withdraw", asked, "--reason", "not yet")["state"] == "withdrawn"
    assert [act["kind"] for act in cli.json("ledger", "register", "--limit", "1000")][-2:] == [
        "proposed", "proposal-withdrawn",
    ]  # fmt: skip
    raised = olga.json("limits", "set", "town", "--mu", "2", "--reason", "more")["id"]
    assert set(cli.json("proposals", "show", raised)["amounts"]) == {"from", "to", "spent_and_held"}
    assert "spent and held" in cli.run("proposals", "show", raised).stdout
    assert "no proposal" in cli.error("proposals", "show", f"prp_{'0' * 24}")


def test_what_may_still_be_used_is_said_where_something_ends(full: tuple[Cli, World]) -> None:
    cli, world = full
    permit = world.permit()
    revoked = cli.json("permits", "revoke", "ada", "cohort")
    assert [use["permit"] for use in revoked["still_usable"]] == [permit]
    cli.run("permits", "grant", "ada", "cohort")
    said = " ".join(cli.run("permits", "end", permit, "--reason", "over").stdout.split())
    assert "ada may still use cohort by prm_" in said
    assert "may still" not in cli.run("permits", "revoke", "ada", "cohort").stdout
    assert "ended at" in cli.error("permits", "end", permit, "--reason", "over again")


def test_a_limit_that_was_lowered_is_shown_with_the_highest_there_ever_was(full: tuple[Cli, World]) -> None:
    cli, world = full
    assert "highest" not in cli.run("populations", "list").output
    world.sql("UPDATE populations SET limit_units = 40000000000 WHERE name = 'town'")
    (town,) = (p for p in cli.json("populations", "list") if p["population"] == "town")
    assert (town["limit"]["units"], town["highest_limit"]["units"]) == ("40000000000", "56028963825")
    for shown in (cli.run("populations", "list"), cli.run("ledger", "show", "town")):
        assert "the highest limit there ever was: town 0.056029 µ², ε 1" in " ".join(shown.output.split())


def test_tables_for_people(full: tuple[Cli, World]) -> None:
    cli, world = full
    for arguments in (
        ["populations", "list"],
        ["datasets", "list"],
        ["datasets", "show", "cohort"],
        ["tokens", "list"],
        ["permits", "list"],
        ["proposals", "list"],
        ["ledger", "show", "town"],
        ["ledger", "verify"],
        ["db", "upgrade"],
    ):
        result = cli.run(*arguments)
        assert result.exit_code == 0
        assert result.stdout.strip()
        assert world.tokens["ada"].split("_", 2)[2] not in result.output


def test_no_command_shows_a_row_count(full: tuple[Cli, World]) -> None:
    cli, _ = full
    for arguments in (["datasets", "list"], ["datasets", "show", "cohort"], ["ledger", "show", "town"]):
        assert "row_count" not in cli.run(*arguments, "--json").stdout
        assert '"rows": 80' not in cli.run(*arguments, "--json").stdout


def test_no_command_shows_a_digest_of_rows(full: tuple[Cli, World], tmp_path: Path) -> None:
    """Whoever reads a terminal's or a timer's log could test guesses of a row."""
    cli, world = full
    digests = set()
    for dataset in world.curator.datasets.list_all():
        about = world.curator.datasets.storage.about(dataset.id)
        digests |= {about.lattice_digest, about.nonce}
        for path in world.curator.datasets.storage.files(dataset.id):
            digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    written = cli.run("backup", str(tmp_path / "b.tar"), "--json")
    again = Cli(tmp_path, {"CURATOR_DATA_DIR": str(tmp_path / "again")})
    shown = [written, again.run("restore", str(tmp_path / "b.tar"), "--json")]
    shown += [
        cli.run(*command, "--json")
        for command in (["datasets", "list"], ["ledger", "verify"], ["ledger", "show", "town"])
    ]
    assert all(result.exit_code == 0 for result in shown)
    assert not [digest for digest in digests for result in shown if digest in result.output + result.stderr]


def test_rows_like_another_population_s_take_two_admins(full: tuple[Cli, World]) -> None:
    cli, _ = full
    files = write_dataset(cli.folder, "twins", "valley")
    one, other, analyst = (
        Cli(
            cli.folder,
            {**cli.environment, "CURATOR_TOKEN": cli.run("tokens", "create", name, "--role", role).stdout.strip()},
        )
        for name, role in (("one", "privacy_officer"), ("other", "privacy_officer"), ("dora", "analyst"))
    )
    assert "--other-people" in cli.error("datasets", "add", *files)
    assert "an admin's token" in cli.error("datasets", "add", *files, "--other-people", "twins")
    assert "an admin's token" in one.error("datasets", "add", *files, "--other-people", "")
    assert "role" in analyst.error("datasets", "add", *files, "--other-people", "twins")
    (proposal,) = re.findall(r"prp_[0-9a-f]{24}", one.error("datasets", "add", *files, "--other-people", "twins"))
    assert "another privacy officer" in one.error("proposals", "approve", proposal)
    assert "rows of other people" in cli.run("proposals", "list").stdout
    assert [p["state"] for p in cli.json("proposals", "list")] == ["open"]
    assert other.json("proposals", "approve", proposal)["state"] == "approved"
    assert cli.json("datasets", "add", *files)["name"] == "twins"
    assert [e["kind"] for e in cli.json("ledger", "show", "valley")["entries"]] == [
        "open", "dataset", "refusal", "refusal", "confirmation", "dataset",
    ]  # fmt: skip
    assert all(verdict["ok"] for verdict in cli.json("ledger", "verify"))


def test_lost_rows_are_told_by_every_command_that_looks(full: tuple[Cli, World]) -> None:
    cli, world = full
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    shutil.rmtree(world.settings.data_dir / "datasets" / dataset.id)
    verdicts = cli.json("ledger", "verify", code=1)
    assert [v["reason"] for v in verdicts if not v["ok"]] == [
        "the chain and what is stored disagree on the rows of dataset cohort"
    ]


def test_a_token_is_shown_once_and_alone_on_the_output(cli: Cli) -> None:
    result = cli.run("tokens", "create", "ada", "--role", "analyst")
    assert result.stdout.strip().startswith("cur_")
    assert len(result.stdout.split()) == 1


def test_verification_of_a_broken_chain_ends_with_1(full: tuple[Cli, World]) -> None:
    cli, world = full
    world.sql("UPDATE populations SET posted_units = 0 WHERE name = 'town'")
    by_name = {v["population"]: v for v in cli.json("ledger", "verify", code=1)}
    assert (by_name["town"]["ok"], by_name["valley"]["ok"]) == (False, True)
    assert "posted" in by_name["town"]["reason"]
    assert cli.run("ledger", "verify", "town").exit_code == 1


ERRORS: dict[str, tuple[list[str], str, int]] = {
    "population twice": (["populations", "create", "town", "--adjacency", "add_remove", *BUDGET], "exists", 1),
    "no budget": (POPULATION, "state the price as epsilon with delta, or as mu, or as rho", 1),
    "two budgets": ([*POPULATION, *BUDGET, "--mu", "1"], "state the price as epsilon with delta, or", 1),
    "epsilon without delta": ([*POPULATION, "--epsilon", "1"], "state the budget once", 1),
    "budget 0": ([*POPULATION, "--mu", "0"], "--mu: Input should be greater than 0", 1),
    "budget negative": ([*POPULATION, "--rho", "-1"], "--rho: Input should be greater than 0", 1),
    "budget NaN": ([*POPULATION, "--mu", "nan"], "--mu: Input should be a finite", 1),
    "budget infinite": ([*POPULATION, "--mu", "inf"], "--mu: Input should be a finite", 1),
    "budget too small": ([*POPULATION, "--mu", "1e-9"], "budget", 1),
    "budget too large": ([*POPULATION, "--mu", "1e9"], "--mu: Input should be less than", 1),
    "delta 0": ([*POPULATION, "--epsilon", "1", "--delta", "0"], "delta", 1),
    "delta 1": ([*POPULATION, "--epsilon", "1", "--delta", "1"], "delta", 1),
    "delta NaN": ([*POPULATION, "--epsilon", "1", "--delta", "nan"], "delta", 1),
    "epsilon beyond": ([*POPULATION, "--epsilon", "1001", "--delta", "1e-6"], "epsilon", 1),
    "accountant": ([*POPULATION, *BUDGET, "--accountant", "renyi"], "gdp, zcdp, pure", 1),
    "pure with delta": ([*POPULATION, *BUDGET, "--accountant", "pure"], "alone under pure", 1),
    "pure in mu": ([*POPULATION, "--mu", "1", "--accountant", "pure"], "state epsilon alone", 1),
    "zcdp in mu": ([*POPULATION, "--mu", "1", "--accountant", "zcdp"], "state rho", 1),
    "population without a name": (["populations", "create", "", "--adjacency", "add_remove", *BUDGET], "name", 1),
    "population that no manifest can name": (
        ["populations", "create", "my town", "--adjacency", "add_remove", *BUDGET], "name", 1,
    ),
    "population of 64 letters": (
        ["populations", "create", "a" * 64, "--adjacency", "add_remove", *BUDGET], "name", 1,
    ),
    "adjacency": (["populations", "create", "v", "--adjacency", "both", *BUDGET], "adjacency", 2),
    "adjacency missing": (["populations", "create", "v", *BUDGET], "adjacency", 2),
    "unknown dataset": (["datasets", "show", "nothing"], "no dataset 'nothing'", 1),
    "missing file": (["datasets", "add", "nothing.toml", "nothing.csv"], "does not exist", 2),
    "unknown role": (["tokens", "create", "x", "--role", "king"], "role", 2),
    "another role": (["tokens", "create", "ada", "--role", "auditor"], "a token changes none", 1),
    "days 0": (["tokens", "create", "ada", "--role", "analyst", "--days", "0"], "--days", 2),
    "days beyond": (["tokens", "create", "ada", "--role", "analyst", "--days", "99999999999"], "--days", 2),
    "token without a name": (["tokens", "create", "", "--role", "analyst"], "name", 1),
    "token of a name of 64 letters": (["tokens", "create", "a" * 64, "--role", "analyst"], "name", 1),
    "unknown token": (["tokens", "revoke", "0000"], "no token '0000'", 1),
    "grant to nobody": (["permits", "grant", "nobody", "cohort"], "no analyst 'nobody'", 1),
    "grant to an admin": (["permits", "grant", "root", "cohort"], "no analyst 'root'", 1),
    "grant of nothing": (["permits", "grant", "ada", "nothing"], "no dataset 'nothing'", 1),
    "grant twice": (["permits", "grant", "ada", "cohort"], "already", 1),
    "no such grant": (["permits", "revoke", "ada", "hidden"], "may not use it", 1),
    "markup in a name": (["datasets", "show", "[/red]"], "[/red]", 1),
    "markup in an analyst": (["permits", "grant", "[bold]x[/bold]", "cohort"], "[bold]x[/bold]", 1),
    "ledger of nobody": (["ledger", "show", "nowhere"], "no population", 1),
    "verify nobody": (["ledger", "verify", "nowhere"], "no population", 1),
    "unknown command": (["ledger", "rewrite"], "No such command", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ERRORS))
def test_an_error_is_one_clear_line(full: tuple[Cli, World], name: str) -> None:
    cli, world = full
    arguments, words, code = ERRORS[name]
    before = world.curator.ledger.list_populations(), world.curator.identity.list_principals()
    assert words in cli.error(*arguments, code=code)
    assert (world.curator.ledger.list_populations(), world.curator.identity.list_principals()) == before


def test_square_brackets_in_descriptions_units_and_names_are_shown(full: tuple[Cli, World]) -> None:
    """They are data, not markup: a unit such as [IU] must neither vanish nor end the command."""
    cli, _ = full
    manifest, data = cli.folder / "units.toml", cli.folder / "units.csv"
    manifest.write_text(
        'name = "units"\npopulation = "town"\nrow_capacity = 9\nrows_are_persons = true\n'
        '[[columns]]\nname = "dose"\ntype = "numeric"\n'
        'unit = "[arb]"\ndescription = "ends [/here]"\nlower = 0\nupper = 1\n'
    )
    data.write_text("dose\n0.5\n")
    assert cli.run("datasets", "add", str(manifest), str(data)).exit_code == 0
    shown = cli.run("datasets", "show", "units").stdout
    assert "[arb]" in shown
    assert "[/here]" in shown


def test_a_bad_file_is_named_by_place(cli: Cli) -> None:
    cli.json(*POPULATION, *BUDGET)
    manifest, data = write_dataset(cli.folder)
    Path(data).write_text(csv_text([{**ROWS[0], "age": "4711x"}]))
    said = cli.error("datasets", "add", manifest, data)
    assert "line 2, column 'age'" in said
    assert "4711" not in said


def test_a_bad_setting_is_named(cli: Cli) -> None:
    cli.environment["CURATOR_PORT"] = "99999"
    assert "port" in cli.error("populations", "list", code=2)
    cli.environment = {"CURATOR_CONFIG": str(cli.folder / "nothing.toml")}
    assert "does not exist" in cli.error("populations", "list")


@pytest.mark.parametrize(
    "url", ["nonsense", "postgresql://127.0.0.1:1/none", "mysql://127.0.0.1/none", "sqlite:////proc/none/x.sqlite3"]
)
def test_a_database_that_does_not_answer_is_one_clear_line(cli: Cli, url: str) -> None:
    cli.environment["CURATOR_DATABASE_URL"] = url
    assert re.search("database|data folder", cli.error("populations", "list"))


def test_an_unknown_setting_in_the_file_is_named(cli: Cli) -> None:
    config = cli.folder / "curator.toml"
    config.write_text("nonsense = 1\n")
    cli.environment["CURATOR_CONFIG"] = str(config)
    assert "nonsense" in cli.error("populations", "list", code=2)


@pytest.mark.postgres
def test_another_database_is_not_upgraded_unasked(cli: Cli, empty_postgres_url: str) -> None:
    cli.environment["CURATOR_DATABASE_URL"] = empty_postgres_url
    assert "curator db upgrade" in cli.error("populations", "list")
    assert cli.json("db", "upgrade")["revision"]
    assert cli.json("populations", "list") == []
    assert "name" in cli.error("tokens", "create", "a" * 64, "--role", "analyst")


def test_help_of_every_command(cli: Cli) -> None:
    for arguments in ([], ["populations"], ["datasets"], ["tokens"], ["permits"], ["ledger"], ["db"], ["serve"]):
        assert "Usage" in cli.run(*arguments, "--help").stdout


BLOCK = """
[catalogue]
identifier = "https://data.example/cohort"
title = "A cohort"
issued = 2026-03-01
keywords = ["frailty"]
provenance = "Leftover serum."
health_categories = ["RQSH"]
access_url = "https://data.example/access"
licence = "https://data.example/terms"
publisher = { name = "Hospital", url = "https://data.example" }
contact = { name = "Office", email = "data@data.example" }
access_body = { name = "Access body", url = "https://hdab.example" }
"""


def test_a_dataset_is_exported_for_a_catalogue_from_the_manifests_block(cli: Cli) -> None:
    cli.run(*POPULATION, *BUDGET)
    manifest, data = write_dataset(cli.folder)
    Path(manifest).write_text('description = "Frail people."\n' + manifest_text("cohort", "village") + BLOCK)
    assert cli.run("datasets", "add", manifest, data).exit_code == 0
    dcat = json.loads(cli.run("catalogue", "export", "cohort", "--format", "dcat").stdout)
    assert dcat["@id"] == "https://data.example/cohort"
    written = cli.folder / "croissant.json"
    assert cli.run("catalogue", "export", "cohort", "--format", "croissant", "--out", str(written)).stdout == ""
    assert json.loads(written.read_text())["url"] == "https://data.example/cohort"
    assert "cannot be written" in cli.error(
        "catalogue", "export", "cohort", "--format", "dcat", "--out", str(cli.folder / "no" / "file")
    )


def test_a_registered_dataset_without_a_block_takes_one_from_a_file(full: tuple[Cli, World]) -> None:
    cli, _ = full
    assert "needs description, identifier" in cli.error("catalogue", "export", "cohort", "--format", "dcat")
    block = cli.folder / "block.toml"
    block.write_text(BLOCK)
    given = ["catalogue", "export", "cohort", "--format", "dcat", "--catalogue", str(block)]
    assert "No such file" in cli.error(*given[:-1], "nowhere.toml")
    assert "needs description;" in cli.error(*given)
    block.write_text(BLOCK + 'description = "Frail people."\n')
    assert json.loads(cli.run(*given).stdout)["dct:description"] == "Frail people."
    cli.error("catalogue", "export", "nobody", "--format", "dcat")
    cli.error("catalogue", "export", "cohort", "--format", "rdf", code=2)


def test_hygiene_is_for_the_operator_alone_and_says_so(full: tuple[Cli, World]) -> None:
    cli, _ = full
    shown = cli.run("datasets", "hygiene", "cohort", "--quasi", "age:5,sex", "--sensitive", "frail")
    assert shown.stdout.startswith("For the operator alone.")
    assert "80 rows, 15 classes" in shown.stdout
    answer = cli.json("datasets", "hygiene", "cohort", "--quasi", "age:5,sex", "--sensitive", "frail")
    assert "none of it may be passed to an analyst" in answer["notice"]
    assert (answer["rows"], answer["classes"], answer["left_out"]) == (80, 15, 0)
    assert answer["quasi"] == [{"name": "age", "bins": 5}, {"name": "sex", "bins": None}]
    assert [diverse["column"] for diverse in answer["diversity"]] == ["frail"]


def test_options_of_hygiene_that_are_given_twice_both_count(full: tuple[Cli, World]) -> None:
    cli, _ = full
    once = cli.json("datasets", "hygiene", "cohort", "--quasi", "age:5,sex", "--sensitive", "frail,smoker")
    apart = ["--quasi", "age:5", "--quasi", "sex", "--sensitive", "frail", "--sensitive", "smoker"]
    assert cli.json("datasets", "hygiene", "cohort", *apart) == once


@pytest.mark.parametrize("quasi", ["", "age:", "age:x", "age:٣", "age:5:5", "zip", "sex:3", "age,age", "age,,sex"])
def test_columns_that_hygiene_cannot_read_are_a_wrong_argument(full: tuple[Cli, World], quasi: str) -> None:
    cli, _ = full
    cli.error("datasets", "hygiene", "cohort", "--quasi", quasi, code=2)


def test_hygiene_of_rows_that_are_gone_is_refused(full: tuple[Cli, World]) -> None:
    cli, world = full
    dataset = next(found for found in world.curator.datasets.list_all() if found.name == "cohort")
    shutil.rmtree(world.settings.data_dir / "datasets" / dataset.id)
    assert "its rows cannot be read" in cli.error("datasets", "hygiene", "cohort", "--quasi", "age")


def test_hygiene_leaves_out_rows_that_never_count(cli: Cli) -> None:
    cli.run(*POPULATION, *BUDGET)
    manifest, data = write_dataset(cli.folder)
    share = 'subject = "patient"\nrows_per_subject = 2'
    Path(manifest).write_text(manifest_text("cohort", "village").replace(PERSONS, share))
    Path(data).write_text(csv_text([{**row, "patient": f"p{i % 30}"} for i, row in enumerate(ROWS)]))
    assert cli.run("datasets", "add", manifest, data).exit_code == 0
    answer = cli.json("datasets", "hygiene", "cohort", "--quasi", "sex")
    assert (answer["rows"], answer["left_out"], answer["rows_per_person"]) == (60, 20, 2)
    assert "20 stored rows beyond a person's share never count" in cli.run(
        "datasets", "hygiene", "cohort", "--quasi", "sex"
    ).stdout.replace("\n", " ")


def test_the_record_of_processing_is_written_as_markdown_and_as_json(full: tuple[Cli, World]) -> None:
    cli, world = full
    content = cli.json("catalogue", "record")
    town = next(found for found in content["populations"] if found["population"] == "town")
    cohort = next(found for found in town["datasets"] if found["dataset"] == "cohort")
    assert [recipient["name"] for recipient in cohort["recipients"]] == ["ada", "ben"]
    assert content["places"]["the folder of the rows"] == str(world.settings.data_dir / "datasets")
    shown = cli.run("catalogue", "record").stdout
    assert "### Dataset cohort" in shown
    assert "**TO COMPLETE** the controller's name" in shown
    assert cli.run("catalogue", "record", "--out", str(cli.folder / "record.md")).stdout == ""
    assert (cli.folder / "record.md").read_text(encoding="utf-8").startswith("# Record of processing activities")


def test_no_export_tells_how_many_rows_there_are_or_who_logs_in(full: tuple[Cli, World]) -> None:
    cli, _ = full
    told = cli.run("catalogue", "record", "--json").stdout.replace(str(cli.folder), "FOLDER")
    assert not re.search(r"\b80\b", told)
    named = name_database(make_url("postgresql://owner:secret@db.example:5432/curator"))
    assert named == "postgresql, curator on db.example"


def test_a_check_needs_no_curator_and_shows_every_fault(cli: Cli) -> None:
    manifest, data = write_dataset(cli.folder)
    lines = Path(data).read_text(encoding="utf-8").splitlines()
    Path(data).write_text("\n".join([*lines, "1,2", "3,4"]), encoding="utf-8")
    shown = cli.run("manifest", "check", manifest, data)
    assert shown.exit_code == 1
    assert "2 fields where the header has 15 (lines 82, 83)" in shown.output
    assert cli.json("manifest", "check", manifest, data, code=1)["faults"][0]["places"] == [82, 83]
    Path(data).write_text("\n".join(lines), encoding="utf-8")
    assert "fine: `curator datasets add` would take these rows" in cli.run("manifest", "check", manifest, data).output
    assert not (cli.folder / "data").exists()


def test_what_registration_found_is_shown_again(cli: Cli) -> None:
    cli.run(*POPULATION, *BUDGET)
    manifest, data = write_dataset(cli.folder)
    checked = cli.json("manifest", "check", manifest, data)
    assert cli.json("datasets", "add", manifest, data)["report"] == {
        name: value for name, value in checked.items() if name != "notice"
    }
    assert cli.json("datasets", "report", "cohort") == {**checked, "dataset": "cohort"}
    assert "For the operator alone" in cli.run("datasets", "report", "cohort").output
    (report,) = (cli.folder / "data").glob("datasets/*/report.json")
    report.unlink()
    assert "there is no report" in cli.error("datasets", "report", "cohort")


def test_a_refused_registration_says_where_all_faults_are_named(cli: Cli) -> None:
    cli.run(*POPULATION, *BUDGET)
    manifest, data = write_dataset(cli.folder)
    Path(data).write_text(Path(data).read_text(encoding="utf-8") + "1,2\n", encoding="utf-8")
    assert "`curator manifest check` names all of them" in cli.error("datasets", "add", manifest, data)
