"""Frozen settings, read once from the environment (``CURATOR_*``) and a TOML file (``CURATOR_CONFIG``)."""

import os
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from sqlalchemy import make_url

from curator_service.kit.cuts import Schedule
from curator_service.kit.logs import LogFormat

CONFIG_VARIABLE = "CURATOR_CONFIG"


class Settings(BaseSettings):
    """What an operator may choose. Nothing here changes noise, sensitivity or accounting.

    The environment wins over the file; a name that is not known is an error in the file.
    """

    model_config = SettingsConfigDict(env_prefix="CURATOR_", frozen=True, extra="forbid")

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
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    workers: int = Field(1, ge=1, le=64)
    proxy: str | None = Field(
        None,
        description="Addresses or networks of the TLS proxy in front, separated by commas: whose word on who asks is "
        "believed. `*` where nothing else reaches the server. Without one it listens on loopback alone.",
    )
    requests_per_minute: int = Field(600, ge=1, le=1_000_000, description="Requests of one principal, in one worker.")
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
        del dotenv_settings, file_secret_settings
        path = os.environ.get(CONFIG_VARIABLE)
        if path is None:
            return init_settings, env_settings
        if not Path(path).is_file():
            raise FileNotFoundError(f"{CONFIG_VARIABLE} names a file that does not exist: {path}")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)

    @field_validator("database_password_file")
    @classmethod
    def _is_readable(cls, path: Path | None) -> Path | None:
        """Refuse a file that cannot be read here, where the setting is named."""
        try:
            if path is not None and not path.read_text(encoding="utf-8").strip():
                raise ValueError("the file is empty")
        except OSError as error:
            raise ValueError(f"the file cannot be read: {error.strerror}") from None
        return path

    @field_validator("engine")
    @classmethod
    def _is_installed(cls, engine: str) -> str:
        """Refuse an engine whose library is not installed here."""
        if engine == "spark" and find_spec("pyspark") is None:
            raise ValueError("spark needs pyspark: pip install 'dp-curator[server,spark]'")
        return engine

    @field_validator("proxy")
    @classmethod
    def _is_of_addresses(cls, proxy: str | None) -> str | None:
        """Refuse what is no list of addresses: nobody would be believed."""
        for part in () if proxy in {None, "*"} else str(proxy).split(","):
            ip_network(part.strip(), strict=False)  # raises ValueError
        return proxy

    @field_validator("traces_url")
    @classmethod
    def _can_be_sent(cls, url: str | None) -> str | None:
        """Refuse an address where the library that sends is not installed here."""
        if url is not None and find_spec("opentelemetry.sdk") is None:
            raise ValueError("traces need their extra: pip install 'dp-curator[server,traces]'")
        return url

    @property
    def keys_folder(self) -> Path:
        """Where the private signing keys are."""
        return self.keys_dir or self.data_dir.absolute() / "keys"

    @property
    def anchor_folder(self) -> Path:
        """Where the anchor is."""
        data_dir = self.data_dir.absolute()
        return self.anchor_dir or data_dir.with_name(f"{data_dir.name}-anchor")

    @property
    def url(self) -> str:
        """The database URL, with the password of its file."""
        if self.database_url is None:
            return f"sqlite:///{self.data_dir.absolute() / 'curator.sqlite3'}"
        if self.database_password_file is None:
            return self.database_url
        password = self.database_password_file.read_text(encoding="utf-8").strip()
        return make_url(self.database_url).set(password=password).render_as_string(hide_password=False)
