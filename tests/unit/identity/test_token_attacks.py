"""Tokens of identity providers: what holds, and everything that somebody would try."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from issuers import ED, ISSUER, NOW, RSA, VISAS, Documents, T, claims, provider, providers, public_jwk, sign, visa
from pydantic import ValidationError

from curator_service.identity.oidc import keys as oidc_keys
from curator_service.identity.oidc import providers as oidc_providers
from curator_service.identity.oidc.faults import Fault, TokenFault
from curator_service.identity.oidc.providers import IdentityProviders, identity_of, principal_name
from curator_service.identity.oidc.verification import verify
from curator_service.identity.policy import Role
from curator_service.identity.repository import PersonName
from curator_service.kit.problems import Unavailable
from curator_service.settings import Settings, VisaIssuer


def admitted(text: str, documents: Documents | None = None, **changes: Any) -> bool:
    return fault_of(providers(documents or Documents(), **changes), text) is None


def fault_of(found: IdentityProviders, text: str) -> Fault | None:
    """Return why a token does not hold; None if it does."""
    try:
        found.sign_in(text)
    except TokenFault as error:
        return error.fault
    return None


def b64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def forge(header: dict[str, Any], said: dict[str, Any], signer: Callable[[bytes], bytes]) -> str:
    text = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(said).encode())}"
    return f"{text}.{b64(signer(text.encode()))}"


@pytest.mark.parametrize("key", ["rsa", "ec", "ed"])
def test_a_token_that_holds_tells_who_and_with_which_roles(key: str) -> None:
    found = providers(Documents()).sign_in(sign(claims(), key))
    assert found is not None
    assert found.principal.roles == {Role.ANALYST}
    assert found.principal.name == "hospital.248289761001"
    assert found.stated.name == "Ada Lovelace"
    assert found.principal.issuer == ISSUER
    assert (found.told_at, found.expires_at) == ("2026-03-01T11:59:50Z", "2026-03-01T12:10:00Z")


# --- Signatures


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", ""])
def test_no_signature_is_none(name: str) -> None:
    for kid in ({"kid": "rsa"}, {}):
        assert not admitted(forge({"alg": name, "typ": "JWT", **kid}, claims(), lambda _: b""))
        assert not admitted(forge({"alg": name, "typ": "JWT", **kid}, claims(), lambda _: b"x"))


@pytest.mark.parametrize("form", ["pem", "der", "jwk", "n"])
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_no_shared_secret(form: str, algorithm: str) -> None:
    public = RSA.public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(public_jwk("rsa")).encode(),
        "n": base64.urlsafe_b64decode(public_jwk("rsa")["n"] + "=="),
    }[form]
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[algorithm]
    for typ in ("JWT", "at+jwt"):
        header = {"alg": algorithm, "kid": "rsa", "typ": typ}
        assert not admitted(forge(header, claims(), lambda text: hmac.new(secret, text, digest).digest()))


def test_a_shared_secret_that_the_issuer_shows_is_not_used() -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    shown = [{"kty": "oct", "kid": "s", "k": b64(secret), "alg": "HS256"}]
    text = jwt.encode(claims(), secret, algorithm="HS256", headers={"kid": "s"})
    assert not admitted(text, Documents(keys=shown))


@pytest.mark.parametrize(
    ("key", "kid"), [("other", "rsa"), ("ec", "rsa"), ("rsa", "ec"), ("ed", "ec"), ("rsa", "ed"), ("ec384", "ec")]
)
def test_the_key_of_an_id_is_of_one_type_and_one_person(key: str, kid: str) -> None:
    assert not admitted(sign(claims(), key, header={"kid": kid}), algorithms=["RS256", "ES256", "ES384", "EdDSA"])


def test_an_algorithm_that_is_not_set_is_refused_though_its_signature_holds() -> None:
    documents = Documents(keys=[public_jwk("rsa"), public_jwk("ec384")])
    assert not admitted(sign(claims(), "rsa", algorithm="PS256"), documents)
    assert not admitted(sign(claims(), "rsa", algorithm="RS512"), documents)
    assert not admitted(sign(claims(), "ec384"), documents)
    assert admitted(sign(claims(), "ec384"), documents, algorithms=["ES384"])
    assert admitted(sign(claims(), "rsa", algorithm="PS256"), documents, algorithms=["PS256"])
    assert not admitted(sign(claims()), documents, algorithms=["ES384"])


def test_a_key_is_good_for_what_its_issuer_says_alone() -> None:
    for changed in ({"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "PS256"}, {"alg": "RSA-OAEP"}, {"kty": "EC"}):
        assert not admitted(sign(claims()), Documents(keys=[public_jwk("rsa", **changed)])), changed
    assert admitted(sign(claims()), Documents(keys=[public_jwk("rsa", use="sig", alg="RS256", key_ops=["verify"])]))


def test_a_weak_key_is_not_used() -> None:
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        text = sign(claims(), "weak")
    assert not admitted(text, Documents(keys=[public_jwk("weak")]))


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c"])
def test_a_key_that_the_token_brings_or_names_is_not_asked(name: str) -> None:
    brought = {"jwk": public_jwk("other"), "jku": f"{VISAS}/keys", "x5u": f"{VISAS}/keys", "x5c": ["MIIB"]}
    documents = Documents()
    assert not admitted(sign(claims(), "other", header={"kid": "other", name: brought[name]}), documents)
    assert not admitted(sign(claims(), "other", header={"kid": "rsa", name: brought[name]}), documents)
    assert f"{VISAS}/keys" not in documents.asked


@pytest.mark.parametrize("name", ["crit", "b64", "enc", "zip"])
def test_a_header_that_asks_to_be_read_otherwise_is_refused(name: str) -> None:
    value = {"crit": ["exp"], "b64": True, "enc": "A256GCM", "zip": "DEF"}[name]
    assert not admitted(forge({"alg": "EdDSA", "kid": "ed", name: value}, claims(), ED.sign))


@pytest.mark.parametrize("typ", ["logout+jwt", "secevent+jwt", "vnd.ga4gh.visa+jwt", "dpop+jwt"])
def test_a_token_of_another_purpose_is_none(typ: str) -> None:
    assert not admitted(sign(claims(), header={"typ": typ}))


def test_a_byte_that_was_changed_is_found() -> None:
    head, payload, signature = sign(claims()).split(".")
    other = b64(json.dumps(claims(groups=["dpo"])).encode())
    assert admitted(f"{head}.{payload}.{signature}")
    first = "A" if signature[0] != "A" else "B"
    for text in (f"{head}.{other}.{signature}", f"{head}.{payload}.{first}{signature[1:]}", f"{head}.{payload}."):
        assert not admitted(text)


# --- Claims


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://login.example"}, {"iss": f"{ISSUER}/"}, {"iss": VISAS}, {"iss": ...}, {"iss": [ISSUER]},
        {"aud": "another"}, {"aud": ["another", "notebooks"]}, {"aud": ...}, {"aud": ""}, {"aud": []},
        {"aud": "CURATOR"}, {"aud": "curator2"}, {"aud": {"curator": 1}},
        {"exp": T - 61}, {"exp": ...}, {"exp": "never"}, {"exp": True}, {"exp": 1e300}, {"exp": None},
        {"nbf": T + 61}, {"nbf": "now"}, {"iat": T + 61}, {"iat": ...}, {"iat": False},
        {"iat": T - 90_000, "exp": T + 600},
        {"sub": ...}, {"sub": ""}, {"sub": 7}, {"sub": None}, {"sub": "x" * 256},
        {"groups": ["others"]}, {"groups": []}, {"groups": ...}, {"groups": {"researchers": True}},
        {"groups": [["researchers"]]}, {"groups": "researchers,dpo"},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_token_says_is_held_against_settings(changed: dict[str, Any]) -> None:
    said = claims(**changed)
    text = forge_signed(said)
    assert not admitted(text)


def forge_signed(said: dict[str, Any]) -> str:
    """Sign what a library would refuse to."""
    return forge({"alg": "EdDSA", "kid": "ed", "typ": "at+jwt"}, said, ED.sign)


@pytest.mark.parametrize("changed", [{"iss": VISAS}, {"exp": T - 61}, {"aud": "another"}, {"nbf": T + 61}], ids=str)
def test_the_verification_by_itself_leaves_nothing_to_whoever_calls_it(changed: dict[str, Any]) -> None:
    """Providers look at issuer and end, too: neither may rest on the other."""
    keys = oidc_keys.KeySet(ISSUER, Documents())
    options: dict[str, Any] = {"audience": "curator", "types": frozenset({"at+jwt"}), "algorithms": ["EdDSA"]}
    options |= {"skew_s": 60, "lifetime_max_s": None, "now": NOW}
    assert verify(forge_signed(claims()), keys, **options)["sub"] == claims()["sub"]
    with pytest.raises(TokenFault):
        verify(forge_signed(claims(**changed)), keys, **options)


@pytest.mark.parametrize("changed", [{"aud": ["another", "curator"]}, {"exp": T - 59}, {"nbf": T + 59}, {"nbf": ...}])
def test_clocks_may_differ_by_a_minute(changed: dict[str, Any]) -> None:
    assert admitted(forge_signed(claims(**changed)))


def test_groups_may_be_a_member_of_a_member() -> None:
    said = claims(groups=..., realm_access={"roles": ["dpo"]})
    found = providers(Documents(), groups_claim="realm_access.roles").sign_in(sign(said))
    assert found is not None
    assert found.principal.roles == {Role.PRIVACY_OFFICER, Role.AUDITOR}


def test_a_token_that_was_seen_ends_in_its_time() -> None:
    moment = [NOW]
    found = providers(Documents(), now=lambda: moment[0])
    text = sign(claims())
    assert fault_of(found, text) is None
    moment[0] += timedelta(seconds=659)
    assert fault_of(found, text) is None
    moment[0] += timedelta(seconds=1)
    assert fault_of(found, text)


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "...", "eyJ..", "eyJ.eyJ.x", "a.b.c", "eyJhbGciOiJSUzI1NiJ9." * 3, "eyJ" + "A" * 20_000 + ".a.b",
     "eyJé.a.b", "eyJhbGciOiJSUzI1NiJ9.W10.AA", "eyJbW1tbW1tb.W1tbW1tbW1tb.AA"],
)  # fmt: skip
def test_what_is_no_token_is_refused_and_asks_nobody(text: str) -> None:
    documents = Documents()
    assert not admitted(text, documents)
    assert documents.asked == []


def test_a_huge_token_is_not_read() -> None:
    documents = Documents()
    assert not admitted(sign(claims(padding="x" * 20_000)), documents)
    assert documents.asked == []


# --- Keys of the issuer


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    moment = [1000.0]
    monkeypatch.setattr(
        oidc_keys.KeySet.__init__, "__kwdefaults__", {"jwks_uri": "", "fetch_address": "", "clock": lambda: moment[0]}
    )
    monkeypatch.setattr(oidc_providers.time, "monotonic", lambda: moment[0])

    def advance(span: float) -> None:
        moment[0] += span

    return advance


def fetches(documents: Documents) -> int:
    return documents.asked.count(f"{ISSUER}/keys")


def test_keys_are_fetched_once_and_again_for_an_unknown_id_once_a_minute(ticking: Callable[[float], None]) -> None:
    documents = Documents()
    found = providers(documents)
    for _ in range(5):
        assert fault_of(found, sign(claims(jti=str(time.time_ns())))) is None
    assert fetches(documents) == 1
    for n in range(50):
        assert fault_of(found, sign(claims(), "other", header={"kid": f"guess{n}"}))
    assert fetches(documents) == 1
    ticking(61)
    documents.keys.append(public_jwk("other"))
    assert fault_of(found, sign(claims(), "other")) is None
    assert fetches(documents) == 2


def test_a_key_that_was_withdrawn_counts_no_longer(ticking: Callable[[float], None]) -> None:
    documents = Documents()
    found, text = providers(documents), sign(claims())
    assert fault_of(found, text) is None
    documents.keys = [public_jwk("ec")]
    ticking(3601)
    assert fault_of(found, text)


def test_known_keys_go_on_for_a_day_while_the_issuer_does_not_answer(ticking: Callable[[float], None]) -> None:
    documents = Documents()
    found = providers(documents)
    assert fault_of(found, sign(claims())) is None
    documents.down = True
    ticking(7200)
    assert fault_of(found, sign(claims(jti="a"))) is None
    assert fault_of(found, sign(claims(), "other"))
    ticking(80_000)
    with pytest.raises(Unavailable):
        found.sign_in(sign(claims(jti="b")))


def test_an_issuer_that_never_answered_is_asked_once_a_minute_and_callers_are_told(
    ticking: Callable[[float], None],
) -> None:
    documents = Documents(down=True)
    found = providers(documents)
    for _ in range(20):
        with pytest.raises(Unavailable):
            found.sign_in(sign(claims()))
    assert len(documents.asked) == 1
    documents.down = False
    ticking(61)
    assert fault_of(found, sign(claims())) is None


@pytest.mark.parametrize(
    "described",
    [{"issuer": "https://evil.example"}, {"issuer": f"{ISSUER}/"}, {"jwks_uri": "http://login.example/keys"},
     {"jwks_uri": None}, {"jwks_uri": "file:///etc/passwd"}, {"jwks_uri": "https://"}],
)  # fmt: skip
def test_a_description_of_another_issuer_or_without_https_is_not_followed(described: dict[str, Any]) -> None:
    with pytest.raises(Unavailable):
        providers(Documents(described=described)).sign_in(sign(claims()))


@pytest.mark.parametrize("listed", [None, {}, "x", [None], [{}], [{"kid": 1}], [{"kid": "rsa", "kty": "RSA"}], [[]]])
def test_keys_that_are_none_are_left_out(listed: Any) -> None:
    assert not admitted(sign(claims()), Documents(keys=listed))


# --- Names


def test_names_of_two_people_differ_and_a_subject_is_not_taken_for_another_s_digest() -> None:
    def name(subject: str, issuer: str = ISSUER) -> str:
        return principal_name("hospital", subject, identity_of(issuer, "sub", (subject,)))

    digest = name("with spaces")
    assert digest.startswith("hospital-")
    subjects = ["ada", "Ada", "a.da", "x" * 60, "x" * 61, "é", "with spaces", digest[9:], digest]
    names = {name(subject) for subject in subjects}
    assert len(names) == len(subjects)
    assert name("é") != name("é", VISAS)


def test_a_shown_name_obeys_no_terminal() -> None:
    found = providers(Documents()).sign_in(sign(claims(name="Ada\x1b[31m\u202e\n<b>" + "x" * 500)))
    assert found is not None
    shown = found.stated.name
    assert shown.startswith("Ada\\u001b[31m\\u202e <b>xxx")
    assert len(shown) <= 200


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PersonName("Ada Lovelace")),
        ({"email": "ada@hospital.example"}, PersonName("Ada Lovelace", "ada@hospital.example")),
        ({"email": "ada@hospital.example", "email_verified": True}, PersonName("Ada Lovelace", "ada@hospital.example")),
        ({"email": "grace@hospital.example", "email_verified": False}, PersonName("Ada Lovelace")),
        ({"email": "\u0430da@hospital.example"}, PersonName("Ada Lovelace", "\\u0430da@hospital.example")),
        ({"name": "\u0410da Lovelace"}, PersonName("\\u0410da Lovelace")),
        ({"name": ["Ada"], "email": 7}, PersonName()),
        ({"name": None}, PersonName()),
    ],
)
def test_a_provider_states_a_name_and_an_e_mail(changes: dict[str, Any], expected: PersonName) -> None:
    found = providers(Documents()).sign_in(sign(claims(**changes)))
    assert found.stated == expected


# --- Visas


def visas_of(*texts: str, documents: Documents | None = None, **changes: Any) -> list[str]:
    found = providers(documents or Documents(), **changes).sign_in(sign(claims(ga4gh_passport_v1=list(texts))))
    assert found is not None
    return [one.value for one in found.principal.visas]


def test_a_visa_that_holds_is_of_the_caller() -> None:
    assert visas_of(visa(), visa("https://ega.example/D2")) == ["https://ega.example/D1", "https://ega.example/D2"]
    assert visas_of(visa(typ="JWT")) == ["https://ega.example/D1"]


GRANT = {"type": "ControlledAccessGrants", "asserted": T - 1000, "value": "https://ega.example/D1", "source": VISAS}


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://anybody.example"}, {"iss": ISSUER, "key": "rsa"}, {"key": "rsa"}, {"typ": "at+jwt"},
        {"exp": T - 61}, {"exp": ...}, {"nbf": T + 61}, {"aud": "curator"}, {"sub": ...},
        {"ga4gh_visa_v1": GRANT | {"type": "AffiliationAndRole"}}, {"ga4gh_visa_v1": GRANT | {"value": 7}},
        {"ga4gh_visa_v1": GRANT | {"conditions": [[{"type": "AffiliationAndRole", "value": "const:x"}]]}},
        {"ga4gh_visa_v1": GRANT | {"asserted": T + 1000}}, {"ga4gh_visa_v1": None}, {"ga4gh_visa_v1": []},
    ],
    ids=str,
)  # fmt: skip
def test_a_visa_that_does_not_hold_is_none(changed: dict[str, Any]) -> None:
    assert visas_of(visa(**changed)) == []


def test_a_visa_of_an_unpinned_issuer_is_none_wherever_its_keys_are() -> None:
    documents = Documents()
    text = sign(
        {"iss": "https://anybody.example", "sub": "a", "iat": T, "exp": T + 60, "ga4gh_visa_v1": GRANT},
        "ed",
        header={"typ": "vnd.ga4gh.visa+jwt", "jku": f"{VISAS}/keys"},
    )
    assert visas_of(text, documents=documents) == []
    assert f"{VISAS}/keys" not in documents.asked


def test_a_visa_of_the_provider_itself_is_of_the_person_that_it_names() -> None:
    issuer = VisaIssuer.model_validate({"issuer": ISSUER})
    for subject, found in ((claims()["sub"], ["https://ega.example/D1"]), ("somebody else", [])):
        trusted = IdentityProviders((provider(),), (issuer,), lambda: NOW, Documents())
        text = sign(claims(ga4gh_passport_v1=[visa(iss=ISSUER, sub=subject)]))
        signed_in = trusted.sign_in(text)
        assert signed_in is not None
        assert [one.value for one in signed_in.principal.visas] == found


def test_a_token_is_no_visa_and_a_visa_is_no_token() -> None:
    assert visas_of(sign(claims())) == []
    assert not admitted(visa())


def test_visas_are_asked_for_where_settings_say_so() -> None:
    documents = Documents(told={"sub": claims()["sub"], "ga4gh_passport_v1": [visa()]})
    assert visas_of(documents=documents) == []
    assert f"{ISSUER}/me" not in documents.asked
    assert visas_of(documents=documents, passports=True) == ["https://ega.example/D1"]
    documents.told["sub"] = "somebody else"
    assert visas_of(documents=documents, passports=True) == []
    documents.told = {}
    assert visas_of(documents=documents, passports=True) == []


def test_a_visa_ends_in_its_time_though_the_token_goes_on() -> None:
    moment = [NOW]
    found = providers(Documents(), now=lambda: moment[0])
    text = sign(claims(ga4gh_passport_v1=[visa()]))
    assert found.sign_in(text).principal.visas  # type: ignore[union-attr]
    moment[0] += timedelta(seconds=300)
    again = found.sign_in(text)
    assert again is not None
    assert again.principal.visas == ()


# --- Settings


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "http://login.example"}, {"issuer": "https://a@b.example"}, {"issuer": "https://login.example?x"},
        {"issuer": "ftp://login.example"}, {"issuer": "https:///x"}, {"issuer": "http://127.0.0.1.evil.example"},
        {"issuer": "http://localhost@evil.example"}, {"issuer": "http://localhost.evil.example"},
        {"algorithms": ["none"]}, {"algorithms": ["HS256"]}, {"algorithms": []}, {"clock_skew_s": 3600},
        {"audience": ""}, {"roles": {"g": ["admin"]}}, {"name": "Hospital.x"}, {"unknown": 1},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_would_let_anybody_in_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        provider(**changed)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"client_id": "curator"}, "an ID token would be an access token"), ({"client_id": ""}, "client_id"),
        ({"scope": "profile"}, "the scope has `openid` in it"), ({"auth_method": "private_key_jwt"}, "auth_method"),
        ({"client_secret_file": "/nowhere/at/all"}, "file cannot be read"), ({"client_secret": "x"}, "client_secret"),
    ],
    ids=str,
)  # fmt: skip
def test_settings_of_a_browser_s_client_that_cannot_be_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        provider(browser={"client_id": "dashboard"} | changed)


@pytest.mark.parametrize(
    "url",
    ["http://curator.example", "https://curator.example/x y", "https://a@curator.example", "https://curator.example?x",
     "https://curator.example#x", "curator.example", "https://", "http://localhost.evil.example", "//curator.example"],
)  # fmt: skip
def test_a_public_address_is_an_origin_of_https(url: str) -> None:
    with pytest.raises(ValidationError, match="public_url"):
        Settings(public_url=url)


def test_a_browser_s_client_needs_a_public_address() -> None:
    one = provider(browser={"client_id": "dashboard"}).model_dump()
    with pytest.raises(ValidationError, match="public_url, which is not set"):
        Settings(providers=(one,))
    for url in ("https://curator.example", "https://curator.example:8443/", "http://127.0.0.1:8000", "http://[::1]/"):
        assert Settings(providers=(one,), public_url=url).public_url == url.rstrip("/")


def test_settings_name_each_provider_once_and_no_visa_that_nobody_has() -> None:
    one = provider().model_dump()
    Settings(providers=(one,))
    for wrong in ({"providers": (one, one)}, {"visas": {"cohort": "v"}}, {"visas": {"c": "v"}, "providers": (one,)}):
        with pytest.raises(ValidationError):
            Settings.model_validate(wrong)
