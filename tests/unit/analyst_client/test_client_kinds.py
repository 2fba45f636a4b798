"""A kind of release is a folder and a line, or comes from outside; one that is not known is refused by name."""

import inspect
import pickle
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import httpx
import numpy as np
import pytest
from client_examples import COST, QUOTE, RELEASE_TEXT, Curator, ask, compact, release_body, released, with_receipt
from counts_examples import CountsCurator
from marginals_examples import MarginalsCurator
from score_examples import ScoreCurator

import analyst_client
from analyst_client import (
    Axis,
    CountsRequest,
    CuratorClient,
    Curators,
    MarginalsRequest,
    Moments,
    Release,
    Tree,
    verify,
)
from analyst_client.errors import ReceiptInvalidError, ServiceError
from analyst_client.kinds import ScoreRequest, registry
from analyst_client.kinds.base import Kind, Request
from analyst_client.kinds.gram.request import ReleaseOptions, ReleaseRequest
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.kinds.request import PricedRequest
from analyst_client.refinement.buying import RefinementOptions
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields


@dataclass(frozen=True, eq=False, repr=False)
class TailRelease(PublishedAnswer):
    """A toy: the noisy number of rows above some number."""

    kind = "tail"
    count: Annotated[float, lambda body, name: body.object("statistics").number(name)]


@dataclass(frozen=True, repr=False)
class TailRequest(PricedRequest[TailRelease, AnyQuote]):
    column: str
    above: float


ASKED = TailRequest("age", 65.0, mu=0.2)
TAIL_NOISE = {"distribution": "discrete_laplace", "sd": {"count": 1.5}}
TAIL_BODY = {
    **{name: release_body()[name] for name in ("id", "dataset", "created_at", "cost")},
    "kind": "tail",
    "request": ASKED.members,
    "statistics": {"count": 41.5},
    "noise": TAIL_NOISE,
}
TAIL = with_receipt(TAIL_BODY)


@pytest.fixture
def tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a kind for one test."""
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    registry.register(TailRequest)


def test_an_answer_is_read_by_its_kind() -> None:
    assert registry.kinds() == ("gram", "counts", "marginals", "score")
    assert registry.read_answer(RELEASE_TEXT) == Release.from_text(RELEASE_TEXT)


def test_an_unknown_kind_is_refused_and_named() -> None:
    with pytest.raises(ServiceError, match="kind 'tail': it knows gram, counts, marginals, score, and a newer"):
        ask(Curator(released(TAIL)).client())
    with pytest.raises(ServiceError, match="'gram', the kind of this release"):
        Release.from_text(TAIL)


@pytest.mark.usefixtures("tail")
class TestAKindFromOutside:
    def test_it_is_bought(self) -> None:
        curator = Curator(released(TAIL))
        release = curator.client().release("flchain", ASKED)
        assert isinstance(release, TailRelease)
        assert (release.count, release.answer) == (41.5, "new")
        assert curator.bodies == [ASKED.members]
        assert release.verify()

    def test_it_is_bought_by_a_job(self) -> None:
        running = {"id": "job_1", "dataset": "flchain", "state": "running", "progress": 0.5, "created_at": "now"}
        running["request"] = ASKED.members
        done = running | {"state": "done", "release": "rel_1"}
        answers = [httpx.Response(202, content=compact(running)), httpx.Response(200, content=compact(done))]
        client = Curator(*answers, released(TAIL, "stored")).client()
        job = client.submit_release("flchain", ASKED)
        assert job.is_running
        assert client.wait(job) == TailRelease.from_text(TAIL)

    def test_it_is_quoted_and_shown(self) -> None:
        members = {"kind": "tail", "request": ASKED.members, "noise": TAIL_NOISE, "cost": COST}
        kept = {name: value for name, value in QUOTE.items() if name not in {"features", "terms", "targets"}}
        curator = Curator(httpx.Response(200, content=compact(kept | members)))
        quote = curator.client().quote("flchain", ASKED)
        assert quote.noise.sd == {"count": 1.5}
        assert repr(quote) == "<Quote for 'flchain': tail, epsilon=1, delta=1e-06, 11.00% of the budget>"
        assert re.search(r"count +1.50", str(quote))

    def test_it_is_listed_and_fetched(self) -> None:
        line = {name: TAIL_BODY[name] for name in ("id", "dataset", "kind", "created_at", "request", "cost")}
        listed = httpx.Response(200, content=compact({"releases": [line], "next": None}))
        client = Curator(listed, released(TAIL, "stored")).client()
        (summary,) = client.releases("flchain")
        assert (summary.kind, summary.request) == ("tail", ASKED.members)
        assert client.fetch_release(summary.id) == TailRelease.from_text(TAIL)

    def test_it_is_saved_loaded_and_verified(self, tmp_path: Path) -> None:
        path = tmp_path / "tail.json"
        TailRelease.from_text(TAIL).save(path)
        assert TailRelease.load(path).count == 41.5
        assert verify.verify_file(path).verdict == "consistent"
        assert registry.read_saved(path.read_text()) == TailRelease.from_text(TAIL)
        path.write_text(TAIL.replace("41.5", "42.5"))
        with pytest.raises(ReceiptInvalidError, match="is damaged, or was changed"):
            TailRelease.load(path)

    def test_an_answer_of_another_kind_is_not_taken_for_it(self) -> None:
        with pytest.raises(ServiceError, match="rel_1 is no release of the kind 'tail'"):
            Curator(released(RELEASE_TEXT)).client().release("flchain", ASKED)
        with pytest.raises(ServiceError, match="rel_1 is no release of the kind 'gram'"):
            ask(Curator(released(TAIL)).client())

    def test_its_name_is_its_own(self) -> None:
        with pytest.raises(ValueError, match="a kind tail already"):
            registry.register(TailRequest)
        other = Kind(TailRequest)
        other.name, other.saved_names = "head", ("selection",)
        with pytest.raises(ValueError, match="a kind selection already"):
            registry.register(other)


DIRECTIONS = {"(constant)": [1.0, 0.0], "age": [0.0, 1.0], "sex[M]": [0.3, -0.7]}
OF_KINDS = [
    (CountsCurator, CountsRequest(["sex", [Axis("age", bins=5), "sex"], Axis("kappa", bins=6, missing=True)], mu=0.3)),
    (MarginalsCurator, MarginalsRequest([Moments(["kappa", "age"]), Tree(["kappa", "age"], levels=6)], mu=0.5)),
    (
        ScoreCurator,
        ScoreRequest(["sex", "age"], "kappa", directions=DIRECTIONS, statistics=["score", "norms", "meat"], mu=0.5),
    ),
]


def arrays_of(release: Any) -> list[np.ndarray]:
    """Return the arrays of a release, in its order."""
    parts = getattr(release, "tables", None) or getattr(release, "marginals", None) or [release]
    return [value for part in parts for value in vars(part).values() if isinstance(value, np.ndarray)]


def is_same(release: Any, other: Any) -> bool:
    pairs = zip(arrays_of(release), arrays_of(other), strict=True)
    return release == other and all(np.array_equal(one, two) for one, two in pairs)


@pytest.mark.parametrize(("curator", "asked"), OF_KINDS, ids=lambda value: getattr(value, "kind", ""))
def test_a_release_is_kept_whole_and_in_its_order(curator: Any, asked: Any, tmp_path: Path) -> None:
    client, path = curator().client(), tmp_path / "release.json"
    release = client.release("flchain", asked)
    by_job = curator(jobs=True).client()
    assert is_same(by_job.wait(by_job.submit_release("flchain", asked)), release)
    pickled = pickle.loads(pickle.dumps(release))
    assert is_same(pickled, release)
    assert not any(values.flags.writeable for values in arrays_of(pickled))
    release.save(path)
    loaded = type(release).load(path)
    assert loaded == client.fetch_release("rel_1")
    assert is_same(asked.arrange(loaded), release)
    assert release.verify()
    assert verify.verify_file(path).verdict == "consistent"
    path.write_text(path.read_text().replace('"created_at":"2026', '"created_at":"2027'))
    with pytest.raises(ReceiptInvalidError, match="damaged, or was changed"):
        type(release).load(path)


@pytest.mark.parametrize(("curator", "asked"), OF_KINDS, ids=lambda value: getattr(value, "kind", ""))
def test_an_answer_of_another_kind_is_refused(curator: Any, asked: Any) -> None:
    release = curator().client().release("flchain", asked)
    with pytest.raises(ServiceError, match=f"rel_1 is no release of the kind '{asked.kind}'"):
        asked.arrange(Release.from_text(RELEASE_TEXT))
    with pytest.raises(ServiceError, match=f"a quote of the kind 'gram', where '{asked.kind}' was asked"):
        asked.arrange_quote(registry.read_quote(Fields(QUOTE)))
    with pytest.raises(ServiceError, match=f"'{asked.kind}', the kind of this release"):
        type(release).from_text(RELEASE_TEXT)


def test_a_request_is_one_whole() -> None:
    client = Curator().client()
    assert isinstance(ASKED, Request)
    with pytest.raises(ValueError, match="a request is whole: mu belongs into it"):
        client.release("flchain", ASKED, mu=0.2)  # type: ignore[call-overload]


def test_a_request_of_columns_may_be_given_whole_too() -> None:
    request = ReleaseRequest(["sex", "age"], target="kappa", mu=0.2)
    release = Curator(released()).client().release("flchain", request)
    assert release.feature_names == ("sex", "age")


def test_the_name_of_a_kind_stands_in_its_folder_alone() -> None:
    package = Path(analyst_client.__file__).parent
    for kind in registry.kinds():
        named = [
            path.relative_to(package).parts[:2]
            for path in package.rglob("*.py")
            if f'"{kind}"' in path.read_text(encoding="utf-8")
        ]
        assert set(named) == {("kinds", kind)}


def test_the_options_of_a_request_are_the_same_for_a_checker_of_types() -> None:
    hints = get_type_hints(ReleaseRequest)
    options = {field.name: hints[field.name] for field in fields(ReleaseRequest) if field.name != "features"}
    assert get_type_hints(ReleaseOptions) == options


@pytest.mark.parametrize("name", ["quote", "release", "submit_release"])
def test_signatures_show_every_option_with_its_default(name: str) -> None:
    shown = inspect.signature(getattr(CuratorClient, name)).parameters
    assert list(shown)[:3] == ["self", "dataset", "features"]
    for option in fields(ReleaseRequest):
        if option.name == "features":
            continue
        assert shown[option.name].default == option.default
        assert shown[option.name].kind is inspect.Parameter.KEYWORD_ONLY
    assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in shown.values())
    bound = {"quote": {"robust"}, "submit_release": {"idempotency_key", "even_so", "robust"}}
    buying = {"idempotency_key", "respond_async", "wait_s", "half_width", "guess", "max_epsilon", "even_so", "robust"}
    own = buying if name == "release" else bound[name]
    assert set(shown) == {"self", "dataset"} | {option.name for option in fields(ReleaseRequest)} | own


@pytest.mark.parametrize("kind", [CuratorClient, Curators])
def test_signatures_of_refinements_show_every_option_with_its_default(kind: type) -> None:
    whole = inspect.signature(CuratorClient.refine).parameters
    own = {"self", "dataset", "features", "even_so", "progress", "each"}
    assert RefinementOptions.__annotations__.keys() == whole.keys() - own
    for name in {"refine", "quote_refinement", "submit_refinement"} & vars(kind).keys():
        shown = inspect.signature(getattr(kind, name)).parameters
        assert {option: shown[option].default for option in RefinementOptions.__annotations__} == {
            option: whole[option].default for option in RefinementOptions.__annotations__
        }
        assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in shown.values())
        assert ("progress" in shown) == (name == "refine")


def test_a_request_shows_what_was_said_and_what_is_asked_first() -> None:
    request = ReleaseRequest(["age"], target="kappa", mu=0.2, fresh=True)
    assert repr(request) == "ReleaseRequest(features=['age'], mu=0.2, fresh=True, target='kappa')"


def test_a_request_reads_its_columns_once() -> None:
    request = ReleaseRequest(iter(["age", "sex"]), mu=0.2)  # type: ignore[arg-type]
    assert request.members["features"] == ["age", "sex"]
    assert request.to_json() == b'{"kind":"gram","features":["age","sex"],"price":{"mu":0.2}}'
