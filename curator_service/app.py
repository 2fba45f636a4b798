"""The HTTP application: the composition root, and the only file that knows every slice's routes."""

import functools
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Response
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from threadpoolctl import threadpool_limits

from curator_service import __version__
from curator_service.acts import SLICES
from curator_service.api.acts import Acts
from curator_service.api.below import Below
from curator_service.api.http import NearestProxy, RequestGuard, handle_http_exception, handle_problem, json_response
from curator_service.api.metrics import MEDIA_TYPE, Metrics
from curator_service.api.observer import Observer
from curator_service.api.response_models import HealthAnswer, ReadyAnswer, UnreadyAnswer
from curator_service.api.routes import add_routes
from curator_service.api.traces import make_tracer
from curator_service.container import THREADS, make_curator
from curator_service.dashboard.pages import add_dashboard
from curator_service.identity.response_models import PermissionDeniedProblem
from curator_service.kinds.registry import KINDS, KindRegistry
from curator_service.kit.clock import Clock, SettledClock, utc_now
from curator_service.kit.logs import log_without_data, without_tracebacks
from curator_service.kit.periodic import Periodic
from curator_service.kit.problem_models import PlainProblem, RequestInvalidProblem
from curator_service.kit.problems import Problem, Unavailable
from curator_service.ledger.response_models import BudgetExceededProblem
from curator_service.permits.response_models import PermitNeededProblem
from curator_service.privacy.samplers import NoiseSource
from curator_service.privacy.selftest import run_self_test
from curator_service.readiness import Readiness, SharedLook
from curator_service.releases.pace import measure_pace
from curator_service.releases.requests import describe_requests
from curator_service.releases.response_models import AnswerSpaceExceededProblem, ReleaseInProgressProblem
from curator_service.releases.waiting import JobWaits
from curator_service.settings import Settings

_CUTS_EVERY_S = 20.0
_USES_EVERY_S = 60.0
_PROPOSALS_EVERY_S = 60.0
_ANSWERS_EVERY_S = 60.0
_ANCHOR_EVERY_S = 600.0
_SAMPLES_EVERY_S = 60.0
_DESCRIPTION = """Noisy sufficient statistics of patients' rows, each charged to the privacy budget of its population.
Statistics and their noise are in scaled units; `terms` and `targets` lead back to the manifest's units."""


class _Problem(
    RootModel[
        Annotated[
            PlainProblem
            | RequestInvalidProblem
            | PermissionDeniedProblem
            | BudgetExceededProblem
            | PermitNeededProblem
            | ReleaseInProgressProblem
            | AnswerSpaceExceededProblem,
            Field(discriminator="type"),
        ]
    ]
):
    """Why a request was refused (RFC 9457)."""

    model_config = ConfigDict(title="Problem")


def create_app(
    settings: Settings | None = None,
    *,
    kinds: KindRegistry = KINDS,
    acts: Sequence[Acts] = SLICES,
    noise: NoiseSource | None = None,
    now: Clock = utc_now,
) -> FastAPI:
    """Build the application.

    Parameters
    ----------
    settings : Settings, optional
        Read from the environment if not given, as uvicorn's workers do.
    kinds : KindRegistry
        The kinds of release that it knows.
    acts : sequence of Acts
        The acts that it serves.
    noise : NoiseSource, optional
        A test double; no setting leads here.
    now : callable
        The clock.
    """
    settings = Settings() if settings is None else settings
    if settings.pace is None:
        settings = settings.model_copy(update={"pace": measure_pace(kinds)})
    curator = make_curator(settings, kinds=kinds, noise=noise, now=now)
    readiness = Readiness(curator, settings.data_dir)
    metrics = make_metrics(settings, kinds)
    job_waits = JobWaits(curator.database)
    pages = SharedLook(lambda: metrics.render(readiness.state()))
    observer = Observer(metrics, make_tracer(settings.traces_url), curator.health.count)
    beside = [
        Periodic("the cuts", _ending(curator.clock, curator.versions.cut_due), _CUTS_EVERY_S),
        Periodic("the last uses of tokens", curator.identity.write_uses, _USES_EVERY_S),
        Periodic("the ends of proposals", _ending(curator.clock, curator.approvals.expire_due), _PROPOSALS_EVERY_S),
        Periodic("the stored answers", curator.releases.check_stored, _ANSWERS_EVERY_S),
        Periodic("the anchor", curator.ledger.guard.compact_anchor, _ANCHOR_EVERY_S),
        Periodic("the samples", curator.health.sample, _SAMPLES_EVERY_S),
    ]

    def start() -> None:
        run_self_test(kinds.self_tests)
        curator.check_engine()
        curator.start()
        curator.job_runner.start()
        for work in beside:
            work.start()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        # One BLAS thread: exact in any number, but calm beside the worker threads.
        with threadpool_limits(1, user_api="blas"), without_tracebacks():
            to_thread.current_default_thread_limiter().total_tokens = THREADS
            try:
                start()
            except Exception as error:
                log_without_data("the start", error)  # the framework would log it with its message
                raise
            # Objects of the start-up live as long as the process: the collector need not walk them again and again.
            gc.collect()
            gc.freeze()
            # For connections, which refuse before there is a request, and are told when the server stops.
            yield {"observer": observer, "job_waits": job_waits}
            gc.unfreeze()
            for work in beside:
                work.stop()
            with suppress(OSError):  # what was counted since the last minute
                curator.health.sample()
            for looking in (readiness, pages, job_waits):
                looking.close()
            curator.close()
            observer.close()

    app = FastAPIOffline(
        title="Curator for private regression",
        description=_DESCRIPTION,
        version=__version__,
        redoc_url=None,
        redirect_slashes=False,
        # Off for good: telemetry would carry exceptions, and with them rows, to wherever it is configured to. What may
        # be traced is in api/traces.py.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        lifespan=lifespan,
        routes=list(_routes(tuple(acts))),
    )
    app.state.curator = curator
    app.state.job_waits = job_waits
    app.add_middleware(RequestGuard, body_bytes_max=settings.body_bytes_max, observer=observer)
    if settings.believes_any_proxy:
        app.add_middleware(NearestProxy)
    if settings.public_path:
        app.add_middleware(Below, path=settings.public_path)
        app.servers = [{"url": settings.public_path}]
    app.add_exception_handler(Problem, handle_problem)
    app.add_exception_handler(HTTPException, handle_http_exception)
    _add_health(app, readiness, pages)
    _add_document(app, kinds, acts)
    return app


def _ending(clock: SettledClock, work: Callable[[], object]) -> Callable[[], None]:
    """Return work that ends something for good, which is done while the clock may be believed."""

    def end() -> None:
        if clock.is_settled():
            work()

    return end


@functools.cache
def _routes(slices: tuple[Acts, ...]) -> tuple[BaseRoute, ...]:
    """Return the routes of every act, and the pages: made once, for all applications of a process."""
    router = APIRouter()
    for acts in slices:
        add_routes(router, acts)
    add_dashboard(router, slices)
    return tuple(router.routes)


def make_metrics(settings: Settings, kinds: KindRegistry) -> Metrics:
    """Return the counters of a process, which begin at zero.

    Returns
    -------
    Metrics
        With the folders of the settings.
    """
    return Metrics(kinds.names, settings.data_dir, settings.folders)


def _add_health(app: FastAPI, readiness: Readiness, pages: SharedLook[bytes]) -> None:
    anybody: dict[str, Any] = {"security": []}

    @app.get(
        "/healthz",
        tags=["health"],
        summary="The process is alive",
        responses={200: {"model": HealthAnswer}},
        openapi_extra=anybody,
    )
    async def healthz() -> Response:
        return json_response({"status": "alive"})

    @app.get(
        "/readyz",
        tags=["health"],
        summary="The database answers, its schema is current, disks are written, rows are there, and nothing is sealed",
        responses={
            200: {"model": ReadyAnswer},
            503: {"model": UnreadyAnswer, "description": "One of these does not hold"},
        },
        openapi_extra=anybody,
    )
    async def readyz() -> Response:
        status = await readiness.status()
        return json_response({"status": status}, 200 if status == "ready" else 503)

    @app.get("/metrics", include_in_schema=False)  # for the operator: proxies of deploy/ do not pass it on
    async def metrics() -> Response:
        try:
            return Response(await pages.see(), media_type=MEDIA_TYPE)
        except TimeoutError:
            raise Unavailable("The database does not answer.") from None


def _add_document(app: FastAPI, kinds: KindRegistry, acts: Sequence[Acts]) -> None:
    """Add to the OpenAPI document what endpoints check themselves, the token and models of bodies; write it once."""
    generate = app.openapi

    @functools.cache
    def openapi() -> dict[str, Any]:
        document = generate()
        parts: dict[str, Any] = {}
        requests = [kind.request_model for kind in kinds]
        asked = [act.body or act.asks for slice_ in acts for act in slice_ if act.path]
        bodies = [model for model in asked if not isinstance(model, str)]
        models: list[type[BaseModel]] = [*requests, *bodies, _Problem]
        for model in models:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            parts |= schema.pop("$defs", {}) | {schema["title"]: schema}
        document.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        parts["ReleaseRequest"] = describe_requests(kinds)
        document.setdefault("components", {}).setdefault("schemas", {}).update(parts)
        return document

    app.openapi = openapi  # type: ignore[method-assign]

    @functools.cache
    def written() -> bytes:
        return to_json(openapi())

    address = app.openapi_url
    assert address is not None
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", "") != address]

    @app.get(address, include_in_schema=False)
    async def document() -> Response:
        return Response(written(), media_type="application/json")
