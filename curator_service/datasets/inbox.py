"""The inbox: a folder of this machine whose files stewards register at the dashboard.

A browser names a file by a digest of its name, and never by a name or a path. The file is opened beside its name's
folder, and no link is followed; what was opened is what is read. Rows are read in a process of its own, one file of the
machine at a time. What is told of them are names and kinds of columns, and rules that a declaration breaks: no value,
count or place.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from curator_service.datasets.checking import check_rows
from curator_service.datasets.drafting import propose_columns
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.parts import stored_bytes
from curator_service.datasets.reading import read_apart
from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import CHANGED, DatasetService, OtherPeople, RegistrationError
from curator_service.datasets.sources.base import IngestError, MalformedSource, Progress
from curator_service.datasets.sources.csv import TolerantCsv
from curator_service.datasets.sources.opening import is_csv, open_source
from curator_service.datasets.sources.parquet import ParquetSource
from curator_service.datasets.sources.sniffing import sniff
from curator_service.datasets.sources.streams import DigestedFile
from curator_service.kit.apart import Bounds, Told
from curator_service.kit.clock import timestamp
from curator_service.kit.files import lock
from curator_service.kit.problems import NotFound, TooManyRequests, Unavailable
from curator_service.kit.tries import Tries
from curator_service.ledger.chain.signing import SigningError

FILES_MAX = 10_000
"""Names of a folder that are looked at."""
_MOMENT_MAX = 253402300799
"""The end of the year 9999: file systems keep whatever moment the copier of a file states."""
BYTES_MAX = 2**30
COLUMNS_MAX = 200
"""Of a file, and so of a form."""
STORED_BYTES_MAX = 2**30
"""Of the rows that a declared capacity takes, whatever a file has: disks are filled by declarations, too."""
TRIES_MAX = 30
"""Declarations within a day that rows are held against: each answer tells a little of them."""
_PROCESSOR_S = 20
"""Of one reading: several follow each other before the proxies of deploy/ give up."""
_BOUNDS = Bounds(2**30, _PROCESSOR_S)
_AT_THE_MACHINE = "at the machine `curator manifest draft` and `curator manifest check` say more, and take larger files"
_UNREADABLE = f"it cannot be read to its end as a table of CSV or Parquet; {_AT_THE_MACHINE}"


class InboxFault(Exception):
    """A file cannot be registered as declared; `faults` say why, without a value or a count of rows."""

    def __init__(self, *faults: str) -> None:
        super().__init__(faults[0])
        self.faults = faults


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A file of the inbox.

    Attributes
    ----------
    id : str
        Its name in addresses.
    name, changed_at : str
        As they are shown.
    """

    id: str
    name: str
    changed_at: str

    @classmethod
    def of(cls, name: str, found: os.stat_result) -> Self:
        """Return a file; a name that is no text is shown with its bytes."""
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        moment = datetime.fromtimestamp(min(max(found.st_mtime, 0), _MOMENT_MAX), UTC)
        return cls(_id_of(name), shown, timestamp(moment))


@dataclass(frozen=True, slots=True)
class Look:
    """What a form begins with.

    Attributes
    ----------
    digest : str
        SHA-256 of the file: of rows, so that no page may state it.
    csv : mapping of str to str
        How a CSV file seems to be written; empty of Parquet.
    columns : list of mapping
        Of each the header, a name, a unit and the kind; see `propose_columns`.
    """

    digest: str
    csv: Mapping[str, str]
    columns: list[dict[str, str]]


class Inbox:
    """The inbox of one curator.

    Parameters
    ----------
    folder : Path or None
        Off without one.
    """

    def __init__(self, folder: Path | None, datasets: DatasetService) -> None:
        self._folder, self._datasets = folder, datasets

    @property
    def is_on(self) -> bool:
        """True if the curator has an inbox."""
        return self._folder is not None

    def list_files(self) -> tuple[list[InboxFile], bool]:
        """Return the files that may be looked at, the newest first, and whether the folder has more names than these.

        Raises
        ------
        NotFound, Unavailable
            If there is no inbox, or its folder cannot be read.
        """
        found: list[tuple[int, InboxFile]] = []
        with self._open_folder() as folder, os.scandir(folder) as entries:
            for entry in islice(entries, FILES_MAX):
                with suppress(OSError):  # it is gone
                    looked = entry.stat(follow_symlinks=False)
                    if _may_be_read(entry.name, looked):
                        found.append((-looked.st_mtime_ns, InboxFile.of(entry.name, looked)))
            has_more = next(entries, None) is not None
        found.sort(key=lambda one: (one[0], one[1].name))
        return [file for _, file in found], has_more

    @contextmanager
    def open(self, file_id: str) -> Iterator[tuple[InboxFile, Path]]:
        """Open a file; yield it, and a path of what was opened, whatever has its name by now.

        Raises
        ------
        NotFound, Unavailable
            If there is no such file, or none that may be looked at.
        """
        with self._open_folder() as folder:
            name = _find(folder, file_id)
            # Without O_NONBLOCK the opening of a pipe would wait for whoever writes into it.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            try:
                descriptor = os.open(name, flags, dir_fd=folder)
            except OSError:
                raise _unknown() from None
        try:
            found = os.fstat(descriptor)
            if not _may_be_read(name, found):
                raise _unknown()
            yield InboxFile.of(name, found), Path(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def look(self, path: Path) -> Look:
        """Return names and kinds of columns of an opened file.

        Raises
        ------
        InboxFault, TooManyRequests
        """
        with self._alone():
            found = _read(partial(_look, path), path)
        if "fault" in found:
            raise InboxFault(found["fault"])
        return Look(found["digest"], found["csv"], found["columns"])

    def register(
        self,
        path: Path,
        manifest: Manifest,
        *,
        actor: str,
        other_people: OtherPeople | None,
        is_meant: Callable[[str], bool],
    ) -> Dataset:
        """Register an opened file, if all of its rows are as declared.

        Parameters
        ----------
        actor : str
            Who registers, for the ledger.
        other_people : OtherPeople, optional
            As `DatasetService.register` takes it.
        is_meant : callable
            Tells of a digest whether it is that of the file that the form was made of.

        Raises
        ------
        InboxFault, TooManyRequests, LedgerUnverified, Unavailable
        """
        if stored_bytes(len(manifest.columns), manifest.row_capacity) > STORED_BYTES_MAX:
            raise InboxFault(
                f"so many columns with a row_capacity of {manifest.row_capacity:,} take more than "
                f"{STORED_BYTES_MAX / 2**30:g} GiB: declare a capacity nearer to the rows that you expect"
            )
        try:
            self._datasets.check_registrable(manifest)
            with self._alone():
                if not is_meant(_read(partial(_digest, path), path)["digest"]):
                    raise InboxFault(CHANGED)
                self._check_rows(path, manifest)
                return self._datasets.register(
                    manifest, path, actor=actor, other_people=other_people, is_meant=is_meant
                )
        except (IngestError, OSError):
            raise InboxFault(f"it cannot be read, or there is no room to store it; {_AT_THE_MACHINE}") from None
        except SigningError:  # it names folders of the machine
            raise InboxFault("a private key of the curator is not here; an operator runs `curator doctor`") from None
        except RegistrationError as error:
            raise InboxFault(str(error)) from None

    def _check_rows(self, path: Path, manifest: Manifest) -> None:
        """Refuse rows that are not as declared; each such look is counted before.

        Raises
        ------
        InboxFault
            With each rule that is broken, and nothing of how often or where.
        """
        datasets = self._datasets
        if not Tries(datasets.ledger.guard.trust.anchor.folder / "inbox", TRIES_MAX).take(datasets.now()):
            raise InboxFault(
                f"{TRIES_MAX} declarations were held against files of the inbox within a day, and each answer tells a "
                f"little of the rows: wait until that is over; {_AT_THE_MACHINE}"
            )
        report = check_rows(manifest, open_source(path, manifest.csv_options), processor_s=_PROCESSOR_S)
        told = [f"{one.column}: {one.told}" if one.column else one.told or _UNREADABLE for one in report.faults]
        if told:
            raise InboxFault(*dict.fromkeys(told))

    @contextmanager
    def _open_folder(self) -> Iterator[int]:
        if self._folder is None:
            raise NotFound("This curator has no inbox.")
        try:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise Unavailable("The folder of the inbox cannot be read; an operator looks at the setting.") from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other file of the inbox be read on this machine meanwhile, and hold no connection.

        Raises
        ------
        TooManyRequests
        """
        self._datasets.database.give_back()
        root = self._datasets.storage.root
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = lock(root / ".inbox", os.O_CREAT)
        if held is None:
            raise TooManyRequests(
                "Another file of the inbox is being read. Nothing was done; try again in a moment.",
                retry_after_s=_PROCESSOR_S,
            )
        try:
            yield
        finally:
            fcntl.flock(held, fcntl.LOCK_UN)  # a process that was forked meanwhile may have the descriptor, too
            os.close(held)


def _id_of(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:32]


def _find(folder: int, file_id: str) -> str:
    """Return the name of a file, which is the folder's own word.

    Raises
    ------
    NotFound
    """
    with os.scandir(folder) as entries:
        for entry in islice(entries, FILES_MAX):
            if _id_of(entry.name) == file_id:
                return entry.name
    raise _unknown()


def _may_be_read(name: str, found: os.stat_result) -> bool:
    """Return True for a regular file of this one name: what is half copied has a name with a dot before it."""
    return not name.startswith(".") and stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _unknown() -> NotFound:
    return NotFound("There is no such file in the inbox that may be looked at: no link, and none that is half copied.")


def _read(work: Callable[[Progress], Told], path: Path) -> Told:
    """Read a file in a process of its own.

    Raises
    ------
    InboxFault
    """
    if path.stat().st_size > BYTES_MAX:
        raise InboxFault(f"the file has more than {BYTES_MAX / 2**30:g} GiB; {_AT_THE_MACHINE}")
    try:
        return read_apart(work, str(path), _BOUNDS, lambda _rows, _share: None)
    except (IngestError, OSError):
        raise InboxFault(_UNREADABLE) from None


def _digest(path: Path, _progress: Progress) -> dict[str, Any]:
    with DigestedFile(path) as file:
        return {"digest": file.finish()}


def _look(path: Path, _progress: Progress) -> dict[str, Any]:
    try:
        options = sniff(path) if is_csv(path) else None
        columns = propose_columns(ParquetSource(path) if options is None else TolerantCsv(path, options))
    except MalformedSource as error:
        return {"fault": str(error).removeprefix(f"{path}: ")}
    if len(columns) > COLUMNS_MAX:
        return {"fault": f"the file has more than {COLUMNS_MAX} columns; {_AT_THE_MACHINE}"}
    csv = {} if options is None else options.model_dump(exclude={"header"})
    return {"csv": csv, "columns": columns} | _digest(path, _progress)
