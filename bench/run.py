"""Run benches; what each prints is written to `build/bench/NAME.md`, below its command, the date, commit and machine.

    python -m bench.run [NAME …] [--data DIR]

Without names: all of them, but for those that need sets of rows where there is no DIR. DIR holds the sets as in the
collection treforevans/uci_datasets.
"""

import argparse
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "bench"
SPEED = [
    "release",
    "connections",
    "crowding",
    "sampler",
    "gram",
    "scale",
    "ingest",
    "multipliers",
    "conversions",
    "timing",
    "looks",
    "selectivity",
    "cuts",
    "stopwatch",
    "ledger",
    "library",
    "pages",
]
ACCURACY = [
    "demo_fit",
    "coverage",
    "calibration",
    "prediction",
    "sites",
    "posterior",
    "planning",
    "sizes",
    "thresholds",
]
WITH_ROWS = {"bounds": "--data", "copies": "--uci", "figures": "--data", "logistic": "--data", "weights": "--data"}
"""The option for sets of rows of those that measure more with them."""
OF_ROWS = ("norms", "recipes", "row_maps", "uci")


def run(name: str, data: Path | None) -> int:
    """Run one bench and write what it prints; return its exit status."""
    arguments = ["-W", "ignore", "-m", f"bench.{name}"]
    if data is not None and (name in OF_ROWS or name in WITH_ROWS):
        arguments += [WITH_ROWS.get(name, "--data"), str(data)]
    described = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(described, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    machine = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    moment = datetime.now(UTC).isoformat(timespec="minutes")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with (OUTPUT / f"{name}.md").open("w", encoding="utf-8") as file:
        file.write(f"`python {' '.join(arguments)}`, {moment}, commit {commit.strip() or 'unknown'}, {machine}\n\n")
        process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            file.write(line)
    return process.wait()


def main() -> int:
    """Run what is asked for; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(description="run benches, and keep what they print")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    everything = [*SPEED, *ACCURACY, *WITH_ROWS, *(OF_ROWS if options.data else ())]
    failed = [name for name in options.names or everything if run(name, options.data) != 0]
    print("failed: " + ", ".join(failed) if failed else f"written: {OUTPUT}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
