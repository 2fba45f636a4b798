"""Frozen settings, read once from the environment (``CURATOR_*``) and a TOML file (``CURATOR_CONFIG``)."""

import os
import re
import sys
import tomllib
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)
from sqlalchemy import make_url

from curator_service.kit.cuts import Schedule
from curator_service.kit.environment import CONFIG_VARIABLE, PREFIX, find_unknown, is_of_kubernetes, suggest
from curator_service.kit.logs import LogFormat

RoleName = Literal["analyst", "steward", "privacy_officer", "auditor", "operator"]
Algorithm = Literal["RS256", "PS256", "ES256", "ES384", "EdDSA"]
"""Kinds of signature of which nobody but the issuer has the key: no shared secret, and none at all, is among them."""
ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA")


CHANGING_CLAIMS = frozenset(
    {
        *("email", "emails", "verified_primary_email", "phone_number", "website"),
        *("name", "family_name", "given_name", "middle_name", "nickname"),
        *("preferred_username", "samaccountname", "unique_name", "upn", "username"),
    }
)
"""Claims that a person or an administrator may change, or that may be given to somebody else."""
_PUBLIC = re.compile(
    r"(https://[^/?#@\s]+|http://(127\.0\.0\.1|\[::1\]|localhost)(:\d+)?)(?P<path>(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*)/?"
)
_ADDRESS = re.compile(r"(https://[^/?#@\s]+|http://(127\.0\.0\.1|\[::1\]|localhost)(:\d+)?)(/[^?#\s]*)?")


class _Issuer(BaseModel):
    """Somebody whose signatures are believed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str = Field(max_length=255, description="Its address, exactly as its tokens state it.")
    algorithms: tuple[Algorithm, ...] = Field(ALGORITHMS, min_length=1)
    clock_skew_s: int = Field(60, ge=0, le=300, description="How far its clock may differ, in seconds.")

    @field_validator("issuer", "jwks_uri", "fetch_address", check_fields=False)
    @classmethod
    def _is_secure(cls, url: str) -> str:
        """Refuse an address at which somebody in between could say who signs in."""
        if url and not _ADDRESS.fullmatch(url):
            raise ValueError("an issuer has an address of https, without a query; http is for this machine alone")
        return url


def _check_secret(path: Path | None) -> Path | None:
    """Refuse a file that cannot be read here, where the setting is named."""
    try:
        if path is not None and not path.read_text(encoding="utf-8").strip():
            raise ValueError("the file is empty")
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None
    return path


class BrowserClient(BaseModel):
    """The curator's registration at a provider, for people who sign in at the dashboard with a browser."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: str = Field(min_length=1, max_length=255)
    client_secret_file: Path | None = Field(None, description="File of its secret; a public client if not set.")
    auth_method: Literal["client_secret_basic", "client_secret_post"] = Field(
        "client_secret_basic", description="How the secret is sent."
    )
    scope: str = Field("openid", description="What makes the provider state groups in its ID token.")

    @field_validator("client_secret_file")
    @classmethod
    def _is_readable(cls, path: Path | None) -> Path | None:
        return _check_secret(path)

    @field_validator("scope")
    @classmethod
    def _is_of_openid(cls, scope: str) -> str:
        if "openid" not in scope.split():
            raise ValueError("the scope has `openid` in it")
        return scope

    def read_secret(self) -> str:
        """Return the secret; empty for a public client."""
        return "" if self.client_secret_file is None else self.client_secret_file.read_text(encoding="utf-8").strip()


class IdentityProvider(_Issuer):
    """An OpenID provider at which people sign in, and what its groups may do here."""

    fetch_address: str = Field(
        "", description="Where the curator reaches it, if not at its issuer's address. Tokens name the issuer still."
    )

    name: str = Field(pattern="^[a-z][a-z0-9]{0,15}$", description="Begins the names of its people here.")
    audience: str = Field(min_length=1, description="What its tokens for this curator state as `aud`.")
    client_id: str = Field("", description="What notebooks sign in as; nobody is told to sign in there if empty.")
    scope: str = "openid"
    parameters: dict[str, str] = Field({}, description="What else it wants to be asked with, such as `resource`.")
    groups_claim: str = "groups"
    roles: dict[str, tuple[RoleName, ...]] = Field(description="Of each of its groups the roles here.")
    shown_name_claim: str = Field("name", description="Which claim is displayed beside a person's name here.")
    email_claim: str = Field("email", description="Which claim is displayed as a person's e-mail. None if empty.")
    subject_claim: str = Field(
        "sub", min_length=1, description="Which claim says who somebody is. It never changes, such as Entra's `oid`."
    )
    subject_claim_before: str = Field(
        "sub", description="Which claim said so before; a person known by it is linked. Nobody is linked if empty."
    )
    subjects: Literal["pairwise", "public"] = Field(
        "pairwise", description="`public` if it states the same `sub` of a person to each application."
    )
    lifetime_max_s: int = Field(24 * 3600, ge=60, description="For how long a token may be made, in seconds.")
    passports: bool = Field(False, description="Ask it for visas (GA4GH) of whoever signs in.")
    browser: BrowserClient | None = Field(None, description="Lets people sign in at the dashboard.")

    @field_validator("subject_claim", "subject_claim_before")
    @classmethod
    def _stays(cls, claim: str) -> str:
        """Refuse a claim by which one person could become another."""
        if claim.lower() in CHANGING_CLAIMS:
            raise ValueError(f"{claim} may change, or be given to somebody else: use a claim that stays, such as `oid`")
        return claim

    @property
    def tells_people_apart(self) -> bool:
        """True if two subjects are always two persons, in all applications of the provider."""
        return self.subject_claim != "sub" or self.subjects == "public"

    @model_validator(mode="after")
    def _tells_tokens_apart(self) -> Self:
        """Refuse a client for which an ID token would be an access token, too."""
        if self.browser is not None and self.browser.client_id == self.audience:
            raise ValueError("browser.client_id is another than audience: an ID token would be an access token")
        return self


class VisaIssuer(_Issuer):
    """An issuer of visas that count."""

    jwks_uri: str = Field("", description="Where its keys are; by its own description if empty.")


class UnknownVariable(ValueError):
    """A variable of the environment looks like a setting and is none; the message names it and the likely name."""


class _Environment(EnvSettingsSource):
    """The environment, without what Kubernetes injects: ``CURATOR_PORT=tcp://…`` is not our port."""

    def _load_env_vars(self) -> dict[str, str | None]:
        found = super()._load_env_vars()
        return {name: value for name, value in found.items() if not is_of_kubernetes(name, value or "")}


class Settings(BaseSettings):
    """Settings of an operator. None changes noise, sensitivity or accounting.

    The environment wins over the file; a name that is not known is an error in both.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    data_dir: Path = Field(Path("curator-data"), description="Folder of the embedded database and the stored rows.")
    keys_dir: Path | None = Field(
        None, description="Folder of the private signing keys; `keys` in the data folder if not set."
    )
    subject_key_file: Path | None = Field(
        None,
        description="File of a key under which registrations keep whose rows are, encrypted; kept elsewhere than keys "
        "and data. Identifiers are not kept if not set.",
    )
    anchor_dir: Path | None = Field(
        None,
        description="Folder of the ledger's anchor, never backed up and restored with the database; beside the data "
        "folder if not set.",
    )
    database_url: str | None = Field(None, description="SQLAlchemy URL; the embedded SQLite file if not set.")
    database_password_file: Path | None = Field(
        None, description="File that holds the password of the database's URL, and nothing else."
    )
    sources: dict[str, SecretStr] = Field(
        {},
        description="Databases that `curator datasets add --sql` may query: a name and an SQLAlchemy URL "
        "each, of a role that can only read.",
    )
    inbox: Path | None = Field(
        None,
        description="Folder of files that stewards may look at and register at the dashboard; they may not if not set.",
    )
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    workers: int = Field(1, ge=1, le=64)
    proxy: str | None = Field(
        None,
        description="Addresses or networks of the TLS proxy in front, separated by commas: whose word on who asks is "
        "believed. `*` where nothing else reaches the server. Without one it listens on loopback alone.",
    )
    public_url: str | None = Field(
        None,
        description="Where browsers and analysts reach the curator: `https://curator.example`, or "
        "`https://hospital.example/curator` below a path. Needed there, and where people sign in at the dashboard with "
        "a provider.",
    )
    requests_per_minute: int = Field(600, ge=1, le=1_000_000, description="Requests of one principal, in one worker.")
    keys_per_day: int = Field(
        2000,
        ge=1,
        le=1_000_000_000,
        description="New idempotency keys of one principal on one day, in UTC: each leaves something for good.",
    )
    failures_per_minute: int = Field(
        60, ge=1, le=1_000_000, description="Tokens that are not valid, from one address, in one worker."
    )
    log_format: LogFormat | None = Field(
        None, description="`json` or `text`; text on a terminal and JSON elsewhere if not set."
    )
    traces_url: str | None = Field(
        None,
        description="Where spans of requests are sent, by OTLP over HTTP, such as `http://collector:4318/v1/traces`; "
        "nowhere if not set.",
    )
    connections_max: int = Field(400, ge=8, le=100_000, description="Open connections of one worker.")
    body_bytes_max: int = Field(64 * 1024, ge=1024, description="Largest request body.")
    synchronous_s: float = Field(
        1.0, ge=0, le=60, description="What takes longer, by public numbers, runs as a job, in seconds."
    )
    pace: float | None = Field(
        None,
        ge=2**-10,
        le=2**20,
        description="How many times as long as on the reference machine work over rows is made to take; measured when "
        "the service starts if not set.",
    )
    passes_max: int = Field(4, ge=1, le=32, description="Releases that take time, for whose answers callers wait.")
    lease_s: float = Field(
        15.0, ge=0.1, le=3600, description="How long a worker may be silent before its jobs are given up, in seconds."
    )
    jobs_waiting_max: int = Field(16, ge=1, le=10_000, description="Jobs that one worker lets wait or run.")
    engine: Literal["numpy", "processes", "spark"] = Field(
        "numpy", description="What passes over rows run on; each gives the same integers."
    )
    engine_workers: int = Field(1, ge=1, le=1024, description="Threads, processes or tasks of one pass over rows.")
    cuts: Schedule = Field(
        "monthly",
        description="When the rows of datasets are renewed, in UTC: every midnight, or those of Mondays, or of the "
        "first of each month.",
    )
    providers: tuple[IdentityProvider, ...] = Field(
        (), description="OpenID providers at which people sign in; tokens are the curator's own alone if empty."
    )
    visa_issuers: tuple[VisaIssuer, ...] = Field((), description="Whose visas (GA4GH Passports) count.")
    visas: dict[str, str] = Field(
        {}, description="Of a dataset the value of the visa that whoever is charged must have beside a permit."
    )
    answer_bytes_max: int = Field(
        2**30,
        ge=2**20,
        description="Bytes of answers that are stored for one analyst of one population, whatever they cost.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments first, then the environment, then the TOML file."""
        del env_settings, dotenv_settings, file_secret_settings
        if unknown := find_unknown(os.environ, settings_cls.model_fields):
            raise UnknownVariable("; ".join(unknown))
        env_settings = _Environment(settings_cls)
        path = os.environ.get(CONFIG_VARIABLE)
        if path is None:
            return init_settings, env_settings
        if not Path(path).is_file():
            raise FileNotFoundError(f"{CONFIG_VARIABLE} names a file that does not exist: {path}")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)

    @field_validator("database_password_file")
    @classmethod
    def _is_readable(cls, path: Path | None) -> Path | None:
        return _check_secret(path)

    @field_validator("public_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        """Refuse an address that a provider could not send a browser back to, or not in secret."""
        if url is None:
            return None
        if not _PUBLIC.fullmatch(url):
            raise ValueError(
                "a public address is https://HOST, https://HOST:PORT or https://HOST/PATH; http is for this machine "
                "alone"
            )
        return url.rstrip("/")

    @field_validator("engine")
    @classmethod
    def _is_installed(cls, engine: str) -> str:
        """Refuse an engine whose library is not installed here."""
        if engine == "spark" and find_spec("pyspark") is None:
            raise ValueError("spark needs pyspark: pip install 'dp-curator[spark]'")
        return engine

    @field_validator("proxy")
    @classmethod
    def _is_of_addresses(cls, proxy: str | None) -> str | None:
        """Refuse what is no list of addresses: nobody would be believed."""
        try:
            for part in () if proxy in {None, "*"} else str(proxy).split(","):
                ip_network(part.strip(), strict=False)
        except ValueError:
            raise ValueError("a proxy is an address, a network, several with commas between them, or `*`") from None
        return proxy

    @field_validator("traces_url")
    @classmethod
    def _can_be_sent(cls, url: str | None) -> str | None:
        """Refuse an address where the library that sends is not installed here."""
        if url is not None and find_spec("opentelemetry.sdk") is None:
            raise ValueError("traces need their extra: pip install 'dp-curator[traces]'")
        return url

    @model_validator(mode="after")
    def _check_issuers(self) -> Self:
        """Refuse two providers of one name or address, and visas that nobody could have."""
        for names in ([one.name for one in self.providers], [one.issuer for one in self.providers]):
            if len(set(names)) != len(names):
                raise ValueError("two providers have one name, or one issuer")
        if self.public_url is None and any(one.browser for one in self.providers):
            raise ValueError("people who sign in with a browser are sent back to public_url, which is not set")
        if self.visas and not (self.visa_issuers and self.providers):
            raise ValueError("visas need visa_issuers, and providers whose people have them")
        return self

    @model_validator(mode="after")
    def _check_inbox(self) -> Self:
        """Refuse an inbox in which keys or stored rows would be shown as tables."""
        if self.inbox is None:
            return self
        if sys.platform != "linux":
            raise ValueError("an inbox needs Linux: a file that was opened there is read whatever its name is by then")
        own = (self.data_dir, self.keys_folder, self.anchor_folder)
        if any(self.inbox.resolve().is_relative_to(folder.resolve()) for folder in own):
            raise ValueError("the inbox is a folder of its own, and none within those of data, keys and the anchor")
        return self

    @property
    def believes_any_proxy(self) -> bool:
        """True if every address is trusted as the proxy in front."""
        parts = [] if self.proxy is None else [part.strip() for part in self.proxy.split(",")]
        return any(part == "*" or ip_network(part, strict=False).prefixlen == 0 for part in parts)

    @property
    def keys_folder(self) -> Path:
        """The folder of the private signing keys."""
        return self.keys_dir or self.data_dir.absolute() / "keys"

    @property
    def folders(self) -> dict[str, Path]:
        """Folders of the curator by what is in them."""
        return {"data": self.data_dir, "keys": self.keys_folder, "anchor": self.anchor_folder}

    @property
    def anchor_folder(self) -> Path:
        """The folder of the anchor."""
        data_dir = self.data_dir.absolute()
        return self.anchor_dir or data_dir.with_name(f"{data_dir.name}-anchor")

    @property
    def public_path(self) -> str:
        """The path of the public address below which the curator is; empty at the root."""
        found = _PUBLIC.fullmatch(self.public_url or "")
        return "" if found is None else found["path"]

    @property
    def url(self) -> str:
        """The database URL, with the password of its file."""
        if self.database_url is None:
            return f"sqlite:///{self.data_dir.absolute() / 'curator.sqlite3'}"
        if self.database_password_file is None:
            return self.database_url
        password = self.database_password_file.read_text(encoding="utf-8").strip()
        return make_url(self.database_url).set(password=password).render_as_string(hide_password=False)


def explain(error: ValueError | OSError) -> list[str]:
    """Say which settings are at fault, by the name under which the operator wrote them, and why; never a value."""
    if isinstance(error, ValidationError):
        return [f"{_place(*fault['loc'])}{_rule(fault)}" for fault in error.errors()]
    if isinstance(error, SettingsError):
        field = re.search(r'field "(\w+)"', str(error))
        return [f"{_place(*field.groups() if field else ())}: it is not JSON"]
    if isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError):
        return [f"the file that {CONFIG_VARIABLE} names is not TOML in UTF-8"]
    return [str(error)]


def _place(*place: str | int) -> str:
    """Return where a fault is, and the variable if it came by one."""
    if not place:
        return "settings"
    variable = f"{PREFIX}{place[0]}".upper()
    written = next((f"{name}, " for name in os.environ if name.upper() == variable), "")
    return f"{written}setting {'.'.join(map(str, place))}"


def _rule(fault: ErrorDetails) -> str:
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        return f" is no setting{suggest(str(fault['loc'][0]), Settings.model_fields)}"
    return f": {fault['msg'].removeprefix('Value error, ')}"
