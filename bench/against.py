"""Server CPU of a quote, a release and a pass over rows, against those of another revision, interleaved.

    python -m bench.against REVISION [--pairs 15] [--requests 40]

One server of each revision runs at a time on one core, and both take turns. A pair is a round at each; its ratio is
this tree's seconds to the revision's. The table states the median ratio and an interval for it of at least 95 %, from
the order of the ratios alone. A revision against itself shows the noise.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve()
WORK = {"quote": ("quotes", "box"), "release": ("releases", "box"), "pass": ("releases", "ball")}
LEVEL = 0.95


def answer_rounds(requests: int) -> None:
    """Serve, and for each line of standard input do its work; print the CPU seconds of a request."""
    from bench.release import REQUEST, measure, set_up  # noqa: PLC0415 -- those of the revision that runs
    from bench.serving import post_release, serve  # noqa: PLC0415

    with serve(set_up) as server:
        token = server.analyst("flchain")
        for line in sys.stdin:
            to, row_map = WORK[line.strip()]
            request = REQUEST | {"rows": {"map": row_map}}
            count = requests if row_map == "box" else max(2, requests // 8)
            act = partial(post_release, dataset="flchain", token=token, request=request, to=to)
            used, _ = measure(server, act, count)
            print(json.dumps(used), flush=True)


class Side:
    """A server of one revision, which works a round when it is asked."""

    def __init__(self, tree: Path, requests: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(HERE), "--serve", str(requests), ""],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def work(self, what: str) -> float:
        """Return the CPU seconds of a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Return a folder with another revision of this repository."""
    git = ("git", "-C", str(HERE.parents[1]))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def median_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Bound a median by order statistics: the narrowest pair, as far from either end, of at least a level.

    The number of values below the median is binomial with probability 1/2 (Conover, Practical Nonparametric
    Statistics, 3.2). With fewer than six values no pair reaches 95 %, and the range is returned.
    """
    ordered, n = sorted(values), len(values)
    rank = 0
    while rank < n // 2 and 2 * sum(math.comb(n, i) for i in range(rank + 2)) / 2**n <= 1 - level:
        rank += 1
    return ordered[rank], ordered[n - 1 - rank]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        answer_rounds(options.serve)
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with checked_out(options.revision) as before, ExitStack() as stack:
        sides = [Side(tree, options.requests) for tree in (HERE.parents[1], before)]
        for side in sides:
            stack.callback(side.close)
            for what in WORK:
                side.work(what)  # warm
        print(f"{'':9}{'here':>12}{options.revision[:10]:>12}{'ratio':>8}{'interval':>16}")
        for what in WORK:
            pairs = [[side.work(what) for side in order(sides, i)][:: 1 - 2 * (i % 2)] for i in range(options.pairs)]
            ratios = [here / there for here, there in pairs]
            low, high = median_interval(ratios)
            here, there = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
            print(f"{what:9}{here:9.0f} µs{there:9.0f} µs{statistics.median(ratios):8.3f}{low:9.3f} to {high:.3f}")


def order(sides: list[Side], i: int) -> list[Side]:
    """Return the sides in the order of a round: the first one takes turns."""
    return sides[:: 1 - 2 * (i % 2)]


if __name__ == "__main__":
    main()
