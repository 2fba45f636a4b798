"""The client of a curator: one method for each endpoint."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import httpx

from analyst_client.admin.listing import Listing
from analyst_client.errors import (
    CuratorError,
    RequestInvalidError,
    ReservationEndedError,
    ServiceError,
    TokenExpiryWarning,
    UselessRequestError,
)
from analyst_client.http.credentials import Credentials
from analyst_client.http.evidence import save_evidence
from analyst_client.http.problems import under_key
from analyst_client.http.purchasing import Purchasing
from analyst_client.http.session import Session, dataset_path, path_segment, read_text
from analyst_client.http.sign_in import find_place, sign_in
from analyst_client.http.transport import Transport
from analyst_client.kinds.base import Answered_co, Quoted_co, Request
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import (
    Asked,
    ReleaseOptions,
    ReleaseRequest,
    as_request,
    read_model,
    suggests_arguments,
    suggests_options_of,
)
from analyst_client.kinds.gram.two_steps import leaves_row_map, quote_steps
from analyst_client.kinds.registry import read_quote
from analyst_client.kinds.request import PricedRequest
from analyst_client.ledger.memory import Memory, MemoryPlace
from analyst_client.local.reports import Reports
from analyst_client.local.surveys import Survey
from analyst_client.planning.asking import check_price, price_for_half_widths
from analyst_client.schema.accounts import Budget, Reservation
from analyst_client.schema.administration import Held
from analyst_client.schema.answers import Answer
from analyst_client.schema.columns import Column
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.identity import Identity
from analyst_client.schema.jobs import Job
from analyst_client.schema.permits import Permit, Proposal, permit_body
from analyst_client.schema.quotes import AnyQuote, ReleaseSummary
from analyst_client.schema.requests import as_json, choose_key, price, reservation_body
from analyst_client.schema.sessions import OpenedSession, SessionTerms
from analyst_client.schema.wire import Fields, parse_json
from analyst_client.terms.expression import Expression
from analyst_client.terms.formulas import Model, ReadModel, as_declared, as_term, needs_declared
from analyst_client.terms.python import read_condition
from analyst_client.thresholds import ModelWatch, ThresholdSession, session_body

if TYPE_CHECKING:
    from analyst_client.estimators.base import Fit
    from analyst_client.fitting.question import FitOptions
    from analyst_client.planning.refining import RefinementQuote
    from analyst_client.refinement.background import RefinementJob
    from analyst_client.refinement.buying import RefinementOptions, Refining
    from analyst_client.refinement.refinement import Refinement
    from analyst_client.refinement.rules import RefinementRules


class CuratorClient:
    """Ask a curator for datasets, quotes, budgets and releases.

    What the curator signs of its ledger is checked and remembered: one that was wound back, or that shows another
    history than before, raises `LedgerForkedError`. Threads may share a client.

    Parameters
    ----------
    url : str
        Address of the curator. ``http://`` is refused for other hosts, as the token would travel in clear.
    token : str or Credentials
        The analyst's token; it is shown nowhere. `sign_in` makes a client without one.
    timeout_s : float
        Longest wait for an answer, in seconds.
    max_attempts : int
        Number of times that one request is sent, at most. Each attempt of a charging request carries the same
        idempotency key, so it is charged once.
    transport : httpx.BaseTransport, optional
        Carrier of the requests, for tests.
    allow_http : bool
        Let the token travel in clear to another host.
    memory : pathlib.Path, "default" or None
        File that remembers what was seen of the ledger; clients may share it. ``"default"`` is one for each curator
        in the user's state folder. None remembers for as long as this client lives. It never holds the token.
    key : str, optional
        The curator's public key in base64, or its id, learned by another way than this address; give the oldest whose
        releases are to be read, as later keys follow from it by endorsement. Without it the keys that are remembered
        are trusted, and if there are none, the first that is seen.

    Raises
    ------
    ValueError
        When an argument is wrong.
    LedgerMemoryError
        When the memory cannot be read.

    Examples
    --------
    >>> from analyst_client import CuratorClient
    >>> client = CuratorClient("http://127.0.0.1:8000", "a-token")
    >>> client
    CuratorClient('http://127.0.0.1:8000')
    >>> client.release("flchain", ["age"], target="kappa", epsilon=1.0)
    Traceback (most recent call last):
        ...
    ValueError: state delta beside epsilon, such as delta=1e-6; only mechanism='laplace' does without
    """

    def __init__(
        self,
        url: str,
        token: str | Credentials,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 5,
        transport: httpx.BaseTransport | None = None,
        allow_http: bool = False,
        memory: MemoryPlace = "default",
        key: str | None = None,
    ) -> None:
        self._transport = Transport(
            url, token, timeout_s=timeout_s, max_attempts=max_attempts, transport=transport, allow_http=allow_http
        )
        self._session = Session(self._transport, Memory(memory, str(self._transport.url)), key)
        self._purchasing = Purchasing(self._session)
        self._place = str(self._transport.url), transport and id(transport)
        self._judges = True

    @classmethod
    def sign_in(
        cls,
        url: str,
        *,
        provider: str | None = None,
        keep: bool = False,
        show: Callable[[str], None] | None = None,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        allow_http: bool = False,
        memory: MemoryPlace = "default",
        key: str | None = None,
    ) -> "CuratorClient":
        """Sign in at the identity provider of a curator, with a code that is typed in at any browser.

        Parameters
        ----------
        url : str
            Address of the curator, which says where one signs in.
        provider : str, optional
            Name or address of the provider, where there are several.
        keep : bool
            Keep what renews the sign-in in a file beside the memory, which its owner alone may read: the next
            `sign_in` needs no code then. Default it lives as long as this client.
        show : callable, optional
            Takes the text with address and code. Default it is written to standard error.
        timeout_s : float
            As for `CuratorClient`.
        transport : httpx.BaseTransport, optional
            As for `CuratorClient`; it carries what is asked of the provider, too.
        allow_http : bool
            As for `CuratorClient`.
        memory : pathlib.Path, "default" or None
            As for `CuratorClient`.
        key : str, optional
            As for `CuratorClient`.

        Returns
        -------
        CuratorClient
            It renews what it sends by itself, for as long as the provider lets it.

        Raises
        ------
        ValueError
            When an argument is wrong, or there is no such provider.
        AuthenticationError
            When nobody typed the code in, the provider refused, or its token is for another curator.
        CuratorError
            See `analyst_client.errors`.

        Examples
        --------
        >>> from analyst_client import CuratorClient
        >>> CuratorClient.sign_in("http://curator.hospital.example")
        Traceback (most recent call last):
            ...
        ValueError: http:// to curator.hospital.example would send the token in clear: use https://, or allow_http=True
        """
        credentials = sign_in(
            url,
            provider=provider,
            show=show,
            place=find_place(url, memory, allow_http) if keep else None,
            timeout_s=timeout_s,
            transport=transport,
            allow_http=allow_http,
        )
        return cls(
            url,
            credentials,
            timeout_s=timeout_s,
            transport=transport,
            allow_http=allow_http,
            memory=memory,
            key=key,
        )

    def whoami(self) -> Identity:
        """Return the caller's name and roles, and the time at which its token ends.

        A token that has less than 14 days left is warned of: `TokenExpiryWarning`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> client.whoami().name
        'anna'
        """
        identity = Identity.read(self._session.ask("GET", "/v1/me").body)
        if identity.ends_soon:
            days = max(0.0, identity.days_left())
            message = f"the token {identity.token} ends at {identity.expires_at}, in {days:.0f} days: rotate it"
            warnings.warn(TokenExpiryWarning(message), stacklevel=2)
        return identity

    def __repr__(self) -> str:
        """Show the address, never the token."""
        return f"CuratorClient({str(self._transport.url)!r})"

    def __enter__(self) -> "CuratorClient":
        """Return the client, to be closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> with recorded_client("methods") as client:  # closes it at the end of the block
        ...     listed = client.datasets()
        """
        self._transport.close()

    def datasets(self) -> tuple[Dataset, ...]:
        """List the datasets that this token may see.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> [dataset.name for dataset in client.datasets()]
        ['flchain']
        """
        listed = self._session.ask("GET", "/v1/datasets").body.each("datasets", Dataset.read)
        for dataset in listed:
            self._session.trust.note_population(dataset.name, dataset.population)
        return listed

    def dataset(self, name: str) -> Dataset:
        """Return the public description of a dataset. Raise `DatasetNotFoundError` when it is not visible.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> dataset = client.dataset("flchain")
        >>> [column.name for column in dataset.columns]
        ['age', 'sex', 'creatinine', 'lambda', 'kappa', 'mgus']
        """
        dataset = Dataset.read(self._session.ask("GET", dataset_path(name), dataset=name).body)
        self._session.trust.note_population(dataset.name, dataset.population)
        return dataset

    def budget(self, name: str) -> Budget:
        """Return the budget of a dataset's population, with the signed head of its ledger, checked.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> budget = client.budget("flchain")
        >>> budget.limit.epsilon, budget.share_spent
        (3.0, 0.0)
        """
        path = dataset_path(name) + "/budget"
        return self._session.accept_budget(self._session.ask("GET", path, dataset=name), name)

    @overload
    def quote(
        self, dataset: str, features: Asked, *, robust: bool = False, **options: Unpack[ReleaseOptions]
    ) -> Quote: ...

    @overload
    def quote(self, dataset: str, request: Request[Answer, Quoted_co], /) -> Quoted_co: ...

    @suggests_arguments
    def quote(
        self,
        dataset: str,
        features: Asked | Request[Any, Any],
        *,
        robust: bool = False,
        **options: Unpack[ReleaseOptions],
    ) -> AnyQuote:
        """Return the cost and the noise of a request, for free.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        features : sequence, str, Model or a request
            As for `release`.
        robust : bool
            As for `release`: the quote shows the step.
        **options
            As for `release`, of which they are the options that decide what is asked.

        Returns
        -------
        Quote, CountsQuote, MarginalsQuote or that of another kind
            Its columns, or tables, in the order that was asked. Its `useless` says why `release` would refuse it.

        Raises
        ------
        ValueError
            When the arguments contradict each other; nothing was sent.
        CuratorError
            See `analyst_client.errors`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> quote = client.quote("flchain", ["age", "sex", "creatinine"], target="kappa", epsilon=0.5, delta=1e-6)
        >>> quote.affordable, round(quote.cost.share_of_budget, 4)
        (True, 0.0367)
        """
        request, model = self._read(dataset, features, options)
        if robust:
            self._check_robust(features, request)
        in_steps = not isinstance(features, Request) and (robust or leaves_row_map(request))
        return self._judged(dataset, request, self._quote_call(dataset, request, model, in_steps, robust=robust))

    def _quote_call(
        self, dataset: str, request: Request[Any, Any], model: ReadModel | None, in_steps: bool, *, robust: bool
    ) -> AnyQuote:
        """Return the quote of all that a call asks for, in steps or in one."""
        quoted: AnyQuote = self._ask_quote(dataset, request, model)
        if not in_steps:
            return quoted
        return self._quote_steps(dataset, cast("ReleaseRequest", request), cast("Quote", quoted), robust=robust)

    def _quote_steps(self, dataset: str, request: ReleaseRequest, quoted: Quote, *, robust: bool) -> Quote:
        ask = partial(self._ask_quote, dataset, model=None)
        asked = request.in_one_order(self.dataset(dataset).columns)
        if not robust:
            return request.arrange_quote(quote_steps(ask, self.fetch_release, asked, asked.arrange_quote(quoted)))
        from analyst_client.refinement.robust import quote_robust  # noqa: PLC0415 -- the import of the client stays quick

        return request.arrange_quote(quote_robust(ask, self.fetch_release, asked, asked.arrange_quote(quoted)))

    @staticmethod
    def _check_robust(features: Asked | Request[Any, Any], request: Request[Any, Any], **refused: object) -> None:
        """Raise `ValueError` where robust standard errors cannot be bought: nothing is charged then."""
        from analyst_client.refinement.robust import check_robust  # noqa: PLC0415 -- as above

        if isinstance(features, Request) or not isinstance(request, ReleaseRequest):
            raise ValueError("robust=True goes with features or a formula: a whole request is one step")  # noqa: TRY004 -- one kind of error for arguments
        for name, value in refused.items():
            if value is not None:
                raise ValueError(f"robust=True is of several steps, each with its price: leave out {name}=")
        check_robust(request)

    def _ask_quote(self, dataset: str, request: Request[Any, Quoted_co], model: ReadModel | None) -> Quoted_co:
        with showing_places(model):
            answered = self._session.ask(
                "POST", dataset_path(dataset) + "/quotes", dataset=dataset, content=request.to_json()
            )
        return request.arrange_quote(read_quote(answered.body))

    def _judged(self, dataset: str, request: Request[Any, Any], quote: AnyQuote) -> AnyQuote:
        """Return a quote with what is certain of its request, where something would be charged."""
        stored = quote.stored_release is not None or quote.derivable_from is not None
        if not self._judges or (stored and not request.members.get("fresh", False)):
            return quote
        from analyst_client.planning.useless import find_certain  # noqa: PLC0415 -- the import of the client stays quick

        try:
            declared = self.dataset(dataset)
        except CuratorError:  # a quote is one without it
            return quote
        return replace(quote, **find_certain(request, quote, declared)._asdict())

    def _refuse_useless(self, dataset: str, request: Request[Any, Any], model: ReadModel | None) -> None:
        """Raise `UselessRequestError` where public numbers show that an answer would tell nothing."""
        if not self._judges:
            return
        try:
            quote = self._ask_quote(dataset, request, model)
        except CuratorError:  # the request itself is refused in these words, or finds what was charged before
            return
        useless = self._judged(dataset, request, quote).useless
        if useless:
            raise UselessRequestError(useless)

    def _price(
        self,
        dataset: str,
        asked: "Asked | Request[Any, Any]",
        half_width: Mapping[str, float],
        guess: Mapping[str, Any],
        options: ReleaseOptions,
    ) -> ReleaseOptions:
        """Find the price of a wanted accuracy, and say it."""
        if isinstance(asked, Request):
            raise ValueError("half_width goes with features or a formula")  # noqa: TRY004 -- one kind of error
        budget = self.budget(dataset)
        delta = options.get("delta")
        found = price_for_half_widths(
            partial(self.quote, dataset, asked),
            half_width,
            options,
            guess,
            epsilon=budget.limit.epsilon,
            delta=budget.delta if delta is None else delta,
        )
        sys.stderr.write(f"{found}\n")
        return cast("ReleaseOptions", found.options)

    def _read(
        self, dataset: str, asked: "Asked | Request[Any, Any]", options: Mapping[str, Any]
    ) -> "tuple[Request[Any, Any], ReadModel | None]":
        """Return the request that is meant; declarations are asked for where it takes them."""
        request, model = self._read_features(dataset, asked, options)
        if isinstance(request, PricedRequest):
            said = {"where": request.where, "weight": request.weight}
            rows: dict[str, Any] = {
                name: read_condition(one) if isinstance(one, str) else one
                for name, one in said.items()
                if one is not None
            }
            if needs_declared(list(rows.values())):
                declared = self._declared(dataset)
                settled: dict[str, Any] = {name: as_declared(one, declared) for name, one in rows.items()}
                request = replace(request, **settled)
        return request, model

    def _declared(self, dataset: str) -> dict[str, Column]:
        return {column.name: column for column in self.dataset(dataset).columns}

    def _read_features(
        self, dataset: str, asked: "Asked | Request[Any, Any]", options: Mapping[str, Any]
    ) -> "tuple[Request[Any, Any], ReadModel | None]":
        if isinstance(asked, Request):
            return as_request(asked, options), None
        if isinstance(asked, str | Model):
            return read_model(Model(asked) if isinstance(asked, str) else asked, self.dataset(dataset).columns, options)
        listed, named = tuple(asked), dict(options)
        said = [one for one in (*listed, named.get("target")) if isinstance(one, Expression)]
        if needs_declared(said) or any(one.operator == "in" for one in said):  # which a boolean at its label is
            declared = self._declared(dataset)
            listed = tuple(as_term(one, declared) if isinstance(one, Expression) else one for one in listed)
            if isinstance(named.get("target"), Expression):
                named["target"] = as_term(named["target"], declared)
        return as_request(listed, named), None

    @overload
    def release(
        self,
        dataset: str,
        features: Asked,
        *,
        idempotency_key: str | None = None,
        respond_async: bool = False,
        wait_s: float | None = None,
        half_width: Mapping[str, float] | None = None,
        guess: Mapping[str, Any] | None = None,
        max_epsilon: float | None = None,
        even_so: bool = False,
        robust: bool = False,
        **options: Unpack[ReleaseOptions],
    ) -> Release: ...

    @overload
    def release(
        self,
        dataset: str,
        request: Request[Answered_co, AnyQuote],
        /,
        *,
        idempotency_key: str | None = None,
        respond_async: bool = False,
        wait_s: float | None = None,
        even_so: bool = False,
    ) -> Answered_co: ...

    @suggests_arguments
    def release(
        self,
        dataset: str,
        features: Asked | Request[Any, Any],
        *,
        idempotency_key: str | None = None,
        respond_async: bool = False,
        wait_s: float | None = None,
        half_width: Mapping[str, float] | None = None,
        guess: Mapping[str, Any] | None = None,
        max_epsilon: float | None = None,
        even_so: bool = False,
        robust: bool = False,
        **options: Unpack[ReleaseOptions],
    ) -> Answer:
        """Ask for noisy sufficient statistics, or a release of another kind; what was answered before costs nothing.

        What is left out is not sent, and the curator fills in its defaults; `Release.request` shows them.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        features : sequence of str or Expression, str, Model, or a request
            Columns that explain, or what `analyst_client.terms` computes of them. Or a formula, such as
            ``"log(kappa + 1) ~ poly(age, 3) * sex"``, which needs the extra ``formula``. Or a request of any kind,
            such as `CountsRequest`, `MarginalsRequest` or `ScoreRequest`, which has its options within: it answers with
            a release of that kind.
        target, targets : str, Expression or a sequence of these, optional
            Columns to explain, one or several. A release for descriptions and correlations alone says ``target=None``.
        where : str or Expression, optional
            Condition on a row, such as ``"sex == 'F' and age >= 60"``; a row in which it is not true counts for
            nothing. Default all rows count.
        weight : str or Expression, optional
            A number with bounds in [0, 1] by which a row counts. Default 1.
        epsilon, delta, mu, rho : float, optional
            The cost to be charged: `epsilon` with `delta`, or `mu`, or `rho`; with Laplace noise also `epsilon` alone.
        intercept : bool
            Whether the terms hold a constant.
        rows : str, CombinedRows or mapping, optional
            Row map: ``"box"``, ``"ball"``, ``"unit"``, ``"unit_xy"``; combinations of terms; or a row map as on the
            wire. Default the ball or the box that a published rule chooses in two charged steps of one reservation: 2 %
            of the price buys noisy counts of rows by their length, the rest the release; `Release.steps` has the
            counts. What does not fit two steps, and a call with an `idempotency_key`, is one request, and its row map
            follows from public numbers.
        norm : float, optional
            Radius of the ball, in scaled units.
        expected_rows : int, optional
            Your guess of how many rows there are, from which a curator chooses the row map in one step where none is
            named: a small ball where noise is the larger error, a wide one or the box where sampling is.
        statistics : sequence of str, optional
            Of ``"xtx"``, ``"xty"``, ``"yty"``, ``"lambda_min"``.
        shares : mapping of str to float, optional
            Parts of the cost for each statistic, which sum to 1.
        mechanism : str, optional
            ``"gaussian"`` or ``"laplace"``.
        calibration : str, optional
            ``"analytic"``; or a published formula: ``"classical"``, ``"wang2018"`` (Gaussian), ``"nieminen2017"``
            (Laplace).
        fresh : bool
            Draw new noise, and be charged again, even if the same request was answered before.
        project : str, optional
            The project whose permit pays, where there are several.
        reservation : str, optional
            Id of the reservation that is charged.
        idempotency_key : str, optional
            Key of an earlier attempt whose answer was lost. Default a new random key. Of several steps the same call
            without it goes on where the last one ended.
        respond_async : bool
            Ask for a job wherever a pass over the rows is needed; it is waited for either way.
        wait_s : float, optional
            Longest wait for a job, in seconds. Default until it ends.
        half_width : mapping of str to float, optional
            In place of a price: how short the 95 % intervals of terms shall be, such as ``{"age": 0.01}``, in the
            target's unit per unit of the term. The smallest price at which that is expected is found, said on standard
            error, and charged; nothing is, where none would do.
        guess : mapping, optional
            Beside `half_width`: what you expect of the rows, as `Assumptions.of` takes it, ``{"rows": 5000}`` at least.
            Where nothing is said of the target's spread, the widest is assumed.
        max_epsilon : float, optional
            The largest price, stated as ε, that may be charged; a higher one is refused before anything is.
        even_so : bool
            Ask although public numbers show that the answer would tell nothing; see `UselessRequestError`.
        robust : bool
            Buy robust standard errors of the one model that this call names, which hold where residuals are wider for
            some rows: 5 % of the price buys noisy Σ g gᵀ of its gradients, as one more charged step after the release.
            Where that would tell too little of so few rows, or privacy noise hides sampling errors, it is not bought,
            and its part is given back. Other models of the release keep errors of one residual variance. It takes one
            target, a constant, Gaussian noise and a price, and rows in a box or a ball; `Release.steps` has Σ g gᵀ.

        Returns
        -------
        Release, CountsRelease, MarginalsRelease, ScoreRelease or that of another kind
            Its columns, or tables, in the order that was asked.

        Raises
        ------
        ValueError
            When the arguments contradict each other, or the price is above `max_epsilon`; nothing was charged.
        UselessRequestError
            When public numbers show that the answer would tell nothing; nothing was charged.
        CuratorError
            See `analyst_client.errors`. Its `idempotency_key` is the key that was sent: the same call with it
            fetches an answer that was charged but lost. A `LedgerError` carries the release itself.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> release = client.release("flchain", ["age", "sex", "creatinine"], target="kappa", epsilon=0.5, delta=1e-6)
        >>> release.term_names
        ('(constant)', 'age', 'sex[M]', 'creatinine')

        Each model of these columns is fitted from it at no further cost:

        >>> from analyst_client import AdaSSP
        >>> AdaSSP().fit(release, features=["age", "creatinine"]).coef_.round(3).tolist()
        [0.016, 1.229]

        A request of another kind has its options within:

        >>> from analyst_client import Axis, CountsRequest
        >>> tables = [["sex", Axis("age", edges=[50, 60, 70, 100])]]
        >>> client.release("flchain", CountsRequest(tables, epsilon=0.5, delta=1e-6)).tables
        (<Table sex × age: 2 × 3 cells, sd 8.058>,)
        """
        key = choose_key(idempotency_key)
        if robust and half_width is not None:
            raise ValueError("robust=True goes with a price: half_width= finds that of a release without it")
        if half_width is not None:
            options = self._price(dataset, features, half_width, guess or {}, options)
        request, model = self._read(dataset, features, options)
        if robust:
            self._check_robust(features, request, idempotency_key=idempotency_key)
        whole = idempotency_key is not None or isinstance(features, Request)
        in_steps = not whole and (robust or leaves_row_map(request))
        if max_epsilon is not None:
            check_price(self._quote_call(dataset, request, model, in_steps, robust=robust), max_epsilon)
        if not even_so:
            self._refuse_useless(dataset, request, model)
        with showing_places(model):
            if in_steps:
                waiting = {"respond_async": respond_async, "wait_s": wait_s}
                return self._release_in_steps(dataset, cast("ReleaseRequest", request), waiting, robust=robust)
            return self._purchasing.buy(dataset, request, key, respond_async=respond_async, wait_s=wait_s)

    def _release_in_steps(
        self, dataset: str, request: ReleaseRequest, waiting: dict[str, Any], *, robust: bool
    ) -> Release:
        from analyst_client.refinement.release_steps import buy_in_steps  # noqa: PLC0415 -- the import stays quick

        quoted, declared = self._ask_quote(dataset, request, None), self.dataset(dataset)
        if robust:
            self._quote_steps(dataset, request, quoted, robust=True)  # which refuses what would fail after a step
        stated = price(request.epsilon, request.delta, request.mu, request.rho)
        buyer = copy(self)  # the request was judged: its steps are not, one by one
        buyer._judges = False
        seller = cast("Any", _Waiting(buyer, waiting))
        asked = request.in_one_order(declared.columns)
        bought = buy_in_steps(seller, declared, asked, asked.arrange_quote(quoted), stated, robust=robust)
        return request.arrange(bought)

    @suggests_arguments
    def submit_release(
        self,
        dataset: str,
        features: Asked | Request[Any, Any],
        *,
        idempotency_key: str | None = None,
        even_so: bool = False,
        robust: bool = False,
        **options: Unpack[ReleaseOptions],
    ) -> Job:
        """Ask for a release without waiting for it.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        features : sequence, str, Model or a request
            As for `release`.
        idempotency_key : str, optional
            As for `release`.
        even_so : bool
            As for `release`.
        robust : bool
            Refused: a job is one step. `release` takes it.
        **options
            As for `release`.

        Returns
        -------
        Job
            To be given to `wait`. It is done already where no pass over the rows was needed.

        Raises
        ------
        ValueError
            When the arguments contradict each other; nothing was sent.
        CuratorError
            As `release` raises it.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> options = {"where": "age >= 60", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
        >>> job = client.submit_release("flchain", ["age"], target="kappa", **options)
        >>> job.state
        'running'
        """
        if robust:
            raise ValueError("robust=True is of several steps, and a job is one: ask with release(…)")
        key = choose_key(idempotency_key)
        request, model = self._read(dataset, features, options)
        if not even_so:
            self._refuse_useless(dataset, request, model)
        with showing_places(model):
            return self._purchasing.submit(dataset, request, key)

    def jobs(self) -> Listing[Held]:
        """List your jobs that wait or run, the oldest first, with what each holds; `job` tells more of one.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> [held.dataset for held in client.jobs()]
        ['flchain']
        """
        return Listing("Jobs", self._session.ask("GET", "/v1/jobs").body.each("jobs", Held.read))

    def job(self, job: Job | Held | str) -> Job:
        """Return a job as it is now; a job is given as itself or by its id.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> waiting = client.jobs()[0]
        >>> client.job(waiting).state
        'running'
        """
        return self._purchasing.refresh(job)[0]

    def wait(self, job: Job | Held | str, *, wait_s: float | None = None) -> Answer:
        """Wait for a job, and return its release, of whatever kind.

        Parameters
        ----------
        job : Job, Held or str
            The job, a line of `jobs`, or its id.
        wait_s : float, optional
            Longest wait, in seconds. Default until it ends.

        Returns
        -------
        Release, CountsRelease, MarginalsRelease, ScoreRelease or that of another kind
            Its columns, or tables, in the order that was asked.

        Raises
        ------
        JobRunningError
            When it goes on after that time; it may be waited for again.
        JobVoidedError
            When it ended without a release: nothing was charged.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> options = {"where": "age >= 60", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
        >>> job = client.submit_release("flchain", ["age"], target="kappa", **options)
        >>> client.wait(job).term_names
        ('(constant)', 'age')
        """
        return self._purchasing.wait(job, wait_s)

    def cancel(self, job: Job | Held | str) -> Job:
        """Cancel a job, so that it is not charged. Raise `JobEndedError` when it was charged or had ended.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> options = {"where": "age >= 70", "rows": "box", "epsilon": 0.1, "delta": 1e-6}
        >>> job = client.submit_release("flchain", ["age"], target="kappa", **options)
        >>> client.cancel(job).state
        'cancelled'
        """
        return self._purchasing.cancel(job)

    @suggests_arguments
    def reserve(
        self,
        dataset: str,
        *,
        expires_in_s: int,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> Reservation:
        """Hold a part of the budget for a study; releases with ``reservation=`` are charged to it.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        expires_in_s : int
            Seconds after which the rest goes back to the budget.
        epsilon, delta, mu, rho : float, optional
            The amount, stated as for a release.
        project : str, optional
            Label under which it is counted.
        idempotency_key : str, optional
            Key of an earlier attempt whose answer was lost. Default a new random key.

        Returns
        -------
        Reservation
            Open, with its `id`.

        Raises
        ------
        ValueError
            When the arguments contradict each other; nothing was sent.
        CuratorError
            See `analyst_client.errors`. Its `idempotency_key` is the key that was sent.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> held = client.reserve("flchain", epsilon=0.2, delta=1e-6, expires_in_s=3600)
        >>> held.state, round(held.remaining.epsilon, 3)
        ('open', 0.2)
        """
        key = choose_key(idempotency_key)
        body = reservation_body(epsilon, delta, mu, rho, expires_in_s=expires_in_s, project=project)
        path = dataset_path(dataset) + "/reservations"
        with under_key(key):
            answered = self._session.ask("POST", path, dataset=dataset, content=body, idempotency_key=key)
            return self._session.accept_reservation(answered)

    def threshold_terms(
        self, dataset: str, *, positives: int, epsilon: float, direction: str = "above"
    ) -> SessionTerms:
        """Return noise and price of a threshold session, free.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        positives : int
            Questions answered yes after which the session ends.
        epsilon : float
            Pure ε of the whole session.
        direction : {"above", "below", "any"}
            Direction of its questions; see `threshold_session`.

        Returns
        -------
        SessionTerms
            Its `accuracy` says how far from its threshold a number must be.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> terms = client.threshold_terms("flchain", positives=1, epsilon=0.2)
        >>> round(terms.accuracy(questions=10))  # rows by which a number must be off its threshold
        56
        """
        path, body = dataset_path(dataset) + "/sessions/quotes", session_body(positives, direction, epsilon, None)
        return SessionTerms.read(self._session.ask("POST", path, dataset=dataset, content=body).body)

    def threshold_session(
        self,
        dataset: str,
        *,
        positives: int,
        epsilon: float,
        direction: str = "above",
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> ThresholdSession:
        """Open a session for many yes-or-no questions; its whole price is charged now.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        positives : int
            Questions answered yes after which the session ends. Questions answered no cost nothing. Of an account that
            is not ``pure``, c sessions of one at ε/√c, one after another, cost the same and have less noise.
        epsilon : float
            Pure ε of the whole session.
        direction : {"above", "below", "any"}
            Direction of every question: a number is at least its threshold, or at most. Under ``"any"`` each question
            has its own, and may be one of a share; its noise is twice as large.
        project : str, optional
            Label under which it is charged.
        idempotency_key : str, optional
            Key of an earlier attempt whose answer was lost. Default a new random key.

        Returns
        -------
        ThresholdSession
            A context manager: at its end the session is closed.

        Raises
        ------
        CuratorError
            See `analyst_client.errors`. Its `idempotency_key` is the key that was sent.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> with client.threshold_session("flchain", positives=1, epsilon=0.2) as session:
        ...     session.above(4000, where="creatinine > 2"), session.above(1000, where="age >= 60")
        (False, True)
        """
        key, path = choose_key(idempotency_key), dataset_path(dataset) + "/sessions"
        body = session_body(positives, direction, epsilon, project)
        with under_key(key):
            answered = self._session.ask("POST", path, dataset=dataset, content=body, idempotency_key=key)
            opened = OpenedSession.read(answered.body)
            stated = {
                "kind": "session",
                "population": opened.population,
                "session": opened.id,
                "dataset": dataset,
                "units": str(opened.cost.units),
            }
            self._session.accept_entry(opened.receipt, stated, answered.snapshot, dataset)
        return ThresholdSession(self._session, opened)

    def survey_reports(self, survey: str) -> Reports:
        """Return the reports that a survey has so far, to be estimated by `analyst_client.local`.

        Parameters
        ----------
        survey : str
            Its name.

        Returns
        -------
        Reports
            Read page after page; those that come meanwhile may be among them.

        Raises
        ------
        ReportInvalidError
            Where one is no report of the survey's question.
        ServiceError
            Where pages do not end.
        CuratorError
            See `analyst_client.errors`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> from analyst_client.local import estimate_shares
        >>> reports = client.survey_reports("smoking")
        >>> len(reports), [round(one.value, 2) for one in estimate_shares(reports)]
        (31, [0.88, 0.12])
        """
        path, after = f"/v1/surveys/{path_segment(survey)}", ""
        found: list[dict[str, Any]] = []
        question = Survey.read(self._session.ask("GET", path).body).question
        while True:
            page = self._session.ask("GET", f"{path}/reports", params={"after": after, "limit": "1000"}).body
            found += page.each("reports", lambda fields: fields.members)
            if not page.has("next"):
                return Reports.collect(question, found)
            if page.text("next") <= after:
                raise ServiceError("malformed answer: a page of reports names no later one as the next")
            after = page.text("next")

    def watch_model(
        self,
        name: str,
        dataset: str,
        questions: Mapping[str, str | Expression],
        threshold: float,
        *,
        epsilon: float,
        direction: str = "above",
        project: str | None = None,
    ) -> ModelWatch:
        """Return a watch that asks the same questions of each version of a dataset; nothing is charged yet.

        Parameters
        ----------
        name : str
            Name of the watch. One name has one list of questions and one price.
        dataset : str
            Name of the dataset.
        questions : mapping of str to str or Expression
            Conditions by name, fixed before the first answer; see `analyst_client.thresholds.missed`. Of each version
            they are asked in order, until at least `threshold` rows meet one.
        threshold : float
            In rows.
        epsilon : float
            Pure ε of the session that each version costs.
        direction : {"above", "any"}
            ``"any"`` where people are replaced.
        project : str, optional
            Label under which it is charged.

        Returns
        -------
        ModelWatch
            Its `price` states the cost of a number of versions, and its `run` watches the present version.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> questions = {"above the line": "kappa > 3 and age < 60", "creatinine": "creatinine > 2.5"}
        >>> watch = client.watch_model("kappa of 2026", "flchain", questions, threshold=2000, epsilon=0.1)
        >>> watch.price(12)
        '3.74% of the budget for each version (epsilon 0.1 alone), 44.91% for 12; 100.00% is left'
        >>> watch.run()[0].answers
        {'above the line': False, 'creatinine': False}
        """
        terms: dict[str, Any] = {"epsilon": epsilon, "direction": direction, "project": project}
        return ModelWatch(self, name, dataset, questions, threshold, **terms)

    def permits(self) -> tuple[Permit, ...]:
        """List the permits under which this token may have releases charged, the newest first.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> client.permits()[0].datasets
        ('flchain',)
        """
        return self._session.ask("GET", "/v1/permits").body.each("permits", Permit.read)

    def ask_permit(
        self,
        project: str,
        datasets: Sequence[str],
        *,
        people: Sequence[str],
        purpose: str,
        legal_basis: str,
        expires_at: str | datetime,
        reason: str,
        conditions: str | None = None,
        limit: Mapping[str, float] | None = None,
        rules: Mapping[str, Any] | None = None,
        permit: str | None = None,
        idempotency_key: str | None = None,
    ) -> Proposal:
        """Ask for a permit, or for other terms of one; somebody else decides.

        Parameters
        ----------
        project : str
            Name by which releases choose it.
        datasets, people : sequence of str
            Names of datasets, and of analysts who may spend.
        purpose, legal_basis : str
            Purpose of the project, and the legal basis of the processing.
        expires_at : str or datetime
            Moment from which on nothing is charged, such as ``"2027-12-31T23:59:59Z"``; a `datetime` has a time zone.
        reason : str
            Reason, for whoever decides; it is written into the ledger.
        conditions : str, optional
            Conditions, in words.
        limit : mapping of str to float, optional
            The part of each population's budget, such as ``{"epsilon": 1.0, "delta": 1e-6}``. Default all of it.
        rules : mapping, optional
            Rules for each release, such as ``{"kinds": [CountsRequest.kind]}`` where counts alone may be bought.
        permit : str, optional
            The permit that is to be changed, by its id.
        idempotency_key : str, optional
            The same for each time that this is asked; a new random one if none is given.

        Returns
        -------
        Proposal
            Open, until it is decided.

        Raises
        ------
        ValueError
            When an argument is wrong; nothing was sent.
        CuratorError
            See `analyst_client.errors`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> proposal = client.ask_permit(
        ...     "kidney",
        ...     ["flchain"],
        ...     people=["anna"],
        ...     purpose="Kidney function and free light chains",
        ...     legal_basis="Approved by the review board",
        ...     expires_at="2035-12-31T23:59:59Z",
        ...     limit={"epsilon": 1.0, "delta": 1e-6},
        ...     reason="The study begins in January",
        ... )
        >>> proposal.state
        'open'
        """
        texts: dict[str, str | datetime] = {"project": project, "purpose": purpose, "legal_basis": legal_basis}
        texts["expires_at"] = expires_at
        body = permit_body(people, datasets, reason=reason, limit=limit, rules=rules, conditions=conditions, **texts)
        path = "/v1/permits" if permit is None else f"/v1/permits/{path_segment(permit)}"
        key = choose_key(idempotency_key)
        answer = self._transport.request("POST", path, content=body, idempotency_key=key, charges=False)
        return Proposal.read(Fields(parse_json(read_text(answer))))

    def proposals(self) -> tuple[Proposal, ...]:
        """List the caller's proposals with their decisions and reasons, the waiting ones first.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> [proposal.state for proposal in client.proposals()]
        ['open']
        """
        return self._session.ask("GET", "/v1/proposals").body.each("proposals", Proposal.read)

    def proposal(self, proposal: Proposal | str) -> Proposal:
        """Return a proposal of the caller, with the terms in force now and the proposed terms.

        Parameters
        ----------
        proposal : Proposal or str
            Proposal, or its id.

        Returns
        -------
        Proposal
            As it stands now.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> listed = client.proposals()[0]
        >>> client.proposal(listed).reason
        'The study begins in January'
        """
        name = proposal.id if isinstance(proposal, Proposal) else proposal
        return Proposal.read(self._session.ask("GET", f"/v1/proposals/{path_segment(name)}").body)

    def answer(self, proposal: Proposal | str, text: str) -> Proposal:
        """Answer what was asked about a proposal of the caller that waits, or add something to it.

        The curator keeps it for ever, with the caller's name. An answer that was lost is given once: asked again, this
        is the same message.

        Parameters
        ----------
        proposal : Proposal or str
            Proposal, or its id.
        text : str
            At most 500 characters, without a word about patients.

        Returns
        -------
        Proposal
            With `messages`.

        Raises
        ------
        ProposalDecidedError
            If it waits no more.
        NotFoundError
            If it is none of the caller's.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> proposal = client.proposals()[0]
        >>> client.answer(proposal, "Two models of three years, as in the protocol").messages[-1].by
        'anna'
        """
        name = proposal.id if isinstance(proposal, Proposal) else proposal
        content, path, key = as_json({"text": text}), f"/v1/proposals/{path_segment(name)}/messages", choose_key(None)
        answer = self._transport.request("POST", path, content=content, idempotency_key=key, charges=False)
        return Proposal.read(Fields(parse_json(read_text(answer))))

    def withdraw(self, proposal: Proposal | str, reason: str = "") -> Proposal:
        """Take back what this token's holder has asked for, while nobody has decided it.

        Parameters
        ----------
        proposal : Proposal or str
            Proposal, or its id.
        reason : str
            Reason, for the register.

        Returns
        -------
        Proposal
            Withdrawn.

        Raises
        ------
        ConflictError
            When it was decided before.
        CuratorError
            See `analyst_client.errors`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> proposal = client.proposals()[0]
        >>> client.withdraw(proposal, "The study was put off").state
        'withdrawn'
        """
        name = proposal.id if isinstance(proposal, Proposal) else proposal
        content, path = as_json({"reason": reason}), f"/v1/proposals/{path_segment(name)}/withdraw"
        return Proposal.read(self._session.ask("POST", path, content=content).body)

    @suggests_arguments
    def fit(
        self,
        model: Asked,
        data: str,
        *,
        target: str | Expression | None = None,
        family: str | None = None,
        offset: str | Expression | None = None,
        where: str | Expression | None = None,
        weights: str | Expression | None = None,
        epsilon: "float | Literal['left'] | None" = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        half_width: Mapping[str, float] | None = None,
        guess: Mapping[str, Any] | None = None,
        max_epsilon: float | None = None,
        expected_rows: float | None = None,
        project: str | None = None,
        yes: bool = False,
        even_so: bool = False,
        progress: bool = True,
    ) -> "Fit":
        """Fit one model: choose how, show the price and what it should tell, buy after a yes, and fit.

        The choice is between a refinement, one release, and what is stored already, which costs nothing. It rests on
        public numbers and on terms, scales and prices of stored releases, never on a released number. The fit's
        `choice_` has it, with the explicit call that does the same.

        Parameters
        ----------
        model : str, Model, or sequence of str or Expression
            A formula, such as ``"visits ~ health + chronic"``, or features beside `target`; as for `release`.
        data : str
            Name of the dataset.
        target : str or Expression, optional
            A number or a boolean; a formula names it itself.
        family : str, optional
            ``"gaussian"``, ``"binomial"`` or ``"poisson"``. Default by the target: of a boolean binomial, of a number
            that is declared whole and begins at 0 poisson, of others gaussian.
        offset, where, weights : str or Expression, optional
            As `offset`, `where` and `weight` of `refine`.
        epsilon, delta, mu, rho : float, optional
            The whole price. δ is that of the population's account where it is not stated. ``epsilon="left"`` is all
            that the budget and the permit have left.
        half_width : mapping of str to float, optional
            In place of a price: how short half of the 95 % intervals of terms shall be, such as ``{"age": 0.01}``, in
            the target's unit per unit of the term, or on the scale of the link. The least price at which that is
            expected is found.
        guess : mapping, optional
            Beside `half_width`: what you expect of the rows, as `Assumptions.of` takes it.
        max_epsilon : float, optional
            The largest price, stated as ε, that may be charged.
        expected_rows : float, optional
            Your guess of how many rows there are, where that is not public. Default a quarter of the row capacity.
        project : str, optional
            Label under which the charges are counted.
        yes : bool
            Buy without asking. What costs nothing is never asked.
        even_so : bool
            As for `release`.
        progress : bool
            Show the choice, and the steps of a refinement, on standard error or below the cell of a notebook.

        Returns
        -------
        Fit
            Of the class that the family and the way have.

        Raises
        ------
        ValueError
            When the arguments contradict each other, no way leads to the fit, or the price is above `max_epsilon`;
            nothing was charged.
        NotConfirmedError
            When the answer is no, or nobody can be asked; nothing was charged.
        UselessRequestError
            When public numbers show that each way would tell nothing; nothing was charged.
        CuratorError
            See `analyst_client.errors`; the same call goes on where an interruption ended it.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(
        ...     ["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True, progress=False
        ... )
        >>> fit.coef_.round(3).tolist()
        [0.018, -0.073, 1.052]
        >>> fit.choice_.taken.name, round(fit.choice_.taken.cost.share_of_budget, 3)
        ('a refinement, 12 steps', 0.134)
        """
        from analyst_client.fitting.buying import fit_model  # noqa: PLC0415 -- the import of the client stays quick

        options: FitOptions = {"target": target, "family": family, "offset": offset, "where": where}
        options |= {"weights": weights, "expected_rows": expected_rows, "project": project}
        return fit_model(
            self,
            data,
            model,
            options,
            {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho},
            half_width=half_width,
            guess=guess or {},
            max_epsilon=max_epsilon,
            yes=yes,
            even_so=even_so,
            progress=progress,
        )

    @suggests_arguments
    def refine(
        self,
        dataset: str,
        features: Asked,
        *,
        target: str | Expression | None = None,
        family: str = "gaussian",
        offset: str | Expression | None = None,
        where: str | Expression | None = None,
        weight: str | Expression | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        expected_rows: float | None = None,
        project: str | None = None,
        reservation: str | None = None,
        rules: "RefinementRules | None" = None,
        even_so: bool = False,
        progress: bool = True,
    ) -> "Refinement":
        """Spend a price on one model, in releases that follow from each other: looks, XᵀX, and scores.

        It costs what one release of that price does, and tells much more of this model where bounds are wide, terms are
        many or rows few; of other models it tells less. Fit it with `RefinedRegression`; a logistic one with
        `LogisticRegression`, and a log-linear one of counts with `PoissonRegression`.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        features : sequence of str or Expression, str or Model
            As of `release`.
        target : str or Expression, optional
            A number; a formula names it itself.
        family : str
            Of the target, as statsmodels names it: ``"gaussian"``, a number by its mean; ``"binomial"``, a boolean by
            its log odds; ``"poisson"``, a count, by the logarithm of its mean: a number that the manifest declares
            `whole`, with bounds that are not negative.
        offset : str or Expression, optional
            Of counts: a number that is added to the logarithm of the mean, with the coefficient 1. For rates it is the
            logarithm of the exposure: ``"log(years)"``.
        where, weight : str or Expression, optional
            As of `release`.
        epsilon, delta, mu, rho : float, optional
            The whole price. A reservation holds it from the first step on that has to be paid, and what is not spent of
            it goes back.
        expected_rows : float, optional
            Your guess of how many rows there are, where that is not public. Default a quarter of the row capacity.
        project : str, optional
            Label under which the charges are counted.
        reservation : str, optional
            Id of a reservation of yours to draw on, which stays open. Default one of this call: the same call after an
            interruption finds it again, and goes on where that ended.
        rules : RefinementRules, optional
            Shares of the price. Default for intervals and predictions; `RefinementRules.for_predictions` is for
            predictions alone. `GeneralizedRules` where the family is not gaussian.
        even_so : bool
            As for `release`.
        progress : bool
            Show the step, what was spent and the time that is left, on standard error where that is a terminal, or
            below the cell of a notebook.

        Returns
        -------
        Refinement
            Its releases, in the order in which they were bought.

        Raises
        ------
        ValueError
            When the arguments contradict each other, or the target is none of the family; nothing was charged.
        UselessRequestError
            When public numbers show that no slope would be told; nothing was charged.
        CuratorError
            See `analyst_client.errors`. Where the same call would fail again the rest of the price was given back. An
            interruption or a lost answer, `KeyboardInterrupt` among them, keeps it for the same call. A note says it.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> refinement = client.refine("flchain", ["age", "sex", "creatinine"], target="kappa", epsilon=1.0, delta=1e-6)
        >>> len(refinement.releases)
        13
        >>> from analyst_client import RefinedRegression
        >>> RefinedRegression().fit(refinement).coef_.round(3).tolist()
        [0.018, -0.073, 1.052]
        """
        from analyst_client.refinement.progress import Progress  # noqa: PLC0415 -- the import of the client stays quick

        options: RefinementOptions = {"target": target, "family": family, "where": where, "weight": weight}
        options["offset"] = offset
        options |= {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho, "expected_rows": expected_rows}
        options |= {"project": project, "reservation": reservation, "rules": rules}
        refining = self._read_refinement(dataset, features, options)
        if not even_so:
            refining.refuse_useless()
        return refining.run(Progress(refining.problem.target.name, show=progress))

    @suggests_options_of(refine, "even_so", "progress")
    def quote_refinement(
        self, dataset: str, features: Asked, **options: "Unpack[RefinementOptions]"
    ) -> "RefinementQuote":
        """Return the steps of a refinement, how long they take, and how accurate it is expected to be, for free.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        features : sequence of str or Expression, str or Model
            As for `refine`.
        **options
            As for `refine`, of which they are the options that decide what is bought.

        Returns
        -------
        RefinementQuote
            Its accuracy is that on made-up rows.

        Raises
        ------
        ValueError
            When the arguments contradict each other, or the model is larger than a refinement can be: it says how large
            that is.
        CuratorError
            When the curator would refuse a step.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> features = ["age", "sex", "creatinine"]
        >>> quote = client.quote_refinement("flchain", features, target="kappa", epsilon=1.0, delta=1e-6)
        >>> quote.affordable
        True
        """
        from analyst_client.planning.refining import quote_refinement  # noqa: PLC0415 -- as `refine`

        return quote_refinement(self._read_refinement(dataset, features, options))

    @suggests_options_of(refine, "even_so", "progress")
    def submit_refinement(
        self, dataset: str, features: Asked, *, even_so: bool = False, **options: "Unpack[RefinementOptions]"
    ) -> "RefinementJob":
        """Refine in the background: a thread of this process buys one step after another.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        features : sequence of str or Expression, str or Model
            As for `refine`.
        even_so : bool
            As for `release`.
        **options
            As for `refine`, of which they are the options that decide what is bought.

        Returns
        -------
        RefinementJob
            With `result`, `done`, `progress` and `cancel`. Where the process ends before it, the same call goes on.

        Raises
        ------
        ValueError
            When the arguments contradict each other; nothing was charged.
        UselessRequestError
            When public numbers show that no slope would be told; nothing was charged.
        CuratorError
            When the curator refuses the quote. Later errors are those of `RefinementJob.result`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> features = ["age", "sex", "creatinine"]
        >>> job = client.submit_refinement("flchain", features, target="kappa", epsilon=1.0, delta=1e-6)
        >>> len(job.result().releases)
        13
        """
        from analyst_client.refinement.background import RefinementJob  # noqa: PLC0415 -- as `refine`

        refining = self._read_refinement(dataset, features, options)
        if not even_so:
            refining.refuse_useless()
        return RefinementJob(refining)

    def _read_refinement(self, dataset: str, features: Asked, options: "RefinementOptions") -> "Refining":
        """Read what is to be refined, and quote it."""
        from analyst_client.refinement.buying import Refining  # noqa: PLC0415 -- as `refine`

        asked: dict[str, Any] = dict(options)
        own = {name: asked.pop(name, None) for name in ("offset", "expected_rows", "project", "reservation", "rules")}
        if isinstance(own["offset"], str):
            own["offset"] = read_condition(own["offset"])
        family = asked.pop("family", "gaussian")
        stated = {name: value for name, value in asked.items() if value is not None} | {"rows": "box"}
        request, _ = self._read(dataset, features, stated)
        declared = self.dataset(dataset)
        buyer = copy(self)  # the requests of a plan are not judged one by one
        buyer._judges = False
        return Refining.read(cast("Any", buyer), declared, cast("ReleaseRequest", request), **own, family=family)

    def reservations(self) -> Listing[Held]:
        """List your reservations that are open, the oldest first; `close_reservation` gives one back.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> [held.dataset for held in client.reservations()]
        ['flchain']
        """
        listed = self._session.ask("GET", "/v1/reservations").body.each("reservations", Held.read)
        return Listing("Reservations", listed)

    def reservation(self, reservation_id: str) -> Reservation:
        """Return a reservation as it is now. Raise `ReservationNotFoundError` when there is none of this analyst.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> held = client.reservations()[0]
        >>> client.reservation(held.id).state
        'open'
        """
        return self._session.accept_reservation(self._session.ask("GET", reservation_path(reservation_id)))

    def close_reservation(self, reservation: Reservation | Held | str) -> Reservation:
        """Close a reservation, given as itself, as a line of `reservations` or by its id: the rest goes back.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> held = client.reservations()[0]
        >>> client.close_reservation(held).state
        'closed'
        """
        reservation_id = reservation if isinstance(reservation, str) else reservation.id
        try:
            return self._session.accept_reservation(self._session.ask("DELETE", reservation_path(reservation_id)))
        except ReservationEndedError:
            found = self.reservation(reservation_id)
            if found.state == "closed":  # by an attempt whose answer was lost
                return found
            raise

    def releases(self, dataset: str) -> tuple[ReleaseSummary, ...]:
        """List the stored releases of a dataset; reading them is free. Raise `ServiceError` when pages do not end.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> [(summary.kind, round(summary.cost.epsilon, 2)) for summary in client.releases("flchain")]
        [('score', 0.06), ('gram', 0.49)]
        """
        found: list[ReleaseSummary] = []
        params: dict[str, str] = {}
        while True:
            path = dataset_path(dataset) + "/releases"
            page = self._session.ask("GET", path, dataset=dataset, params=params).body
            found += page.each("releases", ReleaseSummary.read)
            after = page.optional("next", page.text)
            if after is None:
                return tuple(found)
            if params.get("after") == after:
                raise ServiceError("malformed answer: a page of releases names itself as the next")
            params = {"after": after}

    def fetch_release(self, release_id: str) -> Answer:
        """Return a stored release of any kind by its id, byte for byte as it was published, and checked.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> newest = client.releases("flchain")[-1]
        >>> client.fetch_release(newest.id).term_names
        ('(constant)', 'age', 'sex[M]', 'creatinine')
        """
        return self._session.fetch_release(release_id)

    def evidence(self, release_id: str, path: str | os.PathLike[str]) -> None:
        """Save what an officer, an output checker or a journal checks a release by, as a ZIP archive.

        It holds the receipt, the curator's public keys, and the answer where this token may read it: unpack it, and
        ``curator-verify`` checks them. Its page ``check.html`` says how.

        Parameters
        ----------
        release_id : str
            Id of the release.
        path : path-like
            File to write. Replaced if it exists; written whole or not at all.

        Raises
        ------
        ServiceError
            When something else than an archive was answered.
        CuratorError
            See `analyst_client.errors`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> import tempfile, zipfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "evidence.zip"
        ...     client.evidence(client.releases("flchain")[-1].id, path)
        ...     names = zipfile.ZipFile(path).namelist()
        >>> sorted(Path(name).name for name in names)[:5]
        ['SHA256SUMS', 'answer.json', 'check.html', 'dp-deployment.json', 'keys.json']
        """
        save_evidence(self._transport, f"/v1/releases/{path_segment(release_id)}", path)


class _Waiting:
    """A client whose releases are waited for as was asked."""

    def __init__(self, client: CuratorClient, waiting: dict[str, Any]) -> None:
        self.quote, self.reserve = client.quote, client.reserve
        self.reservation, self.close_reservation = client.reservation, client.close_reservation
        self.release = partial(client.release, **waiting)


@contextmanager
def showing_places(model: ReadModel | None) -> Iterator[None]:
    """Say of each fault of a request where in the formula it comes from."""
    try:
        yield
    except RequestInvalidError as error:
        places = [] if model is None else [model.locate(fault.pointer) for fault in error.errors]
        for place in filter(None, dict.fromkeys(places)):
            error.add_note(place)
        raise


def reservation_path(reservation_id: str) -> str:
    """Return the path of a reservation."""
    return f"/v1/reservations/{path_segment(reservation_id)}"
