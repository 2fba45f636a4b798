"""Default deny, and tokens that show nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.identity.policy import POLICY, Action, Objects, Role, allowed_objects
from curator_service.identity.tokens import make_token, parse_token


def test_what_is_not_in_the_table_is_denied() -> None:
    for role in Role:
        for action in Action:
            assert (allowed_objects(role, action) is None) == ((role, action) not in POLICY)


def test_analysts_reach_granted_objects_alone() -> None:
    """The curator's public keys aside: they are nobody's, and whoever verifies needs them."""
    reached = {action: POLICY[role, action] for role, action in POLICY if role is Role.ANALYST}
    assert reached.pop(Action.READ_KEYS) is Objects.ALL
    assert set(reached.values()) == {Objects.GRANTED}


@pytest.mark.parametrize("role", [Role.ADMIN, Role.AUDITOR])
@pytest.mark.parametrize("action", [Action.REQUEST_RELEASE, Action.RESERVE])
def test_only_analysts_buy_and_reserve(role: Role, action: Action) -> None:
    assert allowed_objects(role, action) is None


@pytest.mark.parametrize("role", [Role.ANALYST, Role.AUDITOR])
def test_only_admins_set_limits(role: Role) -> None:
    assert allowed_objects(role, Action.SET_LIMIT) is None


@pytest.mark.parametrize("role", list(Role))
def test_everybody_reads_the_public_keys(role: Role) -> None:
    assert allowed_objects(role, Action.READ_KEYS) is Objects.ALL


def test_analysts_do_not_read_the_ledger() -> None:
    assert allowed_objects(Role.ANALYST, Action.READ_LEDGER) is None


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
