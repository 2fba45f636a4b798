"""The inbox: which files stewards are shown, what pages tell of them, and what is registered."""

import gzip
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from canaries import MARK, mark
from dashboard_worlds import Person, fields_of, text_of
from patience import scaled
from pydantic import ValidationError
from support import World, csv_text, make_rows, open_population, open_world

from curator_service.datasets import inbox as inboxes
from curator_service.datasets.inbox import FILES_MAX, TRIES_MAX
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources.base import IngestError
from curator_service.identity.policy import Role
from curator_service.kit.files import lock
from curator_service.ledger.chain.signing import SigningError
from curator_service.privacy.accountant import Price
from curator_service.settings import Settings

Fields = dict[str, list[str]]
LEVELS = ("feminine", "masculine")
ROWS = mark([{"age (years)": f"{50 + i % 40}.5", "sex": LEVELS[i % 2], "seen": f"2020-01-{1 + i % 28:02d}"}
             for i in range(60)], ["age (years)"])  # fmt: skip
DECLARED = {
    "name": "visits", "population": "town", "row_capacity": "1000", "whose": "persons", "description": "Visits of 2020",
}  # fmt: skip
COLUMNS = {
    "age (years)": {"lower": "18", "upper": "110", "about": "Age at the visit", "missing": "complete"},
    "sex": {"levels": "feminine\nmasculine\nother"},
    "seen": {"lower": "2020-01-01", "upper": "2021-01-01"},
}


@pytest.fixture
def stewards(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    """Return a world with an inbox of one file, and two stewards; once on each database."""
    with open_world(tmp_path, url=database_url, inbox=tmp_path / "inbox") as world:
        furnish(world)
        yield world


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[World]:
    """Return the same on the embedded database alone."""
    with open_world(tmp_path, inbox=tmp_path / "inbox") as world:
        furnish(world)
        yield world


def furnish(world: World) -> None:
    (world.folder / "inbox").mkdir()
    put(world, "visits.csv", csv_text(ROWS))
    for who in ("stella", "sven"):
        world.add_token(who, Role.STEWARD)


def put(world: World, name: str | bytes, text: str | bytes) -> Path:
    path = Path(os.fsdecode(os.path.join(os.fsencode(world.folder / "inbox"), os.fsencode(name))))
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def address_of(world: World, name: str) -> str:
    return next(f"/admin/inbox/{one.id}" for one in world.curator.inbox.list_files()[0] if one.name == name)


def fill_in(person: Person, address: str, columns: dict[str, dict[str, str]] = COLUMNS, **declared: str) -> Fields:
    """Open the form of a file, and fill it in."""
    fields = fields_of(person.get(address))
    for name, text in (DECLARED | declared).items():
        fields[name] = [text]
    for place, source in enumerate(fields["source"]):
        for name, text in columns.get(source, {}).items():
            fields[name][place] = text
    return fields


def register(person: Person, name: str = "visits.csv", **declared: str) -> Any:
    address = address_of(person.world, name)
    return person.post(address, fill_in(person, address, **declared))


def names_of(world: World) -> set[str]:
    return {one.name for one in world.curator.datasets.list_all()}


def check_that_nothing_of_rows_is_told(text: str) -> None:
    """Look for a value, and for the numbers of rows and of those with a fault."""
    assert MARK not in text
    shown = text_of(text)
    for told in ("90.5", "2020-01-02", "60 rows", " 61", "line 2", "lines"):
        assert told not in shown.replace("counts and lines stay at the machine", "").replace("one to a line", ""), told


class TestFiles:
    def test_without_a_folder_there_is_none(self, world: World) -> None:
        world.add_token("stella", Role.STEWARD)
        stella = Person(world, "stella")
        assert "This curator has no inbox" in text_of(stella.get("/admin/inbox").text)
        assert stella.get(f"/admin/inbox/{'0' * 32}").status_code == 404

    def test_a_folder_that_is_gone_is_said_to_be(self, inbox: World) -> None:
        (inbox.folder / "inbox").rename(inbox.folder / "elsewhere")
        answer = Person(inbox, "stella").get("/admin/inbox")
        assert answer.status_code == 503
        assert str(inbox.folder) not in answer.text

    @pytest.mark.parametrize("place", ["data", "data/keys", "data/datasets", "data-anchor/inbox"])
    def test_none_lies_within_folders_of_the_curator(self, tmp_path: Path, place: str) -> None:
        with pytest.raises(ValidationError, match="a folder of its own"):
            Settings(data_dir=tmp_path / "data", inbox=tmp_path / place)
        (tmp_path / "data").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "data")
        with pytest.raises(ValidationError, match="a folder of its own"):
            Settings(data_dir=tmp_path / "data", inbox=tmp_path / "link")
        assert Settings(data_dir=tmp_path / "data", inbox=tmp_path / "inbox").inbox is not None

    def test_links_pipes_folders_and_half_copied_files_are_neither_listed_nor_opened(self, inbox: World) -> None:
        folder = inbox.folder / "inbox"
        secret = inbox.folder / "secret.csv"
        secret.write_text("secret,column\n1,2\n")
        (folder / "link.csv").symlink_to(secret)
        (folder / "hard.csv").hardlink_to(secret)
        os.mkfifo(folder / "pipe.csv")
        (folder / "folder.csv").mkdir()
        put(inbox, ".visits.csv.Xy12", "a,b\n1,2\n")
        shown = [one.name for one in inbox.curator.inbox.list_files()[0]]
        assert shown == ["visits.csv"]
        stella = Person(inbox, "stella")
        for name in ("link.csv", "hard.csv", "pipe.csv", "folder.csv", ".visits.csv.Xy12"):
            began = time.monotonic()
            answer = stella.get(f"/admin/inbox/{inboxes._id_of(name)}")
            assert answer.status_code == 404, name
            assert "secret" not in answer.text
            assert time.monotonic() - began < scaled(2)

    @pytest.mark.parametrize(
        "named",
        [
            "../secret.csv",
            "..%2Fsecret.csv",
            "%2e%2e%2fsecret.csv",
            "/etc/passwd",
            "visits.csv",
            "visits.csv%00",
        ],
    )
    def test_no_name_or_path_leads_to_a_file(self, inbox: World, named: str) -> None:
        (inbox.folder / "secret.csv").write_text("secret,column\n1,2\n")
        stella = Person(inbox, "stella")
        answer = stella.get(f"/admin/inbox/{named}")
        assert answer.status_code in {400, 404}
        assert "secret" not in answer.text.replace(named, "")

    def test_a_link_in_the_place_of_a_listed_file_is_not_followed(self, inbox: World) -> None:
        address, stella = address_of(inbox, "visits.csv"), Person(inbox, "stella")
        fields = fill_in(stella, address)
        secret = inbox.folder / "secret.csv"
        (inbox.folder / "inbox" / "visits.csv").rename(secret)
        (inbox.folder / "inbox" / "visits.csv").symlink_to(secret)
        assert stella.get(address).status_code == 404
        assert stella.post(address, fields).status_code == 404
        assert "visits" not in names_of(inbox)

    def test_what_was_opened_is_read_whatever_has_its_name_by_then(self, inbox: World) -> None:
        service, (file,) = inbox.curator.inbox, inbox.curator.inbox.list_files()[0]
        with service.open(file.id) as (_, path):
            os.replace(put(inbox, "other.csv", "wrong,column\n1,2\n2,3\n"), inbox.folder / "inbox" / "visits.csv")
            assert [one["source"] for one in service.look(path).columns] == list(ROWS[0])

    def test_hostile_names_are_shown_as_they_are(self, inbox: World) -> None:
        names = ["\u202exslx.exe", "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "=cmd|'calc'!A0", "n" * 250]
        for name in names:
            put(inbox, name, "a,b\n1,2\n")
        put(inbox, b"caf\xe9.csv", "a,b\n1,2\n")
        page = Person(inbox, "stella").get("/admin/inbox").text
        assert "\u202e" not in page
        assert "<img src=x" not in page
        assert all(told in text_of(page) for told in ("\\u202exslx.exe", "<img src=x", "{{ 7 * 7 }}", "caf\\xe9.csv"))
        assert Person(inbox, "stella").get(address_of(inbox, "\u202exslx.exe")).status_code == 200

    @pytest.mark.parametrize("moment", [2**33, 2**40, -(2**40)])
    def test_a_moment_beyond_any_calendar_hides_no_file(self, inbox: World, moment: int) -> None:
        """Some file systems keep any number that the copier of a file states."""
        os.utime(put(inbox, "later.csv", "a,b\n1,2\n"), (moment, moment))
        stella = Person(inbox, "stella")
        page = stella.get("/admin/inbox").text
        assert ("visits.csv" in page, "later.csv" in page) == (True, True)
        assert stella.get(address_of(inbox, "later.csv")).status_code in {200, 422}

    def test_the_newest_come_first_a_page_has_fifty_and_a_search_finds_one(self, inbox: World) -> None:
        for number in range(60):
            os.utime(put(inbox, f"f{number}.csv", "a,b\n1,2\n"), (number, number))
        stella = Person(inbox, "stella")
        page = stella.get("/admin/inbox").text
        assert page.index("visits.csv") < page.index("f59.csv") < page.index("f58.csv")
        assert page.count('href="/admin/inbox/') == 50
        assert "f3.csv" in stella.get("/admin/inbox?start=50").text
        assert stella.get("/admin/inbox?q=F17").text.count('href="/admin/inbox/') == 1

    def test_ten_thousand_names_are_looked_at_and_no_more(self, inbox: World) -> None:
        folder = inbox.folder / "inbox"
        for number in range(FILES_MAX + 5):
            (folder / f"{number}.csv").touch()
        stella, began = Person(inbox, "stella"), time.monotonic()
        page = stella.get("/admin/inbox").text
        assert time.monotonic() - began < scaled(2)
        assert "more names than are looked at" in text_of(page)
        assert f"of {FILES_MAX}" in text_of(page)


class TestLook:
    def test_names_and_kinds_of_columns_are_told_and_nothing_else_of_the_rows(self, inbox: World) -> None:
        page = Person(inbox, "stella").get(address_of(inbox, "visits.csv"))
        fields = fields_of(page)
        assert fields["source"] == ["age (years)", "sex", "seen"]
        assert fields["column"] == ["age", "sex", "seen"]
        assert fields["kind"] == ["numeric", "categorical", "date"]
        assert fields["unit"] == ["years", "", ""]
        for empty in ("lower", "upper", "levels", "about"):
            assert set(fields[empty]) == {""}
        assert fields["csv_separator"] == [","]
        check_that_nothing_of_rows_is_told(page.text)
        assert not any(level in page.text for level in LEVELS)

    def test_the_digest_of_the_rows_is_not_told(self, inbox: World) -> None:
        digest = hashlib.sha256((inbox.folder / "inbox" / "visits.csv").read_bytes()).hexdigest()
        page = Person(inbox, "stella").get(address_of(inbox, "visits.csv")).text
        assert digest not in page
        assert digest[:16] not in page

    def test_parquet_is_looked_at_too(self, inbox: World) -> None:
        table = pa.table({"age": [50.5 + i for i in range(60)], "alive": [i % 3 == 0 for i in range(60)]})
        pq.write_table(table, inbox.folder / "inbox" / "p.parquet")
        fields = fields_of(Person(inbox, "stella").get(address_of(inbox, "p.parquet")))
        assert (fields["source"], "csv_separator" in fields) == (["age", "alive"], False)

    def test_names_of_columns_that_mean_harm_stay_text(self, inbox: World) -> None:
        names = ["=HYPERLINK(1)", "<script>x</script>", "{{ 7 * 7 }}", "-2+3", "\u202egnp"]
        put(inbox, "h.csv", ",".join(names) + "\n" + "".join(f"{i % 3},{i % 4},{i % 5},{i % 6},1\n" for i in range(40)))
        page = Person(inbox, "stella").get(address_of(inbox, "h.csv"))
        assert page.status_code == 200
        assert "<script>x" not in page.text
        assert "\u202e" not in page.text
        assert fields_of(page)["source"] == names[:4]  # a name that is not printable is left out
        assert fields_of(page)["column"] == ["HYPERLINK", "script_x_script", "x_7_7", "x_2_3"]

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("empty.csv", b"", "0 columns that can be read"),
            ("zeros.csv", b"\0" * 5000, "0 columns that can be read"),
            ("no_header.csv", b"17,F\n18,M\n" * 20, "the first line may be a person's row"),
            ("foreign.csv", b"a^b\n1^2\n" * 20, "the fields seem separated by '^'"),
            ("bomb.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 2**23), "cannot be read to its end"),
            ("forged.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1", "cannot be read to its end"),
            ("wide.csv", b",".join(b"c%d" % i for i in range(201)) + b"\n" + b",".join([b"1"] * 201), "200 columns"),
        ],
    )
    def test_what_is_no_table_is_refused_without_a_count(
        self, inbox: World, name: str, content: bytes, said: str
    ) -> None:
        put(inbox, name, content)
        answer = Person(inbox, "stella").get(address_of(inbox, name))
        assert answer.status_code == 422
        assert said in text_of(answer.text)
        for hidden in ("/proc/", str(inbox.folder), "line 1"):
            assert hidden not in answer.text.replace("the first line", "")

    def test_a_huge_file_is_refused_at_once(self, inbox: World) -> None:
        with (inbox.folder / "inbox" / "huge.csv").open("wb") as file:
            file.truncate(2**40)
        began = time.monotonic()
        answer = Person(inbox, "stella").get(address_of(inbox, "huge.csv"))
        assert (answer.status_code, "more than 1 GiB" in text_of(answer.text)) == (422, True)
        assert time.monotonic() - began < scaled(3)

    def test_a_reading_has_bounds_and_the_server_goes_on(self, inbox: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inboxes, "_BOUNDS", inboxes.Bounds(2**30, 1))
        with (inbox.folder / "inbox" / "huge.csv").open("wb") as file:
            file.truncate(inboxes.BYTES_MAX)
        stella = Person(inbox, "stella")
        answer = stella.get(address_of(inbox, "huge.csv"))
        assert (answer.status_code, "cannot be read to its end" in text_of(answer.text)) == (422, True)
        assert stella.get(address_of(inbox, "visits.csv")).status_code == 200

    def test_no_connection_to_the_database_is_held_while_rows_are_read(
        self, stewards: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Others wait for one: pools are small."""
        stella, held = Person(stewards, "stella"), []
        database = stella.app.state.curator.database

        def watch(read: Callable[..., Any]) -> Callable[..., Any]:
            def watched(*given: Any, **options: Any) -> Any:
                held.append(getattr(database._local, "connection", None))
                return read(*given, **options)

            return watched

        monkeypatch.setattr(inboxes, "read_apart", watch(inboxes.read_apart))
        monkeypatch.setattr(inboxes, "check_rows", watch(inboxes.check_rows))
        storage = stella.app.state.curator.datasets.storage
        monkeypatch.setattr(storage, "ingest", watch(storage.ingest))
        assert register(stella).status_code == 303
        assert held == [None] * 4  # a look, a digest, a check, and the registration

    def test_one_file_is_read_at_a_time(self, inbox: World) -> None:
        stella = Person(inbox, "stella")
        held = lock(inbox.curator.datasets.storage.root / ".inbox", os.O_CREAT)
        assert held is not None
        answer = stella.get(address_of(inbox, "visits.csv"))
        assert answer.status_code == 429
        assert "retry-after" in answer.headers
        os.close(held)
        assert stella.get(address_of(inbox, "visits.csv")).status_code == 200


class TestRegister:
    def test_a_file_is_registered_as_declared_by_whoever_did_it(self, stewards: World) -> None:
        stella = Person(stewards, "stella")
        answer = register(stella)
        assert answer.headers["location"] == "/admin/datasets/visits?done=registered", text_of(answer.text)
        assert "Registered." in text_of(stella.get(answer.headers["location"]).text)
        (dataset,) = [one for one in stewards.curator.datasets.list_all() if one.name == "visits"]
        principals = {one.name: one.id for one in stewards.curator.identity.list_principals()}
        entry = stewards.entries()[-1]
        assert (entry["kind"], entry["dataset"], entry["actor"]) == ("dataset", "visits", principals["stella"])
        assert dataset.manifest.model_dump(exclude={"csv"}) == Manifest.model_validate({
            "name": "visits", "population": "town", "description": "Visits of 2020", "library": "shared",
            "row_capacity": 1000, "rows_are_persons": True,
            "columns": [
                {"name": "age", "source": "age (years)", "type": "numeric", "unit": "years", "lower": 18.0,
                 "upper": 110.0, "description": "Age at the visit", "missing": "complete"},
                {"name": "sex", "type": "categorical", "levels": [*LEVELS, "other"], "missing": "omit"},
                {"name": "seen", "type": "numeric", "format": "date", "origin": "1970-01-01", "unit": "days",
                 "lower": "2020-01-01", "upper": "2021-01-01", "missing": "omit"},
            ],
        }).model_dump()  # fmt: skip
        assert stewards.curator.datasets.report(dataset).rows == 60  # for the terminal
        assert stewards.curator.datasets.holds(dataset)

    def test_the_other_kinds_are_declared_as_the_manifest_has_them(self, inbox: World) -> None:
        rows = [{"who": f"p{i // 2}", "visit": f"{i}", "ward": f"{i % 3}", "ill": "FT"[i % 2], "n": f"{i % 7}",
                 "at": f"2020-01-01T00:{i % 60:02d}:00"} for i in range(60)]  # fmt: skip
        put(inbox, "many.csv", csv_text(rows))
        columns = {
            "who": {"kind": "subject"}, "visit": {"kind": "not_persons"},
            "ward": {"kind": "categorical", "levels": "0\n1\n2"}, "ill": {"kind": "boolean", "levels": "F\nT"},
            "n": {"kind": "whole", "lower": "0", "upper": "9"},
            "at": {"kind": "datetime", "lower": "2020-01-01", "upper": "2020-02-01"},
        }  # fmt: skip
        stella, address = Person(inbox, "stella"), address_of(inbox, "many.csv")
        fields = fill_in(stella, address, columns, name="many", whose="subject", rows_per_subject="2")
        answer = stella.post(address, fields | {"missing_values": ["NA\n-9"], "same_people_as": ["valley"]})
        assert answer.status_code == 303, text_of(answer.text)
        (found,) = [one.manifest for one in inbox.curator.datasets.list_all() if one.name == "many"]
        assert (found.subject, found.rows_per_subject, found.not_persons) == ("who", 2, ("visit",))
        assert (found.missing_values, found.same_people_as) == (("NA", "-9"), ("valley",))
        declared = found.declared
        assert declared["ward"].levels == (0, 1, 2)  # type: ignore[attr-defined]
        assert declared["ill"].levels == ("F", "T")  # type: ignore[attr-defined]
        assert declared["n"].is_whole
        assert declared["at"].format == "datetime"  # type: ignore[attr-defined]

    def test_faults_are_told_by_column_and_rule_and_never_with_a_value_a_count_or_a_place(self, inbox: World) -> None:
        rows = [*ROWS, *ROWS, *ROWS, {"age (years)": f"ninety{MARK}", "sex": f"Q{MARK}", "seen": ""}]
        put(inbox, "wrong.csv", csv_text(rows) + "1,2,3,4\n")
        stella = Person(inbox, "stella")
        answer = register(stella, "wrong.csv", row_capacity="40")
        assert answer.status_code == 422
        told = text_of(answer.text)
        for said in (
            "age: the value is not a number",
            "sex: the value is not one of the declared levels feminine, masculine, other",
            "4 fields where the header has 3", "there are more rows than the row_capacity of 40",
        ):  # fmt: skip
            assert said in told, told
        check_that_nothing_of_rows_is_told(answer.text)
        assert not any(count in told for count in ("181", "182", "ninety"))
        assert "visits" not in names_of(inbox)
        kept = fields_of(answer)
        assert kept["levels"][1].split() == [*LEVELS, "other"]
        assert kept["lower"] == ["18", "", "2020-01-01"]
        assert kept["description"] == ["Visits of 2020"]

    def test_a_key_that_contradicts_is_told_without_counts(self, inbox: World) -> None:
        put(inbox, "keys.csv", csv_text([row | {"patient_id": f"{i // 3}"} for i, row in enumerate(ROWS)]))
        answer = register(Person(inbox, "stella"), "keys.csv")
        assert answer.status_code == 422
        assert (
            "the column 'patient_id' seems to number persons: values of it are in more than one row, so that one "
            "person may count as many"
        ) in text_of(answer.text)
        assert "20" not in text_of(answer.text).partition("patient_id")[2].partition("\n")[0].replace("2020", "")

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"row_capacity": ""}, "row_capacity"),
            ({"row_capacity": "many"}, "row_capacity"),
            ({"row_capacity": str(10**11)}, "take more than 1 GiB"),
            ({"whose": ""}, "a manifest says whose rows these are"),
            ({"whose": "subject"}, "a manifest says whose rows these are"),
            ({"population": "nowhere"}, "the population 'nowhere' does not exist"),
            ({"name": "cohort"}, "the dataset 'cohort' exists"),
            ({"name": "../x"}, "name"),
            ({"description": "a\u202eb"}, "U+202E"),
            ({"csv_separator": "^"}, "separator"),
        ],
    )
    def test_a_declaration_that_is_wrong_reads_no_row(
        self, inbox: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], said: str
    ) -> None:
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        fields = fill_in(stella, address, **changes)
        monkeypatch.setattr(inboxes, "read_apart", None)
        answer = stella.post(address, fields)
        assert answer.status_code == 422
        assert said in text_of(answer.text)
        assert not (inbox.settings.anchor_folder / "inbox").exists()

    @pytest.mark.parametrize("missing", ["lower", "source"])
    def test_a_form_without_a_field_of_each_column_is_none(self, inbox: World, missing: str) -> None:
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        fields = fill_in(stella, address)
        del fields[missing][0]
        assert stella.post(address, fields).status_code == 400

    @pytest.mark.parametrize("name", ["age", "__class__", "x", ""])
    def test_a_column_that_the_file_has_not_is_refused(self, inbox: World, name: str) -> None:
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        fields = fill_in(stella, address)
        fields["source"][0] = name
        answer = stella.post(address, fields)
        assert answer.status_code == 422
        assert "visits" not in names_of(inbox)
        check_that_nothing_of_rows_is_told(answer.text)

    def test_a_file_that_changed_since_the_form_was_shown_is_not_registered(self, inbox: World) -> None:
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        fields = fill_in(stella, address)
        found = (inbox.folder / "inbox" / "visits.csv").stat()
        os.utime(put(inbox, "visits.csv", csv_text([*ROWS[1:], ROWS[0]])), ns=(found.st_atime_ns, found.st_mtime_ns))
        answer = stella.post(address, fields)
        assert (answer.status_code, "somebody changed the file" in text_of(answer.text)) == (422, True)
        assert "visits" not in names_of(inbox)
        assert not (inbox.settings.anchor_folder / "inbox").exists()
        for seen in ("", "0" * 64, fields["form_token"][0]):
            assert stella.post(address, fill_in(stella, address) | {"seen": [seen]}).status_code == 422
        assert stella.post(address, fill_in(stella, address)).status_code == 303

    def test_a_form_of_another_file_is_none_for_this_one(self, inbox: World) -> None:
        put(inbox, "copy.csv", csv_text(ROWS))
        stella = Person(inbox, "stella")
        fields = fill_in(stella, address_of(inbox, "visits.csv"))
        assert stella.post(address_of(inbox, "copy.csv"), fields).status_code == 422
        assert "visits" not in names_of(inbox)

    def test_a_file_that_changes_while_it_is_registered_is_not(
        self, inbox: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        check_rows = inboxes.check_rows

        def check_and_change(*given: Any, **options: Any) -> Any:
            report = check_rows(*given, **options)
            put(inbox, "visits.csv", csv_text(ROWS[:-1]))
            return report

        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        fields = fill_in(stella, address)
        monkeypatch.setattr(inboxes, "check_rows", check_and_change)
        answer = stella.post(address, fields)
        assert (answer.status_code, "somebody changed the file" in text_of(answer.text)) == (422, True)
        assert "visits" not in names_of(inbox)
        assert not list(inbox.curator.datasets.storage.root.glob(".incoming-*"))

    def test_of_two_stewards_who_register_one_file_one_does(self, stewards: World) -> None:
        stella = Person(stewards, "stella")
        people = [stella, Person(stewards, "sven", app=stella.app)]
        address = address_of(stewards, "visits.csv")
        forms = [fill_in(person, address) for person in people]
        answers = run_at_once([lambda p=p, f=f: p.post(address, f) for p, f in zip(people, forms, strict=True)])
        assert sorted(one.status_code for one in answers) in ([303, 422], [303, 429])
        again = people[1].post(address, forms[1])
        assert (again.status_code, "the dataset 'visits' exists" in text_of(again.text)) == (422, True)
        assert [one["dataset"] for one in stewards.entries() if one["kind"] == "dataset"].count("visits") == 1

    def test_so_many_declarations_a_day_are_held_against_rows_and_no_more(
        self, inbox: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inboxes, "TRIES_MAX", 2)
        assert TRIES_MAX == 30
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        wrong, right = fill_in(stella, address, row_capacity="59"), fill_in(stella, address)
        for _ in range(2):
            assert "more rows than the row_capacity of 59" in text_of(stella.post(address, wrong).text)
        for fields in (wrong, right):
            answer = stella.post(address, fields)
            assert answer.status_code == 422
            assert "2 declarations were held against files of the inbox within a day" in text_of(answer.text)
            assert "row_capacity of 59:" not in text_of(answer.text)
        inbox.clock.advance(days=1, seconds=1)
        again = Person(inbox, "stella")
        assert again.post(address, fill_in(again, address)).status_code == 303

    def test_it_takes_a_token_that_was_entered_just_now_and_keeps_every_field(self, inbox: World) -> None:
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        fields = fill_in(stella, address)
        inbox.clock.advance(minutes=6)
        asked = stella.post(address, fields)
        assert (asked.status_code, "Enter your token again" in text_of(asked.text)) == (403, True)
        assert "visits" not in names_of(inbox)
        kept = fields_of(asked)
        assert {name: kept[name] for name in fields} == fields
        assert stella.post(address, kept | {"token": [inbox.tokens["stella"]]}).status_code == 303

    def test_a_stolen_cookie_alone_registers_nothing(self, inbox: World) -> None:
        """It has pages, and no token to enter."""
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        thief = Person(inbox, app=stella.app)
        thief.cookies.update(stella.cookies)
        inbox.clock.advance(minutes=6)
        fields = fill_in(thief, address)
        for token in ("", "cur_wrong", inbox.tokens["sven"]):
            assert thief.post(address, fields | {"token": [token]}).status_code == 403
        assert "visits" not in names_of(inbox)
        assert not (inbox.settings.anchor_folder / "inbox").exists()

    @pytest.mark.parametrize(("error", "said"), [
        (OSError(28, "No space left on /secret"), "no room to store it"),
        (IngestError("/secret, line 7: no"), "no room to store it"),
        (SigningError("/secret/keys has no key"), "a private key of the curator is not here"),
    ])  # fmt: skip
    def test_what_fails_on_the_machine_names_no_folder(
        self, inbox: World, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
    ) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise error

        stella = Person(inbox, "stella")
        monkeypatch.setattr(stella.app.state.curator.datasets.storage, "ingest", fail)
        answer = register(stella)
        assert (answer.status_code, said in text_of(answer.text), "secret" in answer.text) == (422, True, False)
        assert "visits" not in names_of(inbox)

    def test_under_a_seal_nothing_is_registered(self, inbox: World) -> None:
        stella, address = Person(inbox, "stella"), address_of(inbox, "visits.csv")
        fields = fill_in(stella, address)
        inbox.curator.ledger.guard.seal("a test")
        assert stella.post(address, fields).status_code == 503


class TestOtherPeople:
    @pytest.fixture
    def copied(self, stewards: World) -> World:
        """Return a world in which the inbox has rows of ``town``, for another population."""
        open_population(stewards.curator, "river", Price(mu=0.1))
        rows = make_rows(200, seed=5)
        stewards.register("first", "town", rows, columns=LIKE)
        put(stewards, "like.csv", csv_text([{name: row[name] for name, *_ in LIKE} for row in rows]))
        for who in ("olga", "otto"):
            stewards.add_token(who, Role.PRIVACY_OFFICER)
        stewards.add_token("root", Role.STEWARD)
        stewards.curator.identity.set_roles("root", Role.STEWARD, Role.PRIVACY_OFFICER, actor="operator:test")
        stewards.tokens["root"] = stewards.curator.identity.create_token(
            "root", Role.STEWARD, Role.PRIVACY_OFFICER
        ).text
        return stewards

    def ask(self, person: Person, **declared: str) -> Any:
        address = address_of(person.world, "like.csv")
        columns = {
            name: {"kind": "numeric", "lower": repr(low), "upper": repr(high)} for name, _, _, (low, high), _ in LIKE
        }
        fields = fill_in(person, address, columns, name="like", population="river", **declared)
        return person.post(address, fields)

    def test_rows_like_another_population_s_are_refused_and_two_officers_may_say_otherwise(self, copied: World) -> None:
        stella, root, otto = (Person(copied, who) for who in ("stella", "root", "otto"))
        alone = self.ask(stella, other_people="they are others")
        assert (alone.status_code, "are registered under the population 'town'" in text_of(alone.text)) == (422, True)
        assert 'name="other_people"' not in alone.text
        assert copied.curator.approvals.list_proposals() == []  # a steward has no word on budgets
        asked = self.ask(root, other_people="a twin study of others")
        (proposal,) = copied.curator.approvals.list_proposals()
        assert (asked.status_code, proposal.id in asked.text) == (422, True)
        assert self.ask(root).status_code == 422
        approve = f"/admin/proposals/{proposal.id}/approve"
        assert root.submit("/admin/proposals", approve, seen=proposal.digest, reason="mine").status_code == 403
        assert otto.submit("/admin/proposals", approve, seen=proposal.digest, reason="so it is").status_code == 303
        assert self.ask(stella).status_code == 303
        assert "like" in names_of(copied)

    def test_a_reason_is_bounded(self, copied: World) -> None:
        answer = self.ask(Person(copied, "root"), other_people="w" * 501)
        assert (answer.status_code, "up to 500 characters" in text_of(answer.text)) == (422, True)


LIKE: list[tuple[str, str, str, tuple[float, float], str | None]] = [
    ("age", "numeric", "omit", (50.0, 100.0), None),
    ("weight", "numeric", "omit", (40.0, 160.0), None),
    ("height", "numeric", "omit", (140.0, 200.0), None),
]


def run_at_once(works: list[Callable[[], Any]]) -> list[Any]:
    answers: list[Any] = [None] * len(works)

    def work(place: int) -> None:
        answers[place] = works[place]()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
