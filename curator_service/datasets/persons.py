"""Which rows of a person count."""

from collections.abc import Sequence

import numpy as np

from curator_service.privacy.lattice import StoredArray


class Persons:
    """Who had how many rows so far, within one registration.

    Which of a person's rows count is decided by their order in the file alone, whatever other persons' rows are there.

    Parameters
    ----------
    rows_max : int
        Most rows of one person that count: the first ones.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._seen: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many persons there are."""
        return len(self._seen)

    def mark(self, subjects: Sequence[str]) -> StoredArray:
        """Return 1 for each row that counts, 0 for one beyond its person's share."""
        marks = np.zeros(len(subjects), dtype=np.int32)
        for i, subject in enumerate(subjects):
            before = self._seen.get(subject, 0)
            self._seen[subject] = before + 1
            marks[i] = before < self._rows_max
        return marks
