"""Display in a notebook and a terminal: the numbers that matter, well formed, and nothing of a server's but text."""

import copy
import json
import pickle
import re
from typing import Any, Protocol
from xml.etree import ElementTree

import numpy as np
import pytest
from client_examples import (
    AGE,
    AMOUNT,
    COST,
    DATASET,
    FIRST,
    NOISE,
    QUOTE,
    RECEIPT,
    RELEASE_TEXT,
    SEX,
    Ledger,
    combined_body,
    compact,
    release_body,
    with_receipt,
)
from counts_examples import answer_body, cohort, quote_body
from marginals_examples import answer_body as marginals_body
from marginals_examples import quote_body as marginals_quote
from score_examples import answer_body as score_body
from score_examples import quote_body as score_quote

from analyst_client import Axis, CountsRequest, MarginalsRequest, Moments, Release, Tree
from analyst_client.display.model import ROWS_MAX
from analyst_client.display.terminal import measure
from analyst_client.kinds import (
    CountsQuote,
    CountsRelease,
    MarginalsQuote,
    MarginalsRelease,
    Quote,
    ScoreQuote,
    ScoreRelease,
    ScoreRequest,
)
from analyst_client.ledger import Verification
from analyst_client.schema import Budget, Dataset, Job, Receipt, Reservation
from analyst_client.schema.wire import Fields

EVIL = '</style><script>alert(1)</script>"\' onload="x" &lt; $\\href{javascript:x}{y}$ \u202ejs\x00\ud800'
SHOWN = EVIL.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
TAGS = {
    *("div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "span", "b", "bdi", "code", "i"),
    *("ul", "li", "details", "summary", "svg", "title", "rect"),
}
ATTRIBUTES = {
    *("class", "scope", "colspan", "role", "aria-label", "aria-hidden", "viewBox", "preserveAspectRatio"),
    *("x", "width", "height"),
}


class Shown(Protocol):
    """Output that a notebook shows."""

    def _repr_html_(self) -> str: ...


def amount(units: int, epsilon: float) -> dict[str, Any]:
    return AMOUNT | {"units": str(units), "epsilon": epsilon}


def budget(**changes: Any) -> Budget:
    members = json.loads(Ledger().budget.content) | {
        "limit": amount(4_000, 3.0),
        "posted": amount(1_500, 1.72),
        "pending": amount(500, 0.73),
        "remaining": amount(2_000, 2.15),
        "share_spent": 0.5,
    }
    return Budget.read(Fields(members | changes))


def quote(**changes: Any) -> Quote:
    rows = {"map": "ball", "norm": 1.0954451150103321}
    request = {"kind": "gram", "rows": rows, "mechanism": "gaussian", "calibration": "analytic"}
    members = {"request": request, "features": [AGE, SEX], "pass_over_rows": True, "duration_s": 3.25}
    return Quote.read(Fields(copy.deepcopy(QUOTE | members | changes)))


def reservation(**changes: Any) -> Reservation:
    members = {
        "id": "res_0123456789abcdef01234567",
        "dataset": "flchain",
        "population": "olmsted",
        "state": "open",
        "reserved": amount(400, 0.5),
        "drawn": amount(100, 0.2),
        "remaining": amount(300, 0.4),
        "created_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-02-01T00:00:00Z",
        "project": "kidney",
        "receipt": Ledger().post(kind="reserve"),
    }
    return Reservation.read(Fields(members | changes))


def job(**changes: Any) -> Job:
    members = {"id": "job_1", "dataset": "flchain", "state": "running", "progress": 0.37, "created_at": "now"}
    return Job(**members | changes)


OFFERS = [{"release": "rel_8", "difference": "it also holds the feature sex; its noise is larger"}]
EVIL_COLUMN = SEX | {"name": EVIL, "description": EVIL, "unit": EVIL, "levels": [EVIL, "b"]}
EVIL_TERMS = [{"name": EVIL, "kind": "level", "column": EVIL, "level": EVIL}]
EVIL_TARGETS = [{"name": EVIL, "kind": "boolean", "column": EVIL}]
EVIL_REQUEST = {"rows": {"map": EVIL, "norm": EVIL}, "mechanism": EVIL, "calibration": [EVIL]}
EVIL_RECEIPT = dict.fromkeys(RECEIPT, EVIL) | {EVIL: {EVIL: [EVIL]}, "mechanism": [{EVIL: EVIL}]}


def evil_release() -> Release:
    names = {"id": EVIL, "dataset": EVIL, "created_at": EVIL, "derived_from": EVIL}
    body = release_body() | names | {"request": EVIL_REQUEST, "noise": NOISE | {"distribution": EVIL}}
    body |= {"features": [EVIL_COLUMN], "terms": EVIL_TERMS, "targets": EVIL_TARGETS, "receipt": EVIL_RECEIPT}
    ones = {"packing": "full", "step": 0.5, "values": [1.0]}
    body["statistics"] = {"xty": ones | {"shape": [1, 1]}}
    return Release.from_text(json.dumps(body), EVIL)


def counts_release(request: CountsRequest) -> CountsRelease:
    body = answer_body(request.members, cohort(), np.random.default_rng(1))
    return request.arrange(CountsRelease.from_text(with_receipt(body), "new"))


def evil_counts(body: dict[str, Any]) -> Fields:
    text = json.dumps(body).replace('"M"', json.dumps(EVIL)).replace('"sex"', json.dumps(EVIL))
    members = dict.fromkeys(("id", "dataset", "created_at", "derived_from"), EVIL)
    return Fields(json.loads(text) | members | {"request": EVIL_REQUEST, "receipt": EVIL_RECEIPT})


COUNTS = CountsRequest(["sex", [Axis("age", bins=4), "sex"]], mu=0.3)
EVIL_COUNTS = evil_counts(answer_body(COUNTS.members, cohort(), np.random.default_rng(1)))


def evil_marginals(body: dict[str, Any]) -> Fields:
    text = json.dumps(body).replace('"kappa"', json.dumps(EVIL)).replace('"mg/dL"', json.dumps(EVIL))
    members = dict.fromkeys(("id", "dataset", "created_at", "derived_from"), EVIL)
    return Fields(json.loads(text) | members | {"request": EVIL_REQUEST, "receipt": EVIL_RECEIPT})


MARGINALS = MarginalsRequest([Tree(["kappa"], levels=3), Moments(["age", "kappa"])], mu=0.3)
MARGINALS_BODY = marginals_body(MARGINALS.members, cohort(), np.random.default_rng(1))
MARGINALS_RELEASE = MARGINALS.arrange(MarginalsRelease.from_text(with_receipt(MARGINALS_BODY), "new"))
HIDDEN = MarginalsRequest([Moments(["kappa"])], mu=1e-6)
HIDDEN_BODY = marginals_body(HIDDEN.members, cohort(), np.random.default_rng(2))
EVIL_MARGINALS = MarginalsRelease.from_text(json.dumps(evil_marginals(MARGINALS_BODY).members), EVIL)


SCORE = ScoreRequest(
    ["sex", "age"],
    "kappa",
    coefficients={"age": 0.1},
    directions={"(constant)": [1.0, 0.0], "sex[M]": [0.0, 2.0]},
    statistics=["score", "norms", "meat"],
    mu=0.3,
)
SCORE_BODY = score_body(SCORE.members, cohort(), np.random.default_rng(1))


def evil_score(body: dict[str, Any]) -> Fields:
    text = json.dumps(body)
    for name in ("kappa", "mg/dL", "sex", "sex[M]"):
        text = text.replace(json.dumps(name), json.dumps(EVIL + name))
    members = json.loads(text)
    members["request"] |= EVIL_REQUEST
    named = dict.fromkeys(("id", "dataset", "created_at", "derived_from"), EVIL)
    return Fields(members | named | {"receipt": EVIL_RECEIPT})


EVIL_SCORE = ScoreRelease.from_text(json.dumps(evil_score(SCORE_BODY).members), EVIL)


ORDINARY: dict[str, Shown] = {
    "dataset": Dataset.read(Fields(DATASET)),
    "budget": budget(),
    "quote": quote(),
    "stored quote": quote(stored_release="rel_7", duration_s=0.0, affordable=False, offers=OFFERS),
    "derivable quote": quote(derivable_from="rel_9"),
    "release": Release.from_text(RELEASE_TEXT, "new"),
    "part of a release": Release.from_text(RELEASE_TEXT).select(["sex"]),
    "local release": Release.from_arrays([[4.0, 1.0], [1.0, 2.0]], [[3.0], [2.0]]),
    "receipt": Receipt(RECEIPT),
    "empty receipt": Receipt({}),
    "reservation": reservation(),
    "running job": job(),
    "voided job": job(state="voided", reason="the server was stopped"),
    "job at once": Job.at_once(Release.from_text(RELEASE_TEXT), "key"),
    "verified": Release.from_text(RELEASE_TEXT).verify(FIRST.public_key),
    "inconsistent": Release.from_text(RELEASE_TEXT.replace("900.0", "900.5")).verify(),
    "counts": counts_release(COUNTS),
    "table of counts": counts_release(COUNTS).tables[1],
    "total of counts": counts_release(COUNTS).tables[1].margin(),
    "quote of counts": CountsQuote.read(Fields(quote_body(COUNTS.members))),
    "marginals": MARGINALS_RELEASE,
    "marginals that noise hides": MarginalsRelease.from_text(with_receipt(HIDDEN_BODY)),
    "histogram": MARGINALS_RELEASE.histogram("kappa"),
    "quote of marginals": MarginalsQuote.read(Fields(marginals_quote(MARGINALS.members))),
    "score": SCORE.arrange(ScoreRelease.from_text(with_receipt(SCORE_BODY), "new")),
    "quote of a score": ScoreQuote.read(Fields(score_quote(SCORE.members))),
    "release of combinations": Release.from_text(with_receipt(combined_body())),
    "unverifiable": Release.from_arrays([[4.0]], constant=False).verify(),
}
HOSTILE: dict[str, Shown] = {
    "dataset": Dataset.read(
        Fields(
            DATASET
            | dict.fromkeys(("name", "description", "population", "adjacency", "accountant"), EVIL)
            | {"columns": [EVIL_COLUMN], "mechanisms": [EVIL], "row_maps": [EVIL]}
        )
    ),
    "budget": budget(population=EVIL, accountant=EVIL, adjacency=EVIL, dataset=EVIL),
    "quote": quote(
        dataset=EVIL,
        features=[EVIL_COLUMN],
        targets=EVIL_TARGETS,
        request=EVIL_REQUEST,
        noise=NOISE | {"distribution": EVIL},
        stored_release=EVIL,
        derivable_from=EVIL,
        offers=[{"release": EVIL, "difference": EVIL}],
    ),
    "release": evil_release(),
    "counts": CountsRelease.from_text(json.dumps(EVIL_COUNTS.members), EVIL),
    "table of counts": CountsRelease.from_text(json.dumps(EVIL_COUNTS.members)).tables[0],
    "quote of counts": CountsQuote.read(evil_counts(quote_body(COUNTS.members))),
    "marginals": EVIL_MARGINALS,
    "histogram": EVIL_MARGINALS.histogram(EVIL),
    "quote of marginals": MarginalsQuote.read(evil_marginals(marginals_quote(MARGINALS.members))),
    "score": EVIL_SCORE,
    "quote of a score": ScoreQuote.read(evil_score(score_quote(SCORE.members))),
    "receipt": Receipt(EVIL_RECEIPT),
    "reservation": reservation(
        **dict.fromkeys(("id", "dataset", "population", "state", "created_at", "expires_at", "project"), EVIL)
    ),
    "job": job(id=EVIL, dataset=EVIL, state="voided", created_at=EVIL, release_id=EVIL, reason=EVIL),
    "verification": Verification("inconsistent", (EVIL,), (EVIL,), EVIL, 1, 2, EVIL, EVIL, EVIL),
}


def parse(value: Shown) -> ElementTree.Element:
    """Parse strictly: what is well-formed XML of these elements reads the same as HTML."""
    shown = value._repr_html_()
    shown.encode("utf-8")
    return ElementTree.fromstring(shown)


def words(value: Shown) -> str:
    """Return the text that is shown, without the style."""
    root = parse(value)
    root.remove(root[0])
    return re.sub(r"\s+", " ", " ".join(root.itertext()))


def cells(value: Shown, row: str) -> list[str]:
    for line in parse(value).iter("tr"):
        first, *rest = ("".join(cell.itertext()) for cell in line)
        if first == row:
            return rest
    raise AssertionError(f"no row {row!r}")


ALL = [pytest.param(value, id=name) for name, value in ORDINARY.items()]
ALL += [pytest.param(value, id=f"hostile {name}") for name, value in HOSTILE.items()]


# Form


@pytest.mark.parametrize("value", ALL)
def test_elements_and_attributes_are_those_of_the_module(value: Shown) -> None:
    root = parse(value)
    assert (root.tag, root[0].tag) == ("div", "style")
    assert {element.tag for element in root.iter()} <= TAGS
    assert {name for element in root.iter() for name in element.attrib} <= ATTRIBUTES


@pytest.mark.parametrize("value", ALL)
def test_nothing_is_fetched_and_nothing_is_typeset(value: Shown) -> None:
    root = parse(value)
    assert "url(" not in str(root[0].text)
    assert "@import" not in str(root[0].text)
    assert {"tex2jax_ignore", "mathjax_ignore"} <= set(root.attrib["class"].split())
    if value in ORDINARY.values():
        assert "//" not in value._repr_html_()


@pytest.mark.parametrize("value", ALL)
def test_every_table_has_a_caption_and_scopes(value: Shown) -> None:
    tables = list(parse(value).iter("table"))
    assert tables
    for table in tables:
        assert table[0].tag == "caption"
        assert "".join(table[0].itertext()).strip()
        assert all(head.attrib["scope"] in {"row", "col"} for head in table.iter("th"))
        assert all(row[0].tag == "th" for row in table.iter("tr"))


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in HOSTILE.items()])
def test_words_of_a_server_are_text_and_nothing_else(value: Shown) -> None:
    shown = value._repr_html_()
    assert "<script" not in shown
    assert shown.count("</style>") == 1
    assert "\x00" not in shown
    assert SHOWN in "".join(parse(value).itertext())
    attributes = [text for element in parse(value).iter() for text in element.attrib.values()]
    assert not any("alert" in text for text in attributes)


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in HOSTILE.items()])
def test_words_that_turn_the_direction_end_where_they_began(value: Shown) -> None:
    """An override of direction is alone in its block, or isolated within it."""
    for element in parse(value).iter():
        if "\u202e" in (element.text or ""):
            assert element.tag == "bdi" or (element.tag in {"td", "th", "li"} and len(element) == 0)
        assert "\u202e" not in (element.tail or "")


@pytest.mark.parametrize("shape", [None, 1.5, True, [], {}, [1, [2]], {"a": None}, "x" * 5000], ids=repr)
def test_receipt_of_any_shape_is_shown(shape: Any) -> None:
    for receipt in (dict.fromkeys(RECEIPT, shape), RECEIPT | {"mechanism": shape}, RECEIPT | {"limit": shape}):
        assert "Receipt" in words(Receipt(receipt))


def test_long_tables_are_cut_and_what_is_left_out_is_counted() -> None:
    columns = [AGE | {"name": f"x{i}"} for i in range(ROWS_MAX + 20)]
    columns[0] |= SEX | {"levels": [f"level {i}" for i in range(30)]}
    shown = words(Dataset.read(Fields(DATASET | {"columns": columns})))
    assert f"x{ROWS_MAX - 1} " in shown
    assert f"x{ROWS_MAX} " not in shown
    assert "… and 20 more" in shown
    assert "level 11 , and 18 more" in shown


# Numbers


def test_dataset_states_bounds_levels_and_what_is_public() -> None:
    dataset = Dataset.read(Fields(DATASET | {"rows": 7874, "rows_per_person": 3}))
    assert cells(dataset, "age") == ["numeric", "50 to 100", "years", "omit", "age at enrolment"]
    assert cells(dataset, "sex")[1] == "F, M"
    assert cells(dataset, "rows") == ["7,874, at most 10,000; of one person at most 3 count"]


def test_budget_states_shares_first_and_epsilon_beside() -> None:
    assert cells(budget(), "spent") == ["37.50%", "1.72", "1e-06"]
    assert cells(budget(), "held") == ["12.50%", "0.73", "1e-06"]
    assert cells(budget(), "left") == ["50.00%", "2.15", "1e-06"]
    assert cells(budget(), "limit") == ["100.00%", "3", "1e-06"]
    assert "Shares add up; ε does not." in words(budget())
    assert "does not" not in words(budget(accountant="pure"))


def test_budget_whose_limit_was_lowered_says_what_its_guarantee_is() -> None:
    said = "The guarantee is that of the highest limit there ever was: ε = 5 at δ = 1e-06."
    assert said in words(budget(highest_limit=amount(9_000, 5.0)))
    for same in (budget(), budget(highest_limit=amount(4_000, 3.0))):
        assert "The guarantee is" not in words(same)


def test_budget_says_that_what_was_spent_is_a_sum_and_no_bound_but_under_pure() -> None:
    said = "What was spent is the sum of the charges, and no bound on what was learnt so far; the highest limit is."
    assert said in words(budget())
    assert said in words(budget(accountant="zcdp"))
    assert said not in words(budget(accountant="pure"))


def test_bar_of_a_budget_has_its_meaning_in_words() -> None:
    (drawn,) = parse(budget()).iter("svg")
    assert drawn.attrib["role"] == "img"
    assert drawn.attrib["aria-label"] == drawn[0].text == "spent 37.50%, held 12.50%, left 50.00%"
    places = [(rect.attrib["class"], rect.attrib["x"], rect.attrib["width"]) for rect in drawn.iter("rect")]
    assert places == [("spent", "0.00", "37.50"), ("held", "37.50", "12.50"), ("left", "50.00", "50.00")]


@pytest.mark.parametrize("units", ["0", "1", "9" * 90, None])
def test_bar_never_leaves_its_frame(units: str | None) -> None:
    limit = amount(0, 3.0) | {"units": units}
    for drawn in parse(budget(limit=limit)).iter("svg"):
        assert sum(float(rect.attrib["width"]) for rect in drawn.iter("rect")) <= 100.01


def test_budget_without_units_shows_the_share_that_it_states() -> None:
    without = {name: amount(0, 1.0) | {"units": None} for name in ("limit", "posted", "pending", "remaining")}
    assert cells(budget(**without), "spent")[0] == "–"
    (drawn,) = parse(budget(**without)).iter("svg")
    assert drawn.attrib["aria-label"] == "spent 50.00%, left 50.00%"


def test_epsilon_too_large_to_be_stated_is_infinite() -> None:
    assert cells(budget(limit=amount(4_000, 3.0) | {"epsilon": None}), "limit")[1] == "∞"


def test_quote_states_its_cost_and_when_an_answer_shows() -> None:
    assert cells(quote(), "cost") == ["11.00% of the budget (ε = 1 at δ = 1e-06, µ = 0.2367)"]
    assert cells(quote(), "answer shows") == ["after 3.25 s, whatever the rows are"]
    assert cells(quote(duration_s=300.0), "answer shows") == ["after 300 s (5.0 min), whatever the rows are"]
    assert cells(quote(), "affordable") == ["yes"]
    assert "space for answers" not in words(quote(answer_bytes_left=46_210))
    assert cells(quote(answer_bytes_left=46_209), "space for answers") == ["4,621 bytes of the 46,209 that are left"]
    assert cells(quote(answer_bytes_left=7), "space for answers") == ["4,621 bytes of the 7 that are left: too few"]
    assert cells(quote(), "row map") == ["ball, norm 1.095"]
    assert "Quote for kappa ~ age, sex of flchain" in re.sub(" +", " ", words(quote())).replace(" ,", ",")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mu": None}, "ρ = 0.028"),
        ({"pure_epsilon": 0.25}, "by itself ε = 0.25 at δ = 0"),
        ({"share_of_budget": 1e-9}, "<0.01%"),
    ],
)
def test_cost_is_stated_in_the_notions_that_it_has(changes: dict[str, Any], said: str) -> None:
    assert said in cells(quote(cost=COST | changes), "cost")[0]


def test_quote_says_what_is_free() -> None:
    shown = quote(stored_release="rel_7", offers=OFFERS, affordable=False)
    assert cells(shown, "stored release") == ["rel_7 answers this very request: free"]
    assert cells(shown, "offers") == ["rel_8: it also holds the feature sex; its noise is larger"]
    assert cells(shown, "affordable") == ["no"]
    assert cells(quote(derivable_from="rel_9"), "derivable from") == ["rel_9, of which the request is a part: free"]


@pytest.mark.parametrize("value", [quote(), Release.from_text(RELEASE_TEXT)], ids=["quote", "release"])
def test_noise_of_each_statistic_is_stated_with_aligned_decimals(value: Shown) -> None:
    assert cells(value, "XᵀX, diagonal") == ["3", "17.90"]
    assert cells(value, "XᵀX, off-diagonal") == ["3", "12.70"]
    assert cells(value, "Xᵀy") == ["3", "9.10"]
    assert cells(value, "yᵀy") == ["1", "4.20"]
    assert cells(value, "λ_min") == ["1", "30.50"]


def test_release_states_answer_terms_and_receipt() -> None:
    release = Release.from_text(RELEASE_TEXT, "stored")
    assert cells(release, "id") == ["rel_1"]
    assert cells(release, "answer") == ["stored before, free"]
    assert cells(release, "age") == ["numeric", "age", "75", "25", "years"]
    assert cells(release, "entry_hash") == [RECEIPT["entry_hash"]]


def test_receipt_states_its_amounts_as_shares_of_the_limit() -> None:
    payload = {"limit": "224000000000", "posted": "112000000000", "units": "56000000000"}
    receipt = Release.from_text(with_receipt(release_body(), **payload)).receipt
    assert receipt is not None
    assert cells(receipt, "amount") == ["25.00% (56,000,000,000 units)"]
    assert cells(receipt, "charged so far") == ["50.00% (112,000,000,000 units)"]
    assert cells(receipt, "limit") == ["224,000,000,000 units"]
    assert cells(receipt, "xtx") == ["9/4", "12, 9", "1"]
    assert "charge in the ledger of olmsted" in words(receipt)


def test_receipt_is_a_dict_as_on_the_wire() -> None:
    release = Release.from_text(RELEASE_TEXT)
    assert release.receipt == RECEIPT
    assert isinstance(release.receipt, dict)
    assert compact(release.receipt) == compact(RECEIPT)
    assert pickle.loads(pickle.dumps(release.receipt)) == RECEIPT
    assert repr(release.receipt) == repr(RECEIPT)


def test_reservation_and_job_state_how_they_stand() -> None:
    assert cells(reservation(), "drawn") == ["25.00%", "0.2", "1e-06"]
    assert cells(reservation(), "reserved") == ["100.00%", "0.5", "1e-06"]
    assert cells(job(), "time passed") == ["37%"]
    assert cells(job(state="voided", reason="it was stopped"), "reason") == ["it was stopped"]


def test_verification_states_verdict_and_reasons() -> None:
    release = Release.from_text(RELEASE_TEXT)
    assert "Verification: verified" in words(release.verify(FIRST.public_key))
    assert "nobody vouches for it" in words(release.verify())
    broken = Release.from_text(RELEASE_TEXT.replace("900.0", "900.5")).verify()
    assert cells(broken, "reasons") == ["answer_digest: the body was changed"]


# In a terminal


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("value", ALL)
def test_no_line_is_longer_than_the_terminal_is_wide(value: Shown, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = str(value).splitlines()
    assert lines
    assert max(measure(line) for line in lines) <= width


@pytest.mark.parametrize("value", ALL)
def test_words_of_a_server_are_text_in_a_terminal_too(value: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = str(value)
    shown.encode("utf-8")
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert repr(value).isprintable()
    assert "\u202e" not in shown


def test_a_terminal_and_a_notebook_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """All words of the tables are in both; what a notebook folds is named in a terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    for name, value in ORDINARY.items():
        root = parse(value)
        root.remove(root[0])
        for folded in root.findall("details"):
            for inner in list(folded)[1:]:
                folded.remove(inner)
        for drawn in root.findall("svg"):
            root.remove(drawn)
        in_terminal = re.sub(r"[─█▒░\s]+", "", str(value))
        in_notebook = [re.sub(r"\s+", "", "".join(cell.itertext())) for cell in root.iter() if cell.tag in LEAVES]
        assert in_notebook, name
        for words_of_a_cell in in_notebook:
            assert words_of_a_cell in in_terminal, (name, words_of_a_cell)


LEAVES = {"caption", "th", "td", "p", "summary", "li"}


def test_a_budget_in_a_terminal_is_a_table_with_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = str(budget()).splitlines()
    assert lines[0] == "Budget of olmsted"
    assert "█ spent   37.50%  1.72  1e-06" in lines
    assert "  limit  100.00%     3  1e-06" in lines
    (drawn,) = (line for line in lines if "█▒" in line)
    assert (drawn.count("█"), drawn.count("▒"), drawn.count("░")) == (19, 6, 25)


def test_a_column_without_a_word_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    dataset = Dataset.read(Fields(DATASET | {"columns": [SEX, SEX | {"name": "gender"}]}))
    assert "column  type         values  missing" in str(dataset).splitlines()


def test_a_part_says_what_it_is_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "part of  kappa ~ age, sex of flchain" in str(Release.from_text(RELEASE_TEXT).select(["sex"]))


def test_counts_are_shown_with_intervals_and_their_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    release = counts_release(COUNTS)
    (low, high), _ = release.tables[0].interval()
    assert cells(release, "F") == [f"{release.tables[0].values[0]:,.0f}", f"{low:,.0f} to {high:,.0f}"]
    assert "Release counts of sex, age × sex of flchain" in words(release).replace(" ,", ",")
    assert re.search(r"^all +[34],\d{3}", str(release), re.MULTILINE)
    assert re.search(r"^age \(years\) +sex +count +95% interval$", str(release), re.MULTILINE)


def test_a_quote_of_counts_states_the_largest_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    quote = COUNTS.arrange_quote(CountsQuote.read(Fields(quote_body(COUNTS.members))))
    error = f"every one of the 10 cells is within ±{quote.largest_error():.4g} of its exact count."
    assert str(quote).endswith(f"With probability 95% {error}")
    assert repr(quote).startswith("<Quote for 'flchain': counts of sex, age × sex")


def test_reprs_are_short() -> None:
    assert (
        repr(Release.from_text(RELEASE_TEXT))
        == "<Release rel_1 of 'flchain': kappa ~ age, sex, epsilon=1, delta=1e-06>"
    )
    assert repr(quote()) == "<Quote for 'flchain': kappa ~ age, sex, epsilon=1, delta=1e-06, 11.00% of the budget>"
    assert repr(budget()) == "<Budget of 'olmsted': limit epsilon=3, delta=1e-06, 50.00% spent>"
    assert repr(ORDINARY["dataset"]) == "<Dataset 'flchain' of 'olmsted': 2 columns>"
    assert repr(reservation()) == (
        "<Reservation res_0123456789abcdef01234567 on 'flchain': open, epsilon=0.4, delta=1e-06 left>"
    )
