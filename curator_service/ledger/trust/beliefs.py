"""Why a stored value is believed: every column of every table has one reason, and none is that it stands there.

Whoever may write the tables as the service does, and has neither a private key nor the folders of this machine, gets no
budget, permission or reader more. tests/integration/test_every_column.py changes columns of each table, and says of
which rows.
"""

from enum import StrEnum
from typing import NamedTuple


class Belief(StrEnum):
    """A reason to believe a column."""

    FOLDED = "folded"
    """It is compared with what signed entries add up to, and may only restrict."""
    KEYED = "keyed"
    """A secret of the folder of keys authenticates it."""
    BOUND = "bound"
    """A signed entry holds its digest, or it is signed itself."""
    HINT = "hint"
    """It protects nobody's row: to change it refuses something, shows something else, or lets more be stored."""


class Columns(NamedTuple):
    """Columns of a table that are believed for one reason."""

    table: str
    belief: Belief
    names: tuple[str, ...]
    why: str


def _of(table: str, belief: Belief, names: str, why: str) -> Columns:
    return Columns(table, belief, tuple(names.split()), why)


BELIEFS = (
    _of(
        "populations",
        Belief.FOLDED,
        "name adjacency accountant delta limit_units highest_limit_units posted_units pending_units head_sequence "
        "head_hash created_at epoch",
        "the chain adds up to it at a start; each entry is held against the last one",
    ),
    _of(
        "shares",
        Belief.FOLDED,
        "population permit_id limit_units expires_at posted_units pending_units",
        "limit and end are the chain's last ones when a release is charged; amounts are its sums at a start",
    ),
    _of(
        "spending",
        Belief.FOLDED,
        "population month principal_id permit_id project dataset kind charges units",
        "sums of the chain's charges, at a start; no charge asks for them",
    ),
    _of("ledger_entries", Belief.BOUND, "population sequence payload entry_hash signature", "signed, in their place"),
    _of(
        "signing_keys",
        Belief.BOUND,
        "key_id public_key created_at previous endorsement",
        "each is endorsed by the one before; a file beside the private keys names the first",
    ),
    _of("seal", Belief.HINT, "id reason sealed_at", "the database refuses to lift it; a doubt is found again"),
    _of("principals", Belief.FOLDED, "id name roles issuer", "the register names them; roles may only be fewer"),
    _of("principals", Belief.HINT, "created_at", "shown"),
    _of(
        "person_names",
        Belief.BOUND,
        "principal_id name email key",
        "displayed only as the register's digest has them; they give nobody a right",
    ),
    _of(
        "tokens",
        Belief.FOLDED,
        "id principal_id secret_hash expires_at revoked_at scopes",
        "the register has holder, commitment, scopes, end and revocation",
    ),
    _of("tokens", Belief.HINT, "created_at replaced_by revoked_by last_used_at", "shown, and what falls with it"),
    _of(
        "grants",
        Belief.FOLDED,
        "principal_id dataset_id permit_id",
        "people and datasets of the chain's last terms when a release is charged",
    ),
    _of("grants", Belief.HINT, "created_at", "shown"),
    _of(
        "permits",
        Belief.FOLDED,
        "id version project terms granted_at ended_at",
        "the chain's last terms hold when a release is charged",
    ),
    _of(
        "proposals",
        Belief.FOLDED,
        "id population scope label limit_units from_units reason content proposed_by proposed_at state",
        "the register says what was asked, by whom, and that nothing came of it",
    ),
    _of("proposals", Belief.HINT, "decision decided_by decided_at", "shown; verified against the chain"),
    _of(
        "datasets",
        Belief.BOUND,
        "id name population manifest snapshot_commitment retired_at folder",
        "manifest and rows are those of the chain's last registration when a release is charged",
    ),
    _of("datasets", Belief.HINT, "created_at version sequence cut_at successor", "shown; verified against the chain"),
    _of("snapshots", Belief.KEYED, "digest population key_id dataset_id", "digests of rows under a secret"),
    _of("sketches", Belief.KEYED, "dataset_id version key_id sealed", "encrypted and authenticated"),
    _of(
        "changes",
        Belief.HINT,
        "id dataset_id number act content actor asked_at version",
        "what a cut will do; what it did is registered by its commitment",
    ),
    _of(
        "releases",
        Belief.BOUND,
        "id dataset_id population sequence request_digest answer",
        "served only as its attested entry states it",
    ),
    _of(
        "release_listings",
        Belief.HINT,
        "release_id dataset_id collection sequence shelf members least_sd loudness noise summary",
        "nominates releases, which are read before they are used",
    ),
    _of("column_holders", Belief.HINT, "collection kind name chunk bits", "nominates releases"),
    _of(
        "reservations",
        Belief.FOLDED,
        "id population dataset_id principal_id permit_id units drawn_units state",
        "the chain holds each open amount, at a start; account and permit decide what is drawn",
    ),
    _of(
        "reservations",
        Belief.HINT,
        "project study_id outcome request_digest details owner created_at expires_at sequence",
        "shown, and who works on what",
    ),
    _of("workers", Belief.HINT, "id beat", "who is thought to be alive"),
    _of(
        "idempotency_keys",
        Belief.HINT,
        "principal_id key fingerprint release_id reservation_id population sequence",
        "finds an answer, which is held against request and reader",
    ),
    _of(
        "sessions",
        Belief.FOLDED,
        "id population dataset_id principal_id sequence",
        "the entry that opened it says whose it is, of which rows; the chain counts its answers",
    ),
    _of("session_noise", Belief.KEYED, "session_id key_id sealed", "encrypted for the entry that opened the session"),
    _of(
        "session_questions",
        Belief.BOUND,
        "session_id number sequence question",
        "served only as the attested entry of its answer states it",
    ),
    _of("surveys", Belief.BOUND, "name sequence question", "shown only as the register's attested entry states it"),
    _of("surveys", Belief.HINT, "reports closed_at", "whether reports are still taken; each is private by itself"),
    _of("survey_reports", Belief.HINT, "survey token answer", "read as anybody may have given them"),
    _of("used_invitations", Belief.HINT, "survey code", "that it gave its report"),
    _of("key_counts", Belief.HINT, "principal_id day keys", "bounds growth"),
    _of("answer_space", Belief.HINT, "population principal_id bytes", "bounds growth"),
    _of(
        "browser_sessions",
        Belief.KEYED,
        "id_hash principal_id token_id began_at confirmed_at ends_at issuer kept proof",
        "a proof of the whole row",
    ),
    _of("browser_sessions", Belief.HINT, "seen_at", "ends a session earlier or, within `ends_at`, later"),
    _of("sign_ins", Belief.HINT, "id_hash began_at", "that an answer came; the cookie is authenticated"),
)
"""Columns by table, each once."""
