"""Questions of a threshold session: checked against declarations, and planned as integers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.repository import Dataset
from curator_service.entries.sessions import OpenSession
from curator_service.kinds.counting import count_cells
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.tables import Table
from curator_service.kinds.features import read_selection, state_selection
from curator_service.kinds.wide import kernel_for
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.conversions import exact
from curator_service.privacy.lattice import UNIT, IntArray, RowArray
from curator_service.privacy.sums import LIMB_BITS
from curator_service.releases.preparation import digest
from curator_service.releases.response_time import pass_duration_s
from curator_service.sessions.schemas import QuestionRequest

STEP = UNIT**2
"""Steps for which a row counts; a weight is cut to whole steps."""


def question_sensitivity(rows_per_person: int) -> int:
    """Bound how far one person moves any question, in steps: Δ = m q².

    A row adds from 0 to q² steps, and to a share from −τ q² to (1 − τ) q²: an interval of length q² that holds 0. So m
    rows that are added, removed or replaced move it by m q² at most. docs/privacy.md, "Threshold sessions", has the
    proof.
    """
    return rows_per_person * STEP


class ShareKernel(CountsKernel):
    """The sum of the weights of rows, and their number, both in steps."""

    def sum(self, rows: RowArray) -> IntArray:
        """Add weights, and count rows."""
        return np.concatenate([count_cells(rows[:, 0], rows[:, -1], 1), count_cells(rows[:, 0], None, 1)])


@dataclass(frozen=True)
class Question:
    """A question, planned. Nothing here has read a row.

    Attributes
    ----------
    stated : dict
        As it was asked, with its defaults.
    threshold : int
        In steps; of a share for each row.
    is_below : bool
    """

    dataset: Dataset
    stated: dict[str, Any]
    kernel: RowKernel
    threshold: int
    is_share: bool
    is_below: bool
    pace: float

    @cached_property
    def digest(self) -> str:
        """Digest that the entry of its answer states."""
        return digest(self.stated, dataset=self.dataset.id)

    @cached_property
    def duration_s(self) -> float:
        """Public time of its answer, in seconds."""
        return self.pace * pass_duration_s(self.kernel, self.dataset.manifest.row_capacity)

    def exceeds(self, sums: IntArray, noise: int, threshold_noise: int) -> bool:
        """Return whether the noisy number reaches the noisy threshold: q + ν ≥ T + ρ, all of them whole steps."""
        found = _whole(sums)
        number = found[0] - self.threshold * (found[1] // STEP) if self.is_share else found[0] - self.threshold
        return (-number if self.is_below else number) + noise >= threshold_noise


def _whole(sums: IntArray) -> list[int]:
    """Return sums as integers; those of many rows have a leading axis of two limbs."""
    if sums.ndim == 1:
        return [int(value) for value in sums]
    return [int(low) + (int(high) << LIMB_BITS) for low, high in zip(*sums, strict=True)]


def read_question(dataset: Dataset, opened: OpenSession, asked: QuestionRequest, pace: float) -> Question:
    """Check a question against declarations and its session's direction.

    Raises
    ------
    RequestInvalid
    """
    if opened.direction == "any":
        if asked.direction is None:
            raise RequestInvalid.at("/direction", "a question of this session says its direction: above or below")
        direction = asked.direction
    else:
        if asked.direction not in {None, opened.direction}:
            rule = f"every question of this session is {opened.direction}: others need a session of the direction any"
            raise RequestInvalid.at("/direction", rule)
        if asked.share:
            rule = "a share may rise and fall with a person who is added: it needs a session of the direction any"
            raise RequestInvalid.at("/share", rule)
        direction = opened.direction
    if asked.share and asked.weight is None:
        raise RequestInvalid.at("/weight", "a share is that of a weight: a condition, or a number within 0 and 1")
    if asked.share and asked.threshold > 1:
        raise RequestInvalid.at("/threshold", "the threshold of a share is within 0 and 1")
    selection = read_selection(asked.where, asked.weight, dataset.manifest.by_name)
    table = (Table(()),)
    kernel: RowKernel = ShareKernel(table, selection) if asked.share else CountsKernel(table, selection)
    stated = {
        **state_selection(selection),
        "share": asked.share,
        "threshold": asked.threshold,
        "direction": direction,
    }
    return Question(
        dataset=dataset,
        stated=stated,
        kernel=kernel_for(kernel, dataset.manifest.row_capacity),
        threshold=round(exact(asked.threshold) * STEP),
        is_share=asked.share,
        is_below=direction == "below",
        pace=pace,
    )
