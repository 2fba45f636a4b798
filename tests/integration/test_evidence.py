"""Evidence packs: signed files verify, the page says who allowed what and is inert, and nothing tells of rows."""

import hashlib
import io
import json
import re
import shutil
import subprocess
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result
from scenes import another_worker, register_private
from support import TERMS, World, ZeroNoise, body, client_of, make_rows, open_population, open_world, problem
from typer.testing import CliRunner

from analyst_client import CuratorClient
from analyst_client.errors import ServiceError
from analyst_client.verify import main as verify
from curator_service.cli.main import app
from curator_service.evidence import words
from curator_service.evidence.pack import make_archive, make_files, write_folder
from curator_service.evidence.service import EvidenceError
from curator_service.identity.policy import Role
from curator_service.kinds.registry import KINDS
from curator_service.kit.names import DECEIVING, make_visible
from curator_service.kit.problems import NotFound
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution

RELEASES = "/v1/datasets/cohort/releases"
SCORE = next(kind for kind in KINDS if kind.name == "score").example
REQUESTS: dict[str, dict[str, Any]] = {
    "gram": {"features": ["age", "sex"], "targets": ["kappa"], "rows": {"map": "box"}},
    "counts": {"tables": [{"axes": [{"column": "sex"}, {"column": "age", "edges": [50, 60, 70, 100]}]}]},
    "marginals": {"marginals": [{"type": "tree", "columns": ["age"], "levels": 4}]},
    "score": {name: value for name, value in SCORE.items() if name not in {"kind", "price"}},
}
SHOWN = {
    "gram": {"age", "sex", "kappa", "products of terms with each other (XᵀX)", "XᵀX, on its diagonal", "yᵀy"},
    "counts": {"age", "sex", "rows by age × sex"},
    "marginals": {"age", "tree of age"},
    "score": {"age", "sex", "kappa", "sum of clipped gradients"},
}
"""What the tables of a page begin with: columns, statistics, noise."""
HOSTILE = '<img src=x onerror="alert(1)"> \u202e\u2067 </bdi></style><script>x</script> {who} &amp;'
INERT = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "div", "strong", "ul", "li"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "code", "pre", "span", "time"),
}
HARMLESS = {"class", "scope", "datetime", "data-head", "lang", "charset", "http-equiv", "content", "name"}


class Page(HTMLParser):
    """A page's elements and attributes, its text, and its rows as texts."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.text, self.tags, self.attributes = "", set[str](), set[str]()
        self.rows: list[list[str]] = []
        self.in_cell = False
        self.feed(content.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self.in_cell = self.in_cell and tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data

    def fact(self, name: str) -> str:
        """Return what a table says of something."""
        return next(" ".join(row[1:]) for row in self.rows if row[:1] == [name])


def buy(world: World, kind: str = "gram", who: str = "ada", **changes: Any) -> str:
    asked = {"kind": kind, "price": {"mu": 0.02}, **REQUESTS[kind], **changes}
    answer = world.api(who).post(RELEASES, json=asked, key=f"{kind}-{len(world.entries())}")
    assert answer.status_code in {200, 201}, answer.text
    return str(answer.json()["id"])


def ask(world: World, *thresholds: float, positives: int = 1, who: str = "ada", **asked: Any) -> str:
    """Open a session without noise on 80 rows, and ask of their number; return its id."""
    world.noise, api, key = ZeroNoise(), world.api(who), f"session-{len(world.entries())}"
    asked |= {"positives": positives, "direction": "above", "price": {"epsilon": 0.02}}
    opened = api.post("/v1/datasets/cohort/sessions", json=asked, key=key)
    assert opened.status_code == 201, opened.text
    session = str(opened.json()["id"])
    for number, threshold in enumerate(thresholds):
        answer = api.post(f"/v1/sessions/{session}/questions", json={"threshold": threshold}, key=f"{key}-{number}")
        assert answer.status_code == 201, answer.text
    return session


def pack_of(world: World, subject: str, **options: Any) -> dict[str, bytes]:
    evidence = world.curator.evidence
    gather = evidence.gather_permit if subject.startswith("prm_") else evidence.gather_release
    found = gather(subject, **options)
    evidence.verify(found)
    return make_files(found)


def verified(folder: Path) -> int:
    """Run `curator-verify` on every signed file of a pack, as its page says."""
    said = re.search(r"curator-verify --key keys.json ([^\n<]+)", (folder / "check.html").read_text("utf-8"))
    assert said is not None
    files = [str(path) for pattern in said[1].split() for path in sorted(folder.glob(pattern))]
    assert files
    return verify(["--key", str(folder / "keys.json"), *files])


@pytest.fixture
def permitted(world: World) -> World:
    """Return a world in which ada's releases are charged under a permit of olga and otto."""
    permit = world.permit(purpose="nephrology", conditions="within the hospital", limit={"epsilon": 0.8, "delta": 1e-6})
    world.end_grant("ada", next(d.id for d in world.curator.datasets.list_all() if d.name == "cohort"))
    world.tokens["permit"] = permit
    return world


class TestTheFiles:
    @pytest.mark.parametrize("kind", REQUESTS)
    def test_of_a_release_of_each_kind(self, permitted: World, tmp_path: Path, kind: str) -> None:
        release = buy(permitted, kind)
        files, sent = pack_of(permitted, release), permitted.api().get(f"/v1/releases/{release}")
        assert files["answer.json"] == sent.content
        assert files["receipt.json"] == sent.text.partition(',"receipt":')[2][:-1].encode()
        assert {*files} == {
            *("check.html", "receipt.json", "answer.json", "keys.json", "processing-record.json"),
            *("dp-deployment.json", "ro-crate-metadata.json", "SHA256SUMS"),
            *(name for name in files if name.startswith("permit/town-")),
        }
        write_folder(files, tmp_path / "pack")
        assert verified(tmp_path / "pack") == 0
        page = Page(files["check.html"])
        assert page.fact("kind").startswith(kind)
        assert SHOWN[kind] <= {row[0] for row in page.rows}
        noise = json.loads(files["answer.json"])["noise"]["sd"]
        assert sum(len(row) == 3 and row[2].startswith("±") for row in page.rows) == len(noise)
        assert page.fact("of which rows") == "all that the dataset counts"

    def test_which_rows_count_is_said(self, permitted: World) -> None:
        page = Page(pack_of(permitted, buy(permitted, "counts", where={"in": ["sex", ["F"]]}))["check.html"])
        assert page.fact("of which rows") == 'those for which {"in": ["sex", ["F"]]}'

    def test_of_every_kind_there_are_words(self) -> None:
        assert {kind.name for kind in KINDS if kind.words.title and kind.words.meaning} == set(REQUESTS)
        assert set(words.DISTRIBUTIONS) == set(Distribution)

    def test_of_a_permit_with_its_releases(self, permitted: World, tmp_path: Path) -> None:
        bought = [buy(permitted, kind) for kind in ("gram", "counts")]
        other = buy(permitted, who="ben", price={"mu": 0.03})
        permit = permitted.tokens["permit"]
        without, files = pack_of(permitted, permit), pack_of(permitted, permit, with_answers=True)
        assert not any(name.endswith("answer.json") for name in without)
        folders = {name.split("/")[1] for name in files if name.startswith("releases/")}
        assert folders == {*bought}
        assert other not in files["check.html"].decode()
        for number, content in enumerate((without, files)):
            write_folder(content, tmp_path / str(number))
            assert verified(tmp_path / str(number)) == 0
        page = Page(files["check.html"])
        assert {row[0] for row in page.rows if row[0].startswith("rel_")} == {*bought}
        spent = next(row for row in page.rows if row[0] == "charged and held under this permit so far")
        assert spent[3] == "0.02829"  # µ of two times 0.02, rounded up

    def test_of_a_permit_with_threshold_sessions(self, permitted: World, tmp_path: Path) -> None:
        """Without the answers a pack has no entry that states one; the number of questions it says either way."""
        permit, ended = permitted.tokens["permit"], ask(permitted, 500, 501, 1)
        closed, left = ask(permitted, 500, positives=3), ask(permitted, 1, 500, positives=2)
        other = ask(permitted, 500, who="ben")
        assert permitted.api().request("DELETE", f"/v1/sessions/{closed}").status_code == 200
        without, files = pack_of(permitted, permit), pack_of(permitted, permit, with_answers=True)
        told = {f"sessions/{one}/opened.json" for one in (ended, closed, left)} | {f"sessions/{closed}/closed.json"}
        assert {name for name in without if name.startswith("sessions/")} == told
        answers = {ended: 3, closed: 1, left: 2}
        told |= {f"sessions/{one}/answer-{n + 1}.json" for one, count in answers.items() for n in range(count)}
        assert {name for name in files if name.startswith("sessions/")} == told
        assert b'"answer":' not in b"".join(without.values())
        for number, content in enumerate((without, files)):
            page = Page(content["check.html"])
            rows = {row[0]: row[1:] for row in page.rows if row[0].startswith("ses_")}
            assert {one: int(row[3]) for one, row in rows.items()} == answers
            assert [rows[one][4] for one in (ended, closed, left)] == ["ended", "closed", "open"]
            assert rows[left][2].startswith("cohort: above, until 2 answers are yes; noise of scale ")
            assert "6 questions were answered with yes or no" in page.text
            assert "Nothing yet" not in page.text
            assert other not in page.text
            write_folder(content, tmp_path / str(number))
            assert verified(tmp_path / str(number)) == 0
        spent = next(row for row in page.rows if row[0] == "charged and held under this permit so far")
        costs = [int(one["units"]) for one in permitted.entries() if one["kind"] == "session"][:3]
        assert float(spent[3]) == pytest.approx((sum(costs) / 10**12) ** 0.5, rel=1e-3)
        forged = tmp_path / "1" / "sessions" / ended / "answer-1.json"
        forged.write_bytes(forged.read_bytes().replace(b"negative", b"positive"))
        assert verified(tmp_path / "1") == 1
        permitted.clock.advance(days=31)
        permitted.curator.versions.cut_due()
        rows = {row[0]: row[1:] for row in Page(pack_of(permitted, permit)["check.html"]).rows}
        assert rows[left][4] == "ended"

    def test_of_a_permit_without_a_release(self, permitted: World, tmp_path: Path) -> None:
        write_folder(pack_of(permitted, permitted.tokens["permit"]), tmp_path / "pack")
        assert verified(tmp_path / "pack") == 0
        assert "Nothing yet" in (tmp_path / "pack" / "check.html").read_text("utf-8")

    def test_of_a_permit_for_two_populations(self, world: World, tmp_path: Path) -> None:
        permit = world.permit(datasets=["cohort", "hidden"], limit={"mu": 0.1})
        write_folder(pack_of(world, permit), tmp_path / "pack")
        assert verified(tmp_path / "pack") == 0
        assert len(list((tmp_path / "pack" / "permit").iterdir())) == 2
        page = Page((tmp_path / "pack" / "check.html").read_bytes())
        assert page.fact("datasets") == "cohort, hidden"
        assert page.fact("limit").count("ε") == 2

    def test_of_an_answer_that_was_cut_out_of_another(self, permitted: World, tmp_path: Path) -> None:
        source = buy(permitted)
        part = buy(permitted, features=["age"], price={"mu": 0.01})
        files = pack_of(permitted, part)
        assert json.loads(files["receipt.json"])["kind"] == "derive"
        assert json.loads(files["source/receipt.json"])["release"] == source
        write_folder(files, tmp_path / "pack")
        assert verified(tmp_path / "pack") == 0
        page = Page(files["check.html"])
        assert page.fact("cut out of").startswith(source)
        # What its numbers tell is what those of its source do, and not nothing.
        assert next(row for row in page.rows if row[0] == "the answer that it was cut out of")[3] == "0.02"
        parameters = json.loads(files["dp-deployment.json"])["deployment"]["privacy_loss"]["privacy_parameters"]
        assert parameters["epsilon"] > 0

    @pytest.mark.parametrize("name", ["answer.json", "receipt.json", "check.html", "keys.json", "permit"])
    def test_a_changed_byte_is_found(self, permitted: World, tmp_path: Path, name: str) -> None:
        folder = tmp_path / "pack"
        write_folder(pack_of(permitted, buy(permitted)), folder)
        summed = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
        assert subprocess.run(summed, cwd=folder, check=False).returncode == 0
        path = next((folder / name).iterdir()) if name == "permit" else folder / name
        content = path.read_bytes()
        place = content.index(b"0", len(content) // 3)
        path.write_bytes(content[:place] + b"1" + content[place + 1 :])
        assert subprocess.run(summed, cwd=folder, capture_output=True, check=False).returncode != 0
        if name in {"answer.json", "receipt.json", "permit"}:  # those are signed: new sums do not hide it
            assert verified(folder) == 1

    def test_sums_are_of_every_other_file(self, permitted: World) -> None:
        files = pack_of(permitted, buy(permitted))
        lines = [line.split("  ") for line in files["SHA256SUMS"].decode().splitlines()]
        assert {name: digest for digest, name in lines} == {
            name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name != "SHA256SUMS"
        }

    def test_keys_lead_from_the_first_to_the_one_that_signed_and_no_further(
        self, permitted: World, tmp_path: Path
    ) -> None:
        before = buy(permitted)
        permitted.curator.keys.rotate("2026-03-01T12:00:00Z")
        after = buy(permitted, price={"mu": 0.03})
        for number, (release, count) in enumerate({before: 1, after: 2}.items()):
            files = pack_of(permitted, release)
            assert len(json.loads(files["keys.json"])["keys"]) == count
            write_folder(files, tmp_path / str(number))
            assert verified(tmp_path / str(number)) == 0

    def test_the_same_bytes_while_the_ledger_stands(self, permitted: World) -> None:
        release = buy(permitted)
        first = pack_of(permitted, release)
        permitted.clock.advance(days=3)
        other = another_worker(permitted)
        try:
            again = make_files(other.evidence.gather_release(release))
        finally:
            other.database.dispose()
        assert again == first
        assert make_archive(again, release) == make_archive(first, release)
        buy(permitted, "counts")
        changed = pack_of(permitted, release)
        assert changed != first  # more was spent, and the page says so
        signed = {"receipt.json", "answer.json"}
        assert {changed[name] for name in signed} == {first[name] for name in signed}

    def test_no_folder_is_written_over(self, permitted: World, tmp_path: Path) -> None:
        files = pack_of(permitted, buy(permitted))
        write_folder(files, tmp_path / "pack")
        with pytest.raises(EvidenceError, match="not empty"):
            write_folder(files, tmp_path / "pack")


class TestThePage:
    def test_it_says_who_asked_who_approved_and_for_what(self, permitted: World) -> None:
        page = Page(pack_of(permitted, buy(permitted))["check.html"])
        assert page.fact("asked by") == "ada"
        assert page.fact("purpose") == "nephrology"
        assert page.fact("legal basis") == "consent"
        assert page.fact("conditions") == "within the hospital"
        assert page.fact("people") == "ada"
        assert page.fact("expires").startswith("2099-01-01")
        (granted,) = [row for row in page.rows if "granted" in row]
        assert granted[3:] == ["olga", "otto", "a study"]

    def test_it_says_what_held_when_it_was_released_and_what_came_later(self, permitted: World) -> None:
        release, permit = buy(permitted), permitted.tokens["permit"]
        terms = {
            "project": "kidney", "people": ["ada", "ben"], "datasets": ["cohort"], "purpose": "cardiology",
            "legal_basis": "consent", "expires_at": "2099-01-01T00:00:00Z", "reason": "more people",
        }  # fmt: skip
        asked = permitted.api("otto").post(f"/v1/permits/{permit}", json=terms).json()["id"]
        assert permitted.api("olga").post(f"/v1/admin/proposals/{asked}/approve").status_code == 200
        page = Page(pack_of(permitted, release)["check.html"])
        assert (page.fact("purpose"), page.fact("people")) == ("nephrology", "ada")
        assert page.fact("limit") == "of town ε = 0.8, δ = 1e-06"
        (changed,) = [row for row in page.rows if "changed to version 2" in row]
        assert changed[3:] == ["otto", "olga", "more people"]
        latest = Page(pack_of(permitted, permit)["check.html"])
        assert (latest.fact("purpose"), latest.fact("people")) == ("cardiology", "ada, ben")
        assert latest.fact("limit") == "of town whatever its budget allows"

    def test_of_a_permit_that_was_ended(self, permitted: World, tmp_path: Path) -> None:
        release, permit = buy(permitted), permitted.tokens["permit"]
        ended = permitted.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "the study is over"})
        assert ended.status_code == 200
        for subject in (release, permit):
            files = pack_of(permitted, subject)
            write_folder(files, tmp_path / subject)
            assert verified(tmp_path / subject) == 0
            page = Page(files["check.html"])
            assert page.fact("ended before its time").startswith("2026-03-01")
            assert (page.fact("purpose"), page.fact("people"), page.fact("datasets")) == ("nephrology", "ada", "cohort")
            assert any(row[2:] == ["ended", "olga", "olga", "the study is over"] for row in page.rows)

    def test_a_share_of_right_guesses_is_of_a_limit_and_of_no_sum_of_charges(self, permitted: World) -> None:
        text = Page(pack_of(permitted, buy(permitted))["check.html"])
        guesses = {row[0]: row[5] for row in text.rows if len(row) == 6 and row[5].endswith(("%", "–"))}
        assert guesses == {
            "this release": "50.4%",
            "charged and held under this permit so far": "–",
            "the permit’s highest limit": "53.9%",
            "charged and held of the population so far": "–",
            "the population’s guarantee, its highest limit": "54.8%",
        }
        assert "The sum of the charges is no bound on what was learnt so far" in text.text
        assert "that may ever be given about town under the highest limit so far" in text.text

    def test_a_permits_limit_that_was_lowered_bounds_nothing_more_tightly(self, permitted: World) -> None:
        release, permit = buy(permitted), permitted.tokens["permit"]
        terms = TERMS | {"purpose": "nephrology", "limit": {"epsilon": 0.2, "delta": 1e-6}, "reason": "less"}
        lowered = permitted.api("otto").post(f"/v1/permits/{permit}", json=terms)
        assert lowered.status_code in {200, 202}, lowered.text
        if lowered.status_code == 202:
            approved = permitted.api("olga").post(f"/v1/admin/proposals/{lowered.json()['id']}/approve")
            assert approved.status_code == 200
        for subject in (release, permit):
            page = Page(pack_of(permitted, subject)["check.html"])
            (row,) = [row for row in page.rows if row[0] == "the permit’s highest limit"]
            assert row[1] == "0.8"
        details = json.loads(pack_of(permitted, permit)["dp-deployment.json"])["deployment"]["privacy_loss"]
        assert details["privacy_parameters"]["epsilon"] == pytest.approx(0.8)

    def test_of_a_grant_at_the_machine(self, world: World) -> None:
        page = Page(pack_of(world, buy(world))["check.html"])
        assert page.fact("project") == "none: a plain grant to one analyst"
        assert page.fact("purpose") == "not declared"
        (granted,) = [row for row in page.rows if "granted" in row]
        assert granted[3:5] == ["test, operator at the machine"] * 2

    def test_of_a_dataset_that_has_ended(self, permitted: World, tmp_path: Path) -> None:
        release = buy(permitted)
        permitted.curator.versions.retire("cohort", actor="operator:test")
        permitted.clock.advance(days=62)
        permitted.curator.versions.cut_due()
        assert permitted.curator.datasets.list_all()[0].is_retired
        write_folder(pack_of(permitted, release), tmp_path / "pack")
        assert verified(tmp_path / "pack") == 0

    def test_it_states_the_capacity(self, permitted: World) -> None:
        page = Page(pack_of(permitted, buy(permitted))["check.html"])
        assert next(row for row in page.rows if row[0] == "cohort")[1] == "1,000"

    @pytest.mark.parametrize(("adjacency", "said"), list(words.COUNTED.items()), ids=str)
    def test_it_says_what_is_public_of_the_number_of_people(
        self, tmp_path: Path, adjacency: Adjacency, said: str
    ) -> None:
        with open_world(tmp_path / "world", adjacency=adjacency) as world:
            page = Page(pack_of(world, buy(world))["check.html"])
            assert said in page.text
            assert words.PROTECTED[adjacency] in page.text

    def test_hostile_texts_are_text(self, world: World) -> None:
        permit = world.permit(purpose=HOSTILE, legal_basis=HOSTILE, conditions=HOSTILE, reason=HOSTILE)
        release = buy(world, project="kidney")
        for subject in (release, permit):
            files = pack_of(world, subject)
            page = Page(files["check.html"])
            assert page.tags <= INERT
            assert page.attributes <= HARMLESS
            # What turns the direction of text is shown, and turns nothing.
            assert page.text.count(make_visible(HOSTILE)) == 4
            assert not DECEIVING.search(files["check.html"].decode())
            assert json.loads(files["dp-deployment.json"])["deployment"]["basic"]["intended_use"] == HOSTILE

    def test_it_fetches_nothing(self, permitted: World) -> None:
        content = pack_of(permitted, buy(permitted))["check.html"].decode()
        assert "default-src 'none'" in content
        assert not re.search(r"url\(|@import|//[a-z]", content)

    def test_nothing_of_a_pack_depends_on_rows_but_the_answer(self, tmp_path: Path) -> None:
        """Two hospitals that differ in every row, and in how many there are; ids and digests aside."""
        found = []
        for number, rows in enumerate((make_rows(80, seed=1), make_rows(33, seed=2))):
            with open_world(tmp_path / str(number), rows=rows) as world:
                permit = world.permit()
                subjects = [*(buy(world, kind, project="kidney") for kind in REQUESTS), permit]
                files = [pack_of(world, subject) for subject in subjects]
                found.append([(name, _without_ids(pack[name])) for pack in files for name in UNSIGNED])
        assert found[0] == found[1]


UNSIGNED = ("check.html", "processing-record.json", "dp-deployment.json", "ro-crate-metadata.json")


def _without_ids(content: bytes) -> str:
    return re.sub(r"\b(rel|prm|prn|key|ds)[_-][0-9a-f]+|\b[0-9a-f]{16,64}\b", r"\1", content.decode())


class TestTheRecord:
    def test_it_is_of_these_datasets_and_names_no_place(self, permitted: World) -> None:
        record = json.loads(pack_of(permitted, buy(permitted))["processing-record.json"])
        (population,) = record["populations"]
        (dataset,) = population["datasets"]
        assert (population["population"], dataset["dataset"]) == ("town", "cohort")
        assert [one["name"] for one in dataset["recipients"]] == ["ada"]
        assert not {"places", "readers"} & record.keys()
        assert str(permitted.folder) not in json.dumps(record)


SECTIONS = {
    "basic": {
        *("name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description"),
        *("publication_date", "data_product_sector"),
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        *("privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"),
    },
    "deployment_model": {
        *("model_name", "model_name_details", "actors", "release_type", "release_type_details", "data_source_type"),
        *("data_source_type_details", "access_type", "access_type_details"),
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}
"""Members of an entry, as the registry's schema has them; it allows no other."""
CHOICES = {
    "data_product_type": {"Summary statistics"},
    "data_product_sector": {"Healthcare"},
    "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP"},
    "model_name": {"Central"},
    "release_type": {"One release", "Many releases"},
    "data_source_type": {"Static", "Dynamic"},
    "access_type": {"Interactive"},
}


def check_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Hold an entry against the registry's schema; return what it says."""
    assert entry.keys() == {"url_slug", "status", "tier", "deployment"}
    assert (entry["status"], entry["tier"]) == ("Draft", 2)
    assert entry["deployment"].keys() == SECTIONS.keys()
    for section, members in entry["deployment"].items():
        assert members.keys() <= SECTIONS[section], section
        assert all(members[name] in CHOICES[name] for name in members.keys() & CHOICES.keys())
    basic = entry["deployment"]["basic"]
    assert basic.keys() == SECTIONS["basic"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", basic["publication_date"])
    assert basic["data_curators"]
    assert entry["deployment"]["administrative"]["registry_authors"]
    return dict(entry["deployment"])


class TestTheRegistrysEntry:
    def test_of_a_release_and_of_a_permit(self, permitted: World) -> None:
        release = check_entry(json.loads(pack_of(permitted, buy(permitted))["dp-deployment.json"]))
        assert release["basic"]["intended_use"] == "nephrology"
        assert release["dp_variant"]["variant_name"] == "Approximate DP"
        assert release["privacy_loss"]["privacy_parameters"] == {
            "epsilon": pytest.approx(0.071, abs=1e-3),
            "delta": 1e-6,
        }
        assert "µ = 0.02 " in release["privacy_loss"]["privacy_parameters_details"]
        permit = check_entry(json.loads(pack_of(permitted, permitted.tokens["permit"])["dp-deployment.json"]))
        assert permit["deployment_model"]["release_type"] == "Many releases"
        assert permit["privacy_loss"]["privacy_parameters"]["epsilon"] == pytest.approx(0.8)

    @pytest.mark.parametrize(
        ("accountant", "limit", "variant", "members"),
        [
            ("pure", Price(epsilon=1.0), "Pure DP", {"epsilon"}),
            ("zcdp", Price(rho=0.5), "Zero-concentrated DP", {"rho"}),
        ],
    )
    def test_of_other_accountants(
        self, world: World, accountant: str, limit: Price, variant: str, members: set[str]
    ) -> None:
        open_population(world.curator, "other", limit, accountant=accountant)
        world.grant("ada", world.register("others", "other", make_rows(30, seed=3)))
        asked = {"kind": "counts", **REQUESTS["counts"], "price": {"epsilon": 0.1}, "mechanism": "laplace"}
        answer = world.api().post("/v1/datasets/others/releases", json=asked, key="k")
        files = pack_of(world, answer.json()["id"])
        entry = check_entry(json.loads(files["dp-deployment.json"]))
        assert entry["dp_variant"]["variant_name"] == variant
        assert entry["privacy_loss"]["privacy_parameters"].keys() == members
        page = Page(files["check.html"])
        assert "Laplace" in page.text
        (spent,) = [row for row in page.rows if row[0] == "charged and held of the population so far"]
        assert spent[5] == ("52.5%" if accountant == "pure" else "–")  # under pure, e^0.1/(1 + e^0.1)


class TestOverHttp:
    def read(self, world: World, who: str, release: str) -> dict[str, bytes]:
        answer = world.api(who).get(f"/v1/releases/{release}/evidence")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip"), answer.text[:300]
        assert answer.headers["cache-control"] == "no-store"
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert {name.partition("/")[0] for name in archive.namelist()} == {release}
            return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}

    def test_who_asked_and_officers_get_what_the_operator_gets(self, permitted: World) -> None:
        release = buy(permitted)
        expected = pack_of(permitted, release)
        assert self.read(permitted, "ada", release) == expected
        assert self.read(permitted, "olga", release) == expected

    def test_an_auditor_gets_it_without_the_answer(self, permitted: World, tmp_path: Path) -> None:
        release = buy(permitted)
        files = self.read(permitted, "audra", release)
        assert "answer.json" not in files
        values = json.loads(pack_of(permitted, release)["answer.json"])["statistics"]["xtx"]["values"]
        assert not any(repr(value).encode() in content for value in values for content in files.values())
        assert Page(files["check.html"]).fact("purpose") == "nephrology"
        write_folder(files, tmp_path / "pack")
        assert verified(tmp_path / "pack") == 0

    def test_a_permit_of_others_is_not_told_to_who_may_read_the_answer(self, permitted: World, tmp_path: Path) -> None:
        release = buy(permitted)
        files = self.read(permitted, "ben", release)
        assert words.WITHHELD in Page(files["check.html"]).text
        for secret in (b"nephrology", b"within the hospital", b"olga", b">otto<", b'"otto"', b'"ada"', b">ada<"):
            assert [name for name, content in files.items() if secret in content] == []
        write_folder(files, tmp_path / "pack")
        assert verified(tmp_path / "pack") == 0

    def test_who_may_not_read_the_answer_is_told_of_nothing(self, permitted: World) -> None:
        private = register_private(permitted, "ada", "ben")
        bought = permitted.api().post(f"{private}/releases", json=body(rows={"map": "box"}), key="p").json()["id"]
        assert "answer.json" in self.read(permitted, "ada", bought)
        problem(permitted.api("ben").get(f"/v1/releases/{bought}/evidence"), "not-found", 404)
        permitted.add_token("nora", Role.ANALYST)
        problem(permitted.api("nora").get(f"/v1/releases/{buy(permitted)}/evidence"), "not-found", 404)
        problem(permitted.api().get("/v1/releases/rel_0/evidence"), "not-found", 404)

    @pytest.mark.parametrize("role", [Role.STEWARD, Role.OPERATOR])
    def test_other_roles_do_not_get_it(self, permitted: World, role: Role) -> None:
        permitted.add_token("other", role)
        problem(permitted.api("other").get(f"/v1/releases/{buy(permitted)}/evidence"), "permission-denied", 403)

    def test_two_roles_add_up(self, permitted: World) -> None:
        """An auditor who may also spend on the dataset reads the answers that analysts of it read."""
        permitted.add_token("iris", Role.ANALYST, Role.AUDITOR)
        release = buy(permitted)
        assert "answer.json" not in self.read(permitted, "iris", release)
        permitted.grant("iris", next(d.id for d in permitted.curator.datasets.list_all() if d.name == "cohort"))
        files = self.read(permitted, "iris", release)
        assert "answer.json" in files
        assert Page(files["check.html"]).fact("purpose") == "nephrology"

    def test_the_client_saves_it(self, permitted: World, tmp_path: Path) -> None:
        release = buy(permitted)
        with client_of(permitted) as client:
            client.evidence(release, tmp_path / "pack.zip")
        shutil.unpack_archive(tmp_path / "pack.zip", tmp_path)
        assert verified(tmp_path / release) == 0

    def test_what_is_no_archive_is_not_saved(self, tmp_path: Path) -> None:
        said = httpx.MockTransport(lambda _: httpx.Response(200, json={"sorry": "a proxy"}))
        with (
            CuratorClient("http://127.0.0.1", "a-token", memory=None, transport=said) as client,
            pytest.raises(ServiceError, match="not an archive"),
        ):
            client.evidence("rel_1", tmp_path / "pack.zip")
        assert not list(tmp_path.iterdir())


class TestAtTheMachine:
    def run(self, world: World, *words: str) -> Result:
        environment = {"CURATOR_DATA_DIR": str(world.settings.data_dir), "COLUMNS": "200"}
        return CliRunner().invoke(app, ["evidence", *words], env=environment)

    def test_it_writes_a_folder_and_says_how_to_check_it(self, permitted: World, tmp_path: Path) -> None:
        release = buy(permitted)
        folder = tmp_path / "pack"
        ran = self.run(permitted, release, "--out", str(folder))
        assert ran.exit_code == 0, ran.output
        assert "sha256sum --check SHA256SUMS" in ran.output
        assert verified(folder) == 0
        again = self.run(permitted, release, "--out", str(folder))
        assert (again.exit_code, "not empty" in again.output) == (1, True)

    def test_it_is_named_for_what_it_is_of(
        self, permitted: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        permit = permitted.tokens["permit"]
        release = buy(permitted)
        said = json.loads(self.run(permitted, permit, "--with-answers", "--json").stdout)
        assert (said["subject"], said["folder"]) == (permit, permit)
        assert (tmp_path / permit / "releases" / release / "answer.json").exists()

    @pytest.mark.parametrize("subject", ["rel_0123", "rel_" + "0" * 24, "prm_" + "0" * 24, "prm_%", "cohort", "../x"])
    def test_what_is_not_there_is_one_line(self, permitted: World, tmp_path: Path, subject: str) -> None:
        ran = self.run(permitted, subject, "--out", str(tmp_path / "pack"))
        assert ran.exit_code == 1
        assert len(ran.stderr.splitlines()) == 1
        assert not (tmp_path / "pack").exists()


class TestWhatDoesNotHold:
    def test_an_entry_that_was_changed_gives_no_evidence_and_seals(self, permitted: World) -> None:
        release, permit = buy(permitted), permitted.tokens["permit"]
        (entry,) = [one for one in permitted.entries() if one.get("permit") == permit and one["kind"] == "permit"]
        permitted.sql(
            "DROP TRIGGER ledger_entries_no_update",
            "UPDATE ledger_entries SET payload = replace(payload, 'nephrology', 'cardiology') "
            f"WHERE population = 'town' AND sequence = {entry['sequence']}",
        )
        with pytest.raises(LedgerUnverified):
            permitted.curator.evidence.gather_release(release)
        assert permitted.curator.ledger.guard.reason()
        with pytest.raises(LedgerUnverified):
            permitted.curator.evidence.gather_permit(permit)

    def test_an_account_that_is_not_what_the_chain_says_gives_none(self, permitted: World) -> None:
        release = buy(permitted)
        permitted.sql("UPDATE populations SET posted_units = 0 WHERE name = 'town'")
        with pytest.raises(LedgerUnverified):
            permitted.curator.evidence.gather_release(release)

    def test_a_chain_that_does_not_hold_elsewhere_gives_none_at_the_machine(self, permitted: World) -> None:
        release = buy(permitted)
        permitted.sql("UPDATE populations SET highest_limit_units = 1 WHERE name = 'town'")
        with pytest.raises(EvidenceError, match="does not hold"):
            pack_of(permitted, release)

    def test_a_release_that_is_not_there(self, permitted: World) -> None:
        with pytest.raises(NotFound):
            permitted.curator.evidence.gather_permit("prm_" + "0" * 24)


def test_on_either_database(both: World, tmp_path: Path) -> None:
    permit = both.permit()
    release = buy(both, project="kidney")
    for subject in (release, permit):
        write_folder(pack_of(both, subject), tmp_path / subject)
        assert verified(tmp_path / subject) == 0
    served = both.api("ada").get(f"/v1/releases/{release}/evidence")
    assert served.status_code == 200
