"""The client of a curator: one method for each endpoint."""

import re
import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType
from urllib.parse import quote as quote_path

import httpx

from analyst_client._request import Rows, release_body
from analyst_client._transport import Transport
from analyst_client._wire import Fields, parse_json
from analyst_client.errors import CuratorError, ServiceError
from analyst_client.release import Release
from analyst_client.values import Budget, Dataset, Quote, ReleaseSummary

KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,128}")


class CuratorClient:
    """Ask a curator for datasets, prices, budgets and releases.

    Parameters
    ----------
    url : str
        Address of the curator. ``http://`` is refused for other hosts, as the token would travel in clear.
    token : str
        The analyst's token; it is shown nowhere.
    timeout_s : float
        Longest wait for an answer, in seconds.
    max_attempts : int
        How often one request is sent, at most. Each attempt of a charging request carries the same idempotency key,
        so it is charged once.
    transport : httpx.BaseTransport, optional
        What carries the requests, for tests.
    allow_http : bool
        Let the token travel in clear to another host.

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
        token: str,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 5,
        transport: httpx.BaseTransport | None = None,
        allow_http: bool = False,
    ) -> None:
        self._transport = Transport(
            url, token, timeout_s=timeout_s, max_attempts=max_attempts, transport=transport, allow_http=allow_http
        )

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
        """Close the connections."""
        self._transport.close()

    def datasets(self) -> tuple[Dataset, ...]:
        """List the datasets that this token may see."""
        return self._get("/v1/datasets").each("datasets", Dataset.read)

    def dataset(self, name: str) -> Dataset:
        """Return the public description of a dataset. Raise `DatasetNotFoundError` when it is not visible."""
        return Dataset.read(self._get(dataset_path(name)))

    def budget(self, name: str) -> Budget:
        """Return the budget of a dataset's population."""
        return Budget.read(self._get(dataset_path(name) + "/budget"))

    def quote(
        self,
        dataset: str,
        features: Sequence[str],
        *,
        target: str | None = None,
        targets: Sequence[str] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        intercept: bool = True,
        rows: Rows | None = None,
        norm: float | None = None,
        statistics: Sequence[str] | None = None,
        shares: Mapping[str, float] | None = None,
        mechanism: str | None = None,
        calibration: str | None = None,
        fresh: bool = False,
    ) -> Quote:
        """Return the price and the noise of a request, for free; the arguments are those of `release`."""
        body = release_body(
            features,
            target=target,
            targets=targets,
            epsilon=epsilon,
            delta=delta,
            mu=mu,
            rho=rho,
            intercept=intercept,
            rows=rows,
            norm=norm,
            statistics=statistics,
            shares=shares,
            mechanism=mechanism,
            calibration=calibration,
            fresh=fresh,
        )
        answer = self._transport.request("POST", dataset_path(dataset) + "/quotes", content=body)
        return Quote.read(read_body(answer))

    def release(
        self,
        dataset: str,
        features: Sequence[str],
        *,
        target: str | None = None,
        targets: Sequence[str] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        intercept: bool = True,
        rows: Rows | None = None,
        norm: float | None = None,
        statistics: Sequence[str] | None = None,
        shares: Mapping[str, float] | None = None,
        mechanism: str | None = None,
        calibration: str | None = None,
        fresh: bool = False,
        idempotency_key: str | None = None,
    ) -> Release:
        """Buy noisy sufficient statistics; a request that was answered before costs nothing.

        What is left out is not sent, and the curator fills in its defaults; `Release.request` shows them.

        Parameters
        ----------
        dataset : str
        features : sequence of str
            Columns that explain.
        target, targets : str or sequence of str, optional
            Columns to explain, one or several.
        epsilon, delta, mu, rho : float, optional
            The price: `epsilon` with `delta`, or `mu`, or `rho`; with Laplace noise also `epsilon` alone.
        intercept : bool
            Whether the terms hold a constant.
        rows : str or mapping, optional
            Row map: ``"box"``, ``"ball"``, ``"unit"``, ``"unit_xy"``, or an object as on the wire.
        norm : float, optional
            Radius of the ball, in scaled units.
        statistics : sequence of str, optional
            Of ``"xtx"``, ``"xty"``, ``"yty"``, ``"lambda_min"``.
        shares : mapping of str to float, optional
            Parts of the price for each statistic, which sum to 1.
        mechanism : str, optional
            ``"gaussian"`` or ``"laplace"``.
        calibration : str, optional
            ``"analytic"``; or a published formula: ``"classical"``, ``"wang2018"`` (Gaussian), ``"nieminen2017"``
            (Laplace).
        fresh : bool
            Draw new noise, and pay again, even if the same request was answered before.
        idempotency_key : str, optional
            Key of an earlier attempt whose answer was lost. Default a new random key.

        Returns
        -------
        Release

        Raises
        ------
        ValueError
            When the arguments contradict each other; nothing was sent.
        CuratorError
            See `analyst_client.errors`. Its `idempotency_key` is the key that was sent: the same call with it
            fetches an answer that was charged but lost.
        """
        key = secrets.token_urlsafe(24) if idempotency_key is None else idempotency_key
        if not KEY_PATTERN.fullmatch(key):
            raise ValueError("idempotency_key must have 1 to 128 characters of A-Z, a-z, 0-9, _ and -")
        body = release_body(
            features,
            target=target,
            targets=targets,
            epsilon=epsilon,
            delta=delta,
            mu=mu,
            rho=rho,
            intercept=intercept,
            rows=rows,
            norm=norm,
            statistics=statistics,
            shares=shares,
            mechanism=mechanism,
            calibration=calibration,
            fresh=fresh,
        )
        path = dataset_path(dataset) + "/releases"
        try:
            answer = self._transport.request("POST", path, content=body, idempotency_key=key)
            return read_release(answer)
        except CuratorError as error:
            error.idempotency_key = key
            raise

    def releases(self, dataset: str) -> tuple[ReleaseSummary, ...]:
        """List the stored releases of a dataset, every page; reading them is free."""
        found: list[ReleaseSummary] = []
        params: dict[str, str] = {}
        while True:
            page = self._get(dataset_path(dataset) + "/releases", params)
            found += page.each("releases", ReleaseSummary.read)
            after = page.optional("next", page.text)
            if after is None:
                return tuple(found)
            if params.get("after") == after:
                raise ServiceError("malformed answer: a page of releases names itself as the next")
            params = {"after": after}

    def fetch_release(self, release_id: str) -> Release:
        """Return a stored release by its id, byte for byte as it was published."""
        return read_release(self._transport.request("GET", f"/v1/releases/{path_segment(release_id)}"))

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> Fields:
        return read_body(self._transport.request("GET", path, params=params))


def dataset_path(name: str) -> str:
    """Return the path of a dataset."""
    return f"/v1/datasets/{path_segment(name)}"


def path_segment(name: str) -> str:
    """Return a name as one segment of a path, whatever it holds."""
    if name in {"", ".", ".."}:
        raise ValueError(f"{name!r} names nothing")
    return quote_path(name, safe="")


def read_text(answer: httpx.Response) -> str:
    """Return the exact text of an answer."""
    try:
        return answer.content.decode("utf-8")
    except UnicodeDecodeError:
        raise ServiceError("malformed answer: not text in UTF-8", status=answer.status_code) from None


def read_body(answer: httpx.Response) -> Fields:
    """Return the object of an answer."""
    return Fields(parse_json(read_text(answer)))


def read_release(answer: httpx.Response) -> Release:
    """Return the release of an answer."""
    return Release.from_text(read_text(answer), answer.headers.get("Curator-Answer"))
