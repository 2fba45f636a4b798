"""Kind of a release: a sum over rows of bounded integer contributions, with its plan, its text and its rules.

A kind's meaning never changes: what a name stands for in a stored answer or an entry of the ledger, it stands for ever.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.conformance import KnownSums
from curator_service.datasets.repository import Dataset
from curator_service.kinds.listing import Listing
from curator_service.kinds.request import ReleaseRequest
from curator_service.kinds.response_models import KindModels
from curator_service.privacy.accountant import JointBound, Price
from curator_service.privacy.allocation import Allocation, Bound
from curator_service.privacy.lattice import IntArray
from curator_service.privacy.mechanism import NoisePlan, noise_sd
from curator_service.privacy.parts import Part
from curator_service.privacy.selftest import Check

NAME_MAX = 20
"""Characters of a kind's name: the catalogue's column has as many."""
ListingT = TypeVar("ListingT", bound=Listing)
RuledT_contra = TypeVar("RuledT_contra", bound=Listing, contravariant=True)


class ReleasePlan(NoisePlan, Protocol):
    """Everything that decides a release but the data."""

    @property
    def allocation(self) -> Allocation:
        """The scales of its noise, and what they cost."""

    @property
    def joint(self) -> JointBound | None:
        """Joint bound of the costs, if they do not just add."""


R = TypeVar("R", bound=ReleaseRequest)
P = TypeVar("P", bound=ReleasePlan)


@dataclass(frozen=True, slots=True)
class Planned(Generic[P]):
    """A request that was checked against public declarations, and planned.

    Attributes
    ----------
    stated : dict
        The request with every default filled in, as its caller stated it.
    canonical : dict
        The same for all who mean the same.
    plan : ReleasePlan
    siblings : tuple of dict
        Members of the canonical request that another guess of the analyst's would have made others.
    """

    stated: dict[str, Any]
    canonical: dict[str, Any]
    plan: P
    siblings: tuple[dict[str, Any], ...] = ()


class KindWords(NamedTuple):
    """A kind for people who read no code.

    Attributes
    ----------
    title : str
        Its releases, within a sentence.
    meaning : str
        What a release says, as a sentence.
    statistics : mapping of str to str
        Its statistics by their names.
    noises : mapping of str to str
        Standard deviations that are not named by a statistic.
    """

    title: str
    meaning: str
    statistics: Mapping[str, str] = MappingProxyType({})
    noises: Mapping[str, str] = MappingProxyType({})


class LibraryRules(Protocol[RuledT_contra]):
    """Rules for an answer from a stored release of a kind: on one shelf, with no more noise than asked.

    Attributes
    ----------
    extras : tuple of str
        Lists that a statistic has beside its values where it was cut out of another one.
    """

    extras: ClassVar[tuple[str, ...]]

    def least_sd(self, stored: RuledT_contra) -> float:
        """Return a standard deviation than which nothing that is cut out of a release has less."""

    def most_sd(self, asked: RuledT_contra) -> float:
        """Return the largest `least_sd` of a release that may answer."""

    def covers(self, stored: RuledT_contra, asked: RuledT_contra) -> bool:
        """Tell whether a release holds every column of a request, and so is offered where it is no answer."""

    def block_sd(self, stored: RuledT_contra, asked: RuledT_contra) -> Mapping[str, float] | None:
        """Return the standard deviations of a request that is cut out of a release of its shelf; None if it cannot."""

    def cut(
        self, stored: RuledT_contra, asked: RuledT_contra, statistics: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Return the values, and the extras, of a request that can be cut out of a release, by statistic."""

    def tell_difference(self, stored: RuledT_contra, asked: RuledT_contra, block_sd: Mapping[str, float] | None) -> str:
        """Say what a release that covers a request has otherwise, in clauses."""


class ReleaseKind(ABC, Generic[R, P, ListingT]):
    """A kind of release.

    Attributes
    ----------
    name : str
        On the wire, in stored answers and in the ledger; at most `NAME_MAX` characters.
    request_model : type
    models : KindModels
        What is answered, for the documentation of the interface.
    listing : type
    asked : tuple of str
        Members that a canonical request may have beside its price, in their order.
    declared : tuple of str
        Members that an answer may have between its request and its statistics, in their order; it has the first.
    example : dict
        A request, for the documentation of the interface.
    library : LibraryRules or None
        None: a stored release answers the same request, and no other.
    self_tests : tuple of Check
        What must hold on a machine beside what must for every kind.
    words : KindWords
    conformance : tuple of KnownSums
        Kernels that an engine must run as they are meant.
    typical : tuple of RowKernel
        Kernels by which the pace of a machine is measured.
    """

    name: ClassVar[str]
    request_model: type[R]
    models: ClassVar[KindModels]
    listing: type[ListingT]
    asked: ClassVar[tuple[str, ...]]
    declared: ClassVar[tuple[str, ...]]
    example: ClassVar[dict[str, Any]]
    words: ClassVar[KindWords]
    library: LibraryRules[ListingT] | None = None
    self_tests: ClassVar[tuple[Check, ...]] = ()
    conformance: ClassVar[tuple[KnownSums, ...]] = ()
    typical: ClassVar[tuple[RowKernel, ...]] = ()

    @abstractmethod
    def plan(self, dataset: Dataset, request: R) -> Planned[P]:
        """Check a request against declarations, fill in its defaults, and plan it. Nothing here reads a row.

        Raises
        ------
        RequestInvalid, PlanError
            Naming the place, the rule and what would have worked.
        """

    @abstractmethod
    def plan_at(self, dataset: Dataset, request: R, plan: P, price: Price) -> P:
        """Plan the same request at another price. Raise `PlanError` where no such release is made at it."""

    @abstractmethod
    def bounds(self, dataset: Dataset, request: R) -> tuple[tuple[Bound, ...], JointBound | None]:
        """Derive the sensitivities that a charge must state, from declarations alone. Raise `RequestInvalid`."""

    @abstractmethod
    def kernel(self, plan: P) -> RowKernel:
        """Return what rows contribute."""

    def exact(self, plan: P, sums: IntArray) -> IntArray:
        """Return the sums of every output of a plan, flat, in their order.

        Sums of a row capacity above `INT64_CAPACITY_MAX` have a leading axis of two limbs, and so has what is returned.
        A kind whose kernel does not return flat sums flattens them here.
        """
        del plan
        return sums

    def exact_s(self, plan: P) -> float:
        """Return how long `exact` is made to take, in seconds: several times what it takes, from public numbers."""
        del plan
        return 0.0

    def describe_question(self, request: Mapping[str, Any]) -> str:
        """Return what a stored request asks, in words, without its rows: see `wording`."""
        del request
        return self.words.title

    def write_formula(self, request: Mapping[str, Any]) -> str:
        """Return a stored request as a formula; empty where it is none."""
        del request
        return ""

    def noise_of_sums(self, request: Mapping[str, Any], sd: Mapping[str, float]) -> Mapping[str, float]:
        """Return the standard deviation of a column's sum over rows, of "features" and of "targets", in scaled units.

        A stored answer's request and noise say it. Nothing where an answer has no such sums.
        """
        del request, sd
        return {}

    def state_noise(self, parts: tuple[Part, ...]) -> dict[str, float]:
        """Return standard deviations in scaled units under the names that quotes and answers use."""
        return {part.statistic: noise_sd(part.distribution, part.scales[0]) for part in parts}

    def state_joint(self, joint: JointBound | None) -> str | None:
        """Return the constant in a charge's entry from which its joint bound is read; None without a bound."""
        assert joint is None, "a kind with a joint bound states it"
        return None

    def read_joint(self, constant: str | None) -> JointBound | None:
        """Read the joint bound of a charge's entry."""
        del constant
        return None
