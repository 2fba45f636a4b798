"""Quote, charge, perturb, publish: the one path on which anything about rows leaves the curator."""

import hashlib
import json
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json

from curator_service.datasets.repository import Dataset
from curator_service.datasets.schemas import render_column
from curator_service.datasets.service import DatasetService
from curator_service.datasets.storage import needs_pass
from curator_service.db import Database
from curator_service.identity.repository import Principal
from curator_service.ledger.repository import Population, find_population, iterate_entries
from curator_service.ledger.schemas import render_amount
from curator_service.ledger.service import Clock, Ledger, budget_exceeded, timestamp, utc_now
from curator_service.privacy.accountant import GaussianPart, fits_within, spent
from curator_service.privacy.calibration import exact
from curator_service.privacy.design import Column, ColumnType, Design, Term, TermKind, make_design
from curator_service.privacy.mechanisms import STEP_DENOMINATOR, NoisyStatistics, perturb
from curator_service.privacy.planning import GramPlan, PriceOutOfRangeError, Statistic, default_shares, plan_gram
from curator_service.privacy.rows import Ball, Box, RowMap
from curator_service.privacy.samplers import NoiseSource
from curator_service.problems import NotFound, Problem, RequestInvalid
from curator_service.releases import repository
from curator_service.releases.repository import StoredRelease
from curator_service.releases.schemas import BallRows, ReleaseRequest, digest

TERMS_MAX = 1000
PASS_WORK_MAX = 20_000_000_000
"""Most multiplications of a pass within a request, by the declared row capacity: a few seconds of one core."""

_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,128}")
_RELEASE_ID_PATTERN = re.compile(r"rel_[0-9a-f]{24}")


class IdempotencyKeyMissing(Problem):
    """A request that charges needs a key, so that a retry cannot charge twice."""

    slug = "idempotency-key-missing"
    status = HTTPStatus.BAD_REQUEST
    title = "An Idempotency-Key header is needed"


class IdempotencyKeyReused(Problem):
    """The key was used for another request."""

    slug = "idempotency-key-reused"
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    title = "This Idempotency-Key was used for another request"


class AnswerKind(StrEnum):
    """Where an answer came from."""

    NEW = "new"
    REPLAYED = "replayed"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that was checked against public declarations, and planned. Nothing here has read a row.

    Attributes
    ----------
    canonical : dict
        The request with every default filled in.
    request_digest : str
        What the library of releases is searched by: everything that decides the answer.
    fingerprint : str
        What an idempotency key stands for: the same, and whether a fresh draw was asked for.
    """

    dataset: Dataset
    request: ReleaseRequest
    canonical: dict[str, Any]
    features: tuple[Column, ...]
    plan: GramPlan

    request_digest: str
    fingerprint: str


class ReleaseService:
    """Quotes and releases.

    Parameters
    ----------
    database : Database
    datasets : DatasetService
    noise : NoiseSource
    synchronous_row_capacity : int
        Datasets declared larger than this refuse requests that need a pass over rows.
    now : callable
        The clock.
    """

    def __init__(
        self,
        database: Database,
        datasets: DatasetService,
        noise: NoiseSource,
        *,
        synchronous_row_capacity: int,
        now: Clock = utc_now,
    ) -> None:
        self.database = database
        self.datasets = datasets
        self.noise = noise
        self.synchronous_row_capacity = synchronous_row_capacity
        self.now = now

    def prepare(self, dataset: Dataset, request: ReleaseRequest) -> Prepared:
        """Check a request against the dataset's declarations, fill in defaults, and plan it.

        Raises
        ------
        RequestInvalid
            Naming the place, the rule and what would have worked.
        """
        features = tuple(_column(dataset, name, f"/features/{i}") for i, name in enumerate(request.features))
        targets = tuple(_column(dataset, name, f"/targets/{i}") for i, name in enumerate(request.targets))
        for i, target in enumerate(targets):
            if target.type is ColumnType.CATEGORICAL:
                raise RequestInvalid.at(f"/targets/{i}", f"the categorical column {target.name!r} cannot be a target")
        design = make_design(features, targets, intercept=request.intercept)
        if len(design.terms) > TERMS_MAX:
            raise RequestInvalid.at(
                "/features", f"the features make {len(design.terms)} terms; at most {TERMS_MAX} are released together"
            )
        row_map, rows = _row_map(request, design)
        capacity, width = dataset.manifest.row_capacity, len(design.terms) + len(design.targets)
        too_large = capacity > self.synchronous_row_capacity or capacity * width**2 > PASS_WORK_MAX
        if needs_pass(design, row_map) and too_large:
            raise RequestInvalid.at(
                "/rows",
                "the declared row capacity is too large for a pass over rows with so many terms within a request; ask "
                "for fewer terms, or for the box map and columns that are not declared with missing = omit",
            )
        shares = _shares(request)
        try:
            plan = plan_gram(
                design,
                row_map,
                dataset.adjacency,
                row_capacity=dataset.manifest.row_capacity,
                price_units=request.price.price.units,
                shares=shares,
            )
        except PriceOutOfRangeError as error:
            raise RequestInvalid.at("/price", str(error)) from None
        canonical = {
            "kind": request.kind,
            "features": list(request.features),
            "targets": list(request.targets),
            "intercept": request.intercept,
            "rows": rows,
            "statistics": [s.value for s in shares],
            "mechanism": request.mechanism,
            "calibration": request.calibration,
            "price": request.price.model_dump(exclude_none=True),
            "shares": {s.value: float(share) for s, share in shares.items()},
        }
        request_digest = digest(canonical, dataset=dataset.id)
        return Prepared(
            dataset=dataset,
            request=request,
            canonical={**canonical, "fresh": request.fresh},
            features=features,
            plan=plan,
            request_digest=request_digest,
            fingerprint=f"{request_digest}:{'fresh' if request.fresh else 'any'}",
        )

    def quote(self, prepared: Prepared) -> dict[str, Any]:
        """Return the price and the noise of a request. Free; reads no rows."""
        with self.database.read() as connection:
            population = find_population(connection, prepared.dataset.population)
            stored = repository.find_by_request(connection, prepared.dataset.id, prepared.request_digest)
        assert population is not None
        fits = fits_within(
            prepared.plan.cost, posted=population.posted, pending=population.pending, limit=population.limit
        )
        return {
            "dataset": prepared.dataset.name,
            **_describe(prepared, population),
            "affordable": fits,
            "pass_over_rows": needs_pass(prepared.plan.design, prepared.plan.row_map),
            "stored_release": None if stored is None or prepared.request.fresh else stored.id,
        }

    def release(self, prepared: Prepared, analyst: Principal, key: str | None) -> tuple[StoredRelease, AnswerKind]:
        """Answer a request: from the key, from the library, or with a charge and one draw of noise.

        Parameters
        ----------
        prepared : Prepared
        analyst : Principal
        key : str or None
            The ``Idempotency-Key``.

        Returns
        -------
        StoredRelease, AnswerKind

        Raises
        ------
        IdempotencyKeyMissing, IdempotencyKeyReused, BudgetExceeded
        """
        key = check_key(key)
        found, population = self._look_up(prepared, analyst, key)
        if found is None and fits_within(
            prepared.plan.cost, posted=population.posted, pending=population.pending, limit=population.limit
        ):
            published = self._charge_and_publish(prepared, population, analyst, key)
            if published is not None:
                return published, AnswerKind.NEW
        if found is None:
            # Whoever used the key, or asked the same, in the meantime: its answer is there now.
            found, population = self._look_up(prepared, analyst, key)
        if found is None:
            raise budget_exceeded(population, prepared.plan.cost)
        release, kind = found
        if kind is AnswerKind.STORED and not self._tie_key(prepared, analyst, key, release):
            # Somebody used the key in this instant: its answer is the one that counts.
            return self.release(prepared, analyst, key)
        return release, kind

    def _look_up(
        self, prepared: Prepared, analyst: Principal, key: str
    ) -> tuple[tuple[StoredRelease, AnswerKind] | None, Population]:
        """Return the answer that exists already, and the account as it stands."""
        with self.database.read() as connection:
            found = self._find_answer(connection, prepared, analyst, key)
            population = find_population(connection, prepared.dataset.population)
        assert population is not None
        return found, population

    def _find_answer(
        self,
        connection: Any,
        prepared: Prepared,
        analyst: Principal,
        key: str,
    ) -> tuple[StoredRelease, AnswerKind] | None:
        known = repository.find_by_key(connection, analyst.id, key)
        if known is not None:
            fingerprint, release = known
            if fingerprint != prepared.fingerprint:
                raise IdempotencyKeyReused(
                    "This key belongs to another request. Use a new key for a new request, and the same key only to "
                    "repeat one."
                )
            return release, AnswerKind.REPLAYED
        if prepared.request.fresh:
            return None
        stored = repository.find_by_request(connection, prepared.dataset.id, prepared.request_digest)
        return None if stored is None else (stored, AnswerKind.STORED)

    def _charge_and_publish(
        self, prepared: Prepared, population: Population, analyst: Principal, key: str
    ) -> StoredRelease | None:
        """Charge, draw, publish: durable together or not at all. None if the key, the library or the budget decide."""
        release_id = f"rel_{secrets.token_hex(12)}"
        dataset, plan = prepared.dataset, prepared.plan
        with self.database.begin() as connection:
            if not repository.claim_key(connection, analyst.id, key, prepared.fingerprint, release_id):
                return None
            ledger = Ledger(connection)
            charge = ledger.charge(dataset.population, plan.cost)
            if charge is None or (
                # The account is locked: whoever asked the same just before has committed.
                not prepared.request.fresh
                and repository.find_by_request(connection, dataset.id, prepared.request_digest) is not None
            ):
                connection.rollback()
                return None
            statistics = self.datasets.compute_statistics(dataset, plan.design, plan.row_map)
            noisy = perturb(statistics, plan, self.noise)
            moment = timestamp(self.now())
            answer = _render_answer(release_id, prepared, population, noisy, moment)
            receipt = ledger.record(charge, "charge", _facts(release_id, prepared, analyst, answer, moment))
            release = StoredRelease(
                id=release_id,
                dataset_id=dataset.id,
                population=dataset.population,
                sequence=charge.sequence,
                request_digest=prepared.request_digest,
                answer=answer,
                receipt=receipt,
            )
            repository.insert_release(connection, release)
        return release  # the unit of work is committed: now it may leave

    def _tie_key(self, prepared: Prepared, analyst: Principal, key: str, release: StoredRelease) -> bool:
        """Tie a key to a stored answer, so that it means the same for ever; False if somebody has it."""
        with self.database.begin() as connection:
            return repository.claim_key(connection, analyst.id, key, prepared.fingerprint, release.id)

    def get_release(self, release_id: str) -> StoredRelease:
        """Return a published release; the caller checks who may read its dataset.

        Raises
        ------
        NotFound
        """
        release = None
        if _RELEASE_ID_PATTERN.fullmatch(release_id):
            with self.database.read() as connection:
                release = repository.find_release(connection, release_id)
        if release is None:
            raise release_not_found()
        return release

    def list_releases(self, dataset: Dataset, *, after: int, count: int) -> dict[str, Any]:
        """Return a page of a dataset's releases, without their statistics."""
        with self.database.read() as connection:
            page = repository.list_releases(connection, dataset.id, after=after, count=count)
        items = []
        for release in page:
            answer = json.loads(release.answer)
            items.append({name: answer[name] for name in ("id", "dataset", "kind", "created_at", "request", "cost")})
        return {"releases": items, "next": str(page[-1].sequence) if len(page) == count else None}

    def find_unbacked(self, population: str) -> list[str]:
        """Return what is stored and differs from what the population's chain says of it.

        Ids of releases; charges whose release is gone, as ``sequence N``; datasets whose manifest or snapshot is not
        the registered one, as ``dataset NAME``.
        """
        bad = []
        datasets = self.datasets.list_all()
        names = {dataset.id: dataset.name for dataset in datasets}
        registered: set[tuple[str, str, str]] = set()
        with self.database.snapshot() as connection:
            charges: dict[int, dict[str, Any]] = {}
            for entry in iterate_entries(connection, population):
                facts = json.loads(entry.payload)
                if facts["kind"] == "charge":
                    charges[entry.sequence] = facts
                elif facts["kind"] == "dataset":
                    registered.add((facts["dataset"], facts["manifest_digest"], facts["snapshot"]))
            for release in repository.iterate_population(connection, population):
                facts = charges.pop(release.sequence, {"release": None})
                sound = (
                    facts["release"] == release.id
                    and facts["request_digest"] == release.request_digest
                    and facts["dataset"] == names.get(release.dataset_id)
                    and facts["answer_digest"] == _answer_digest(release.answer)
                )
                if not sound:
                    bad.append(release.id)
        bad += [f"sequence {sequence}" for sequence in charges]
        return bad + [
            f"dataset {dataset.name}"
            for dataset in datasets
            if dataset.population == population
            and (dataset.name, dataset.manifest.digest, dataset.commitment) not in registered
        ]


def release_not_found() -> NotFound:
    """Build the refusal of a release that is not there or not visible: which of these is not said."""
    return NotFound("There is no release of this id among those that you may read.")


def check_key(key: str | None) -> str:
    """Return a well-formed idempotency key.

    Raises
    ------
    IdempotencyKeyMissing
    """
    if key is None or not _KEY_PATTERN.fullmatch(key):
        raise IdempotencyKeyMissing(
            "Send an `Idempotency-Key` header: 1 to 128 letters, digits, - or _, new for each request and the same for "
            "each retry of it."
        )
    return key


def _column(dataset: Dataset, name: str, pointer: str) -> Column:
    column = dataset.manifest.by_name.get(name)
    if column is None:
        declared = ", ".join(c.name for c in dataset.manifest.columns)
        raise RequestInvalid.at(pointer, f"the dataset declares no column {name!r}; it has {declared}")
    return column


def _row_map(request: ReleaseRequest, design: Design) -> tuple[RowMap, dict[str, Any]]:
    if not isinstance(request.rows, BallRows):
        return Box(), {"map": "box"}
    widest = math.sqrt(design.group_count)
    beside = len(design.terms) - int(request.intercept)
    norm = min(math.sqrt(1 + beside / 10), widest) if request.rows.norm is None else request.rows.norm
    if norm > widest:
        raise RequestInvalid.at(
            "/rows/norm", f"no row of these features is longer than {widest:.6g}: ask for less, or for the box map"
        )
    return Ball.of_norm(norm), {"map": "ball", "norm": norm}


def _shares(request: ReleaseRequest) -> Mapping[Statistic, Fraction]:
    chosen = request.chosen_statistics
    if request.shares is None:
        return default_shares(chosen)
    total = sum((exact(request.shares[s]) for s in chosen), Fraction(0))
    return {s: exact(request.shares[s]) / total for s in chosen}


def _describe(prepared: Prepared, population: Population) -> dict[str, Any]:
    design = prepared.plan.design
    cost = render_amount(spent(prepared.plan.cost, _view_delta(prepared, population)))
    return {
        "kind": "gram",
        "request": prepared.canonical,
        "features": [render_column(column) for column in prepared.features],
        "terms": [_render_term(term, prepared.features) for term in design.terms],
        "targets": [_render_term(term, ()) for term in design.targets],
        "noise": _render_noise(prepared.plan.parts),
        "cost": cost | {"share_of_budget": prepared.plan.cost / population.limit},
    }


def _view_delta(prepared: Prepared, population: Population) -> float:
    stated = prepared.request.price.delta
    return population.delta if stated is None else stated


def _render_term(term: Term, features: tuple[Column, ...]) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": term.name, "kind": term.kind}
    if term.column is not None:
        rendered["column"] = term.column
    if term.kind is TermKind.NUMERIC:
        rendered |= {"center": term.center, "scale": term.scale, "unit": term.unit}
    if term.level is not None:
        rendered["level"] = next(c for c in features if c.name == term.column).levels[term.level]
    return rendered


def _render_noise(parts: tuple[GaussianPart, ...]) -> dict[str, Any]:
    sd: dict[str, float] = {}
    for part in parts:
        if part.statistic == Statistic.XTX:
            sd["xtx_diagonal"] = part.sigma / STEP_DENOMINATOR
            sd["xtx_offdiagonal"] = (part.sigma_offdiagonal or part.sigma) / STEP_DENOMINATOR
        else:
            sd[part.statistic] = part.sigma / STEP_DENOMINATOR
    return {"distribution": "discrete_gaussian", "sd": sd}


def _render_answer(
    release_id: str, prepared: Prepared, population: Population, noisy: NoisyStatistics, moment: str
) -> str:
    d, t = len(prepared.plan.design.terms), len(prepared.plan.design.targets)
    shapes: Mapping[Statistic, tuple[list[int], str]] = {
        Statistic.XTX: ([d, d], "upper"),
        Statistic.XTY: ([d, t], "full"),
        Statistic.YTY: ([t], "full"),
        Statistic.LAMBDA_MIN: ([], "full"),
    }
    description = _describe(prepared, population)
    answer = {
        "id": release_id,
        "dataset": prepared.dataset.name,
        "kind": description.pop("kind"),
        "created_at": moment,
        **{name: description[name] for name in ("request", "features", "terms", "targets")},
        "statistics": {
            statistic.value: {
                "shape": shapes[statistic][0],
                "packing": shapes[statistic][1],
                "step": 1 / STEP_DENOMINATOR,
                "values": noisy.scaled(statistic),
            }
            for statistic in noisy.values
        },
        **{name: description[name] for name in ("noise", "cost")},
    }
    return to_json(answer).decode()


def _answer_digest(answer: str) -> str:
    return hashlib.sha256(answer.encode()).hexdigest()


def _facts(release_id: str, prepared: Prepared, analyst: Principal, answer: str, moment: str) -> dict[str, Any]:
    """Return what a charge's entry says: enough to account for it again from its integers."""
    return {
        "actor": analyst.id,
        "dataset": prepared.dataset.name,
        "release": release_id,
        "request_digest": prepared.request_digest,
        "answer_digest": _answer_digest(answer),
        "snapshot": prepared.dataset.commitment,
        "mechanism": [
            {
                "statistic": part.statistic,
                "sensitivity_squared": str(part.sensitivity_squared),
                "sigma": [str(s) for s in (part.sigma, part.sigma_offdiagonal) if s is not None],
                "copies": part.copies,
            }
            for part in prepared.plan.parts
        ],
        "time": moment,
    }
