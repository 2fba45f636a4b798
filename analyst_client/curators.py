"""Send one request to several hospitals. Reserve budget first: if too few of them grant it, nothing is charged."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
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
from analyst_client.kinds.gram.request import (
    Asked,
    ReleaseOptions,
    check_options,
    suggests_arguments,
    suggests_options_of,
)
from analyst_client.schema.accounts import Reservation
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.requests import choose_key
from analyst_client.terms.formulas import Model, ReadModel

if TYPE_CHECKING:
    from analyst_client.estimators.base import Fit
    from analyst_client.fitting.question import FitOptions
    from analyst_client.refinement.buying import RefinementOptions
    from analyst_client.refinement.refinement import Refinement

__all__ = ["Curators", "PurchasePlan", "Purchased"]

RESERVED_FOR_S = 3600
OF_ALL = {
    "release": "curators.plan(…).buy() buys a release at each",
    "submit_release": "curators.plan(…).buy() buys a release at each",
    "quote": "curators.plan(…) asks each for its quote",
    "submit_refinement": "curators.refine(…) refines at each",
}
"""Methods of `CuratorClient`, and what does the same at several hospitals."""
Bought = TypeVar("Bought", bound=Answer)


class Curators:
    """Ask several curators the same, by the names that the analyst gives them.

    Parameters
    ----------
    clients : mapping of str to CuratorClient
        One for each hospital; they are closed with this.
    at_least : int, optional
        Number of hospitals that a purchase needs. Default all that are asked. Nothing is charged at any until so many
        have granted the budget; those that failed are named in the result.

    Examples
    --------
    >>> curators = Curators({"north": CuratorClient("http://127.0.0.1:8000", "token", memory=None)})
    >>> curators.names
    ('north',)
    >>> curators.close()
    """

    def __init__(self, clients: Mapping[str, CuratorClient], *, at_least: int | None = None) -> None:
        if not isinstance(clients, Mapping) or not clients:
            call = "Curators({'north': client, 'south': other})"
            raise ValueError(f"at least one curator is needed, by a name of your own: {call}")
        if at_least is not None and (type(at_least) is not int or not 1 <= at_least <= len(clients)):
            raise ValueError(f"at_least is a number of hospitals from 1 to {len(clients)}, not {at_least!r}")
        self.clients, self.at_least = dict(clients), at_least

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
        """Close every client.

        Examples
        --------
        >>> from analyst_client import Curators
        >>> from analyst_client.tutorial import recorded_client
        >>> with Curators({"north": recorded_client("methods")}) as curators:  # closes them at the end of the block
        ...     budgets = {name: client.budget("flchain") for name, client in curators.clients.items()}
        """
        with ExitStack() as stack:
            for client in self.clients.values():
                stack.callback(client.close)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name the call that does at several hospitals what a method of `CuratorClient` does at one."""
            hint = ""
            if callable(getattr(CuratorClient, name, None)) and not name.startswith("_"):
                asks_one = f"curators.clients[{self.names[0]!r}].{name}(…) asks one hospital"
                hint = f": {OF_ALL[name]}; {asks_one}" if name in OF_ALL else f": {asks_one}"
            raise AttributeError(f"Curators has no attribute {name!r}{hint}", name=name, obj=self)

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

    @suggests_arguments
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
            When a curator refuses a quote, and fewer than `at_least` are left. Its note names the curator.

        Examples
        --------
        >>> from analyst_client import Curators
        >>> from analyst_client.tutorial import recorded_client
        >>> with Curators({"north": recorded_client("methods"), "south": recorded_client("methods")}) as curators:
        ...     options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
        ...     plan = curators.plan("flchain", ["age", "sex"], **options)
        ...     bought = plan.buy()
        >>> plan
        <PurchasePlan north: 0.2% of the budget, south: 0.2% of the budget>
        >>> list(bought), bought.failed
        (['north', 'south'], {})
        """
        datasets = self._datasets(dataset, each)
        whole = features if isinstance(features, str | Model | Request) else tuple(features)
        for name, own in (each or {}).items():
            check_options(f"each[{name!r}]", own, ReleaseOptions.__annotations__)
        needed = len(datasets) if self.at_least is None else self.at_least
        if needed > len(datasets):
            raise ValueError(f"at_least is {needed}, and the plan asks {len(datasets)}: {', '.join(datasets)}")
        purchases: list[_Purchase] = []
        failed: dict[str, CuratorError] = {}
        for name in datasets:
            asked: ReleaseOptions = {**options, **(each or {}).get(name, {})}
            client = self.clients[name]
            with _failing(name, client, failed, len(datasets) - needed):
                request, model = client._read(datasets[name], whole, asked)
                quote: Any = client._judged(datasets[name], request, client._ask_quote(datasets[name], request, model))
                purchases.append(_Purchase(name, client, datasets[name], request, model, quote))
        return PurchasePlan(tuple(purchases), needed=needed, failed=failed)

    def _named(self, name: str) -> AbstractContextManager[None]:
        """Say in an error which curator it comes from."""
        return _failing(name, self.clients[name], {}, 0)

    def _datasets(self, dataset: str | Mapping[str, str], each: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Return the dataset at each curator that is asked, in their order. Raise `ValueError` as `plan` does."""
        known = set(self.clients)
        if not isinstance(dataset, str | Mapping):
            example = ", ".join(f"{name!r}: 'cohort'" for name in self.names[:2])
            raise ValueError(f"a dataset's name, or its name at each curator, as {{{example}}}; not {dataset!r}")  # noqa: TRY004 -- one kind of error for arguments
        datasets = dict.fromkeys(self.clients, dataset) if isinstance(dataset, str) else dict(dataset)
        for given in (set(datasets), set(each or {})):
            if given - known:
                raise ValueError(
                    f"no curator is named {', '.join(sorted(given - known))}; there are {', '.join(known)}"
                )
        if not datasets:
            raise ValueError("a plan needs a dataset at one curator at least")
        asked_of: dict[Any, str] = {}
        for name in datasets:
            first = asked_of.setdefault((self.clients[name]._place, datasets[name]), name)
            if first != name:
                raise ValueError(
                    f"{first} and {name} are one curator, whose dataset {datasets[name]!r} stands under two names: it "
                    "would be the same release twice"
                )
        return {name: datasets[name] for name in self.clients if name in datasets}

    @suggests_options_of(CuratorClient.refine)
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
        from analyst_client.refinement.buying import RefinementOptions  # noqa: PLC0415 -- the import stays quick
        from analyst_client.refinement.together import refine_all  # noqa: PLC0415 -- the import stays quick

        refinings, datasets = {}, self._datasets(dataset, each)
        for name, own in (each or {}).items():
            check_options(f"each[{name!r}]", own, RefinementOptions.__annotations__)
        for name, data in datasets.items():
            with self._named(name):
                asked: RefinementOptions = {**options, **(each or {}).get(name, {})}
                refinings[name] = self.clients[name]._read_refinement(data, features, asked)
        return refine_all(refinings, self._named, even_so=even_so, show=progress)

    @suggests_options_of(CuratorClient.fit, "half_width", "guess")
    def fit(
        self,
        model: Asked,
        data: str | Mapping[str, str],
        *,
        epsilon: "float | Literal['left'] | None" = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        max_epsilon: float | None = None,
        yes: bool = False,
        even_so: bool = False,
        progress: bool = True,
        **options: "Unpack[FitOptions]",
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
        epsilon, delta, mu, rho : float, optional
            The whole price at each hospital. δ is that of each population's account where it is not stated.
            ``epsilon="left"`` is all that each hospital has left.
        max_epsilon : float, optional
            The largest price, stated as ε, that may be charged at a hospital.
        yes, even_so, progress : bool
            As for `CuratorClient.fit`.
        **options
            As for `CuratorClient.fit`, but for `half_width` and `guess`. `expected_rows` is of each hospital.

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

        return fit_hospitals(
            self,
            self._datasets(data),
            model,
            options,
            {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho},
            self._named,
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


class Purchased(dict[str, Bought]):
    """Releases by the curator's name.

    Parameters
    ----------
    releases : mapping of str to Release, or to a release of another kind
        By the curator's name.
    failed : dict of str to CuratorError
        Of each curator that failed, by your name for it, the error.

    Examples
    --------
    >>> from analyst_client import AdaSSP, Curators
    >>> from analyst_client.tutorial import recorded_client
    >>> curators = Curators({"north": recorded_client("methods")})
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> bought = curators.plan("flchain", ["age", "sex"], **options).buy()
    >>> bought.failed
    {}
    >>> AdaSSP().fit(bought).term_names_.tolist()
    ['age', 'sex[M]']
    """

    def __init__(self, releases: Mapping[str, Bought], failed: Mapping[str, CuratorError]) -> None:
        super().__init__(releases)
        self.failed = dict(failed)


class PurchasePlan(Generic[Bought]):
    """Requests to several curators, with their costs; nothing is spent until `buy`.

    Parameters
    ----------
    purchases : tuple
        One for each curator, from `Curators.plan`.
    needed : int
        Number of them that a purchase needs. Default all.
    failed : mapping of str to CuratorError
        Curators that gave no quote.

    Attributes
    ----------
    quotes : dict of str to Quote, or to that of another kind
        By the curator's name.
    failed : dict of str to CuratorError
        Of each curator that gave no quote, by your name for it, the error.

    Examples
    --------
    >>> from analyst_client import Curators
    >>> from analyst_client.tutorial import recorded_client
    >>> curators = Curators({"north": recorded_client("methods")})
    >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
    >>> plan = curators.plan("flchain", ["age", "sex"], **options)
    >>> plan.is_affordable, round(plan.quotes["north"].cost.share_of_budget, 4)
    (True, 0.0018)
    >>> plan.buy()["north"].term_names
    ('(constant)', 'age', 'sex[M]')
    """

    def __init__(
        self,
        purchases: tuple[_Purchase, ...],
        *,
        needed: int | None = None,
        failed: Mapping[str, CuratorError] | None = None,
    ) -> None:
        self._purchases = purchases
        self._needed = len(purchases) if needed is None else needed
        self.failed = dict(failed or {})
        self.quotes = {purchase.name: purchase.quote for purchase in purchases}

    def __repr__(self) -> str:
        """Show the cost at each curator."""
        costs = ", ".join(
            f"{name}: {'free' if purchase.is_free else f'{quote.cost.share_of_budget:.1%} of the budget'}"
            f"{'' if quote.affordable or purchase.is_free else ', not affordable'}"
            for purchase, (name, quote) in zip(self._purchases, self.quotes.items(), strict=True)
        )
        failed = "".join(f", {name}: failed" for name in self.failed)
        return f"<PurchasePlan {costs}{failed}>"

    @property
    def is_affordable(self) -> bool:
        """True if every curator's budget sufficed at the time of the quote."""
        return all(purchase.is_free or purchase.quote.affordable for purchase in self._purchases)

    def buy(self, *, expires_in_s: int = RESERVED_FOR_S, even_so: bool = False) -> Purchased[Bought]:
        """Reserve the cost at every curator that takes reservations, then request at each, and give back the rest.

        When a curator refuses to reserve, and fewer than `at_least` are left, what others hold is given back, and
        nothing was charged. When a request fails after that, what was released is kept, and nothing more is charged
        where too few would be left. Call again, and each request goes on with its own key, so that nothing is charged
        twice; or call `cancel`.

        Parameters
        ----------
        expires_in_s : int
            Seconds after which a reservation that was not used goes back to the budget by itself.
        even_so : bool
            As for `CuratorClient.release`.

        Returns
        -------
        Purchased
            A dict of releases by the curator's name, which an estimator takes. Its `failed` has the curators that
            failed. One that failed after the request was sent may have charged: `buy` again fetches its release.

        Raises
        ------
        UselessRequestError
            When a curator's public numbers show that its answer would tell nothing; nothing was charged.
        CuratorError
            As `CuratorClient.reserve` and `CuratorClient.release` raise it. Its note names the curator.

        Warns
        -----
        UserWarning
            When curators failed, and enough were left.
        """
        useless = [(name, reason) for name, quote in self.quotes.items() for reason in quote.useless]
        if useless and not even_so:
            raise UselessRequestError(tuple(f"at {name}: {reason}" for name, reason in useless))
        failed = dict(self.failed)
        spare = len(self._purchases) + len(failed) - self._needed
        try:
            for purchase in self._purchases:
                with _failing(purchase.name, purchase.client, failed, spare):
                    purchase.reserve(expires_in_s)
        except BaseException:
            self.cancel()
            raise
        ready = [purchase for purchase in self._purchases if purchase.name not in failed]
        # First those that hold nothing and may still refuse: then nothing was charged elsewhere.
        for purchase in sorted(ready, key=lambda one: one.reservation is not None):
            with _failing(purchase.name, purchase.client, failed, spare):
                purchase.buy(expires_in_s)
        self.cancel()
        if failed:
            names = ", ".join(failed)
            warnings.warn(f"no release of {names}: the result has the errors in its attribute failed", stacklevel=2)
        return Purchased(self.bought, failed)

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
def _failing(name: str, client: CuratorClient, failed: dict[str, CuratorError], spare: int) -> Iterator[None]:
    """Keep the error of a curator among those that failed, and raise it where they are more than can be spared.

    Its message and a note name the curator as the analyst does, and not by its address.
    """
    try:
        yield
    except CuratorError as error:
        place = f"at the curator {name!r}"
        host = re.escape(client._transport.url.host)
        said = re.sub(rf"(https?://)?(?<![\w.-]){host}(:\d+)?(?![\w.-])", repr(name), str(error))
        error.args = (f"{place}: {said}", *error.args[1:])
        error.add_note(place)
        failed[name] = error
        if len(failed) > spare:
            if len(failed) > 1:
                error.add_note(f"failed: {', '.join(failed)}; at most {spare} could be spared")
            raise
