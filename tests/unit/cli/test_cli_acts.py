"""Commands of acts, attacked: who acts, what is refused before anything is made, and what a table says."""

from pathlib import Path

import pytest
from support import World
from test_cli_commands import Cli, cli, full

from curator_service.api.context import RequestContext
from curator_service.approvals.acts import set_limit
from curator_service.cli.acts import _enter
from curator_service.identity.service import AuthenticationRequired
from curator_service.register.acts import revoke_token

__all__ = ["cli", "full"]
CREATE = ["populations", "create", "village", "--adjacency", "add_remove"]


@pytest.mark.parametrize("token", [None, "", " ", "nobody's"])
def test_without_a_token_nobody_does_what_its_holder_does(world: World, token: str | None) -> None:
    """However a command came to have none: it is not done by the operator."""
    with pytest.raises(AuthenticationRequired):
        _enter(world.curator, set_limit, token)


def test_the_holder_of_a_token_is_not_taken_for_the_operator(world: World) -> None:
    """An act asks `is_at_host` where the operator may do more than anybody over HTTP."""
    holder = _enter(world.curator, set_limit, world.tokens["root"])
    assert (holder.principal.name, holder.is_at_host) == ("root", False)
    operator: RequestContext = _enter(world.curator, revoke_token, None)
    assert (operator.principal.id.partition(":")[0], operator.is_at_host) == ("operator", True)


@pytest.mark.parametrize("stated", [["--epsilon", "1"], ["--mu", "1", "--accountant", "renyi"]])
def test_a_budget_that_no_population_has_makes_no_curator(cli: Cli, stated: list[str]) -> None:
    before = sorted(cli.folder.rglob("*"))
    cli.error(*CREATE, *stated)
    assert sorted(cli.folder.rglob("*")) == before


@pytest.mark.parametrize("delta", ["2", "nan", "-1"])
def test_a_wrong_option_is_named_as_it_is_written(cli: Cli, delta: str) -> None:
    assert "--view-delta: Input" in cli.error(*CREATE, "--mu", "1", "--view-delta", delta)


def test_what_was_taken_back_is_said(full: tuple[Cli, World]) -> None:
    cli, _ = full
    (permit,) = [one["id"] for one in cli.json("permits", "list") if one["people"] == ["ada"]]
    assert cli.run("permits", "revoke", "ada", "cohort").stdout == f"took cohort back from ada: {permit}\n"
    assert cli.run("permits", "grant", "ada", "cohort").stdout.startswith("ada may use cohort: prm_")


def test_a_ledger_s_table_says_what_is_counted(full: tuple[Cli, World]) -> None:
    cli, _ = full
    said = " ".join(cli.run("ledger", "show", "town").stdout.split())
    assert "Ledger of town: add_remove, gdp; amounts in µ², ε at δ 1e-06" in said
    assert "│ charge │ ada │ cohort │ 0.0025 │ 0.1892 │" in said


def test_a_ledger_s_table_says_of_which_session_an_entry_is(full: tuple[Cli, World]) -> None:
    cli, world = full
    api, asked = world.api(), {"positives": 1, "direction": "above", "price": {"epsilon": 0.02}}
    session = api.post("/v1/datasets/cohort/sessions", json=asked, key="s").json()["id"]
    assert api.post(f"/v1/sessions/{session}/questions", json={"threshold": 10**6}, key="q").status_code == 201
    assert api.request("DELETE", f"/v1/sessions/{session}").status_code == 200
    said = " ".join(cli.run("ledger", "show", "town").stdout.split())
    assert "│ session │ ada │ cohort │ 0.00062831 │" in said
    for kind in ("answer", "close"):
        assert f"│ {kind} │ ada │ {session} │ │ │" in said


def test_a_seal_is_said_in_words(full: tuple[Cli, World]) -> None:
    cli, world = full
    assert cli.run("ledger", "status").stdout == "open: nothing is sealed\n"
    world.curator.ledger.guard.seal("it [b]was[/b] \x1b[2J")
    sealed = cli.run("ledger", "status")
    assert (sealed.exit_code, sealed.stdout) == (1, "sealed: it [b]was[/b] \\u001b[2J\n")


def test_a_proposal_is_shown_in_the_account_s_unit(full: tuple[Cli, World]) -> None:
    cli, _ = full
    token = cli.json("tokens", "create", "olga", "--role", "privacy_officer")["token"]
    olga = Cli(cli.folder, cli.environment | {"CURATOR_TOKEN": token})
    said = " ".join(olga.run("limits", "set", "town", "--mu", "2", "--reason", "[i]more[/i]").stdout.split())
    assert "│ town │ the limit │ 4 │ 0.056029 │ open │ [i]more[/i] │" in said


def test_a_permit_s_part_of_each_budget_is_shown(full: tuple[Cli, World]) -> None:
    cli, world = full
    (whole,) = [one["id"] for one in cli.json("permits", "list") if one["people"] == ["ada"]]
    assert "town = all" in cli.run("permits", "show", whole).stdout
    assert "town = '10000000000'" in cli.run("permits", "show", world.permit(limit={"mu": 0.1})).stdout


@pytest.mark.parametrize(
    "text",
    ["[1]", "null", "1", "[" * 100_000, '{"reason": NaN}', '{"people": ["ada"], "people": ["ben"]}', "\udcff", ""],
)
def test_a_file_that_is_no_body_is_refused(full: tuple[Cli, World], tmp_path: Path, text: str) -> None:
    """It is read as a body is: what readers could take in two ways is taken in none."""
    cli, world = full
    token = world.tokens["ada"]
    file = tmp_path / "terms.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    said = Cli(cli.folder, cli.environment | {"CURATOR_TOKEN": token}).error("permits", "ask", str(file))
    assert said.startswith(f"error: {file}: ")


def test_the_name_of_a_file_commands_no_terminal(full: tuple[Cli, World], tmp_path: Path) -> None:
    cli, world = full
    file = tmp_path / "a\x1b[2J\u202e[red].json"
    file.write_text("{")
    said = Cli(cli.folder, cli.environment | {"CURATOR_TOKEN": world.tokens["ada"]}).error("permits", "ask", str(file))
    assert "a\\u001b[2J\\u202e[red].json: it is not JSON" in said


def test_what_a_ledger_holds_names_no_holder_of_a_token_as_the_operator(full: tuple[Cli, World]) -> None:
    cli, world = full
    token = cli.json("tokens", "create", "olga", "--role", "privacy_officer")["token"]
    olga = Cli(cli.folder, cli.environment | {"CURATOR_TOKEN": token})
    assert olga.json("limits", "set", "town", "--mu", "0.2", "--reason", "less")["state"] == "applied"
    (who,) = [one["id"] for one in cli.json("principals", "list") if one["name"] == "olga"]
    assert world.entries()[-1]["actor"] == who
