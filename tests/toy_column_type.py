"""A column type from outside of the package: a code of ICD-10, of which the chapter's first letter is stored."""

import re
from typing import ClassVar, Literal

import pyarrow as pa

from curator_service.datasets.columns.arrays import Written
from curator_service.datasets.columns.levels import UNKNOWN, OfLevels

_CODE = re.compile(r"([A-Z])\d\d(\.\d{1,4})?")


class Icd10(OfLevels):
    """A diagnosis, such as C50.9; its level is the letter that it begins with."""

    raw_types: ClassVar = {"string": pa.types.is_string}
    type: Literal["icd10"] = "icd10"
    letters: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return self.letters

    def match(self, word: str, written: Written) -> int:
        found = _CODE.fullmatch(word.upper())
        return self.letters.index(found[1]) if found and found[1] in self.letters else UNKNOWN
