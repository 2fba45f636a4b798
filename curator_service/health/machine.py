"""Memory of the machine, or of the part of it that the service may use."""

import re
from pathlib import Path

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def measure_memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> int | None:
    """Return the share of the memory that is free, in tenths given as percent, rounded down; None where none is told.

    Not finer: reading a file of rows takes some, and nobody is to see here that rows came.
    """
    try:
        told = dict(re.findall(r"^(\w+): +(\d+) kB$", (proc / "meminfo").read_text(encoding="ascii"), re.MULTILINE))
        shares = [int(told["MemAvailable"]) / int(told["MemTotal"])]
    except (OSError, ValueError, KeyError, ZeroDivisionError):
        return None
    shares += _of_group(proc, cgroups)
    return int(10 * max(0.0, min(shares))) * 10


def _of_group(proc: Path, cgroups: Path) -> list[float]:
    """Return the free share of what a container or unit may use, if it is bounded."""
    try:
        own = re.search(r"^0::/(.*)$", (proc / "self/cgroup").read_text(encoding="utf-8"), re.MULTILINE)
        folder = cgroups / ("" if own is None else own[1])
        limit, used = (int((folder / name).read_text("ascii")) for name in ("memory.max", "memory.current"))
        stated = re.search(r"^inactive_file (\d+)$", (folder / "memory.stat").read_text("ascii"), re.MULTILINE)
        return [1 - (used - int(stated[1] if stated else 0)) / limit] if limit > 0 else []
    except (OSError, ValueError):  # of no bound, the file says "max"
        return []
