"""Neighbour relations of datasets."""

from enum import StrEnum


class Adjacency(StrEnum):
    """The neighbour relation that a population's budget protects.

    ``ADD_REMOVE``: one person's rows are present or absent; the number of rows is private.
    ``REPLACE_ONE``: one person's rows are replaced by others; the number of rows is public.
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
