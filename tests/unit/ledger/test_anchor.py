"""The anchor: what it holds survives losses of power, full disks and several processes, and is never taken for more."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_service.kit import db
from curator_service.ledger.chain.entries import Checkpoint, SignedCheckpoint
from curator_service.ledger.trust.anchor import Anchor, AnchorError


def signed(sequence: int, population: str = "town", *, epoch: int = 1) -> SignedCheckpoint:
    """Return a checkpoint; nothing of the anchor depends on whether its signature holds."""
    checkpoint = Checkpoint(population, sequence, f"{sequence:064x}", epoch, 100, sequence, 0, "key_0")
    return SignedCheckpoint(checkpoint, "a signature")


def highest(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what a process that starts now reads."""
    return {population: found.checkpoint.order for population, found in Anchor(folder).read().items()}


def test_what_was_moved_is_read_by_the_next_process_to_the_letter(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor")
    assert anchor.read() == {}
    assert anchor.floor("town") == (0, 0)
    for checkpoint in (signed(3), signed(7), signed(2, "valley")):
        anchor.move(checkpoint)
    assert Anchor(tmp_path / "anchor").read() == {"town": signed(7), "valley": signed(2, "valley")}
    assert (anchor.floor("town"), anchor.floor("valley"), anchor.floor("city")) == ((1, 7), (1, 2), (0, 0))


def test_it_never_moves_back_and_an_epoch_is_higher_than_any_sequence_before(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path)
    anchor.move(signed(9))
    size = anchor.path.stat().st_size
    for lower in (signed(9), signed(8)):
        anchor.move(lower)
    assert anchor.path.stat().st_size == size
    anchor.move(signed(2, epoch=2))
    anchor.move(signed(10))
    assert highest(tmp_path) == {"town": (2, 2)}


def test_it_only_grows_for_every_line_is_evidence(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path)
    moved = [signed(1), signed(4), signed(2, "valley"), signed(2, epoch=2)]
    for checkpoint in moved:
        anchor.move(checkpoint)
    assert Anchor(tmp_path).log() == moved
    anchor.keep(signed(3))  # what a client brought, of a history that this process does not have
    assert Anchor(tmp_path).log() == [*moved, signed(3)]
    assert highest(tmp_path) == {"town": (2, 2), "valley": (1, 2)}


def test_lines_are_left_out_only_by_name_and_other_processes_go_on(tmp_path: Path) -> None:
    anchor, other = Anchor(tmp_path), Anchor(tmp_path)
    for sequence in range(1, 9):
        anchor.move(signed(sequence))
    other.refresh()
    dropped = [signed(sequence) for sequence in range(2, 8)]
    other.move(signed(9))  # nobody judged it
    anchor.compact(lambda line: line not in dropped)
    assert Anchor(tmp_path).log() == [signed(1), signed(8), signed(9)]
    for sequence in range(10, 16):  # until it is as long as the file that the other one knows, and longer
        anchor.move(signed(sequence))
        other.refresh()
        assert other.floor("town") == (1, sequence)
    other.move(signed(16))
    anchor.refresh()
    assert anchor.floor("town") == (1, 16)
    assert not list(tmp_path.glob(".checkpoints"))


def test_what_is_only_noticed_is_not_written_and_still_is_when_it_leaves(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path)
    anchor.notice(signed(5).checkpoint)
    anchor.notice(signed(4).checkpoint)
    assert (anchor.floor("town"), highest(tmp_path)) == ((1, 5), {})
    anchor.move(signed(5))
    assert highest(tmp_path) == {"town": (1, 5)}


def test_a_process_notices_what_another_one_wrote_since_it_looked(tmp_path: Path) -> None:
    first, second = Anchor(tmp_path), Anchor(tmp_path)
    second.refresh()
    assert second.floor("town") == (0, 0)
    for sequence in (3, 8):
        first.move(signed(sequence))
        with first.path.open("ab") as file:
            file.write(b'{"entry_hash":')  # somebody is writing, or was, when the power went
        second.refresh()
        assert second.floor("town") == (1, sequence)
    assert not second.is_written(signed(8).checkpoint)  # by this process; so it would write it down itself
    first.path.write_bytes(first.path.read_bytes() + b"\n")
    with pytest.raises(AnchorError, match="no checkpoint"):
        second.refresh()


def test_a_process_notices_what_was_written_between_two_shortenings(tmp_path: Path) -> None:
    """Many file systems give the number of a file that is gone to the next one."""
    for number in range(20):
        writer, other = Anchor(tmp_path / str(number)), Anchor(tmp_path / str(number))
        for sequence in range(11, 20):
            writer.move(signed(sequence))
        writer.compact(lambda line: line.checkpoint.sequence > 11)
        other.refresh()
        for sequence in (20, 21):
            writer.move(signed(sequence))
            writer.compact(lambda line, sequence=sequence: line.checkpoint.sequence > sequence - 8)  # type: ignore[misc]
        other.refresh()
        assert other.floor("town") == (1, 21)


def test_folder_and_files_are_the_owners_alone(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "deep" / "anchor")
    anchor.move(signed(1))
    assert anchor.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in anchor.folder.iterdir()} == {0o600}


# --- Lines that are not whole


@pytest.mark.parametrize(
    "torn", [b"{", b'{"entry_hash":"00', b"\x00" * 700, b"x" * 9000], ids=["1", "some", "zeros", "pages"]
)
def test_a_torn_last_line_is_left_out_and_then_overwritten(tmp_path: Path, torn: bytes) -> None:
    anchor = Anchor(tmp_path)
    anchor.move(signed(3))
    with anchor.path.open("ab") as file:
        file.write(torn)
    assert highest(tmp_path) == {"town": (1, 3)}
    Anchor(tmp_path).move(signed(4))
    assert highest(tmp_path) == {"town": (1, 4)}
    assert [json.loads(line)["sequence"] for line in anchor.path.read_text().splitlines()] == [3, 4]


@pytest.mark.parametrize("torn", [b"{", b'{"entry_hash":"00', b"x" * 9000], ids=["1", "some", "pages"])
def test_what_somebody_has_begun_to_read_stays_as_it_was(tmp_path: Path, torn: bytes) -> None:
    """Reading takes no lock: a line written over a torn one would be read as the end of it."""
    anchor = Anchor(tmp_path)
    anchor.move(signed(3))
    with anchor.path.open("ab") as file:
        file.write(torn)
    with anchor.path.open("rb") as reader:
        begun = reader.read(-1)
        anchor.move(signed(4))
        assert reader.read() == b""
        reader.seek(0)
        assert reader.read() == begun
    assert highest(tmp_path) == {"town": (1, 4)}
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", ".lock"}


def test_a_half_written_line_stays_as_it_was_for_whoever_has_begun_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchor = Anchor(tmp_path)
    anchor.move(signed(3))
    begun, honest = list[bytes](), PWRITE

    def is_read_meanwhile(descriptor: int, data: bytes, place: int) -> int:
        written = honest(descriptor, data[: len(data) // 2], place)
        begun.append(reader.read())
        return written

    with anchor.path.open("rb") as reader:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", is_read_meanwhile)
            with pytest.raises(AnchorError):
                anchor.move(signed(4))
        anchor.move(signed(5))
        assert begun[0]
        assert not begun[0].endswith(b"\n")
        assert reader.read() == b""
    assert highest(tmp_path) == {"town": (1, 5)}


def test_a_file_of_one_torn_line_holds_nothing(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path)
    anchor.path.write_bytes(b'{"entry_hash":')
    assert highest(tmp_path) == {}
    anchor.move(signed(1))
    assert highest(tmp_path) == {"town": (1, 1)}


def fails(_descriptor: int, *_rest: Any) -> Any:
    raise OSError(28, "No space left on device")


def writes_half(descriptor: int, data: bytes, place: int) -> int:
    return PWRITE(descriptor, data[: len(data) // 2], place)


PWRITE = os.pwrite


@pytest.mark.parametrize(
    ("call", "broken"),
    [("pwrite", writes_half), ("pwrite", fails), ("fdatasync", fails)],
    ids=["short write", "no space", "no sync"],
)
def test_what_could_not_be_written_is_told_and_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, broken: Callable[..., Any]
) -> None:
    anchor = Anchor(tmp_path)
    anchor.move(signed(3))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, broken)
        for _ in range(2):
            with pytest.raises(AnchorError, match="No space left"):
                anchor.move(signed(4))
    assert anchor.floor("town") == (1, 3)
    assert highest(tmp_path)["town"] in {(1, 3), (1, 4)}
    anchor.move(signed(4))
    assert highest(tmp_path) == {"town": (1, 4)}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"[]",
        b"7",
        b"{}",
        b'{"sequence":1}',
        json.dumps(signed(9).payload | {"sequence": "9"}).encode(),
        json.dumps(signed(9).payload | {"posted": 9}).encode(),
        json.dumps({k: v for k, v in signed(9).payload.items() if k != "signature"}).encode(),
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_no_checkpoint_is_an_error_wherever_it_stands(tmp_path: Path, line: bytes) -> None:
    anchor = Anchor(tmp_path)
    anchor.move(signed(3))
    whole = anchor.path.read_bytes()
    for content in (whole + line + b"\n", line + b"\n" + whole, whole + line + b"\n" + whole):
        anchor.path.write_bytes(content)
        with pytest.raises(AnchorError, match="no checkpoint"):
            Anchor(tmp_path).read()


@pytest.mark.parametrize("place", ["folder", "file", "lock"])
def test_a_place_that_cannot_be_used_is_named(tmp_path: Path, place: str) -> None:
    anchor = Anchor(tmp_path / "anchor")
    if place == "folder":
        anchor.folder.write_text("a file where the folder should be")
    else:
        anchor.folder.mkdir()
        (anchor.path if place == "file" else anchor.folder / ".lock").mkdir()
    acts: list[Callable[[], object]] = [lambda: anchor.move(signed(1)), lambda: anchor.keep(signed(1))]
    for act in acts if place == "lock" else [*acts, anchor.read, anchor.log, anchor.refresh]:
        with pytest.raises(AnchorError, match=str(anchor.folder)):
            act()
    assert anchor.floor("town") == (0, 0)


# --- Several processes


def test_two_processes_that_write_in_inverted_order_leave_the_higher_one(tmp_path: Path) -> None:
    first, second = Anchor(tmp_path), Anchor(tmp_path)
    first.move(signed(8))
    second.move(signed(5))
    assert highest(tmp_path) == {"town": (1, 8)}


def test_whatever_returned_is_on_the_disk_whoever_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many threads of two processes, and a disk that fails every third time."""
    calls, lock = [0], threading.Lock()

    def sometimes(descriptor: int, data: bytes, place: int) -> int:
        with lock:
            calls[0] += 1
            broken = calls[0] % 3 == 0
        return writes_half(descriptor, data, place) if broken else PWRITE(descriptor, data, place)

    monkeypatch.setattr(os, "pwrite", sometimes)
    anchors = [Anchor(tmp_path), Anchor(tmp_path)]

    def move(sequence: int) -> tuple[int, int]:
        population = ("town", "valley")[sequence % 2]
        try:
            anchors[sequence // 2 % 2].move(signed(sequence, population))
        except AnchorError:
            return 0, 0
        on_disk = highest(tmp_path)[population]
        assert on_disk >= (1, sequence)
        return on_disk

    with ThreadPoolExecutor(8) as pool:
        moved = list(pool.map(move, range(1, 121)))
    assert calls[0] > 10
    assert max(moved) == max(highest(tmp_path).values())
    for anchor in anchors:
        for population, order in highest(tmp_path).items():
            assert anchor.floor(population) <= order
    assert len(Anchor(tmp_path).log()) <= 120


@settings(deadline=None, max_examples=60)
@given(
    moves=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["town", "valley"]),
            st.integers(1, 3),
            st.integers(1, 30),
            st.sampled_from([b"", b"", b"{", b"\x00\x00"]),
        ),
        max_size=25,
    )
)
def test_the_highest_is_found_after_any_moves_of_any_processes_and_losses_of_power(
    moves: list[tuple[int, str, int, int, bytes]],
) -> None:
    with TemporaryDirectory() as name:
        folder, expected = Path(name), {}
        processes = [Anchor(folder) for _ in range(3)]
        for process, population, epoch, sequence, torn in moves:
            processes[process].move(signed(sequence, population, epoch=epoch))
            expected[population] = max(expected.get(population, (0, 0)), (epoch, sequence))
            with processes[process].path.open("ab") as file:
                file.write(torn)
            assert highest(folder) == expected


# --- The file stays open, and is the one that has the name


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_was_put_in_its_place_is_what_is_written_and_locked(tmp_path: Path, what: str) -> None:
    anchor = Anchor(tmp_path / "anchor")
    anchor.move(signed(3))
    before = anchor.path if what == "file" else anchor.folder
    aside = tmp_path / "aside"
    before.rename(aside)
    anchor.move(signed(4))
    assert highest(anchor.folder) == {"town": (1, 4)}
    Anchor(tmp_path / "anchor").move(signed(5))  # it waits for no lock that stands nowhere
    anchor.move(signed(6))
    assert [found.checkpoint.sequence for found in anchor.log()] == [4, 5, 6]


def test_descriptors_do_not_add_up(tmp_path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    anchor, before = Anchor(tmp_path), count()
    for sequence in range(1, 20):
        anchor.move(signed(sequence))
        anchor.path.rename(tmp_path / f"aside-{sequence}")
    assert count() == before + 2
    del anchor
    assert count() == before


def test_a_file_on_which_the_disk_has_failed_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system may report a lost page once, and to those alone who had the file open."""
    anchor, opened = Anchor(tmp_path), list[str]()
    honest = os.open

    def watch(path: str, *rest: Any) -> int:
        opened.append(os.path.basename(path))
        return honest(path, *rest)

    anchor.move(signed(3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        with pytest.raises(AnchorError):
            anchor.move(signed(4))
    monkeypatch.setattr(os, "open", watch)
    anchor.move(signed(4))
    anchor.move(signed(5))
    assert opened == ["checkpoints"]


def test_a_forked_process_waits_for_its_parent_s_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is of a descriptor: with the same one both would write at one place, and a checkpoint be lost."""
    anchor = Anchor(tmp_path)
    anchor.move(signed(3))
    monkeypatch.setattr(db, "BUSY_TIMEOUT_MS", 50)
    with anchor._locked():
        child = os.fork()
        if child == 0:
            code = 1
            with suppress(AnchorError):
                anchor.move(signed(4))
                code = 0
            os._exit(code)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert highest(tmp_path) == {"town": (1, 3)}
