"""Standard coordinates of a model: terms that are centred and scaled, and a target in units of its spread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analyst_client.arrays import FloatArray
from analyst_client.error_base import ServiceError
from analyst_client.refinement.places import Place
from analyst_client.schema.columns import Term


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates v = Mᵀz of the scaled terms z of a row, and y' = y/s of its scaled target.

    Attributes
    ----------
    terms : tuple of Term
        The constant first.
    target : Term
    matrix : ndarray of shape (D, D)
        M. The first coordinate is the constant; M is invertible, and upper triangular in the order of coordinates.
    target_scale : float
        s, the target's spread in scaled units.
    target_center : float
        Where y' is in the mean, as far as is known.
    known : ndarray of bool, of shape (D,)
        Which coordinates have about mean 0 and variance 1.
    """

    terms: tuple[Term, ...]
    target: Term
    matrix: FloatArray
    target_scale: float
    target_center: float
    known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, terms: Sequence[Term], target: Term, places: Mapping[str, Place], target_place: Place) -> "Frame":
        """Centre and scale terms.

        Parameters
        ----------
        terms : sequence of Term
            The constant first.
        target : Term
        places : mapping of str to Place
            By the column of a numeric term. Other terms keep what a guess makes of them: 0 and 1 for what is 0 or 1.
        target_place : Place
        """
        matrix, known = np.eye(len(terms)), np.zeros(len(terms), dtype=np.bool_)
        for j, term in enumerate(terms):
            place = places.get(term.column or "")
            if term.kind == "numeric" and place is not None:
                scale = place.scale / term.scale
                matrix[j, j], matrix[0, j] = 1.0 / scale, (term.center - place.center) / term.scale / scale
            known[j] = term.kind == "constant" or (term.kind == "numeric" and place is not None)
        unit = target_place.scale / target.scale
        center = (target_place.center - target.center) / target.scale / unit
        return cls(tuple(terms), target, matrix, unit, center, known)

    @property
    def size(self) -> int:
        """Number of terms D, the constant included."""
        return len(self.terms)

    def places_in(self, terms: Sequence[Term]) -> list[int]:
        """Return where this frame's terms stand among others. Raise `ServiceError` where they are other ones."""
        names = [term.name for term in terms]
        if sorted(names) != sorted(term.name for term in self.terms):
            raise ServiceError("a release of other terms than the refinement's plan asks for")
        return [names.index(term.name) for term in self.terms]

    def in_order(self, places: Sequence[int]) -> "Frame":
        """Return the same coordinates of terms that stand in another order."""
        return replace(self, terms=tuple(self.terms[j] for j in places), matrix=self.matrix[list(places)])

    @property
    def origin(self) -> FloatArray:
        """Coefficients that predict the mean of the target, and nothing of features; shape (D,)."""
        origin: FloatArray = self.target_center * np.eye(self.size)[0]
        return origin

    def by_name(self, rows: FloatArray) -> dict[str, list[float]]:
        """Return the rows of a matrix by the names of terms, as requests take them."""
        return {term.name: row.tolist() for term, row in zip(self.terms, rows, strict=True)}

    def to_terms(self, theta: FloatArray) -> FloatArray:
        """Return coefficients of scaled terms, for a scaled target, of coefficients of coordinates."""
        coefficients: FloatArray = self.target_scale * (self.matrix @ theta)
        return coefficients

    def from_terms(self, coefficients: FloatArray) -> FloatArray:
        """Return coefficients of coordinates: the inverse of `to_terms`."""
        return np.asarray(np.linalg.solve(self.matrix, coefficients / self.target_scale), dtype=np.float64)

    def directions_from_terms(self, directions: FloatArray) -> FloatArray:
        """Return P with Pᵀv (y' − vᵀθ) the gradient of a score through directions of scaled terms; shape (D, k)."""
        return np.asarray(np.linalg.solve(self.matrix, directions * self.target_scale), dtype=np.float64)

    def directions_to_terms(self, P: FloatArray) -> FloatArray:
        """Return directions of scaled terms: the inverse of `directions_from_terms`."""
        directions: FloatArray = self.matrix @ P / self.target_scale
        return directions
