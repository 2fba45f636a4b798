"""Every kind of request that changes the books, to be disturbed at its steps, and what each must have led to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from deployments import Caller, Deployment, ball, box, describe
from ledger_books import LedgerBooks
from patience import wait_for

STEPS_MAX = 200
AT_ONCE = ("before commit", "after commit", "within anchor")
POSTED = ("after commit", "before commit 2", "after commit 2")
WORKED = ("after commit", "after commit 2")
ASYNC = {"Prefer": "respond-async"}
RESERVATION = {"price": {"mu": 1.0}, "expires_in_s": 3600}
COUNTED = ("charge", "derive", "session", "answer")


@dataclass(frozen=True)
class PlannedRequest:
    """A request that is disturbed again and again, each time under another key.

    Attributes
    ----------
    path : str
    content : callable
        The body for the number of a try.
    kind : str
        Of the one entry that each key adds to the ledger, beside reservations of jobs; empty where it adds none.
    seams : tuple of str
        The steps of short tests.
    headers : dict of str to str
    before : str
        Of the one entry that was there before the first try; empty where there was none.
    """

    path: str
    content: Callable[[int], dict[str, Any]]
    kind: str
    seams: tuple[str, ...]
    headers: dict[str, str] = field(default_factory=dict)
    before: str = ""

    def key(self, i: int) -> str:
        """Return the i-th key: no other wish of the same analyst has it."""
        return f"{self.path.split('/')[3]}-{i}"

    def send(self, caller: Caller, i: int, order: Mapping[str, Any] | None = None) -> httpx.Response | None:
        """Send the i-th request once; None if no answer came."""
        try:
            return caller.post(self.path, self.content(i), self.key(i), order=order, headers=self.headers)
        except httpx.TransportError:
            return None

    def insist(self, caller: Caller, i: int) -> httpx.Response:
        """Send the i-th request until it is answered."""
        answer = caller.insist(self.path, self.content(i), self.key(i), headers=self.headers)
        assert answer.status_code in {200, 201}, describe(answer)
        return answer

    def settle(self, caller: Caller, i: int, received: httpx.Response | None, step: str) -> httpx.Response:
        """Ask again with the i-th key, twice, and check that whatever came under it are the same bytes."""
        answer = self.insist(caller, i)
        assert self.insist(caller, i).content == answer.content, step
        if received is not None and received.status_code in {200, 201}:
            assert received.content == answer.content, step
        return answer

    def check(self, books: LedgerBooks, tries: int, step: str) -> None:
        """Check that each key so far has what it should, once, and that no job holds anything."""
        for kind in COUNTED:
            assert len(books.of_kind(kind)) == (kind == self.before) + tries * (kind == self.kind), f"{kind}: {step}"
        still_open = [row[0] for row in books.reservations if row[3] == "open"]
        assert [name for name in still_open if name.startswith("job_")] == [], step
        if self.kind == "reserve":
            assert len(books.of_kind("reserve")) == tries, step
            assert len(still_open) == tries, step


def key_of(path: str) -> str:
    """Return the key of what must be there before a wish."""
    return f"{path.split('/')[3]}-before"


def box_release(path: str, caller: Caller) -> PlannedRequest:
    """Return what is charged and answered in one unit of work."""
    del caller
    return PlannedRequest(
        f"{path}/releases", lambda i: box(fresh=False, price={"mu": 0.01 + i * 1e-6}), "charge", AT_ONCE
    )


def ball_release(path: str, caller: Caller) -> PlannedRequest:
    """Return what is reserved, computed and posted while the caller waits."""
    del caller
    return PlannedRequest(
        f"{path}/releases", lambda i: ball(fresh=False, price={"mu": 0.01 + i * 1e-6}), "charge", POSTED
    )


def job(path: str, caller: Caller) -> PlannedRequest:
    """Return what is reserved, computed and posted by the workshop."""
    del caller
    return PlannedRequest(f"{path}/releases", lambda i: ball(price={"mu": 0.01 + i * 1e-6}), "charge", WORKED, ASYNC)


def stored_answer(path: str, caller: Caller) -> PlannedRequest:
    """Return what is answered from storage: only the key is tied."""
    stored = ball(fresh=False)
    assert caller.insist(f"{path}/releases", stored, key_of(path)).status_code == 201
    return PlannedRequest(f"{path}/releases", lambda _: stored, "", ("after commit",), before="charge")


def derived_answer(path: str, caller: Caller) -> PlannedRequest:
    """Return what is cut out of a stored answer: other columns each time, or what was cut out before would serve."""
    columns = ("age", "sex", "weight", "height", "smoker", "treated", "alive", "ward")
    source = box(fresh=False, features=list(columns), targets=[], statistics=["xtx"])
    assert caller.insist(f"{path}/releases", source, key_of(path)).status_code == 201

    def part(i: int) -> dict[str, Any]:
        chosen = [name for k, name in enumerate(columns) if (i + 1) >> k & 1]
        return box(fresh=False, features=chosen, targets=[], statistics=["xtx"], price={"mu": 0.002})

    return PlannedRequest(f"{path}/releases", part, "derive", ("after commit",), before="charge")


def reservation(path: str, caller: Caller) -> PlannedRequest:
    """Return what reserves an amount."""
    del caller
    return PlannedRequest(
        f"{path}/reservations",
        lambda i: {**RESERVATION, "price": {"mu": 0.01 + i * 1e-6}},
        "reserve",
        ("after commit",),
    )


def draw_from_reservation(path: str, caller: Caller) -> PlannedRequest:
    """Return what a reservation pays at once."""
    reservation_id = caller.insist(f"{path}/reservations", RESERVATION, key_of(path)).json()["id"]
    return PlannedRequest(f"{path}/releases", lambda _: box(reservation=reservation_id), "charge", ("before commit",))


def job_from_reservation(path: str, caller: Caller) -> PlannedRequest:
    """Return what a reservation pays, by a job."""
    reservation_id = caller.insist(f"{path}/reservations", RESERVATION, key_of(path)).json()["id"]
    return PlannedRequest(f"{path}/releases", lambda _: ball(reservation=reservation_id), "charge", WORKED[1:], ASYNC)


def session(**changes: Any) -> dict[str, Any]:
    """Return a request that opens a session."""
    return {"positives": 1000, "direction": "any", "price": {"epsilon": 0.01}, **changes}


def question(answer: int) -> dict[str, Any]:
    """Return a question whose answer is yes (1) or no (0), whatever the noise."""
    return {"threshold": 10**9, "direction": ("above", "below")[answer]}


def opened_session(path: str, caller: Caller) -> PlannedRequest:
    """Return what opens a session."""
    del caller
    return PlannedRequest(f"{path}/sessions", lambda i: session(price={"epsilon": 0.01 + i * 1e-6}), "session", AT_ONCE)


def asked_question(path: str, caller: Caller) -> PlannedRequest:
    """Return what a session answers: yes and no by turns."""
    opened = caller.insist(f"{path}/sessions", session(), key_of(path)).json()
    questions = f"/v1/sessions/{opened['id']}/questions"
    return PlannedRequest(questions, lambda i: question(i % 2), "answer", AT_ONCE, before="session")


WishMaker = Callable[[str, Caller], PlannedRequest]
WISHES: tuple[WishMaker, ...] = (
    box_release,
    ball_release,
    job,
    stored_answer,
    derived_answer,
    reservation,
    draw_from_reservation,
    job_from_reservation,
    opened_session,
    asked_question,
)


def read_steps(trace: Path) -> list[str]:
    """Return the steps that a request has passed."""
    return trace.read_text(encoding="utf-8").splitlines() if trace.is_file() else []


def wait_for_end(trace: Path) -> list[str]:
    """Wait until a request, and its job, is over; return the steps that it has passed."""
    wait_for(lambda: read_steps(trace)[-1:] == ["end"], "the request is over", 30)
    return read_steps(trace)


def disturb(
    town: Deployment,
    caller: Caller,
    wish: PlannedRequest,
    i: int,
    action: str,
    at: int | str | list[str],
    **details: Any,
) -> tuple[httpx.Response | None, str]:
    """Send the i-th request once, and let something happen at a step of it; return its answer and the step."""
    trace = town.trace()
    order = {"at": at, "action": action, "trace": str(trace), **details}
    received = wish.send(caller, i, order)
    struck = [line for line in wait_for_end(trace) if line.endswith(" struck")]
    return received, struck[-1] if struck else ""


def close_reservations(town: Deployment, caller: Caller, population: str) -> None:
    """Give every reservation back."""
    for name, _, _, state in town.look(population).reservations:
        if state == "open" and name.startswith("res_"):
            assert caller.delete(f"/v1/reservations/{name}").status_code == 200
