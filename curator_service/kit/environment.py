"""Variables of the environment whose names begin with ``CURATOR_``: which are read, and which are mistyped."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

PREFIX = "CURATOR_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
OTHER_VARIABLES = {
    CONFIG_VARIABLE: "server: the TOML file of settings",
    "CURATOR_TOKEN": "commands and curator-admin: the token of whoever acts",
    "CURATOR_SECOND_TOKEN": "curator restore: the token of a second privacy officer",
    "CURATOR_SERVER": "curator-admin: the address of the curator",
    "CURATOR_URL": "scripts of analysts: the address of the curator",
    "CURATOR_WAIT_S": "examples/curl: for how long a script waits for an answer, in seconds",
    "CURATOR_SITE": "deploy/Caddyfile: the server's name",
    "CURATOR_UPSTREAM": "deploy/Caddyfile: the address of `curator serve`",
    "CURATOR_BACKUP_FOLDER": "deploy/curator-task: the folder of backups",
    "CURATOR_BACKUP_DAYS": "deploy/curator-task: for how many days a backup is kept",
}
"""Every name that is not a setting, and what reads it."""
_TESTS = f"{PREFIX}TEST_"
# Kubernetes describes each service of a namespace to every container. Those called curator or curator-… look like ours.
_SERVICE_NAME = re.compile(
    r"CURATOR_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://.*", re.IGNORECASE)


def is_of_kubernetes(name: str, value: str) -> bool:
    """Return whether Kubernetes injected a variable for a service called ``curator`` or ``curator-…``."""
    name = name.upper()
    if _SERVICE_NAME.fullmatch(name):
        return True
    return name.startswith(PREFIX) and name.endswith("PORT") and _SERVICE_ADDRESS.fullmatch(value) is not None


def find_unknown(environment: Mapping[str, str], settings: Iterable[str]) -> list[str]:
    """Say of each variable with our prefix that nothing reads it, and which name is likely meant; never its value.

    Parameters
    ----------
    settings : iterable of str
        The names of settings, without the prefix, in lower case.
    """
    known = {f"{PREFIX}{name}".upper() for name in settings} | set(OTHER_VARIABLES)
    return [
        f"{name} is no setting{suggest(name.upper(), known)}"
        for name, value in sorted(environment.items())
        if name.upper().startswith(PREFIX)
        and name.upper() not in known
        and not name.upper().startswith(_TESTS)
        and not is_of_kubernetes(name, value)
    ]


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the likely name; empty where none is near."""
    meant = {one.removeprefix(PREFIX): one for one in known}  # names are compared without what all of them share
    near = get_close_matches(name.removeprefix(PREFIX), list(meant), n=1, cutoff=0.7)
    return f": did you mean {meant[near[0]]}?" if near else ""
