"""People of an identity provider: admitted by their groups, registered, charged with a permit and a visa."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from issuers import ISSUER, NOW, Documents, T, claims, providers, sign, visa
from support import Api, World, body, open_world, problem

from curator_service.container import make_curator
from curator_service.entries.base import REGISTER
from curator_service.identity.policy import Role
from curator_service.identity.service import IdentityError

RELEASES = "/v1/datasets/cohort/releases"
VISA = "https://ega.example/D1"


def acts(world: World) -> list[dict[str, Any]]:
    return world.curator.register.list_entries(after=0, count=1000)


def served(world: World, documents: Documents | None = None) -> Api:
    api = world.api(None)
    api.app.state.curator.identity.providers = providers(documents or Documents(), now=world.clock)
    return api


def me(api: Api, text: str) -> dict[str, Any]:
    answer = api.get("/v1/me", token=text)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


@pytest.fixture
def place(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    with open_world(tmp_path, url=database_url) as world:
        assert world.clock() == NOW
        yield world


def test_somebody_comes_for_the_first_time(place: World) -> None:
    api, before = served(place), len(acts(place))
    found = me(api, sign(claims()))
    assert (found["name"], found["shown_name"], found["roles"]) == (
        "hospital.248289761001",
        "Ada Lovelace",
        ["analyst"],
    )
    assert (found["authenticated_by"], found["issuer"], found["token"]) == ("provider", ISSUER, None)
    assert found["expires_at"] == "2026-03-01T12:10:00Z"
    act, naming = acts(place)[before:]
    assert (naming["kind"], naming["principal"], naming["actor"]) == ("person-name", found["id"], "provider")
    assert "Ada" not in json.dumps(acts(place))
    assert (act["kind"], act["name"], act["roles"], act["issuer"], act["actor"]) == (
        "principal", "hospital.248289761001", ["analyst"], ISSUER, "provider",
    )  # fmt: skip
    me(api, sign(claims()))
    me(served(place), sign(claims()))
    assert len(acts(place)) == before + 2
    assert place.curator.ledger.verify(REGISTER).ok


def test_whoever_has_no_role_is_not_written_anywhere(place: World) -> None:
    api, before = served(place), len(acts(place))
    problem(api.get("/v1/me", token=sign(claims(groups=["visitors"]))), "authentication-required", 401)
    assert len(acts(place)) == before
    assert not [one for one in place.curator.identity.list_principals() if one.issuer]


def test_roles_are_read_again_and_the_newest_decides(place: World) -> None:
    api = served(place)
    old = sign(claims())
    assert me(api, old)["roles"] == ["analyst"]
    new = sign(claims(iat=T - 5, groups=["dpo"]))
    assert me(api, new)["roles"] == ["privacy_officer", "auditor"]
    count = len(acts(place))
    assert acts(place)[-1]["roles"] == ["privacy_officer", "auditor"]
    # An older token may only do what both allow, and however often they alternate nothing more is written.
    for _ in range(3):
        assert api.get("/v1/datasets", token=old).status_code == 403
        assert me(api, new)["roles"] == ["privacy_officer", "auditor"]
    assert len(acts(place)) == count


def test_rows_that_somebody_changed_give_nobody_a_role(place: World) -> None:
    api = served(place)
    me(api, sign(claims()))
    place.sql("UPDATE principals SET roles = 'operator' WHERE issuer <> ''")
    assert api.get("/v1/admin/tokens", token=sign(claims())).status_code == 403
    assert api.get("/v1/admin/tokens", token=sign(claims(iat=T - 5))).status_code == 403


def test_under_a_seal_nobody_new_comes_and_nobody_may_do_more(place: World) -> None:
    api = served(place)
    me(api, sign(claims()))
    place.curator.ledger.guard.seal("an incident")
    count = len(acts(place))
    assert me(api, sign(claims(iat=T - 5)))["roles"] == ["analyst"]
    assert api.get("/v1/me", token=sign(claims(iat=T - 4, groups=["dpo"]))).status_code == 403
    problem(api.get("/v1/me", token=sign(claims(sub="somebody"))), "ledger-unverified", 503)
    assert len(acts(place)) == count


def test_a_name_of_somebody_else_is_not_taken(place: World) -> None:
    place.add_token("hospital.248289761001", Role.AUDITOR)
    problem(served(place).get("/v1/me", token=sign(claims())), "authentication-required", 401)


def test_nobody_is_given_the_name_of_somebody_who_has_not_come_yet(place: World) -> None:
    """A permit that an officer grants to that name would be the impostor's."""
    place.curator.identity.providers = providers(Documents(), now=place.clock)
    for name in ("hospital.248289761001", "hospital-x", "hospital."):
        with pytest.raises(IdentityError, match="of nobody else"):
            place.curator.identity.create_token(name, Role.ANALYST)
    place.curator.identity.create_token("hospitality", Role.ANALYST)


def test_people_of_a_provider_have_no_tokens_of_the_curator_s_and_no_roles_of_the_machine_s(place: World) -> None:
    me(served(place), sign(claims()))
    for act in (
        lambda: place.curator.identity.create_token("hospital.248289761001", Role.ANALYST),
        lambda: place.curator.identity.set_roles("hospital.248289761001", Role.OPERATOR, actor="operator:test"),
    ):
        with pytest.raises(IdentityError, match="signs in at"):
            act()
    problem(served(place).post("/v1/me/token/rotate", token=sign(claims())), "request-invalid", 422)


def test_the_curator_says_where_to_sign_in_to_anybody(place: World) -> None:
    assert place.api(None).get("/v1/sign-in").json() == {"issuers": []}
    (found,) = served(place).get("/v1/sign-in", token=None).json()["issuers"]
    assert found == {
        "name": "hospital",
        "issuer": ISSUER,
        "client_id": "notebooks",
        "scope": "openid",
        "parameters": {},
    }


def test_an_identity_provider_that_is_down_is_no_401(place: World) -> None:
    answer = served(place, Documents(down=True)).get("/v1/me", token=sign(claims()))
    problem(answer, "busy", 503)
    assert place.api("ada").get("/v1/me").status_code == 200


# --- A visa beside a permit


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Api]]:
    """Return a world whose cohort asks for a visa, and where somebody who signs in has a permit."""
    with open_world(tmp_path) as world:
        api = served(world)
        me(api, sign(claims()))
        world.curator.permits.grant("hospital.248289761001", "cohort", actor="operator:test")
        for curator in (world.curator, api.app.state.curator):
            curator.permits.visas = {"cohort": VISA}
        yield world, api


def buy(api: Api, text: str, key: str, **changes: Any) -> Any:
    return api.post(RELEASES, json=body(**changes), key=key, token=text)


def with_visas(*texts: str, **changes: Any) -> str:
    return sign(claims(ga4gh_passport_v1=list(texts), **changes))


def test_a_dataset_that_asks_for_a_visa_is_charged_with_it_and_a_permit(asking: tuple[World, Api]) -> None:
    world, api = asking
    assert "visa" in problem(buy(api, with_visas(), "a"), "visa-needed", 403)["detail"]
    problem(buy(api, with_visas(visa("https://ega.example/D2")), "b"), "visa-needed", 403)
    problem(buy(api, with_visas(visa(iss="https://anybody.example")), "c"), "visa-needed", 403)
    problem(buy(api, with_visas(visa(exp=T - 61)), "d"), "visa-needed", 403)
    before = world.account().posted
    assert buy(api, with_visas(visa()), "e").status_code == 201
    assert world.account().posted > before


def test_a_visa_widens_nothing(asking: tuple[World, Api]) -> None:
    """Somebody else with the visa, and no permit, is as far as before; so is its holder at another dataset."""
    _, api = asking
    other = with_visas(visa(), sub="somebody")
    assert buy(api, other, "a").status_code == 404
    answer = api.post("/v1/datasets/hidden/releases", json=body(), key="b", token=with_visas(visa()))
    problem(answer, "dataset-not-found", 404)


def test_a_token_of_the_curator_s_has_no_visa(asking: tuple[World, Api]) -> None:
    world, api = asking
    problem(buy(api, world.tokens["ada"], "a"), "visa-needed", 403)


def test_what_was_reserved_with_a_visa_is_not_spent_without_it(asking: tuple[World, Api]) -> None:
    _, api = asking
    asked = {"price": {"mu": 0.1}, "expires_in_s": 3600}
    problem(api.post("/v1/datasets/cohort/reservations", json=asked, key="a", token=with_visas()), "visa-needed", 403)
    held = api.post("/v1/datasets/cohort/reservations", json=asked, key="b", token=with_visas(visa()))
    assert held.status_code == 201, held.text
    reservation = held.json()["id"]
    problem(buy(api, with_visas(), "c", reservation=reservation), "visa-needed", 403)
    assert buy(api, with_visas(visa()), "d", reservation=reservation).status_code == 201


def test_visas_come_from_settings(tmp_path: Path) -> None:
    from issuers import VISAS, provider

    from curator_service.settings import Settings

    chosen = Settings(
        data_dir=tmp_path / "data",
        providers=(provider().model_dump(),),
        visa_issuers=({"issuer": VISAS},),
        visas={"cohort": VISA},
    )
    curator = make_curator(chosen)
    assert curator.permits.visas == {"cohort": VISA}
    assert curator.identity.sign_in_at()[0].issuer == ISSUER
    curator.close()
