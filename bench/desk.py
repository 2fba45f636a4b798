"""A curator without a ledger, a network or a clock: the client's own calls, answered by the server's own kinds.

A `DeskClient` is a `CuratorClient`: formulas, conditions, defaults and refinements are the client's. Requests are
planned and rows are summed by `curator_service.kinds`, in integers, and answers are written and read as on the wire.
Noise is normal and rounded, with a seed. Nothing is signed or charged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
from pydantic_core import from_json, to_json

from analyst_client import CuratorClient
from analyst_client.http.purchasing import Purchasing
from analyst_client.http.session import CuratorResponse
from analyst_client.kinds.registry import read_answer
from bench.simulation import SeededNoise
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.repository import Dataset
from curator_service.datasets.response_models import DatasetAnswer
from curator_service.kinds.registry import KINDS
from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import GDP
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import ColumnType
from curator_service.privacy.lattice import MISSING, to_stored
from curator_service.privacy.mechanism import ExactSums, draw_noise
from curator_service.releases.preparation import Prepared, prepare
from curator_service.releases.rendering import describe, outline_of, render_answer

Frame = Mapping[str, npt.NDArray[Any]]
Stored = Mapping[str, npt.NDArray[np.int32]]
MOMENT = "2027-01-01T00:00:00Z"
LIMIT = 10**18
"""In units of the account: more than is ever asked here."""


def store(manifest: Manifest, rows: Frame) -> Stored:
    """Return columns as the curator stores them: numbers on its lattice, levels and booleans by their positions."""
    stored = {}
    for column in manifest.by_name.values():
        values = np.asarray(rows[column.name], dtype=np.float64)
        if column.type is ColumnType.NUMERIC:
            stored[column.name] = to_stored(values, column.lower, column.upper)
        else:
            stored[column.name] = np.where(np.isnan(values), MISSING, np.nan_to_num(values)).astype(np.int32)
    return stored


@dataclass
class DeskSession:
    """Answers of one dataset, under add_remove and µ.

    Attributes
    ----------
    manifest : Manifest
    stored : mapping of str to ndarray of int32
        By `store`.
    generator : Generator
        Of the noise.
    quoted : dict of bytes to str
        Quotes by their requests, which sessions of one manifest may share: a refinement asks for a hundred beforehand.
    spent : float
        µ² so far.
    paid : tuple of str
        Digest of the last request that a reservation paid, and its answer.
    """

    manifest: Manifest
    stored: Stored
    generator: np.random.Generator
    quoted: dict[bytes, str] = field(default_factory=dict)
    spent: float = field(default=0.0, init=False)
    paid: tuple[str, str] = field(default=("", ""), init=False)
    transport: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Describe the dataset and its population as the server does."""
        name = self.manifest.name
        self.trust = SimpleNamespace(note_population=lambda *_: None)
        self.rows = len(next(iter(self.stored.values())))
        self.dataset = Dataset(name, name, name, Adjacency.ADD_REMOVE, GDP, self.manifest, "", MOMENT, "", "")
        self.population = Population(name, Adjacency.ADD_REMOVE, GDP, 1e-6, LIMIT, LIMIT, 0, 0, 0, "", MOMENT, 0, "")

    def ask(self, method: str, path: str, *, content: bytes | None = None, **_: Any) -> CuratorResponse:
        """Answer a request as the server does."""
        match method, path.rsplit("/", 1)[-1]:
            case "POST", "quotes":
                return self._reply(self._quote(content or b""))
            case "POST", "releases":
                return self._reply(self._release(self._prepare(content)))
            case "GET", name if name == self.manifest.name:
                body = DatasetAnswer.of(self.dataset, None, KINDS.names, MOMENT).model_dump(mode="json")
            case _:
                body = {}
        return self._reply(to_json(body).decode())

    def accept_release(self, response: CuratorResponse, *_: Any, **__: Any) -> Any:
        """Read an answer, which nobody signed."""
        return read_answer(response.http.text, "new")

    def accept_reservation(self, _: CuratorResponse) -> Any:
        """Hold nothing."""
        return SimpleNamespace(id="res_" + "0" * 24, state="open")

    def accept_budget(self, *_: Any) -> Any:
        """Return the δ of the account, which nothing is charged to."""
        return SimpleNamespace(delta=self.population.delta)

    @staticmethod
    def _reply(text: str) -> CuratorResponse:
        return CuratorResponse(httpx.Response(200, text=text, headers={"Curator-Answer": "new"}), None)  # type: ignore[arg-type]

    def _prepare(self, content: bytes | None) -> Prepared:
        asked = from_json(content or b"{}")
        kind = KINDS[asked.get("kind", KINDS.first.name)]
        return prepare(KINDS, self.dataset, kind.request_model.model_validate(asked))

    def _quote(self, content: bytes) -> str:
        if content not in self.quoted:
            prepared = self._prepare(content)
            body = {
                "dataset": self.dataset.name,
                **describe(prepared, self.population),
                "affordable": True,
                "pass_over_rows": prepared.needs_pass,
                "duration_s": prepared.duration_s,
                "answer_bytes": prepared.answer_bytes,
                "answer_bytes_left": 10**9,
                "stored_release": None,
                "derivable_from": None,
                "offers": [],
            }
            self.quoted[content] = to_json(body).decode()
        return self.quoted[content]

    def _release(self, prepared: Prepared) -> str:
        """Answer anew, but for what a reservation has just paid: that is read once more."""
        digest = prepared.request_digest
        if prepared.request.reservation is not None:
            self.paid = digest, self._draw(prepared)
            return self.paid[1]
        return self.paid[1] if self.paid[0] == digest else self._draw(prepared)

    def _draw(self, prepared: Prepared) -> str:
        kernel = prepared.kernel
        mapped = np.zeros((self.rows, kernel.width), dtype=np.float64, order="F")
        kernel.map(self.stored, np.ones(self.rows, dtype=np.bool_), mapped)
        noisy = prepared.perturb(ExactSums(kernel.sum(mapped)), draw_noise(prepared.plan, SeededNoise(self.generator)))
        self.spent += GDP.spent(prepared.cost, 1e-6).mu ** 2
        return render_answer("rel_" + "0" * 24, prepared, outline_of(prepared, self.population), noisy, MOMENT)


class DeskClient(CuratorClient):
    """A client of rows in memory."""

    def __init__(
        self,
        manifest: Manifest,
        stored: Stored,
        generator: np.random.Generator,
        quoted: dict[bytes, str] | None = None,
    ) -> None:
        super().__init__("http://127.0.0.1:1", "desk", memory=None)
        self._session = DeskSession(manifest, stored, generator, {} if quoted is None else quoted)  # type: ignore[assignment]
        self._purchasing = Purchasing(self._session)
