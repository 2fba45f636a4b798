"""Run the audit: the guessing game on every cell, then the mutants; write docs/audit.md when all of it passes.

    python -m audit.run             # writes the page
    python -m audit.run --check     # the same without writing
    python -m audit.run --cells "gaussian box, add_remove" --rounds 1000

The last form plays some cells alone, prints what it found as JSON, and exits with 1 if it found something. Mutants are
tried with it.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from audit.cells import CELLS
from audit.core import ROOT
from audit.digest import PAGE, code_digest
from audit.expressions import sweep
from audit.game import ROUNDS, Outcome, check_sharing, play
from audit.local import LOCAL, play_local
from audit.mutants import MUTANTS, SHARING
from audit.mutation import Baseline, try_mutants
from audit.plans import PLANS, play_plan
from audit.report import cell_line, mutant_line, render_page
from audit.sessions import SESSIONS, play_session
from audit.stopping import STOPPING, play_stopping

FOUND = 1
EXPRESSIONS = "expressions"
"""Random expressions on hostile rows, beside the cells: see `audit.expressions`."""
SHARING_CELL = "gaussian box, add_remove"
TABLE = (*CELLS, *PLANS, *STOPPING, *SESSIONS, *LOCAL)
NAMES = (EXPRESSIONS, SHARING, *PLANS, *SESSIONS, *STOPPING, *LOCAL, *CELLS)


def workers() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def examine(name: str, rounds: int = ROUNDS) -> Outcome:
    """Play a cell, or make the check of fresh noise and of a spent budget."""
    if name == EXPRESSIONS:
        found, _ = sweep()
        return Outcome(EXPRESSIONS, 0.0, 0.0, (), tuple(found[:5]))
    if name == SHARING:
        return Outcome(SHARING, 0.0, 0.0, (), check_sharing(CELLS[SHARING_CELL]))
    if name in PLANS:
        return play_plan(name, PLANS[name], rounds // 2)
    if name in STOPPING:
        return play_stopping(name, STOPPING[name], rounds // 4)
    if name in SESSIONS:
        return play_session(name, SESSIONS[name], rounds)
    if name in LOCAL:
        return play_local(name, LOCAL[name], rounds)
    return play(name, CELLS[name], rounds)


def examine_all(rounds: int) -> Iterator[Outcome]:
    """Yield every outcome as it comes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers(), mp_context=context) as pool:
        futures = [pool.submit(examine, name, rounds) for name in NAMES]
        for future in as_completed(futures):
            yield future.result()


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write no page")
    parser.add_argument("--cells", nargs="+", choices=NAMES, help="play these alone")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--everything", action="store_true", help="try tests also on mutants that a cell has caught")
    options = parser.parse_args()
    if options.cells:
        for name in options.cells:
            outcome = examine(name, options.rounds)
            if not outcome.passed:
                print(json.dumps({"name": outcome.name, "findings": outcome.findings}))
                return FOUND
        return 0
    return audit(rounds=options.rounds, write=not options.check, everything=options.everything)


def audit(*, rounds: int, write: bool, everything: bool) -> int:
    """Run all of it; return the exit status."""
    if "CURATOR_TEST_POSTGRES_URL" not in os.environ:
        sys.exit("Some tests that must turn red need PostgreSQL: set CURATOR_TEST_POSTGRES_URL (CONTRIBUTING.md).")
    digest, start = code_digest(), time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", flush=True)

    outcomes: dict[str, Outcome] = {}
    for outcome in examine_all(rounds):
        outcomes[outcome.name] = outcome
        say(cell_line(outcome))
    if not all(outcome.passed for outcome in outcomes.values()):
        say("FAILED: a cell found a breach of the guarantee")
        return 1
    baseline = Baseline()
    problems = baseline.check(workers(), everything=everything)
    if problems:
        say("FAILED: a red test proves nothing where it is red anyway\n" + "\n".join(problems))
        return 1
    say("the tests are green without a mutant")
    catches = []
    for catch in try_mutants(baseline, workers(), everything=everything):
        catches.append(catch)
        say(mutant_line(catch))
    catches.sort(key=lambda catch: MUTANTS.index(catch.mutant))
    if not all(catch.caught for catch in catches):
        say("FAILED: a mutant survived, or could not be tried")
        return 1
    if code_digest() != digest:
        say("FAILED: the audited code changed during the audit")
        return 1
    if write:
        (ROOT / PAGE).write_text(
            render_page([outcomes[name] for name in TABLE], catches, digest, rounds), encoding="utf-8"
        )
        say(f"written: {PAGE}")
    used = os.times()
    say(f"processor time: {used.user + used.system + used.children_user + used.children_system:.0f} s")
    say("the guarantee stands in every cell, and every mutant is caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
