"""Mutants of functions and tables, and the file that says how many the tests find."""

import ast

import pytest

from audit.core import ROOT, guaranteeing, read_core
from audit.power import changes, list_mutants, read_file
from curator_service.identity import policy

SOURCE = """
def weigh(values, limit):
    if not values:
        raise ValueError("no values")
    total = sum(values)
    check(total)
    log(total)
    return total + 1 if total < limit else -limit
"""
MADE = {
    "not values → not so",
    "raise ValueError('no values') → deleted",
    "check(total) → deleted",
    "log(total) → deleted",
    "check(total) → before total = sum(values)",
    "log(total) → before check(total)",
    "total < limit → not so",
    "total < limit → total <= limit",
    "total + 1 → total - 1",
    "1 → 2",
    "-limit → +limit",
}


def test_each_change_is_made_once() -> None:
    count = sum(1 for _ in changes(ast.parse(SOURCE)))
    trees = [ast.parse(SOURCE) for _ in range(count)]
    said = {list(changes(tree))[i]() for i, tree in enumerate(trees)}
    assert said == MADE
    texts = {ast.unparse(ast.fix_missing_locations(tree)) for tree in trees}
    assert len(texts) == count == len(MADE)
    assert ast.unparse(ast.parse(SOURCE)) not in texts


def test_a_mutant_is_put_into_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = dict(filter(None, (mutant() for mutant in list_mutants("curator_service/identity/policy.py"))))
    before = policy.roles_for(policy.Action.READ_LEDGER)
    monkeypatch.setattr(policy.roles_for, "__code__", policy.roles_for.__code__)
    made["roles_for: role in POLICY[action] → role not in POLICY[action]"]()
    assert set(policy.roles_for(policy.Action.READ_LEDGER)) == set(policy.Role) - set(before)
    monkeypatch.setitem(policy.POLICY, policy.Action.READ_LEDGER, dict(policy.POLICY[policy.Action.READ_LEDGER]))
    made = dict(filter(None, (mutant() for mutant in list_mutants("curator_service/identity/policy.py"))))
    made["POLICY[read ledger]: analyst added"]()
    assert policy.Role.ANALYST in policy.POLICY[policy.Action.READ_LEDGER]


def test_the_file_names_modules_of_the_trusted_core_and_tests_that_exist() -> None:
    core = guaranteeing(read_core())
    parts = [part for part in read_file().values() if isinstance(part, dict)]
    assert len(parts) == 12
    for part in parts:
        assert set(part["modules"]) <= set(core)
        assert all((ROOT / name).is_file() for name in part["tests"])
        assert len(part["alive"]) < part["tried"]
