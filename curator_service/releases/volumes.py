"""What a stored release holds, without its values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from curator_service.datasets.repository import Dataset
from curator_service.privacy.design import Design, make_design
from curator_service.privacy.parts import Statistic
from curator_service.releases.repository import StoredRelease


@dataclass(frozen=True, slots=True)
class Volume:
    """What a stored release holds, without its values.

    Attributes
    ----------
    release_id, request_digest : str
    request : mapping
        As its answer states it: canonical, with every default filled in.
    design : Design
    statistics : frozenset of Statistic
    distribution : str
    sd : mapping of str to float
        Standard deviations in scaled units, as the answer states them.
    """

    release_id: str
    request_digest: str
    request: Mapping[str, Any]
    design: Design
    statistics: frozenset[Statistic]
    distribution: str
    sd: Mapping[str, float]

    @property
    def is_box(self) -> bool:
        """Whether its rows are as they are, bounded entry by entry."""
        return bool(self.request["rows"]["map"] == "box")


def read_volume(dataset: Dataset, release: StoredRelease) -> Volume | None:
    """Return what a release holds; None for one that is itself a block of another, which is no source."""
    answer = json.loads(release.answer)
    if "derived_from" in answer:
        return None
    request, columns = answer["request"], dataset.manifest.by_name
    features, targets = (tuple(columns[name] for name in request[role]) for role in ("features", "targets"))
    return Volume(
        release_id=release.id,
        request_digest=release.request_digest,
        request=request,
        design=make_design(features, targets, intercept=request["intercept"]),
        statistics=frozenset(Statistic(name) for name in answer["statistics"]),
        distribution=answer["noise"]["distribution"],
        sd=answer["noise"]["sd"],
    )
