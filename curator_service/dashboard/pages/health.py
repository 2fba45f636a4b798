"""The health of the service, for operators, officers and auditors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, Response
from markupsafe import Markup

from curator_service.dashboard.charts import trace
from curator_service.dashboard.page import PageContext, page
from curator_service.health.findings import WELL
from curator_service.health.notes import list_notes
from curator_service.health.service import HealthService, age_of
from curator_service.identity.policy import Action
from curator_service.kit.clock import timestamp
from curator_service.kit.samples import SLOT_S, Sample

router = APIRouter(prefix="/admin")
MINUTES = SLOT_S // 60
SEVERAL, HOURS = 20, (24, 18, 12, 6, 0)
"""Samples without which a line tells little; hours before now that an axis names."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the last day: what it is of, the numbers of its axis, and what it shows in words."""

    title: str
    unit: str
    top: str
    half: str
    drawn: Markup
    said: str


@router.get("/health")
@page(Action.READ_HEALTH)
def show_health(context: PageContext) -> Response:
    """Show findings, tasks, cuts, jobs, the last day, seals of the past and versions."""
    health = context.get(HealthService).look()
    samples = [one for _, one in health.day]
    known = [one for one in samples if one is not None]
    now = context.get(HealthService).now().timestamp()
    end = datetime.fromtimestamp(health.day[-1][0] + SLOT_S, UTC)
    wrong = [one for one in health.findings if one.state != WELL]
    return context.render(
        "health.html",
        health=health,
        wrong=wrong,
        well=[one for one in health.findings if one.state == WELL],
        attention=sum(
            one.state != WELL for one in [*health.findings, *(health.doctor.findings if health.doctor else [])]
        ),
        lines=[] if not known else draw_lines(samples),
        hours=[f"{end - timedelta(hours=hours):%H:%M}" for hours in HOURS],
        counted=[f"{sum(one.counts[i] for one in known):,}" for i in range(3)],
        has_failed=any(one.failed for one in known),
        is_short=len(known) < SEVERAL,
        notes=list_notes(),
        age_of=lambda at: age_of(at, now),
        moment_at=lambda at: timestamp(datetime.fromtimestamp(at, UTC)),
        slot=MINUTES,
    )


def draw_lines(samples: Sequence[Sample | None]) -> list[Line]:
    """Return the lines of the last day; one of which nothing is known is left out."""
    found = [
        _draw("Requests", "per minute", samples, lambda one: one.requests / MINUTES),
        _draw("Errors of the server", f"in {MINUTES} minutes", samples, lambda one: one.failed),
        _draw("Memory that is free", "in %", samples, lambda one: one.memory_free, top=100),
        _draw("Disk that is free", "in %, of the fullest one", samples, lambda one: one.disk_free, top=100),
    ]
    return [one for one in found if one is not None]


def _draw(
    title: str, unit: str, samples: Sequence[Sample | None], of: Callable[[Sample], float | None], top: float = 0
) -> Line | None:
    numbers = [None if one is None else of(one) for one in samples]
    known = [number for number in numbers if number is not None]
    if not known:
        return None
    is_share, high = bool(top), top or choose_top(max(known))
    worst = f"least {min(known):g} %" if is_share else f"at most {max(known):g}"
    said = f"{worst}, last {known[-1]:g}{' %' if is_share else ''}"
    drawn = trace([None if number is None else number / high for number in numbers], f"{title}, {unit}: {said}")
    return Line(title, unit, f"{high:g}", f"{high / 2:g}", drawn, said)


def choose_top(highest: float) -> float:
    """Return the number at the top of an axis: 2, 4 or 10 times a power of ten, and no less than 2.

    Examples
    --------
    >>> [choose_top(number) for number in (0, 3, 11, 400, 401)]
    [2, 4, 20, 400, 1000]
    """
    power: float = 10 ** math.floor(math.log10(max(highest, 1)))
    return next(times * power for times in (2, 4, 10) if highest <= times * power)
