"""What was asked, for officers and auditors: as the signed entry has it, without an answer, and never a row's word."""

import json
from pathlib import Path
from typing import Any

import pytest
from dashboard_worlds import Person, fields_of, token_of
from support import World, body, make_rows, open_world, problem

from curator_service.dashboard.pages.stakes import guess_by
from curator_service.dashboard.rendering import write_brief
from curator_service.identity.policy import Role

FAR = json.dumps(
    {"population": "town", "sequence": 2**63, "epoch": 1, "limit": "1", "posted": "1", "pending": "1", "key_id": "k"}
    | {"entry_hash": "0", "signature": "x"}
)
"""A receipt of a place that no chain has."""
PLACE = "/v1/admin/populations/town/questions"


@pytest.fixture
def asked(both: World) -> World:
    """Return a world in which ada asked of two datasets in two months, and an auditor looks."""
    both.add_token("audra", Role.AUDITOR)
    both.add_token("stella", Role.STEWARD)
    ada = both.api("ada")
    both.grant("ada", both.register("other", "town", make_rows(30, seed=3)))
    where = {"where": {"less": ["age", 70]}}
    for key, (dataset, sent) in enumerate(
        [
            ("cohort", body(price={"mu": 0.01}, features=["age", "sex"])),
            ("other", {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], "price": {"mu": 0.01}}),
            ("cohort", body(price={"mu": 0.01}, features=["weight"]) | where),
        ]
    ):
        if key == 2:
            both.clock.advance(days=40)
            both.curator.versions.cut_due()
        answer = ada.post(f"/v1/datasets/{dataset}/releases", json=sent, key=f"k{key}")
        assert answer.status_code == 201, answer.text
    return both


def ask(world: World, query: str = "", who: str = "audra") -> Any:
    answer = world.api(who).get(f"{PLACE}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def list_triggers(world: World, table: str) -> list[str]:
    """Return the triggers that let nobody change a table, as a statement drops them."""
    if world.curator.database.is_sqlite:
        found = world.sql(f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table}'")
        return [name for (name,) in found]
    asked = f"tgrelid = '{table}'::regclass AND NOT tgisinternal"
    return [f"{name} ON {table}" for (name,) in world.sql(f"SELECT tgname FROM pg_trigger WHERE {asked}")]


def test_an_auditor_reads_what_was_asked_by_whom_and_at_what_price(asked: World) -> None:
    found = ask(asked)["questions"]
    assert [one["words"] for one in found] == [
        "sums for linear models of kappa on weight, of rows with age < 70",
        "counts of rows by sex",
        "sums for linear models of kappa on age and sex",
    ]
    charges = {entry["release"]: entry for entry in asked.entries() if entry["kind"] == "charge"}
    for one in found:
        entry = charges[one["release"]]
        assert (one["sequence"], one["units"], one["asked_by"]) == (str(entry["sequence"]), entry["units"], "ada")
        assert (one["permit"], one["dataset"], one["kind"]) == (
            entry["permit"],
            entry["dataset"],
            entry["release_kind"],
        )
        assert asked.api("audra").get(f"/v1/admin/questions/{one['release']}").json() == one
        assert "values" not in str(one)
    assert found[0]["formula"] == "kappa ~ weight"
    assert found[0]["asked"]["where"] == {"less": ["age", 70.0]}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 3), ("?dataset=other", 1), ("?dataset=cohort", 2), ("?kind=counts", 1), ("?column=sex", 2),
        ("?column=weight&dataset=cohort", 1), ("?column=age", 2), ("?column=kappa", 2), ("?dataset=x%25", 0),
        *((f"?column={word}", 0) for word in ("nothing", "gram", "counts", "xtx", "ball", "complete")),
    ],
)  # fmt: skip
def test_it_is_searched_by_what_it_is_about(asked: World, query: str, count: int) -> None:
    assert len(ask(asked, query)["questions"]) == count


def test_it_is_searched_by_month_and_read_page_after_page(asked: World) -> None:
    months = {one["asked_at"][:7] for one in ask(asked)["questions"]}
    assert len(months) == 2
    assert sum(len(ask(asked, f"?month={month}")["questions"]) for month in months) == 3
    seen, following = [], ""
    for _ in range(3):
        page = ask(asked, f"?limit=1{following}")
        seen += [one["release"] for one in page["questions"]]
        following = f"&before={page['next']}"
    assert seen == [one["release"] for one in ask(asked)["questions"]]


def test_the_ledger_says_the_same_words(asked: World) -> None:
    answer = asked.api("audra").get("/v1/ledger/town?words=true").json()
    assert answer["asked"][::-1] == [
        {name: one[name] for name in ("sequence", "words")} for one in ask(asked)["questions"]
    ]
    plain = asked.api("audra").get("/v1/ledger/town").json()
    assert plain == {name: value for name, value in answer.items() if name != "asked"}
    problem(asked.api("audra").get("/v1/ledger/%00?words=true"), "not-found", 404)
    problem(asked.api("audra").get("/v1/admin/populations/%00/questions"), "not-found", 404)


def test_nobody_else_reads_it(asked: World) -> None:
    release = ask(asked)["questions"][0]["release"]
    for who in ("ada", "ben", "stella"):
        for address in (PLACE, f"/v1/admin/questions/{release}"):
            problem(asked.api(who).get(address), "permission-denied", 403)
    problem(asked.api("audra").get("/v1/admin/questions/rel_" + "0" * 24), "not-found", 404)
    problem(asked.api("audra").get("/v1/admin/populations/nowhere/questions"), "not-found", 404)


@pytest.mark.parametrize("change", ["request", "digest", "another"])
def test_a_row_that_somebody_changed_says_nothing(asked: World, change: str) -> None:
    """Whoever may change tables shows no officer another question than the signed one."""
    last, _, first = ask(asked)["questions"]
    for name in list_triggers(asked, "releases"):
        asked.sql(f"DROP TRIGGER {name}")
    if change == "request":
        asked.sql(f"UPDATE releases SET answer = replace(answer, 'weight', 'height') WHERE id = '{last['release']}'")
    elif change == "digest":
        asked.sql(f"UPDATE releases SET request_digest = '{'0' * 64}' WHERE id = '{last['release']}'")
    else:
        asked.sql(
            f"UPDATE releases SET answer = (SELECT answer FROM releases WHERE id = '{first['release']}') "
            f"WHERE id = '{last['release']}'"
        )
    shown = ask(asked)["questions"]
    assert shown[1:] == ask(asked)["questions"][1:]
    assert (shown[0]["asked"], shown[0]["formula"]) == (None, None)
    assert shown[0]["words"].startswith("cannot be shown")
    assert shown[0]["asked_by"] == "ada"  # which the entry says
    assert asked.api("audra").get(f"/v1/admin/questions/{last['release']}").json() == shown[0]


def test_an_entry_that_somebody_changed_says_nothing_and_its_page_is_shown(asked: World) -> None:
    release = ask(asked)["questions"][0]
    is_sqlite = asked.curator.database.is_sqlite
    trigger = "ledger_entries_no_update" if is_sqlite else "ledger_entries_append_only ON ledger_entries"
    asked.sql(f"DROP TRIGGER {trigger}")
    changed = """replace(payload, '"units":"', '"units":"much ')"""
    asked.sql(f"UPDATE ledger_entries SET payload = {changed} WHERE payload LIKE '%{release['release']}%'")
    shown = asked.api("audra").get(f"/v1/admin/questions/{release['release']}").json()
    assert (shown["asked"], shown["units"]) == (None, "0")
    assert shown["words"].startswith("cannot be shown")
    page = Person(asked, "audra").get(f"/admin/releases/{release['release']}")
    assert page.status_code == 200
    assert "cannot be shown" in page.text


@pytest.mark.parametrize(
    ("sent", "cells"),
    [
        (
            body(features=["age", "sex"]),
            ["50 to 100 years", "25 years", "F, M", "0 to 6 mg/dL", "3 mg/dL", "± 3,200 years"],
        ),
        (
            body(features=[{"log": ["weight"]}], where={"less": ["age", 70]}),
            ["40 to 160 kg", "log(weight)", "0 to 6 mg/dL", "false, true"],
        ),
        ({"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], "price": {"mu": 0.1}}, ["F, M"]),
    ],
)
def test_a_page_has_the_columns_with_bounds_and_units(asked: World, sent: dict[str, Any], cells: list[str]) -> None:
    answer = asked.api("ada").post("/v1/datasets/cohort/releases", json=sent | {"price": {"mu": 0.02}}, key="page")
    page = Person(asked, "audra").get(f"/admin/releases/{answer.json()['id']}").text
    columns = page[page.index("<h2>Columns</h2>") : page.index("<h2>Noise</h2>")]
    for cell in cells:
        assert cell in columns


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (
            {"kind": "counts", "tables": [{"axes": [{"column": "sex"}, {"column": "alive"}]}]},
            ["counts of rows by sex × alive"],
        ),
        (
            {"kind": "marginals", "marginals": [{"type": "moments", "columns": ["age", "kappa"]}]},
            ["mean and standard deviation of age and kappa"],
        ),
        (body(), ["XᵀX, on its diagonal", "Xᵀy"]),
    ],
)
def test_a_page_says_of_what_each_noise_is(asked: World, sent: dict[str, Any], named: list[str]) -> None:
    answer = asked.api("ada").post("/v1/datasets/cohort/releases", json=sent | {"price": {"mu": 0.02}}, key="page")
    page = Person(asked, "audra").get(f"/admin/releases/{answer.json()['id']}").text
    noise = page[page.index("<h2>Noise</h2>") :]
    for words in named:
        assert f'<bdi class="said">{words}</bdi>' in noise


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("actor", []), ("actor", None), ("time", 5), ("units", "x"), ("units", None), ("units", "-5"), ("kind", []),
        ("dataset", None), ("release", []), ("permit", {}), ("sequence", None),
    ],
)  # fmt: skip
def test_an_entry_beyond_reading_breaks_no_page(asked: World, member: str, value: Any) -> None:
    charges = [entry for entry in asked.entries() if entry["kind"] == "charge"]
    said = json.dumps(charges[0] | {member: value}, separators=(",", ":"))
    for name in list_triggers(asked, "ledger_entries"):
        asked.sql(f"DROP TRIGGER {name}")
    asked.sql(f"UPDATE ledger_entries SET payload = '{said}' WHERE sequence = {charges[0]['sequence']}")
    audra, places = Person(asked, "audra"), [f"/admin/releases/{one['release']}" for one in charges]
    for page in ("/admin/releases", "/admin/releases?dataset=cohort", "/admin/populations/town/ledger", *places):
        assert audra.get(page).status_code == 200, page
    for one in charges:
        assert audra.get(f"/admin/populations/town/ledger/{one['sequence']}").status_code == 200
    shown = {one["release"]: one for one in ask(asked)["questions"]}
    assert [shown[one["release"]]["asked_by"] for one in charges[1:]] == ["ada", "ada"]
    found = asked.api("audra").get(f"/v1/admin/questions/{charges[0]['release']}").json()
    assert found["words"].startswith("cannot be shown")


def test_an_entry_that_nobody_signed_says_nothing_of_anybody(asked: World) -> None:
    """Whoever may insert into the log puts an entry there, and a release beside it, in somebody's name."""
    said = next(entry for entry in asked.entries() if entry["kind"] == "charge")
    forged, sequence = "rel_" + "f" * 24, said["sequence"] + 100
    payload = json.dumps(said | {"release": forged, "sequence": sequence, "units": "77", "project": "secret"})
    names = "id, dataset_id, request_digest, answer"
    (columns,) = asked.sql(f"SELECT {names} FROM releases WHERE id = '{said['release']}'")
    asked.sql(
        "INSERT INTO ledger_entries (population, sequence, payload, entry_hash, signature) SELECT population, "
        f"{sequence}, '{payload}', '{'0' * 64}', signature FROM ledger_entries WHERE sequence = {said['sequence']} "
        "AND population = 'town'",
        f"INSERT INTO releases ({names}, population, sequence) VALUES ('{forged}', '{columns[1]}', '{columns[2]}', "
        f"'{columns[3]}', 'town', {sequence})",
    )
    found = asked.api("audra").get(f"/v1/admin/questions/{forged}").json()
    assert found["words"].startswith("cannot be shown")
    told = [found[name] for name in ("asked_by", "asked_at", "dataset", "permit", "project", "units", "asked")]
    assert told == ["", "", "", None, None, "0", None]
    page = Person(asked, "audra").get(f"/admin/releases/{forged}")
    assert (page.status_code, "secret" in page.text, "<code>ada</code>" in page.text) == (200, False, False)


@pytest.mark.parametrize(
    ("sent", "has_sums"),
    [
        (body(features=["age"], rows={"map": "box"}), True),
        (body(features=["age"], rows={"map": "ball"}), True),
        (body(features=["age"], rows={"map": "unit"}), False),
        (body(features=["age"], intercept=False), False),
        (body(features=["age"], weight={"divide": ["weight", 200]}), False),
        (body(features=[{"natural_spline": ["age", [60, 70, 80]]}]), False),
    ],
)
def test_noise_of_a_sum_is_stated_where_an_answer_has_that_sum(
    asked: World, sent: dict[str, Any], has_sums: bool
) -> None:
    answer = asked.api("ada").post("/v1/datasets/cohort/releases", json=sent | {"price": {"mu": 0.02}}, key="sum")
    assert answer.status_code == 201, answer.text
    page = Person(asked, "audra").get(f"/admin/releases/{answer.json()['id']}").text
    row = page[page.index('<bdi class="said">age</bdi>', page.index("<h2>Columns</h2>")) :]
    row = row[: row.index("</tr>")]
    if has_sums:
        sd = answer.json()["noise"]["sd"]["xtx_offdiagonal"] * 25.0  # half of 50 to 100 years
        assert f"± {write_brief(1.96 * sd)} years" in row
    else:
        assert "±" not in row


def test_what_is_cut_out_of_an_answer_names_it_and_costs_nothing(asked: World) -> None:
    rows = {"map": "box"}
    whole = body(price={"mu": 0.02}, features=["age", "weight"], rows=rows)
    bought = asked.api("ada").post("/v1/datasets/cohort/releases", json=whole, key="whole")
    smaller = body(price={"mu": 0.001}, features=["age"], rows=rows)
    answer = asked.api("ada").post("/v1/datasets/cohort/releases", json=smaller, key="cut")
    assert answer.status_code == 200, answer.text
    page = Person(asked, "audra").get("/admin/releases").text
    paid, free = (page.partition(f'data-release="{one.json()["id"]}"')[2] for one in (bought, answer))
    account = asked.account()
    guess = guess_by(account, int(bought.json()["cost"]["units"]))
    assert f'<span class="quiet guess">{guess} of 100</span>' in paid.partition("</tr>")[0]
    assert "of 100" not in free.partition("</tr>")[0]
    cut = ask(asked)["questions"][0]
    assert (cut["release"], cut["units"], cut["source"]) == (answer.json()["id"], "0", bought.json()["id"])
    assert cut["words"] == "sums for linear models of kappa on age"


def test_a_month_without_a_charge_shows_what_was_cut_out_of_an_earlier_answer(asked: World) -> None:
    rows = {"map": "box"}
    whole = body(price={"mu": 0.02}, features=["age", "weight"], rows=rows)
    asked.api("ada").post("/v1/datasets/cohort/releases", json=whole, key="whole")
    asked.clock.advance(days=40)
    asked.curator.versions.cut_due()
    asked.clock.advance(days=1)
    part = body(price={"mu": 0.001}, features=["age"], rows=rows)
    cut = asked.api("ada").post("/v1/datasets/cohort/releases", json=part, key="part").json()
    month = cut["created_at"][:7]
    page = Person(asked, "audra").get(f"/admin/releases?month={month}").text
    assert f'data-release="{cut["id"]}"' in page


def open_session(asked: World) -> Any:
    session = {"positives": 3, "price": {"epsilon": 0.01}, "direction": "above"}
    opened = asked.api("ada").post("/v1/datasets/cohort/sessions", json=session, key="session")
    assert opened.status_code == 201, opened.text
    return opened.json()


def test_threshold_sessions_are_among_what_was_asked_also_when_they_have_ended(asked: World) -> None:
    asked.add_token("olga", Role.PRIVACY_OFFICER)
    opened = open_session(asked)
    assert asked.api("ada").request("DELETE", f"/v1/sessions/{opened['id']}").status_code == 200
    entry = next(one["sequence"] for one in asked.entries() if one["kind"] == "session")
    olga, audra = Person(asked, "olga"), Person(asked, "audra")
    for query, is_shown in (
        ("", True), ("?dataset=cohort", True), ("?population=town&who=ada", True), ("?dataset=other", False),
        ("?month=2020-01", False), ("?dataset=cohort&month=2020-01", False), ("?kind=gram", False),
        ("?dataset=cohort&column=age", False), ("?dataset=cohort&who=ben", False),
    ):  # fmt: skip
        page, audited = olga.get(f"/admin/releases{query}").text, audra.get(f"/admin/releases{query}").text
        assert (f'<a href="/admin/sessions/{opened["id"]}">' in page) is is_shown, query
        assert ("Yes-or-no questions, until 3 of them are answered yes" in page) is is_shown, query
        assert (f'<a href="/admin/populations/town/ledger/{entry}">' in audited) is is_shown, query
        assert "/admin/sessions/" not in audited  # which an auditor may not read


def test_a_session_whose_entry_somebody_changed_says_nothing(asked: World) -> None:
    open_session(asked)
    for name in list_triggers(asked, "ledger_entries"):
        asked.sql(f"DROP TRIGGER {name}")
    changed = """replace(payload, '"positives":3', '"positives":333')"""
    asked.sql(f"UPDATE ledger_entries SET payload = {changed} WHERE payload LIKE '%threshold_scale%'")
    page = Person(asked, "audra").get("/admin/releases?dataset=cohort").text
    assert "333" not in page
    assert "the ledger&#39;s entry is not one that this curator signed" in page


def test_a_list_that_is_empty_says_why(asked: World) -> None:
    audra = Person(asked, "audra")
    assert "There is no dataset of this name" in audra.get("/admin/releases?dataset=cohrt").text
    assert "There is no such release" in audra.get("/admin/releases?month=2020-01").text


def test_the_page_begins_with_the_last_month_in_which_a_release_was_charged(asked: World) -> None:
    asked.clock.advance(days=40)
    asked.curator.versions.cut_due()
    open_session(asked)
    page = Person(asked, "audra").get("/admin/releases").text
    assert page.count("data-release=") == 1  # of the others the month is an earlier one


def release_of(asked: World) -> Any:
    return asked.api("ada").get(f"/v1/releases/{ask(asked)['questions'][0]['release']}").json()


def look_at(asked: World, shown: str) -> Any:
    person = Person(asked, "audra")
    form = {"form_token": token_of(person.get("/admin/ledger")), "receipt": shown}
    return person.post("/admin/ledger/receipt", form)


@pytest.mark.parametrize("spaced", [None, 2])
@pytest.mark.parametrize("whole", [False, True])
def test_a_receipt_that_somebody_shows_is_believed(asked: World, spaced: int | None, whole: bool) -> None:
    release = release_of(asked)
    receipt = release["receipt"]
    answer = look_at(asked, json.dumps(release if whole else receipt, indent=spaced))
    assert "This receipt can be believed" in answer.text
    assert f"/admin/populations/town/ledger/{receipt['sequence']}" in answer.text
    assert ("Answer holds" in answer.text) is whole
    assert f'<a href="/admin/releases/{release["id"]}">' in answer.text


def test_a_release_that_was_changed_around_its_receipt_is_not(asked: World) -> None:
    found = release_of(asked)
    assert "This receipt can be believed" in look_at(asked, json.dumps(found)).text
    found["statistics"]["yty"]["values"] = [[1.0]]
    page = look_at(asked, json.dumps(found)).text
    assert "This release cannot be believed" in page
    assert "Its receipt is true" in page
    assert "a number or the question was changed" in page
    assert "Answer does not hold" in page
    assert 'Not so: <bdi class="said">The release around' in page


def test_a_release_whose_stored_answer_was_changed_cannot_be_compared(asked: World) -> None:
    found = release_of(asked)
    for name in list_triggers(asked, "releases"):
        asked.sql(f"DROP TRIGGER {name}")
    asked.sql(f"UPDATE releases SET answer = replace(answer, 'weight', 'height') WHERE id = '{found['id']}'")
    page = look_at(asked, json.dumps(found)).text
    assert "This release cannot be believed" in page
    assert "What is stored of its release was changed here" in page


@pytest.mark.parametrize("change", ["actor", "units", "sequence", "signature", "population", "signed elsewhere"])
def test_a_receipt_that_was_changed_is_not(asked: World, tmp_path: Path, change: str) -> None:
    receipt = release_of(asked)["receipt"]
    if change == "signed elsewhere":
        with open_world(tmp_path / "other") as other:
            answer = other.api().post("/v1/datasets/cohort/releases", json=body(price={"mu": 0.01}), key="k")
            receipt = answer.json()["receipt"]
    else:
        other_words = {"actor": 1, "units": "1", "sequence": receipt["sequence"] - 1, "population": "valley"}
        receipt[change] = other_words.get(change, receipt["signature"][::-1])
    answer = look_at(asked, json.dumps(receipt))
    assert answer.status_code == 200
    assert "This receipt cannot be believed" in answer.text
    assert "No entry of this ledger is so" in answer.text
    said = {"units": "differs in units.", "signature": "differs in its hash or signature."}
    assert said.get(change, "") in answer.text


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"a": {"a": 1}}', "[" * 5000, '{"receipt": 1}', "\0", FAR])
def test_a_text_that_is_no_receipt_is_told_so(asked: World, text: str) -> None:
    answer = look_at(asked, text)
    assert answer.status_code == 422
    assert "This is no receipt of a population" in answer.text
    assert fields_of(answer)["receipt"] == [text.replace("\0", "\\u0000")]


def test_evidence_says_the_same(asked: World, tmp_path: Path) -> None:
    import io
    import zipfile

    release = ask(asked)["questions"][0]
    pack = asked.api("audra").get(f"/v1/releases/{release['release']}/evidence")
    page = zipfile.ZipFile(io.BytesIO(pack.content))
    (name,) = [one for one in page.namelist() if one.endswith(".html")]
    assert "sums for linear models of kappa on weight, of rows with age &lt; 70" in page.read(name).decode()
