"""Statements of a chain's entries beside amounts, as far as they were read."""

from dataclasses import dataclass, field

from curator_service.entries.account import Sessions, Share


@dataclass(frozen=True, slots=True)
class Registration:
    """Statement of a chain about a dataset: values that decide its noise and its account."""

    population: str
    adjacency: str
    accountant: str
    dataset_id: str
    name: str
    manifest_digest: str
    snapshot: str
    ended: str = ""


@dataclass(slots=True)
class Told:
    """Statements of a chain, so far.

    Attributes
    ----------
    population : str
    terms : tuple of str
        Adjacency and accountant, of its opening entry.
    versions : set of Registration
    latest : dict of str to Registration
        Of these the last one of each dataset.
    permits : dict of str to Share
        The last terms of each permit.
    confirmed : set of str
        Keyed digests of rows of which two admins said that they are of other people.
    sessions : Sessions
        The threshold sessions that are open.
    """

    population: str
    terms: tuple[str, str] | None = None
    versions: set[Registration] = field(default_factory=set)
    latest: dict[str, Registration] = field(default_factory=dict)
    permits: dict[str, Share] = field(default_factory=dict)
    confirmed: set[str] = field(default_factory=set)
    sessions: Sessions = field(default_factory=Sessions)
