"""Send one request to several hospitals. Reserve budget at all of them first: if one refuses, nothing is charged."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from analyst_client.client import CuratorClient, showing_places
from analyst_client.errors import (
    CuratorError,
    RequestInvalidError,
    ReservationEndedError,
    TransportError,
    UselessRequestError,
)
from analyst_client.kinds.base import Answered_co, Request
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import Asked, ReleaseOptions
from analyst_client.schema.accounts import Reservation
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.requests import choose_key
from analyst_client.terms.expression import Expression
from analyst_client.terms.formulas import Model, ReadModel

if TYPE_CHECKING:
    from analyst_client.estimators.base import Fit
    from analyst_client.fitting.question import FitOptions
    from analyst_client.refinement.buying import RefinementOptions
    from analyst_client.refinement.refinement import Refinement

__all__ = ["Curators", "PurchasePlan"]

RESERVED_FOR_S = 3600
Bought = TypeVar("Bought", bound=Answer)


class Curators:
    """Ask several curators the same, by the names that the analyst gives them.

    Parameters
    ----------
    clients : mapping of str to CuratorClient
        One for each hospital; they are closed with this.

    Examples
    --------
    >>> curators = Curators({"north": CuratorClient("http://127.0.0.1:8000", "token", memory=None)})
    >>> curators.names
    ('north',)
    >>> curators.close()
    """

    def __init__(self, clients: Mapping[str, CuratorClient]) -> None:
        if not isinstance(clients, Mapping) or not clients:
            call = "Curators({'north': client, 'south': other})"
            raise ValueError(f"at least one curator is needed, by a name of your own: {call}")
        self.clients = dict(clients)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the curators, in order."""
        return tuple(self.clients)

    def __enter__(self) -> "Curators":
        """Return this, to be closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every client."""
        self.close()

    def close(self) -> None:
        """Close every client."""
        with ExitStack() as stack:
            for client in self.clients.values():
                stack.callback(client.close)

    @overload
    def plan(
        self,
        dataset: str | Mapping[str, str],
        features: Asked,
        *,
        each: Mapping[str, ReleaseOptions] | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> "PurchasePlan[Release]": ...

    @overload
    def plan(
        self, dataset: str | Mapping[str, str], request: Request[Answered_co, AnyQuote], /
    ) -> "PurchasePlan[Answered_co]": ...

    def plan(
        self,
        dataset: str | Mapping[str, str],
        features: Asked | Request[Any, Any],
        *,
        each: Mapping[str, ReleaseOptions] | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> "PurchasePlan[Any]":
        """Ask every curator for a quote, for free, and return the requests with their costs.

        Parameters
        ----------
        dataset : str or mapping of str to str
            The dataset's name, or its name at each curator.
        features : sequence, str, Model or a request
            Columns that explain, a formula, or a whole request of any kind, the same at each curator.
        each : mapping of str to dict, optional
            Options that differ at a curator, such as ``{"north": {"epsilon": 0.5}}``.
        **options
            As for `CuratorClient.release`.

        Returns
        -------
        PurchasePlan
            Nothing is charged until its `buy` is called.

        Raises
        ------
        ValueError
            When a name is not that of a curator, or the arguments contradict each other; nothing was sent.
        CuratorError
            When a curator refuses a quote. Its note names the curator.
        """
        datasets = self._datasets(dataset, each)
        whole = features if isinstance(features, str | Model | Request) else tuple(features)
        purchases = []
        for name in datasets:
            asked: ReleaseOptions = {**options, **(each or {}).get(name, {})}
            with _named(name):
                client = self.clients[name]
                request, model = client._read(datasets[name], whole, asked)
                quote: Any = client._judged(datasets[name], request, client._ask_quote(datasets[name], request, model))
            purchases.append(_Purchase(name, client, datasets[name], request, model, quote))
        return PurchasePlan(tuple(purchases))

    def _datasets(self, dataset: str | Mapping[str, str], each: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Return the dataset at each curator that is asked, in their order. Raise `ValueError` as `plan` does."""
        known = set(self.clients)
        datasets = dict.fromkeys(self.clients, dataset) if isinstance(dataset, str) else dict(dataset)
        for given in (set(datasets), set(each or {})):
            if given - known:
                raise ValueError(
                    f"no curator is named {', '.join(sorted(given - known))}; there are {', '.join(known)}"
                )
        if not datasets:
            raise ValueError("a plan needs a dataset at one curator at least")
        asked_of = [(id(self.clients[name]), datasets[name]) for name in datasets]
        if len(set(asked_of)) < len(asked_of):
            raise ValueError("one curator's dataset stands under two names: it would be the same release twice")
        return {name: datasets[name] for name in self.clients if name in datasets}

    def refine(
        self,
        dataset: str | Mapping[str, str],
        features: Asked,
        *,
        each: "Mapping[str, RefinementOptions] | None" = None,
        even_so: bool = False,
        progress: bool = True,
        **options: "Unpack[RefinementOptions]",
    ) -> "dict[str, Refinement]":
        """Refine one model at every curator; the price is held at all of them before a step is paid at any.

        Parameters
        ----------
        dataset : str or mapping of str to str
            The dataset's name, or its name at each curator.
        features : sequence of str or Expression, str or Model
            As for `CuratorClient.refine`.
        each : mapping of str to dict, optional
            Options that differ at a curator, such as ``{"north": {"epsilon": 0.5}}``.
        even_so, progress : bool
            As for `CuratorClient.refine`.
        **options
            As for `CuratorClient.refine`, of which they are the options that decide what is bought.

        Returns
        -------
        dict of str to Refinement
            By the curator's name: what `RefinedRegression`, `LogisticRegression` and `PoissonRegression` fit.

        Raises
        ------
        ValueError
            When a name is not that of a curator, or the arguments contradict each other; nothing was charged.
        UselessRequestError
            When public numbers show that no slope would be told at one of them; nothing was charged.
        CuratorError
            As `CuratorClient.refine` raises it; a note names the curator. The same call goes on where an interruption
            ended it, and pays for no step twice.
        """
        from analyst_client.refinement.together import refine_all  # noqa: PLC0415 -- the import stays quick

        refinings = {}
        for name, data in self._datasets(dataset, each).items():
            with _named(name):
                asked: RefinementOptions = {**options, **(each or {}).get(name, {})}
                refinings[name] = self.clients[name]._read_refinement(data, features, asked)
        return refine_all(refinings, _named, even_so=even_so, show=progress)

    def fit(
        self,
        model: Asked,
        *,
        data: str | Mapping[str, str],
        target: str | Expression | None = None,
        family: str | None = None,
        offset: str | Expression | None = None,
        where: str | Expression | None = None,
        weights: str | Expression | None = None,
        epsilon: "float | Literal['left'] | None" = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        max_epsilon: float | None = None,
        expected_rows: float | None = None,
        project: str | None = None,
        yes: bool = False,
        even_so: bool = False,
        progress: bool = True,
    ) -> "Fit":
        """Fit one model of all hospitals: choose how, show the price at each, buy after a yes, and fit.

        The choice is between a refinement at each hospital and one release at each, by public numbers alone. The fit's
        `choice_` has it, with the explicit call that does the same.

        Parameters
        ----------
        model : str, Model, or sequence of str or Expression
            A formula, or features beside `target`; as for `CuratorClient.fit`.
        data : str or mapping of str to str
            The dataset's name, or its name at each curator.
        target, family, offset, where, weights : optional
            As for `CuratorClient.fit`.
        epsilon, delta, mu, rho : float, optional
            The whole price at each hospital. δ is that of each population's account where it is not stated.
            ``epsilon="left"`` is all that each hospital has left.
        max_epsilon : float, optional
            The largest price, stated as ε, that may be charged at a hospital.
        expected_rows : float, optional
            Your guess of how many rows each hospital has, where that is not public.
        project, yes, even_so, progress : optional
            As for `CuratorClient.fit`.

        Returns
        -------
        Fit
            Of the class that the family and the way have.

        Raises
        ------
        ValueError, NotConfirmedError, UselessRequestError, CuratorError
            As `CuratorClient.fit` raises them.
        """
        from analyst_client.fitting.hospitals import fit_hospitals  # noqa: PLC0415 -- the import stays quick

        options: FitOptions = {"target": target, "family": family, "offset": offset, "where": where}
        options |= {"weights": weights, "expected_rows": expected_rows, "project": project}
        return fit_hospitals(
            self,
            self._datasets(data),
            model,
            options,
            {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho},
            _named,
            max_epsilon=max_epsilon,
            yes=yes,
            even_so=even_so,
            progress=progress,
        )


@dataclass(eq=False)
class _Purchase:
    """Request at one curator, and how far it is."""

    name: str
    client: CuratorClient
    dataset: str
    request: Any
    model: ReadModel | None
    quote: AnyQuote
    key: str = field(default_factory=lambda: choose_key(None))
    reservation_key: str = field(default_factory=lambda: choose_key(None))
    reservation: Reservation | None = None
    held_for_s: int | None = None
    may_hold: bool = False
    was_sent: bool = False
    paying_reservation: str | None = None
    release: Any = None

    @property
    def is_free(self) -> bool:
        """True if a stored release answers the request, so that nothing must be reserved."""
        stored = self.quote.stored_release is not None or self.quote.derivable_from is not None
        return stored and not self.request.members.get("fresh", False)

    def reserve(self, expires_in_s: int) -> None:
        """Hold the cost, where there is one, where nothing is held, and where the curator offers it.

        Once a request was sent nothing is held any more: its answer tells whether it was charged.
        """
        if self.was_sent or self.reservation is not None or self.is_free:
            return
        asked = self.request.members
        if "reservation" in asked:
            return  # the analyst's own is charged
        price = {**asked["price"], "project": asked.get("project")}
        self.held_for_s = self.held_for_s or expires_in_s  # a key goes with one request
        self.may_hold = True
        try:
            self.reservation = self.client.reserve(
                self.dataset, expires_in_s=self.held_for_s, idempotency_key=self.reservation_key, **price
            )
        except TransportError:
            raise  # perhaps held: asked again with the same key
        except RequestInvalidError as refusal:
            self.may_hold = False
            if refusal.slug not in {"not-found", "method-not-allowed"}:  # else it takes none: the request will tell
                raise
        except CuratorError:
            self.may_hold = False
            raise

    def close_reservation(self) -> None:
        """Close what is held, or may be, so that it goes back to the budget."""
        if self.may_hold and self.reservation is None:
            self.reserve(self.held_for_s or RESERVED_FOR_S)  # its answer was lost
        if self.reservation is not None:
            with suppress(ReservationEndedError):
                self.client.close_reservation(self.reservation.id)
        self._forget_reservation()

    def buy(self, expires_in_s: int) -> Any:
        """Request the release, or fetch what an earlier attempt was charged for."""
        if self.release is None:
            try:
                self.release = self._send()
            except ReservationEndedError:
                if "reservation" in self.request.members:
                    raise
                # Nothing was charged with this key, or the answer would have come.
                self._forget_reservation()
                self.key, self.was_sent, self.paying_reservation = choose_key(None), False, None
                self.reserve(expires_in_s)
                self.release = self._send()
        return self.release

    def _send(self) -> Any:
        """Send the request, the same each time, as its key goes with no other."""
        if not self.was_sent:
            self.was_sent, self.paying_reservation = True, None if self.reservation is None else self.reservation.id
        asked = self.request
        if self.paying_reservation is not None:
            asked = replace(asked, reservation=self.paying_reservation, project=None)  # the reservation's counts
        with showing_places(self.model):  # the plan's own quote was judged
            return self.client.release(self.dataset, asked, idempotency_key=self.key, even_so=True)

    def _forget_reservation(self) -> None:
        self.reservation, self.reservation_key = None, choose_key(None)
        self.held_for_s, self.may_hold = None, False


class PurchasePlan(Generic[Bought]):
    """Requests to several curators, with their costs; nothing is spent until `buy`.

    Parameters
    ----------
    purchases : tuple
        One for each curator, from `Curators.plan`.

    Attributes
    ----------
    quotes : dict of str to Quote, or to that of another kind
        By the curator's name.
    """

    def __init__(self, purchases: tuple[_Purchase, ...]) -> None:
        self._purchases = purchases
        self.quotes = {purchase.name: purchase.quote for purchase in purchases}

    def __repr__(self) -> str:
        """Show the cost at each curator."""
        costs = ", ".join(
            f"{name}: {'free' if purchase.is_free else f'{quote.cost.share_of_budget:.1%} of the budget'}"
            f"{'' if quote.affordable or purchase.is_free else ', not affordable'}"
            for purchase, (name, quote) in zip(self._purchases, self.quotes.items(), strict=True)
        )
        return f"<PurchasePlan {costs}>"

    @property
    def is_affordable(self) -> bool:
        """True if every curator's budget sufficed at the time of the quote."""
        return all(purchase.is_free or purchase.quote.affordable for purchase in self._purchases)

    def buy(self, *, expires_in_s: int = RESERVED_FOR_S, even_so: bool = False) -> dict[str, Bought]:
        """Reserve the cost at every curator that takes reservations, then request at each, and give back the rest.

        When a curator refuses to reserve, what others hold is given back, and nothing was charged. When a request
        fails after that, what was released is kept: call again, and each request goes on with its own key, so that
        nothing is charged twice; or call `cancel`.

        Parameters
        ----------
        expires_in_s : int
            Seconds after which a reservation that was not used goes back to the budget by itself.
        even_so : bool
            As for `CuratorClient.release`.

        Returns
        -------
        dict of str to Release, or to a release of the kind that was asked
            By the curator's name; ``list(releases.values())`` is what an estimator takes.

        Raises
        ------
        UselessRequestError
            When a curator's public numbers show that its answer would tell nothing; nothing was charged.
        CuratorError
            As `CuratorClient.reserve` and `CuratorClient.release` raise it. Its note names the curator.
        """
        useless = [(name, reason) for name, quote in self.quotes.items() for reason in quote.useless]
        if useless and not even_so:
            raise UselessRequestError(tuple(f"at {name}: {reason}" for name, reason in useless))
        try:
            for purchase in self._purchases:
                with _named(purchase.name):
                    purchase.reserve(expires_in_s)
        except BaseException:
            self.cancel()
            raise
        for purchase in self._purchases:
            with _named(purchase.name):
                purchase.buy(expires_in_s)
        self.cancel()
        return self.bought

    @property
    def bought(self) -> dict[str, Bought]:
        """Releases that were made so far, by the curator's name."""
        return {purchase.name: purchase.release for purchase in self._purchases if purchase.release is not None}

    def cancel(self) -> None:
        """Give back what is still reserved; what was released stays charged.

        A reservation that cannot be closed now goes back by itself when it expires.
        """
        for purchase in self._purchases:
            with suppress(CuratorError):
                purchase.close_reservation()


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say in the message and in a note which curator an error comes from."""
    try:
        yield
    except CuratorError as error:
        place = f"at the curator {name!r}"
        error.args = (f"{place}: {error}", *error.args[1:])
        error.add_note(place)
        raise
