"""Readers of an answer: by policy, role and owner; a policy that the rule does not know shows nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from curator_service.datasets.visibility import collection_of, may_read, may_read_all
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal


def dataset_of(policy: str) -> Any:
    return SimpleNamespace(id="ds_1", manifest=SimpleNamespace(library=policy))


@pytest.mark.parametrize("policy", ["own", "consortium", ""])
def test_an_analyst_reads_what_they_asked_for_and_nothing_else(policy: str) -> None:
    dataset, ada = dataset_of(policy), Principal("prn_ada", "ada", frozenset({Role.ANALYST}))
    assert may_read(ada, dataset, "prn_ada")
    assert not may_read(ada, dataset, "prn_ben")
    assert not may_read(ada, dataset, "")
    assert not may_read_all(ada, dataset)
    assert collection_of(dataset, "prn_ada") != collection_of(dataset, "prn_ben")


def test_everybody_reads_shared_answers() -> None:
    dataset, ada = dataset_of("shared"), Principal("prn_ada", "ada", frozenset({Role.ANALYST}))
    assert may_read(ada, dataset, "prn_ben")
    assert may_read_all(ada, dataset)
    assert collection_of(dataset, "prn_ada") == collection_of(dataset, "prn_ben") == "ds_1"


@pytest.mark.parametrize("role", Role)
def test_of_answers_that_are_their_askers_own_a_privacy_officer_alone_reads_all(role: Role) -> None:
    reader = Principal("prn_root", "root", frozenset({role}))
    assert may_read(reader, dataset_of("own"), "prn_ada") is (role is Role.PRIVACY_OFFICER)
    assert may_read(reader, dataset_of("shared"), "prn_ada")
