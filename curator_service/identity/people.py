"""People as they are displayed: a name and an e-mail beside the id, held against the register, and erased from it."""

import hmac
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from curator_service.identity import repository
from curator_service.identity.attestation import NAMINGS_PER_DAY_MAX, PROVIDER, Acts, Attestation
from curator_service.identity.entries import PersonNamed, PersonNameErased
from curator_service.identity.names import read_email, read_name
from curator_service.identity.repository import NAMELESS, PersonName, StoredName
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Database
from curator_service.kit.problems import TooManyRequests

UNSHOWN = "cannot be shown"
"""In place of a name that is stored and is not the one of the register, or of one that is gone without being erased."""
_DAY = timedelta(days=1)
_BRACKETS = str.maketrans("()", "[]")


class _Overtaken(Exception):
    """Somebody has named the person in the meantime, or erased the name."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody as displayed.

    Attributes
    ----------
    id : str
        Of the principal; empty of an actor who is none, such as the curator.
    name : str
        The name that chain and policy use, in ASCII; of another actor what the entry says.
    shown, email : str
        The displayed name, or `UNSHOWN`, and the address; empty where there is none.
    """

    id: str
    name: str
    shown: str = ""
    email: str = ""

    @property
    def label(self) -> str:
        """Both names in a line of text: the displayed one stands behind, so that it cannot pass for the other.

        Round brackets are ours: a name with some would end before its end, and go on as somebody else.
        """
        return f"{self.name} ({self.shown.translate(_BRACKETS)})" if self.shown else self.name


class People:
    """Displayed names of people.

    Parameters
    ----------
    acts : Acts
        The register, which has a digest of each name.
    now : callable
        The clock.
    """

    def __init__(self, database: Database, acts: Acts, attestation: Attestation, now: Clock) -> None:
        self.database = database
        self.acts = acts
        self.attestation = attestation
        self.now = now

    def look(self) -> "Look":
        """Return a look at people as the register has them now, for one page or answer."""
        self.attestation.refresh()
        return Look(self)

    def name(self, principal_id: str, name: str, email: str, *, actor: str) -> None:
        """Set the displayed name and the e-mail of a person.

        Raises
        ------
        NameRefused
        TooManyRequests
            If the person does it, and has done so often.
        LedgerUnverified
            Under a seal.
        """
        said = PersonName(read_name(name), read_email(email))
        self._check_rate(principal_id, actor)
        self._write(principal_id, said, actor)

    def state(self, principal_id: str, said: PersonName, told_at: str) -> None:
        """Take the name that a provider states of a person, once a day at most.

        Whom somebody else named, or whose name was erased, is not named by a provider again. Under a seal nobody is.

        Parameters
        ----------
        told_at : str
            When the provider said so.
        """
        if said == NAMELESS or not self.acts.is_open():
            return
        if self.attestation.find(principal_id) is None:  # the person came just now
            self.attestation.refresh()
        stored = self._find(principal_id)
        if self._is_news(principal_id, said, told_at, stored):
            self.attestation.refresh()  # another process, or a command, may have erased the name
            if self._is_news(principal_id, said, told_at, stored):
                with suppress(_Overtaken):
                    self._write(principal_id, said, PROVIDER, is_meant=lambda found: found == stored)

    def _is_news(self, principal_id: str, said: PersonName, told_at: str, stored: StoredName | None) -> bool:
        """Return whether a provider's statement is to be written in the place of what is stored."""
        known = self.attestation.find(principal_id)
        if known is None or not known.is_stated:
            return False
        if known.named_at and told_at < timestamp(datetime.fromisoformat(known.named_at[-1]) + _DAY):
            return False
        return stored is None or stored.said != said or not _holds(principal_id, stored, known.naming)

    def erase(self, principal_id: str, *, actor: str) -> None:
        """Delete the displayed name and the e-mail of a person, with the key of their digest.

        Who repeats it after a lost answer changes nothing.

        Raises
        ------
        TooManyRequests, LedgerUnverified
        """
        self._check_rate(principal_id, actor)
        with self.acts.unit() as unit:
            for one in self.attestation.ids_of_person(principal_id):
                known = self.attestation.find(one)
                if repository.find_name(unit.connection, one) is not None or (known is not None and known.naming):
                    unit.act(PersonNameErased(actor=actor, time=timestamp(self.now()), principal=one))
                    repository.delete_name(unit.connection, one)
        self.database.forget_deleted()
        self.attestation.refresh()

    def _write(
        self,
        principal_id: str,
        said: PersonName,
        actor: str,
        is_meant: Callable[[StoredName | None], bool] = lambda _found: True,
    ) -> None:
        stored, moment = StoredName(said, secrets.token_hex(32)), timestamp(self.now())
        with self.acts.unit() as unit:
            commitment = stored.commit(principal_id)
            # It locks the register: whoever names the same person beside this one finds the row.
            unit.act(PersonNamed(actor=actor, time=moment, principal=principal_id, commitment=commitment))
            if not is_meant(repository.find_name(unit.connection, principal_id)):
                raise _Overtaken
            repository.write_name(unit.connection, principal_id, stored)
        self.attestation.refresh()

    def _check_rate(self, principal_id: str, actor: str) -> None:
        self.attestation.refresh()
        known = self.attestation.find(principal_id)
        if actor != principal_id or known is None or len(known.named_at) < NAMINGS_PER_DAY_MAX:
            return
        wait = datetime.fromisoformat(known.named_at[0]) + _DAY - self.now()
        if wait > timedelta():
            raise TooManyRequests(
                f"Your name was changed {NAMINGS_PER_DAY_MAX} times within 24 hours. Wait, or ask an operator.",
                retry_after_s=int(wait.total_seconds()) + 1,
            )

    def _find(self, principal_id: str) -> StoredName | None:
        with self.database.read() as connection:
            return repository.find_name(connection, principal_id)

    def find(self, actor: str) -> Person:
        """Return a principal by id, or an actor who is none as an entry calls it."""
        for _ in range(2):  # whoever changes the name meanwhile writes row and entry
            found = self._show(actor, self._find)
            if found is not None:
                return found
            self.attestation.refresh()
        return Person(actor, self.attestation.name_of(actor), UNSHOWN)

    def find_all(self, actors: Iterable[str]) -> list[Person]:
        """Return principals by id, as `find` does each, in one query."""
        with self.database.read() as connection:
            stored = repository.list_names(connection)
        return [self._show(actor, stored.get) or self.find(actor) for actor in actors]

    def _show(self, actor: str, read: Callable[[str], StoredName | None]) -> Person | None:
        """Return somebody as displayed; None where what is stored is not what the register has."""
        known = self.attestation.find(actor)
        if known is None:
            return Person("", actor)
        if not known.naming:
            return Person(actor, known.name)
        stored = read(actor)
        if stored is None or not _holds(actor, stored, known.naming):
            return None
        return Person(actor, known.name, stored.said.name, stored.said.email)


class Look:
    """People that are displayed together, each looked up once."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._found: dict[str, Person] = {}

    def find(self, actor: str) -> Person:
        """Return a principal by id, or an actor who is none as an entry calls it."""
        if actor not in self._found:
            self._found[actor] = self._people.find(actor)
        return self._found[actor]

    def named(self, name: str) -> Person:
        """Return a principal by the name that chain and policy use."""
        principal_id = self._people.attestation.id_of(name)
        return self.find(principal_id) if principal_id else Person("", name)

    def find_all(self, actors: Iterable[str]) -> list[Person]:
        """Return principals by id, in one query."""
        return self._people.find_all(actors)


def _holds(principal_id: str, stored: StoredName, naming: str) -> bool:
    return hmac.compare_digest(stored.commit(principal_id), naming)
