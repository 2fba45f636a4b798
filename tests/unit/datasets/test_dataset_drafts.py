"""A draft: names, types and signs are proposed; bounds, levels and persons are for a person to say."""

import bz2
import gzip
import lzma
import re
import sqlite3
import tomllib
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import PERSONS

from curator_service.datasets.candidates import find_key
from curator_service.datasets.checking import check_rows
from curator_service.datasets.drafting import draft_manifest, make_name
from curator_service.datasets.manifest import CsvOptions, ManifestError, load_manifest
from curator_service.datasets.profiles import Profile
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.csv import CsvSource, TolerantCsv
from curator_service.datasets.sources.opening import open_source
from curator_service.datasets.sources.sniffing import _SNIFFED_BYTES, sniff
from curator_service.datasets.sources.sql import open_query
from curator_service.kit.names import NAME

pytestmark = pytest.mark.usefixtures("read_here")
COUNT = 60
PEOPLE = {
    "Patient ID": [f"P{i:03}" for i in range(COUNT)],
    "name": [f"Canary{i} Jones" for i in range(COUNT)],
    "contact": [f"canary{i}@example.org" for i in range(COUNT)],
    "Tel.": [f"+41 79 555 {i:02} {i:02}" for i in range(COUNT)],
    "glucose (mmol/L)": [f"{4 + i / 10}" for i in range(COUNT)],
    "creatinine_mg_dl": ["NA" if i % 9 == 0 else f"{0.7 + i / 100:.2f}" for i in range(COUNT)],
    "sex": ["FM"[i % 2] for i in range(COUNT)],
    "Groß?": [("small", "tall", "?")[i % 3] for i in range(COUNT)],
    "smoker": [("yes", "No", "")[i % 3] for i in range(COUNT)],
    "arm": [f"{1 + i % 2}" for i in range(COUNT)],
    "visits": [f"{i % 5}" for i in range(COUNT)],
    "weight": ["999" if i % 12 == 0 else f"{60 + i % 30}" for i in range(COUNT)],
    "admitted": [f"2020-01-{1 + i % 28:02}" for i in range(COUNT)],
    "seen at": [f"2020-01-{1 + i % 28:02}T10:30" for i in range(COUNT)],
    "remark": [f"canary free text {i}" for i in range(COUNT)],
    "site": ["one"] * COUNT,
    "empty": [""] * COUNT,
}


def write_csv(folder: Path, table: dict[str, list[Any]] = PEOPLE, separator: str = ",") -> Path:
    path = folder / "people.csv"
    lines = [separator.join(table), *(separator.join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def draft(path: Path, **options: Any) -> str:
    found = sniff(path, options.pop("header", None))
    given = {"name": "people", "population": "village", "row_capacity": 1000}
    return draft_manifest(TolerantCsv(path, found), found, **given | options)


def told(path: Path, **options: Any) -> str:
    """Return what a draft tells the operator alone."""
    lines: list[str] = []
    draft(path, tell=lines.append, **options)
    return "\n".join(lines)


def write_lines(folder: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path = folder / "lines.csv"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


def complete(text: str) -> str:
    """Fill in bounds, and whose rows they are where no subject is there; nothing else."""
    text = text if re.search(r"(?m)^subject =", text) else f"{PERSONS}\n{text}"
    text = re.sub(r"(?m)^# lower =.*$", "lower = 0", text)
    return re.sub(r"(?m)^# upper =.*$", "upper = 100000", text).replace("# levels = [", "levels = [")


def columns(text: str) -> dict[str, Any]:
    return {column["name"]: column for column in tomllib.loads(text)["columns"]}


@pytest.fixture
def text(tmp_path: Path) -> str:
    return draft(write_csv(tmp_path))


def test_types_units_levels_and_dates_are_proposed(text: str) -> None:
    found = columns(text)
    assert found["glucose"] == {
        "name": "glucose", "source": "glucose (mmol/L)", "type": "numeric", "unit": "mmol/L"
    }  # fmt: skip
    assert found["creatinine_mg_dl"]["unit"] == "mg/dL"
    assert found["sex"]["levels"] == ["F", "M"]
    assert found["Gross"] == {"name": "Gross", "source": "Groß?", "type": "categorical"}
    assert found["smoker"]["type"] == "boolean"
    assert found["arm"] == {"name": "arm", "type": "categorical"}
    assert found["visits"]["type"] == "numeric"
    assert (found["admitted"]["format"], found["seen_at"]["format"]) == ("date", "datetime")
    assert tomllib.loads(text)["missing_values"] == ["?", "NA"]


def test_levels_are_empty_unless_a_known_list_has_them(tmp_path: Path, text: str) -> None:
    assert [line for line in text.splitlines() if line.startswith("levels")] == [
        'levels = ["F", "M"]   # check: a list that is often used'
    ]
    proposed = [line.split("   # ")[0] for line in text.splitlines() if line.startswith("# levels")]
    assert proposed == ['# levels = ["small", "tall"]', "# levels = [1, 2]"]
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(ManifestError, match="column 'Gross' needs levels; column 'arm' needs levels"):
        load_manifest(tmp_path / "m.toml")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["weiblich", "männlich"], 'levels = ["weiblich", "männlich"]   # check'),
        (["never", "current"], 'levels = ["never", "former", "current"]   # check'),
        (["MILD", "SEVERE"], 'levels = ["MILD", "MODERATE", "SEVERE"]   # check'),
        (["ja", "nein"], 'type = "boolean"\nlevels = ["nein", "ja"]   # check'),
        (["Oui", "Non"], 'type = "boolean"\nlevels = ["Non", "Oui"]   # check'),
    ],
)
def test_known_lists_are_proposed_whole(tmp_path: Path, words: list[str], line: str) -> None:
    assert line in draft(write_csv(tmp_path, {"v": [words[i % 2] for i in range(40)]}))


def visits_of(person: str, visits: int = 5) -> list[list[str]]:
    return [[person, f"{40 + i}", "rare"] for i in range(visits)]


@pytest.mark.parametrize("header", ["patient", "Fallnr", "Kürzel", "v1"])
def test_a_level_is_shown_from_five_persons_on(tmp_path: Path, header: str) -> None:
    rows = [[f"p{i % 30}", f"{i % 7}", "icu" if i % 2 else "er"] for i in range(300)] + visits_of("p77", 50)
    path = write_lines(tmp_path, f"{header},x,ward", *(",".join(row) for row in rows))
    text = draft(path)
    assert "rare" not in text + told(path)
    assert '# levels = ["er", "icu"]' in text


def test_a_level_is_shown_by_every_candidate(tmp_path: Path) -> None:
    """One person's five visits show nothing of him, whatever other columns are called."""
    rows = [f"{i},{i % 30},{'ab'[i % 2]}" for i in range(300)] + [f"{300 + i},77,Kasimir" for i in range(5)]
    assert "Kasimir" not in draft(write_lines(tmp_path, "visit_id,patient_no,x", *rows))
    few = [f"{i},{'ab'[i % 2]}" for i in range(300)] + [f"{300 + i},Kasimir" for i in range(4)]
    assert "Kasimir" not in draft(write_lines(tmp_path, "n,x", *few))
    enough = [f"{i},{'ab'[i % 2]}" for i in range(300)] + [f"{300 + i},c" for i in range(5)]
    assert '# levels = ["a", "b", "c"]' in draft(write_lines(tmp_path, "n,x", *enough))


def test_words_beside_numbers_are_named_and_are_no_levels(tmp_path: Path) -> None:
    rows = [f"{i % 40},{-1000 + i / 10}" for i in range(400)]
    rows += [
        f"{i},{word}" for i, word in enumerate(["#NULL!"] * 3 + ["haemolytic"] * 3 + ["Unknown"] * 2 + ["low"] * 9)
    ]
    path = write_lines(tmp_path, "ward_no,glucose", *rows)
    text, said = draft(path), told(path)
    assert columns(text)["glucose"]["type"] == "numeric"
    assert '# missing_values = ["Unknown", "low"]   # check: some values are words' in text
    assert tomllib.loads(text)["missing_values"] == ["#NULL!"]
    assert '"glucose": 14 values are no numbers: "Unknown", "low"; words of fewer than 5 persons are not shown.' in said
    assert "haemolytic" not in text + said
    assert "-1000" not in text + said


def test_numbers_with_another_decimal_sign_are_no_levels(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "x,height", *(f'{i / 7:.3f},"1,{50 + i % 9}"' for i in range(90)))
    text = draft(path)
    assert "1,5" not in text
    assert '# - "height" has numbers with another decimal sign' in text


@pytest.mark.parametrize(
    "header",
    [
        "Vorname", "Nachname", "Patientenname", "Straße", "Hausarztadresse", "Prénom", "Téléphone", "Apellidos",
        "Dirección", "Cognome", "Indirizzo", "Voornaam", "Achternaam", "Sobrenome", "Endereço", "Förnamn", "Imię",
        "Příjmení", "Name", "nom", "Фамилия", "姓名",
    ],
)  # fmt: skip
def test_identifying_headers_are_left_out_in_the_hospital_s_language(tmp_path: Path, header: str) -> None:
    rows = [f"{'Anna' if i % 2 else 'Otto'},{i / 7:.3f}" for i in range(90)]
    text = draft(write_lines(tmp_path, f"{header},x", *rows))
    assert list(columns(text)) == ["x"]
    assert not re.search("Anna|Otto", text)


def test_codes_of_a_missing_value_are_comments(text: str) -> None:
    assert "# missing_values = [999]   # check" in text
    assert text.count("missing_values") == 2


def test_what_identifies_a_person_is_never_a_column(text: str) -> None:
    assert not tomllib.loads(text).keys() & {"subject", "rows_per_subject", "rows_are_persons"}
    assert not columns(text).keys() & {"Patient_ID", "name", "contact", "Tel", "remark", "site", "empty"}
    left_out = text[text.index("# Left out:") : text.index("[[columns]]")]
    assert all(f'"{header}"' in left_out for header in ("name", "contact", "Tel.", "remark", "site", "empty"))


def test_no_value_but_levels_is_shown(text: str) -> None:
    assert "canary" not in text.lower()
    assert not re.search(r"P0\d\d|555|2020|\b0\.7", text)
    assert str(COUNT) not in text


def test_candidates_are_told_with_counts_and_nothing_is_filled_in(tmp_path: Path) -> None:
    rows = [f"{i % 28},{i},{i % 5},{i / 7:.4f}" for i in range(10_040)]
    path = write_lines(tmp_path, "person_id,measurement_id,visit_no,x", *rows)
    said, text = told(path), draft(path)
    assert '"person_id": 28 values in 10,040 rows\n  "measurement_id": all different\n' in said
    assert 'in the schema of OMOP CDM a person is "person_id"' in said
    assert list(columns(text)) == ["x"]
    assert "# subject =   #" in text
    assert "# rows_are_persons = true   #" in text
    assert not re.search("10,040|10040|28", text)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("wert", lambda i: 7 * i),  # whole numbers nearly all different
        ("wert", lambda i: f"{100_001 + i}.0"),
        ("wert", lambda i: 4_000_000 + i % 40),  # numbers of one length
        ("wert", lambda i: f"{i % 40:05}"),  # leading zeros
        ("wert", lambda i: i // 10),  # the rows of one person together
        ("wert", lambda i: f"w{i // 10}"),
        ("wert", lambda i: f"w{i % 40}"),
        ("Patienten-Nr.", lambda i: i % 9),
        ("SubjectID", lambda i: i % 9),
        ("USUBJID", lambda i: f"A-{i % 9}"),
        ("Aufenthalt_ID", lambda i: i % 9),
        ("NHS number", lambda i: i % 30),
        ("household_id", lambda i: i * 7 % 130),
        ("no", lambda i: i % 9),
    ],
)
def test_what_may_be_a_number_of_persons_is_no_feature(tmp_path: Path, header: str, value: Any) -> None:
    path = write_lines(tmp_path, f"{header},x", *(f"{value(i)},{i % 13 / 7:.4f}" for i in range(400)))
    assert list(columns(draft(path))) == ["x"]
    assert f'  "{header}": ' in told(path)


def test_amounts_are_features_unless_nearly_all_differ(tmp_path: Path) -> None:
    table = {"age": [20 + i * 7 % 60 for i in range(400)], "wage": [1000 + i * 37 % 400 for i in range(400)]}
    text = draft(write_csv(tmp_path, table))
    assert list(columns(text)) == ["age"]
    assert '# - "wage" has another value in nearly every row: if it is an amount, declare it' in text


FIRST_ROWS = {
    "numbers": ["Meier,63,F", "Kunz,70,F"],
    "decimal comma": ['Meier,"1,54",F', 'Kunz,"1,60",F'],
    "a date": ["Meier,2020-01-31,F", "Kunz,2020-02-01,F"],
    "a date in another order": ["Meier,31.1.20,F", "Kunz,1.2.20,F"],
    "an address": ["Meier,x@example.org,F", "Kunz,y@example.org,F"],
    "a missing value": ["Meier,NA,x", "Kunz,u,y"],
    "repeated": ["Meier,yes,yes", "Kunz,no,yes"],
    "among the values": ["Meier,icu,x", "Kunz,icu,y"],
    "the form of the values": ["P001,Meier,x", "P002,Kunz,y"],
}


@pytest.mark.parametrize("name", FIRST_ROWS)
def test_a_first_line_that_is_a_row_is_refused_and_not_shown(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path, *FIRST_ROWS[name], "Huber,z,w" if name == "among the values" else FIRST_ROWS[name][1])
    with pytest.raises(IngestError, match=r"the first line may be a person's row: .*--header") as caught:
        draft(path)
    assert not re.search(r"Meier|P001|1,54|2020|example|icu", str(caught.value))


def test_columns_without_a_name_or_with_one_that_is_not_printable_are_left_out_by_their_place(tmp_path: Path) -> None:
    lines = (f"{i / 7:.3f},{i},{i % 3},{i}" for i in range(60))
    text = draft(write_lines(tmp_path, f"mass,,\u200bb,{'c' * 201}", *lines))
    assert "# - column 2 has no name" in text
    for place in (3, 4):
        assert f"# - column {place} has a name that is too long, or not printable" in text
    assert list(columns(text)) == ["mass"]


def test_a_draft_tells_how_far_it_has_come(tmp_path: Path) -> None:
    seen: list[tuple[int, float | None]] = []
    draft(write_csv(tmp_path), progress=lambda *said: seen.append(said))
    assert seen[-1][0] == COUNT


@pytest.mark.parametrize(("count", "reason"), [(20, ""), (21, "has many texts")])
def test_more_than_twenty_texts_may_tell_persons_apart(count: int, reason: str) -> None:
    profile = Profile("ward")
    profile.add(pa.array([f"w{i % count}" for i in range(10 * count)]), ".")
    assert find_key(profile) == reason


@pytest.mark.parametrize("rows", [19, 20])
def test_a_key_of_two_values_is_a_category_from_twenty_rows_on(rows: int) -> None:
    profile = Profile("id")
    profile.add(pa.array(["ab"[i % 2] for i in range(rows)]), ".")
    assert bool(find_key(profile)) is (rows < 20)


def test_a_declared_header_is_drafted(tmp_path: Path) -> None:
    path = write_lines(tmp_path, *(f"{i},{i % 13 / 7:.4f},{'ab'[i % 2]}" for i in range(60)))
    text = draft(path, header=["id", "mass", "group"])
    assert tomllib.loads(text)["csv"]["header"] == ["id", "mass", "group"]
    assert list(columns(text)) == ["mass", "group"]
    assert '"id": all different' in told(path, header=["id", "mass", "group"])
    (tmp_path / "m.toml").write_text(complete(text))
    manifest = load_manifest(tmp_path / "m.toml")
    report = check_rows(manifest, CsvSource(path, manifest.csv_options))
    assert (report.faults, report.rows) == ((), 60)


def test_lines_that_are_not_read_are_counted_and_too_many_end_it(tmp_path: Path) -> None:
    rows = [f"{i / 7:.3f},{'ab'[i % 2]}" for i in range(300)]
    rows[9] = rows[99] = "1,2,3"
    path = write_lines(tmp_path, "x,y", *rows)
    assert "Not read: 3 fields where the header has 2 (lines 11, 101)" in told(path)
    with pytest.raises(
        IngestError, match=r"4 of 300 lines cannot be read, more than 1%: 3 fields .* \(lines 2, 3, 11, 101\)"
    ):
        draft(write_lines(tmp_path, "x,y", "1,2,3", "1,2,3", *rows[2:]))


@pytest.mark.parametrize("sign", ["^", "~", "  ", "\x1f"])
def test_a_separator_that_no_manifest_knows_is_named(tmp_path: Path, sign: str) -> None:
    path = write_lines(tmp_path, *(sign.join(row) for row in [["age", "mass"], ["63", "70.5"], ["64", "71"]]))
    called = {"^": "'^'", "~": "'~'", "  ": "spaces", "\x1f": "the sign U"}[sign]
    with pytest.raises(IngestError, match=re.escape(f"separated by {called}")):
        draft(path)


@pytest.mark.parametrize(
    "lines", [["note", "a", "b#"], ["a#b#c", "1#2", "3#4"]], ids=["in the last line", "other counts"]
)
def test_a_sign_that_lines_do_not_have_as_often_as_the_first_one_separates_nothing(
    tmp_path: Path, lines: list[str]
) -> None:
    assert sniff(write_lines(tmp_path, *lines)).separator == ","


def test_a_draft_without_columns_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "patient_id,name", *(f"{i},Canary{i}" for i in range(40)))
    with pytest.raises(IngestError, match=r"no column can be released\. The separator was taken to be ','") as caught:
        draft(path)
    assert "Canary" not in str(caught.value)


@pytest.mark.parametrize("place", [1, 30_000, 79_999])
def test_a_line_in_another_encoding_does_not_change_that_of_the_file(tmp_path: Path, place: int) -> None:
    lines = [f"{i % 13 / 7:.60f},{'größe' if i % 2 else 'länge'}".encode() for i in range(80_000)]
    lines[place] = "0.5,größe".encode("latin-1")
    path = tmp_path / "d.csv"
    path.write_bytes(b"x,y\n" + b"\n".join(lines) + b"\n")
    assert path.stat().st_size > _SNIFFED_BYTES  # the last line is not in what is held of the file
    said: list[str] = []
    assert sniff(path).encoding == "utf-8"
    assert '# levels = ["größe", "länge"]' in draft(path, tell=said.append)
    assert f"Not read: not UTF-8 text, as other lines are (line {place + 2})" in "\n".join(said)


def test_a_line_of_utf_8_in_another_encoding_is_told(tmp_path: Path) -> None:
    lines = [f"{i % 13 / 7:.3f},{'größe' if i % 2 else 'länge'}".encode("latin-1") for i in range(300)]
    lines[7] = "0.5,größe".encode()
    path = tmp_path / "d.csv"
    path.write_bytes(b"x,y\n" + b"\n".join(lines) + b"\n")
    assert "Ã" not in draft(path)
    assert "not WINDOWS-1252 text, as other lines are (line 9)" in told(path)


def test_blocks_of_the_whole_file_are_looked_at(tmp_path: Path) -> None:
    lines = [f"{i % 13 / 7:.3f},{'ab'[i >= 50_000]},{i % 3}" for i in range(200_000)]
    path = write_lines(tmp_path, "x,y,z", *lines)
    text = draft(path)
    assert text.startswith("# A draft, from blocks of rows from the whole source.")
    assert '# levels = ["a", "b"]' in text
    assert draft(path, rows_max=None).startswith("# A draft, from all rows.")


def test_a_draft_without_bounds_is_refused_and_each_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "m.toml")
    said = str(caught.value)
    assert "rows_are_persons" in said
    for name in ("glucose", "creatinine_mg_dl", "visits", "weight", "admitted", "seen_at"):
        assert f"column '{name}' needs lower and upper" in said
    half = text.replace("# lower =", "lower = 0 #").replace("# upper =", "upper =")
    (tmp_path / "m.toml").write_text(half)
    with pytest.raises(ManifestError, match=r"a value is to be filled in, from knowledge: line \d+, \d+"):
        load_manifest(tmp_path / "m.toml")


def test_a_population_and_a_capacity_are_never_guessed(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(complete(draft(write_csv(tmp_path), population=None, row_capacity=None)))
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "m.toml")
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["population", "row_capacity"]


def test_a_draft_with_bounds_takes_its_own_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.toml").write_text(complete(text))
    manifest = load_manifest(tmp_path / "m.toml")
    assert check_rows(manifest, CsvSource(tmp_path / "people.csv", manifest.csv_options)).faults == ()


PACKED = {"none": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
PACKED["zstd"] = lambda content: pa.compress(content, codec="zstd", asbytes=True)


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252"])
@pytest.mark.parametrize(("separator", "quote", "decimal"), [(",", '"', "."), (";", '"', ","), ("\t", "'", ".")])
def test_how_a_file_is_written_is_seen(
    tmp_path: Path, compression: str, encoding: str, separator: str, quote: str, decimal: str
) -> None:
    rows = [[f"{quote}größe{quote}", f"{quote}x{quote}"]]
    rows += [[f"{1 + i / 8}".replace(".", decimal), f"{quote}ä{separator}b{quote}"] for i in range(30)]
    content = "\n".join(separator.join(row) for row in rows).encode(encoding)
    path = tmp_path / "d.csv"
    path.write_bytes(PACKED[compression](content))
    found = sniff(path)
    assert found == CsvOptions(
        separator=separator, quote=quote, decimal=decimal, encoding=encoding, compression=compression
    )
    assert columns(draft(path))["grosse"]["type"] == "numeric"


def test_typed_columns_are_drafted_alike(tmp_path: Path) -> None:
    table = pa.table({
        "alive": [True, False, None] * 10,
        "mass": [1.5, float("nan"), 2.5] * 10,
        "born": [date(1950, 1, 31), date(1960, 1, 31)] * 15,
        "seen": [datetime(2020, 1, day, 10, 30, tzinfo=UTC) for day in (30, 31)] * 15,
        "grade": [1, 2, None] * 10,
        "tags": [["a"]] * 30,
    })  # fmt: skip
    pq.write_table(table, tmp_path / "d.parquet")
    source = open_source(tmp_path / "d.parquet", CsvOptions())
    text = draft_manifest(source, None, name="d", population="p", row_capacity=100)
    kinds = {name: column.get("format", column["type"]) for name, column in columns(text).items()}
    assert kinds == {
        "alive": "boolean", "mass": "numeric", "born": "date", "seen": "datetime", "grade": "categorical"
    }  # fmt: skip
    (tmp_path / "m.toml").write_text(complete(text))
    assert check_rows(load_manifest(tmp_path / "m.toml"), source).faults == ()


def test_a_query_is_drafted(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "h.sqlite3") as connection:
        connection.execute("CREATE TABLE v (who text, age float)")
        connection.executemany("INSERT INTO v VALUES (?, ?)", [(f"p{i}", i / 3) for i in range(40)])
    connection.close()
    (tmp_path / "q.sql").write_text("SELECT who AS person, age FROM v")
    source = open_query(tmp_path / "q.sql", "h", f"sqlite:///{tmp_path / 'h.sqlite3'}")
    text = draft_manifest(source, None, name="q")
    assert '"person" is called as one that tells persons' in text
    assert list(columns(text)) == ["age"]


@given(st.lists(st.text(max_size=80)))
def test_names_are_legal_and_differ(headers: list[str]) -> None:
    taken: set[str] = set()
    names = [make_name(header, taken, "column") for header in headers]
    assert all(NAME.fullmatch(name) for name in names)
    assert len(set(names)) == len(names)


HEADERS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n,"), min_size=1, max_size=12)
WORDS = st.sampled_from(["", "1", "2.5", "-9", "NA", "a", "b[", "yes", "0", "2020-01-31", "é", "x y", "1e5"])


@given(st.lists(HEADERS, min_size=1, max_size=4), st.data())
def test_a_draft_is_toml_whatever_the_file_holds(
    tmp_path_factory: pytest.TempPathFactory, headers: list[str], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.lists(WORDS, min_size=len(headers), max_size=len(headers)), max_size=8))
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("\n".join(",".join(row) for row in [headers, *rows]), encoding="utf-8")
    with suppress(IngestError):  # no column, or no text
        assert tomllib.loads(draft(path))["name"] == "people"


def test_columns_of_long_texts_are_left_out_of_a_draft(tmp_path: Path) -> None:
    notes = ["note " * 2000, "short"] * 30
    table = pa.table(
        {"age": [i % 40 for i in range(60)], "notes": notes, "scan": pa.array([b"x" * 5000] * 60, pa.binary(5000))}
    )
    for dictionary in (True, False):
        pq.write_table(table, tmp_path / "x.parquet", use_dictionary=dictionary)
        text = draft_manifest(open_source(tmp_path / "x.parquet", CsvOptions()), None, name="d")
        assert "# - 'notes' holds texts too long for a table" in text
        assert "# - 'scan' holds texts too long for a table" in text
        assert 'name = "age"' in text
        assert "note note" not in text
