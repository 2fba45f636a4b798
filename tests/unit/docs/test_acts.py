"""Tables of acts in the documentation are those of the acts."""

import importlib.util
from pathlib import Path

import pytest

from curator_service.api.acts import Host
from curator_service.cli.acts import SLICES
from curator_service.cli.main import Commands

DOCS = Path(__file__).parents[3] / "docs"
_SPEC = importlib.util.spec_from_file_location("docs_acts", DOCS / "site" / "acts.py")
assert _SPEC is not None
assert _SPEC.loader is not None
tables = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tables)


@pytest.mark.parametrize("page", list(tables.TABLES))
def test_a_page_s_table_is_made_of_the_acts(page: str) -> None:
    """To change it: `python docs/site/acts.py`."""
    assert (DOCS / page).read_text(encoding="utf-8") == tables.fill(page)


def test_every_act_of_the_machine_is_a_command_there() -> None:
    declared = {act.words for act in tables.list_acts() if act.host is not None}
    made = {f"{name} {one}" for name in Commands.places for one in getattr(Commands.load(name), "commands", ())}
    assert declared <= made
    assert declared == {act.words for acts in SLICES for act in acts if act.host is not None}


def test_an_act_that_has_no_route_is_one_of_the_machine() -> None:
    """What needs the authority of the machine has no address."""
    acts = tables.list_acts()
    assert all(act.host is Host.OPERATOR for act in acts if not act.path)
    assert {act.words for act in acts if not act.path} == {
        "keys rotate", "ledger begin-anchor", "populations create", "principals appoint", "tokens rotate",
    }  # fmt: skip
