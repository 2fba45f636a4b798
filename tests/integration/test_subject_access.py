"""Answer to a person about their data: never less than was spent, of nobody else, and nothing that a page could run."""

import json
import math
import re
from contextlib import suppress
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from click.testing import Result
from support import ADMIN, World, body, make_rows, open_population
from test_subjects import CANARY, MANIFEST, VISITS, register
from typer.testing import CliRunner

from curator_service.cli.main import app
from curator_service.datasets.access import Access, AccessError, Exposure, find_access
from curator_service.datasets.exports.officer_page import render_officer_page
from curator_service.datasets.exports.patient_page import render_patient_page
from curator_service.datasets.exports.patient_words import LANGUAGES
from curator_service.datasets.exports.processing import Holdings, describe_dataset
from curator_service.kinds.registry import KINDS
from curator_service.ledger.trust.recovery import reconcile
from curator_service.permits.service import PermitError
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.guessing import best_guess, percent_up

MU_SQUARED = 10**12
"""Units of µ² = 1."""


@pytest.fixture
def clinic(world: World) -> World:
    """Return a world whose first dataset nobody can search is left alone: the clinic's population has budget enough."""
    open_population(world.curator, "clinic", Price(mu=1.0))
    return world


def access(world: World, identifier: str = CANARY) -> Access:
    return find_access(world.curator.versions, identifier)


def exposure(world: World, population: str = "clinic", identifier: str = CANARY) -> Exposure | None:
    found = [e for e in access(world, identifier).exposures if e.population.name == population]
    return found[0] if found else None


def grant(world: World, dataset: str) -> None:
    (held,) = (d for d in world.curator.datasets.list_all() if d.name == dataset)
    with suppress(PermitError):  # granted already
        world.grant("ada", held.id)


def release(world: World, dataset: str, mu: float, **changes: Any) -> dict[str, Any]:
    """Release something new from a dataset of the clinic."""
    grant(world, dataset)
    asked = body(**{"features": ["year"], "targets": ["smokes"], "price": {"mu": mu}, **changes})
    key = f"{dataset}-{world.account('clinic').sequence}"
    answer = world.api().post(f"/v1/datasets/{dataset}/releases", json=asked, key=key)
    assert answer.status_code in {200, 201}, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ask(world: World, dataset: str, questions: int) -> int:
    """Open a threshold session, and ask so many questions; return its cost."""
    grant(world, dataset)
    api, key = world.api(), f"{dataset}-{world.account('clinic').sequence}"
    asked = {"positives": 9, "direction": "above", "price": {"epsilon": 0.05}}
    opened = api.post(f"/v1/datasets/{dataset}/sessions", json=asked, key=key).json()
    for number in range(questions):
        sent = {"threshold": 10**6}
        answer = api.post(f"/v1/sessions/{opened['id']}/questions", json=sent, key=f"{key}-{number}")
        assert answer.status_code == 201, answer.text
    return cost(opened)


def cost(answer: dict[str, Any]) -> int:
    return int(answer["cost"]["units"])


def set_limit(world: World, mu: float) -> None:
    """Set the limit of the clinic; a raise is approved by a second admin."""
    world.add_token("rita", *ADMIN)
    asked = {"limit": {"mu": mu}, "reason": "a test"}
    answer = world.api("root").post("/v1/admin/populations/clinic/limits", json=asked)
    assert answer.status_code in {200, 202}, answer.text
    if answer.status_code == 202:
        approved = world.api("rita").post(f"/v1/admin/proposals/{answer.json()['id']}/approve")
        assert approved.status_code == 200, approved.text


TITLES = {kind.name: kind.words.title for kind in KINDS}


def page(world: World, *arguments: str, identifier: str = CANARY) -> Result:
    environment = {"CURATOR_DATA_DIR": str(world.settings.data_dir), "COLUMNS": "200"}
    return CliRunner().invoke(app, ["subjects", "answer", *arguments], input=f"{identifier}\n", env=environment)


def pages(world: World, identifier: str = CANARY) -> list[str]:
    """Return every page, in every language."""
    found, curator = access(world, identifier), world.curator
    datasets = curator.datasets.list_all()
    held = Holdings("", {}, [], datasets, curator.identity.list_principals(), curator.permits.list_grants())
    records = {dataset.name: describe_dataset(dataset, held) for dataset in datasets}
    return [
        *(render_patient_page(found, language) for language in LANGUAGES),
        render_officer_page(found, records, TITLES),
    ]


OTHERS = VISITS.replace("NHS", "x").replace("nhs", "x")


class TestWhatCounts:
    def test_what_was_spent_before_the_person_came_in_does_not(self, clinic: World) -> None:
        register(clinic, "earlier", "clinic", OTHERS)
        earlier = release(clinic, "earlier", 0.3)
        register(clinic, "visits", "clinic")
        charged = cost(release(clinic, "visits", 0.4))
        found = exposure(clinic)
        assert found is not None
        assert found.spent == charged
        assert found.ever == MU_SQUARED - cost(earlier)
        assert [(a.dataset, a.concerns) for a in found.answers] == [("visits", True)]
        assert found.since == access(clinic).registered[access(clinic).held[0].dataset.id]

    def test_every_dataset_of_the_population_does_once_the_person_is_in(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        register(clinic, "others", "clinic", OTHERS)
        charged = [cost(release(clinic, name, 0.4)) for name in ("others", "visits")]
        found = exposure(clinic)
        assert found is not None
        assert found.spent == sum(charged)
        assert [(a.dataset, a.concerns) for a in found.answers] == [("others", False), ("visits", True)]

    def test_the_first_of_several_datasets_does_whichever_is_found_first(self, clinic: World) -> None:
        register(clinic, "z_first", "clinic")
        charged = cost(release(clinic, "z_first", 0.4))
        register(clinic, "a_second", "clinic", VISITS.replace(",5\n", ",6\n"))
        found = exposure(clinic)
        assert found is not None
        assert found.spent == charged

    def test_a_threshold_session_does_and_its_answers_are_told_of(self, clinic: World) -> None:
        """The price counts from the opening on; of answers, each question is one, and a session without any is none."""
        register(clinic, "others", "clinic", OTHERS)
        before = ask(clinic, "others", 3)
        register(clinic, "visits", "clinic")
        asked, unasked, elsewhere = ask(clinic, "visits", 3), ask(clinic, "visits", 0), ask(clinic, "others", 1)
        found = exposure(clinic)
        assert found is not None
        assert found.spent == asked + unasked + elsewhere
        assert found.ever == MU_SQUARED - before
        told = [(a.dataset, a.kind, a.is_free, a.concerns) for a in found.answers]
        visits = [("visits", "threshold", is_free, True) for is_free in (False, True, True)]
        assert told == [*visits, ("others", "threshold", False, False)]
        patient, officer = (page(clinic, "--for", who).stdout for who in ("patient", "officer"))
        assert "researchers got 3 answers of this sort" in patient
        (row,) = re.findall(r"<tr>(?:(?!<tr>).)*answers of threshold sessions.*?</tr>", officer, re.DOTALL)
        assert re.findall(r">(\d+)<", row)[:2] == ["1", "2"]

    def test_a_dataset_that_cannot_be_searched_does(self, clinic: World) -> None:
        clinic.register("unknown", "clinic", make_rows(30, seed=3))
        charged = cost(release(clinic, "unknown", 0.4, features=["age"], targets=["kappa"]))
        register(clinic, "visits", "clinic")
        found = exposure(clinic)
        assert found is not None
        assert found.spent == charged
        assert [d.name for d in access(clinic).unsearched] == ["cohort", "hidden", "unknown"]

    def test_rows_are_found_in_a_dataset_that_cannot_be_searched_to_its_end(
        self, clinic: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register(clinic, "visits", "clinic")
        charged = cost(release(clinic, "visits", 0.4))
        monkeypatch.setattr("curator_service.datasets.access.tells_persons_apart", lambda *_: False)
        assert [presence.dataset.name for presence in access(clinic).held] == ["visits"]
        found = exposure(clinic)
        assert found is not None
        assert found.spent == charged

    def test_what_is_held_does_and_what_was_given_back_does_not(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        grant(clinic, "visits")
        asked = {"price": {"mu": 0.5}, "expires_in_s": 3600}
        answer = clinic.api().post("/v1/datasets/visits/reservations", json=asked, key="r")
        assert answer.status_code == 201, answer.text
        found = exposure(clinic)
        assert found is not None
        assert (found.spent, found.held, found.ever) == (MU_SQUARED // 4, MU_SQUARED // 4, MU_SQUARED)
        clinic.curator.ledger.end(answer.json()["id"], "closed", actor="operator:test")
        again = exposure(clinic)
        assert again is not None
        assert (again.spent, again.ever) == (0, MU_SQUARED)

    def test_what_was_written_off_does_whenever_that_was(self, clinic: World) -> None:
        register(clinic, "earlier", "clinic", OTHERS)
        reconcile(clinic.curator.ledger, actor="operator:test", anchor_lost=True)
        register(clinic, "visits", "clinic")
        found = exposure(clinic)
        assert found is not None
        assert (found.spent, found.written_off, found.ever) == (MU_SQUARED, MU_SQUARED, MU_SQUARED)

    def test_a_population_whose_lost_rows_nobody_knows_does(self, clinic: World) -> None:
        open_population(clinic.curator, "village", Price(mu=0.5))
        register(clinic, "visits", "clinic")
        assert exposure(clinic, "village") is None
        reconcile(clinic.curator.ledger, actor="operator:test", anchor_lost=True)
        found = exposure(clinic, "village")
        assert found is not None
        assert (found.since, found.spent) == (0, MU_SQUARED // 4)

    def test_versions_of_others_rows_do_not(self, clinic: World) -> None:
        register(clinic, "visits", "clinic", OTHERS)
        release(clinic, "visits", 0.4)
        open_population(clinic.curator, "village", Price(mu=0.5))
        register(clinic, "elsewhere", "village", VISITS.replace(",5\n", ",6\n"))
        assert exposure(clinic) is None
        clinic.clock.advance(days=31)
        clinic.curator.versions.cut_due()
        assert [presence.dataset.version for presence in access(clinic).held] == [2]
        assert exposure(clinic) is None

    @pytest.mark.parametrize("how", ["erased", "replaced", "ended"])
    def test_rows_that_held_the_person_once_do_for_good(self, clinic: World, how: str) -> None:
        register(clinic, "visits", "clinic")
        charged = cost(release(clinic, "visits", 0.4))
        open_population(clinic.curator, "village", Price(mu=0.5))
        versions = clinic.curator.versions
        match how:
            case "erased":
                versions.erase(CANARY, actor="operator:test")
            case "replaced":
                (clinic.folder / "new.csv").write_text(OTHERS)
                versions.add_rows("visits", clinic.folder / "new.csv", act="replace", actor="operator:test")
            case "ended":
                versions.retire("visits", actor="operator:test")
        clinic.clock.advance(days=31)
        versions.cut_due()
        register(clinic, "elsewhere", "village", VISITS.replace(",5\n", ",6\n").replace(",12.5\n", ",7\n"))
        assert [presence.dataset.name for presence in access(clinic).held] == ["elsewhere"]
        found = exposure(clinic)
        assert found is not None
        assert found.spent == charged
        assert [erasure.version for erasure in access(clinic).erasures] == ([2] if how == "erased" else [])

    def test_rows_that_wait_are_held_and_in_no_answer(self, clinic: World) -> None:
        register(clinic, "visits", "clinic", OTHERS)
        (clinic.folder / "new.csv").write_text("patient,year,smokes,dose\nNHS-4711-canary,2023,false,1\n")
        clinic.curator.versions.add_rows("visits", clinic.folder / "new.csv", act="append", actor="operator:test")
        assert [(presence.waits, len(presence.counted)) for presence in access(clinic).held] == [(True, 1)]
        english, _german, officer = pages(clinic)
        assert "0 entries, 1 more from 1 April 2026 on" in english
        assert "rows that wait for it" in officer

    def test_an_erasure_that_was_asked_for_is_told_before_and_after(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        clinic.curator.versions.erase(CANARY, actor="operator:test")
        english, german, officer = pages(clinic)
        assert "<dt>Erased on</dt><dd>1 April 2026</dd>" in english
        assert "<dt>Gelöscht am</dt><dd>1. April 2026</dd>" in german
        assert "2026-04-01T00:00:00Z" in officer
        clinic.clock.advance(days=31)
        clinic.curator.versions.cut_due()
        english, _german, officer = pages(clinic)
        assert "data about you were erased from <bdi>visits</bdi>" in english
        assert "with version 2" in officer

    def test_whoever_is_not_found_is_told_of_everything_ever_spent(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        charged = cost(release(clinic, "visits", 0.4))
        found = access(clinic, "nobody")
        assert found.held == ()
        assert {e.population.name: e.spent for e in found.exposures} == {
            "clinic": charged, "town": 0, "valley": 0,
        }  # fmt: skip

    def test_an_answer_that_cost_nothing_is_told_as_such(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        asked = {"targets": ["dose"], "rows": {"map": "box"}}
        release(clinic, "visits", 0.4, features=["year", "smokes"], **asked)
        free = release(clinic, "visits", 0.1, features=["year"], **asked)
        found = exposure(clinic)
        assert found is not None
        assert cost(free) == 0
        assert [answer.is_free for answer in found.answers] == [False, True]

    def test_a_ledger_that_does_not_hold_is_no_basis(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        clinic.sql("UPDATE populations SET posted_units = 5 WHERE name = 'clinic'")
        with pytest.raises(AccessError, match="'clinic' does not hold"):
            access(clinic)


class TestPages:
    def test_the_number_is_the_bound_rounded_up(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        found = access(clinic)
        # Nobody can search town and valley, so their limits count as well.
        total = sum(exposure.ever for exposure in found.exposures) / MU_SQUARED
        assert 0.70 < NormalDist().cdf(math.sqrt(total) / 2) < 0.71
        assert percent_up(best_guess(found.ever)) == "71"
        english, german, officer = pages(clinic)
        assert "at most 71 times out of 100" in english
        assert "höchstens 71-mal von 100" in german
        assert "69.2%" in officer  # Φ(1/2) = 69.15 %, of the clinic alone

    def test_the_number_is_over_all_that_may_be_answered_and_not_over_what_was(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        before = pages(clinic)
        release(clinic, "visits", 0.5)
        english, german, officer = pages(clinic)
        for page, first in zip((english, german), before, strict=False):
            assert re.findall(r"<strong>.*</strong>", page) == re.findall(r"<strong>.*</strong>", first)
        assert "all answers that may ever be given under the limit of today, 1 March 2026" in english
        assert "Only two people in charge of these data together can raise the limit." in english
        assert "unter der heutigen Grenze (1. März 2026)" in german
        assert "over all that may ever be answered under the limits of 2026-03-01T" in officer
        assert "59.9%" not in officer  # Φ(1/4), of the 0.5 that was charged
        assert "The sum of the charges is no bound on what was learnt so far" in officer

    def test_a_limit_that_was_lowered_after_answers_makes_no_number_smaller(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        release(clinic, "visits", 0.5)
        before = best_guess(access(clinic).ever)
        set_limit(clinic, 0.5)
        assert clinic.account("clinic").limit == MU_SQUARED // 4
        assert best_guess(access(clinic).ever) == before

    def test_a_limit_that_is_raised_makes_the_number_larger(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        set_limit(clinic, 2.0)
        found = exposure(clinic)
        assert found is not None
        assert found.ever == 4 * MU_SQUARED

    def test_a_person_in_several_populations_is_told_the_sum(self, clinic: World) -> None:
        open_population(clinic.curator, "lab", Price(epsilon=1.0), accountant="pure")
        register(clinic, "visits", "clinic")
        register(clinic, "tests", "lab", VISITS.replace(",5\n", ",6\n"))
        release(clinic, "visits", 0.5)
        found = access(clinic)
        assert {e.population.name for e in found.exposures} == {"clinic", "lab", "town", "valley"}
        assert best_guess(found.ever) > max(best_guess([amount]) for amount in found.ever)

    def test_where_values_are_protected_and_not_presence_it_says_what_is_public(self, world: World) -> None:
        open_population(world.curator, "clinic", Price(mu=1.0), adjacency=Adjacency.REPLACE_ONE)
        register(world, "visits", "clinic")
        english, german, officer = pages(world)
        assert LANGUAGES["en"].public_count in english
        assert "Then they guess which of the two is true." in english
        assert LANGUAGES["de"].public_count in german
        assert "how many people there are is public" in officer

    def test_presence_is_what_is_guessed_where_the_count_is_private(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        english, _german, _officer = pages(clinic)
        assert "guess whether you are in or not" in english
        assert LANGUAGES["en"].public_count not in english

    def test_whoever_is_not_found_gets_a_page_of_the_same_form(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        for held, nothing in zip(pages(clinic), pages(clinic, "nobody"), strict=True):
            titles = [re.findall(r"<h1>[^<]*|<h2>[^<]*", text) for text in (held, nothing)]
            assert [t for t in titles[0] if "Dataset" not in t] == titles[1]
        english, german, officer = pages(clinic, "nobody")
        assert LANGUAGES["en"].nothing in english
        assert LANGUAGES["de"].removed in german
        assert "No row of theirs is stored." in officer

    def test_rows_none_of_which_counts_are_told_as_such(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        found = access(clinic)
        (held,) = found.held
        held.counted[:] = False
        text = render_patient_page(found)
        assert "3 entries, none is used in answers" in text

    def test_pages_are_the_same_at_the_same_time(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        release(clinic, "visits", 0.4)
        first = pages(clinic)
        assert pages(clinic) == first
        clinic.clock.moment += timedelta(days=1)
        assert pages(clinic) != first

    def test_no_page_holds_the_identifier_a_value_another_person_or_a_released_number(self, clinic: World) -> None:
        text = VISITS.replace("other", "zzz-other-person").replace(",25\n", ",7.3125\n")
        register(clinic, "visits", "clinic", text)
        answer = release(clinic, "visits", 0.4)
        held = " ".join(pages(clinic) + pages(clinic, "zzz-other-person"))
        for word in (CANARY, "4711-canary", "zzz-other", "7.3125", "12.5", answer["id"]):
            assert word.lower() not in held.lower()
        for number in re.findall(r"-?\d{6,}", json.dumps(answer["statistics"])):
            assert number not in held

    def test_every_kind_of_release_has_words(self) -> None:
        assert all(TITLES.values())

    def test_each_language_says_everything(self) -> None:
        english, *others = LANGUAGES.values()
        for words in others:
            for name in english.__slots__:
                given, translated = getattr(english, name), getattr(words, name)
                assert re.findall(r"{\w+}", str(given)) != [] or re.findall(r"{\w+}", str(translated)) == []
                assert sorted(re.findall(r"{\w+}", str(given))) == sorted(re.findall(r"{\w+}", str(translated)))
                assert translated


class Elements(HTMLParser):
    """The elements of a page with their attributes, and whether they are closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "ul", "li", "dl", "dt", "dd"),
    *("div", "strong", "bdi", "table", "caption", "thead", "tbody", "tr", "th", "td", "code", "span", "time"),
}
HOSTILE = "</bdi></li><script>alert(1)</script><img src=x onerror=alert(2)> {title} {0.__class__} & \\\" '"


class TestHostileTexts:
    @pytest.fixture
    def hostile(self, clinic: World) -> World:
        """Return a world in which everything that can be declared is a page's enemy."""
        catalogue = "\n".join(
            [
                "[catalogue]",
                *(f'{name} = "{HOSTILE}"' for name in ("title", "description", "purpose", "legal_basis", "provenance")),
                f'population_coverage = "{HOSTILE}"',
                f'retention = {{ comment = "{HOSTILE}" }}',
                "[catalogue.controller]",
                f'name = "{HOSTILE}"',
                'url = "https://evil.example/?a=<b>"'.replace("<b>", "b"),
            ]
        )
        text = MANIFEST.format(name="visits", population="clinic").replace(
            "upper = 10\n", f'upper = 10\nunit = "{HOSTILE}"\ndescription = "{HOSTILE}"\n'
        )
        text += f'\n[[columns]]\nname = "ward"\ntype = "categorical"\nlevels = ["{HOSTILE}".replace, "b"]\n'.replace(
            f'"{HOSTILE}".replace', '"</td><script>"'
        )
        (clinic.folder / "v.toml").write_text(text + "\n" + catalogue, encoding="utf-8")
        lines = VISITS.splitlines()
        rows = [f"{lines[0]},ward", *(f"{line},b" for line in lines[1:])]
        (clinic.folder / "v.csv").write_text("\n".join(rows) + "\n")
        clinic.curator.datasets.register(clinic.folder / "v.toml", clinic.folder / "v.csv", actor="operator:<script>")
        release(clinic, "visits", 0.4)
        return clinic

    def test_nothing_that_was_declared_becomes_an_element(self, hostile: World) -> None:
        for text in pages(hostile):
            found = Elements()
            found.feed(text)
            assert found.open == []
            assert {tag for tag, _ in found.seen} <= ALLOWED
            names = {name for _, attributes in found.seen for name in attributes}
            assert names <= {"lang", "charset", "http-equiv", "content", "name", "class", "scope", "data-head"}
            assert "alert(1)" in text
            assert "{title}" in text

    def test_nothing_is_fetched_from_anywhere(self, hostile: World) -> None:
        for text in pages(hostile):
            assert "default-src 'none'" in text
            style = text[text.index("<style>") : text.index("</style>")]
            assert not re.search(r"url\(|@import|src=|href=", style)
            assert not re.search(r"<[^>]*(src|href)=", text)


class TestCommand:
    def test_it_writes_a_page_for_its_owner_alone(self, clinic: World, tmp_path: Path) -> None:
        register(clinic, "visits", "clinic")
        out = tmp_path / "page.html"
        out.write_text("x" * 10**5)
        out.chmod(0o644)
        result = page(clinic, "--for", "patient", "--language", "de", "--out", str(out))
        assert result.exit_code == 0, result.output
        assert result.output == ""
        assert out.stat().st_mode & 0o077 == 0
        assert out.read_text().startswith('<!DOCTYPE html>\n<html lang="de">')
        assert out.read_text().endswith("</html>\n")

    def test_it_prints_a_page_and_no_identifier(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        for audience in ("patient", "officer"):
            result = page(clinic, "--for", audience)
            assert result.exit_code == 0, result.output
            assert result.stdout.startswith("<!DOCTYPE html>")
            assert CANARY not in result.output.lower()
        assert page(clinic, "--for", "judge").exit_code == 2
        assert page(clinic, "--for", "patient", identifier=" ").exit_code == 1

    def test_under_a_seal_nothing_is_certain(self, clinic: World) -> None:
        register(clinic, "visits", "clinic")
        clinic.sql("UPDATE seal SET reason = 'restored', sealed_at = '2026-03-01T12:00:00Z'")
        result = page(clinic, "--for", "officer")
        assert result.exit_code == 1
        assert "sealed" in result.stderr
        assert result.stdout == ""

    def test_rows_that_are_gone_are_a_fault_and_not_an_absence(self, clinic: World) -> None:
        dataset = register(clinic, "visits", "clinic")
        for path in (clinic.settings.data_dir / "datasets" / dataset.id).glob("*.subjects"):
            path.unlink()
        result = page(clinic, "--for", "patient")
        assert result.exit_code == 1
        assert "cannot be read" in result.stderr
