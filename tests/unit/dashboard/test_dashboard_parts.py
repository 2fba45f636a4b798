"""Parts of the dashboard: figures, words, numbers, where a form comes from, and what a budget can still give."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from analyst_client import expected_accuracy
from bench.planning import assume, quote_of
from bench.simulation import Hospital, Truth
from curator_service.dashboard import charts
from curator_service.dashboard.browser import Browser
from curator_service.dashboard.glossary import Words, glossary
from curator_service.dashboard.pages.parts import read_number
from curator_service.dashboard.pages.populations import describe_outlook
from curator_service.dashboard.precision import expected_lengths
from curator_service.dashboard.rendering import assets, environment, write_number
from curator_service.dashboard.sessions import form_token, matches
from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import GDP, PURE, ZCDP, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism

TEMPLATES = Path(__file__).resolve().parents[3] / "curator_service" / "dashboard" / "templates"


def account(accountant: Accountant, limit: Price, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Population:
    units = accountant.units_of(limit)
    delta = 0.0 if accountant is PURE else 1e-6
    return Population("x", adjacency, accountant, delta, units, units, 0, 0, 1, "", "2026-01-01T00:00:00Z", 1, "")


@pytest.mark.parametrize(
    ("text", "kind", "read"),
    [
        ("0.5", float, 0.5),
        ("0,5", float, 0.5),
        (",25", float, 0.25),
        ("1,5e-6", float, 1.5e-6),
        ("0,125", float, 0.125),
        ("1,25", float, 1.25),
        ("1,000", float, "1,000"),  # one, or a thousand?
        ("1.000,5", float, "1.000,5"),
        ("1,0,0", float, "1,0,0"),
        ("1,5", int, "1,5"),
        ("", float, ""),
    ],
)
def test_a_fraction_may_have_a_comma_that_cannot_be_one_of_thousands(text: str, kind: Any, read: float | str) -> None:
    assert read_number(text, kind) == read


@pytest.mark.parametrize(
    ("studies", "share_spent", "said"),
    [
        (0, 0.0, ""),
        (2, 0.5, "2 more studies"),
        (3, 0.75, "one more study"),
        (1, 0.6, "not one more study"),
        (1, 1.0, "not"),
    ],
)
def test_what_is_left_is_told_in_studies_of_the_size_so_far(studies: int, share_spent: float, said: str) -> None:
    whole = account(GDP, Price(epsilon=1.0, delta=1e-6))
    spent = int(share_spent * whole.limit)
    told = describe_outlook(replace(whole, posted=spent), studies, spent)
    assert told.startswith(f"Can still buy {said}" if said else "")
    assert bool(told) == bool(said)


class TestFigures:
    def widths(self, figure: str) -> dict[str, tuple[float, float]]:
        found = re.findall(r'<rect class="bar-(\w+)" x="([\d.]+)" y="0" width="([\d.]+)"', figure)
        return {name: (float(x), float(width)) for name, x, width in found}

    def test_a_bar_is_to_scale_and_ends_at_the_highest_limit(self) -> None:
        drawn = self.widths(charts.bar(600, 150, 300, 1200, "half"))
        assert drawn == {"track": (0, 500), "held": (125, 250), "spent": (0, 125), "beyond": (500, 500)}
        assert "beyond" not in self.widths(charts.bar(600, 150, 300, 600, "half"))

    def test_a_charge_is_visible_however_small_and_nothing_is_not(self) -> None:
        assert self.widths(charts.bar(10**12, 1, 0, 10**12, ""))["spent"][1] > 0
        assert self.widths(charts.bar(10**12, 0, 0, 10**12, ""))["spent"][1] == 0

    def test_a_line_begins_full_and_ends_where_it_is_now(self) -> None:
        path = re.search(r'class="line" d="([^"]+)"', charts.line([1.0, 0.5, 0.25], "", height=120))
        assert path is not None
        assert path[1] == "M0.0 10.0H500.0V60.0H1000.0V85.0"

    def test_what_a_figure_shows_is_said_and_what_is_said_is_text(self) -> None:
        for drawn in (charts.bar(1, 0, 0, 1, "<b>"), charts.line([1.0], "<b>")):
            assert "<title>&lt;b&gt;</title>" in drawn
            assert 'role="img"' in drawn
            assert "style" not in drawn


class TestWords:
    def test_every_word_that_a_page_explains_is_in_the_glossary(self) -> None:
        asked = {
            word
            for template in TEMPLATES.glob("*.html")
            for word in re.findall(r'words\("([^"]+)"', template.read_text(encoding="utf-8"))
        }
        assert len(asked) > 15
        assert asked <= set(glossary())

    def test_what_a_page_has_explained_is_listed_at_its_foot(self) -> None:
        words = Words()
        assert words("seal", "<sealed>").startswith('<abbr title="the state in which')
        assert "&lt;sealed&gt;" in words("seal", "<sealed>")
        assert list(words.used) == ["seal"]


class TestRendering:
    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_a_number_is_there_to_its_last_digit(self, value: float) -> None:
        assert re.sub(r"<[^>]+>", "", write_number(value)) == repr(value)

    @given(st.text())
    def test_text_never_becomes_markup(self, text: str) -> None:
        rendered = environment().from_string("{{ text }}").render(text=text)
        assert re.search(r"[<>\"']", rendered) is None
        assert re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\x00-\x08]", rendered) is None

    def test_a_name_that_a_template_does_not_have_is_an_error(self) -> None:
        with pytest.raises(UndefinedError):
            environment().from_string("{{ nothing }}").render()

    def test_the_library_of_others_lies_beside_its_licence(self) -> None:
        assert {"htmx.min.js", "htmx.LICENSE.txt"} <= set(assets())
        assert b"Zero-Clause BSD" in assets()["htmx.LICENSE.txt"][0]


def browser(headers: dict[str, str], scheme: str = "https") -> Browser:
    sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {
        "type": "http", "method": "POST", "scheme": scheme, "path": "/admin", "query_string": b"", "headers": sent,
        "server": ("curator.test", 443), "state": {"instance": "req_0"},
    }  # fmt: skip
    return Browser(Request(scope), b"")


class TestOrigins:
    @pytest.mark.parametrize(
        ("headers", "is_own"),
        [
            ({"Origin": "https://curator.test"}, True),
            ({"Origin": "https://curator.test", "Sec-Fetch-Site": "same-origin"}, True),
            ({"Sec-Fetch-Site": "same-origin"}, True),
            ({"Host": "curator.test:8443", "Origin": "https://curator.test:8443"}, True),
            ({"Host": "curator.test:8443", "Origin": "https://curator.test:9443"}, False),
            ({"Host": "localhost:8000", "Origin": "http://localhost:8000"}, True),
            ({"Host": "localhost:8000", "Origin": "http://localhost:3000"}, False),
            ({"Origin": "http://curator.test"}, False),
            ({"Origin": "https://curator.test.evil.test"}, False),
            ({"Origin": "https://evil.test"}, False),
            ({"Origin": "null"}, False),
            ({"Origin": "https://curator.test:x"}, False),
            ({"Origin": "https://curator.test:8443"}, False),
            ({"Origin": "https://curator.test:8443", "Sec-Fetch-Site": "same-origin"}, True),
            ({"Origin": "https://evil.test", "Sec-Fetch-Site": "same-origin"}, False),
            ({"Origin": "https://curator.test", "Sec-Fetch-Site": "same-site"}, False),
            ({"Sec-Fetch-Site": "none"}, False),
            ({}, False),
        ],
    )
    def test_a_form_is_from_this_origin_or_refused(self, headers: dict[str, str], is_own: bool) -> None:
        assert browser({"Host": "curator.test"} | headers).is_own_form() is is_own

    def test_only_a_loopback_without_tls_goes_without_the_prefix(self) -> None:
        for host, scheme, bare in (
            ("127.0.0.1:8000", "http", True),
            ("localhost", "http", True),
            ("[::1]:8000", "http", True),
            ("localhost", "https", False),
            ("localhost.evil.test", "http", False),
            ("curator.test", "http", False),
        ):
            cookie = browser({"Host": host}, scheme).set_cookie("x", "y")
            assert cookie.startswith("x=y" if bare else "__Host-x=y")
            assert ("Secure" in cookie) is not bare

    def test_a_form_s_token_is_of_one_session(self) -> None:
        assert matches("a", form_token("a"))
        assert not matches("b", form_token("a"))
        assert not matches("a", "é")


class TestPrecision:
    @pytest.mark.parametrize("accountant", [GDP, ZCDP, PURE])
    def test_more_rows_and_a_larger_budget_make_intervals_shorter(self, accountant: Accountant) -> None:
        number = {"gdp": "mu", "zcdp": "rho", "pure": "epsilon"}[accountant.name]
        small, large = (expected_lengths(account(accountant, Price(**{number: size}))) for size in (0.5, 1.0))
        for one, other in zip(small, large, strict=True):
            assert one.plain == other.plain < other.mean < one.mean
            assert other.mean < other.slope < one.slope
        assert [one.mean for one in small] == sorted((one.mean for one in small), reverse=True)

    def test_a_budget_that_is_spent_gives_nothing(self) -> None:
        population = account(GDP, Price(mu=1.0))
        spent = SimpleNamespace(
            remaining=0, accountant=GDP, adjacency=population.adjacency, delta=1e-6, view_left=population.view_left
        )
        assert expected_lengths(spent) == []  # type: ignore[arg-type]

    def test_without_privacy_they_are_those_of_the_textbook(self) -> None:
        assert expected_lengths(account(GDP, Price(mu=1.0)), [10_000])[0].plain == pytest.approx(2 * 1.959964 / 100)

    @pytest.mark.parametrize(("epsilon", "rows"), [(1.0, 10_000), (1.0, 50_000), (3.0, 10_000)])
    def test_a_slope_s_is_what_the_analyst_s_library_expects(self, epsilon: float, rows: int) -> None:
        """Two programs that share no code; the library knows the noise on XᵀX and its own choice of a row map, too."""
        truth = Truth.of(1, correlated=True)
        hospital = Hospital(*truth.draw(np.random.default_rng(0), 100))
        quote = quote_of(hospital.release(epsilon, Mechanism.GAUSSIAN), epsilon, "gaussian")
        told = expected_accuracy(quote, assume(quote, truth, rows))
        lengthened = 1.0 / math.sqrt(1.0 - float(told.privacy_shares[1]))
        (ours,) = expected_lengths(account(GDP, Price(epsilon=epsilon, delta=1e-6)), [rows])
        assert ours.slope / ours.plain == pytest.approx(lengthened, rel=0.15)
