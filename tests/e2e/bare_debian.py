"""A Debian of its own, as its installer leaves it, under a real systemd: what an operator's commands are tried in.

It takes root, mmdebstrap and util-linux. Its files lie in memory above a folder that stays as it is, and it sees no
network but its own loopback and no process but its own; with its first process all of it goes.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patience import scaled

PROGRAMS = ("mmdebstrap", "unshare", "nsenter", "pivot_root", "setpriv")
PACKAGES = "systemd,systemd-sysv,dbus,gpgv"
"""Beside what is essential, and apt."""
CGROUPS = Path("/sys/fs/cgroup/systemd")
_BOOT = r"""
set -e
work=$1 lower=$2 root=$1/root
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/scratch" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/scratch" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
for folder in run dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
mount -t tmpfs tmpfs "$root/tmp"
# Nodes of its own: it sets their owner and mode.
for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
  read -r name major minor <<<"$device"
  mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
touch "$root/dev/console"
mkdir "$root/srv/given"
mount --bind -o ro "$3" "$root/srv/given"
ip link set lo up
cd "$root"
mkdir old
pivot_root . old
umount -l /old
rmdir /old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"""


def missing() -> str:
    """Name the requirements that this machine lacks; empty if it lacks nothing."""
    if os.geteuid() != 0:
        return "root"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    return ", ".join([*lacking, *([] if CGROUPS.is_dir() else [f"{CGROUPS}, cgroups of systemd"])])


class BareDebian:
    """A machine that runs."""

    def __init__(self, init: int) -> None:
        self.init = init

    def run(self, script: str, *, outside_network: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a script of bash in it, as root; with the network of this machine, if that is asked for."""
        spaces = ["--mount", "--pid", "--uts", "--ipc", *([] if outside_network else ["--net"])]
        clean = [
            "env",
            "-i",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LANG=C.UTF-8",
        ]
        return subprocess.run(
            ["nsenter", "--target", str(self.init), *spaces, "--root", *clean, "bash", "-c", f"cd /\n{script}"],
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=scaled(300),
            check=False,
        )


def install(folder: Path) -> None:
    """Install what a bare Debian has."""
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=apt", f"--include={PACKAGES}", "bookworm", str(folder)],
        check=True,
        timeout=scaled(300),
    )


@contextmanager
def boot(folder: Path, work: Path, given: Path) -> Iterator[BareDebian]:
    """Start one.

    Parameters
    ----------
    folder : Path
        What was installed; it stays as it is.
    work : Path
        An empty folder.
    given : Path
        What it finds in /srv/given, to read.
    """
    group = CGROUPS / f"bare-debian-{os.getpid()}"
    group.mkdir()
    joined = ["bash", "-c", 'echo $$ > "$0/cgroup.procs"; exec setpriv --pdeathsig KILL unshare "$@"', str(group)]
    spaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]
    started = subprocess.Popen(
        [*joined, *spaces, "bash", "-c", _BOOT, "boot", str(work), str(folder), str(given)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        machine = BareDebian(_first_process(started))
        machine.run("systemctl is-system-running --wait")
        yield machine
    finally:
        for child in _children(started.pid):
            os.kill(child, signal.SIGKILL)
        started.kill()
        started.wait(scaled(30))
        _remove(group)


def _children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(one) for one in listed.read_text().split()] if listed.exists() else []


def _first_process(started: subprocess.Popen[bytes]) -> int:
    """Wait until systemd is the first process, and answers."""
    until = time.monotonic() + scaled(60)
    while time.monotonic() < until and started.poll() is None:
        for child in _children(started.pid):
            is_up = Path(f"/proc/{child}/comm").read_text().strip() == "systemd"
            if is_up and Path("/proc", str(child), "root", "run", "systemd", "private").exists():
                return child
        time.sleep(0.1)
    raise AssertionError(f"the machine did not start: {started.poll()}")


def _remove(group: Path) -> None:
    """Remove groups of processes that have all ended, the innermost first."""
    for folder, _, _ in os.walk(group, topdown=False):
        for _ in range(100):
            try:
                os.rmdir(folder)
                break
            except OSError:
                time.sleep(0.05)
