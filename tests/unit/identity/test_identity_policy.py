"""Default deny, and tokens that show nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.identity.policy import POLICY, PUBLIC, READING, Action, Objects, Role, allowed_objects
from curator_service.identity.tokens import make_token, parse_token


def test_what_is_not_in_the_table_is_denied() -> None:
    assert set(POLICY) == set(Action)
    for role in Role:
        for action in Action:
            assert (allowed_objects({role}, action) is None) == (role not in POLICY[action])
    assert all(allowed_objects((), action) is None for action in Action)


def test_of_several_roles_the_widest_counts() -> None:
    both = {Role.ANALYST, Role.PRIVACY_OFFICER}
    assert allowed_objects(both, Action.READ_RELEASE) is Objects.ALL
    assert allowed_objects(both, Action.REQUEST_RELEASE) is Objects.GRANTED


def test_analysts_reach_granted_objects_alone() -> None:
    """The curator's public keys, where to sign in, and surveys, aside: they are of nobody's row."""
    reached = {action: roles[Role.ANALYST] for action, roles in POLICY.items() if Role.ANALYST in roles}
    for action in (Action.READ_KEYS, Action.SIGN_IN, Action.READ_SURVEY, Action.READ_REPORTS, Action.ANSWER):
        assert reached.pop(action) is Objects.ALL
    assert set(reached.values()) == {Objects.GRANTED}


@pytest.mark.parametrize("role", [Role.STEWARD, Role.PRIVACY_OFFICER, Role.AUDITOR, Role.OPERATOR])
@pytest.mark.parametrize("action", [Action.REQUEST_RELEASE, Action.RESERVE])
def test_only_analysts_buy_and_reserve(role: Role, action: Action) -> None:
    assert allowed_objects({role}, action) is None


@pytest.mark.parametrize("role", set(Role) - {Role.PRIVACY_OFFICER})
def test_only_privacy_officers_set_limits(role: Role) -> None:
    assert allowed_objects({role}, Action.SET_LIMIT) is None


def test_an_auditor_only_looks() -> None:
    assert {action for action, roles in POLICY.items() if Role.AUDITOR in roles} <= READING | PUBLIC


def test_whoever_only_looks_moves_no_amount_and_decides_nothing() -> None:
    """`READING` is what a token may do that was made to look: nothing that spends, asks, decides or makes others."""
    acting = {Action.REQUEST_RELEASE, Action.RESERVE, Action.END_RESERVATION, Action.SET_LIMIT, Action.ASK_PERMIT}
    acting |= {Action.WITHDRAW, Action.DISCUSS, Action.END_PERMIT, Action.ISSUE, Action.REVOKE, Action.COLLECT}
    acting |= {Action.REGISTER, Action.NAME, Action.ERASE_NAME}
    assert set(Action) - READING - PUBLIC == acting


@pytest.mark.parametrize("role", list(Role))
def test_everybody_reads_the_public_keys(role: Role) -> None:
    assert allowed_objects({role}, Action.READ_KEYS) is Objects.ALL


def test_analysts_do_not_read_the_ledger() -> None:
    assert allowed_objects({Role.ANALYST}, Action.READ_LEDGER) is None


def test_a_token_reads_back_and_hides_its_secret() -> None:
    token = make_token()
    assert parse_token(token.text) == token
    assert token.secret not in repr(token)
    assert token.secret not in token.secret_hash
    assert token.matches(token.secret_hash)
    assert not make_token().matches(token.secret_hash)


@given(st.text(max_size=70))
def test_what_is_no_token_is_none(text: str) -> None:
    assert parse_token(text) is None


@pytest.mark.parametrize("change", [lambda t: t + "\n", lambda t: " " + t, lambda t: t.upper(), lambda t: t[:-1]])
def test_a_token_is_read_as_a_whole(change: object) -> None:
    assert parse_token(change(make_token().text)) is None  # type: ignore[operator]
