"""The main job, end to end, on a real cohort.

A hospital starts a curator and registers the cohort; an analyst looks at the price, buys one release, and fits AdaSSP
at home; a request that costs too much is refused; the admin reads a ledger that verifies; one more model is fitted in
one call. Embedded SQLite, one real server process on loopback, nothing else.

    make demo
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import matplotlib as mpl
import numpy as np
from cohort import FEATURES, HERE, TARGET, clip, design_matrix, fit_without_privacy, load_split, r_squared
from rich.console import Console
from rich.table import Table

from analyst_client import AdaSSP, BudgetExceededError, CuratorClient, Release

mpl.use("Agg")
from matplotlib import pyplot as plt

OUTPUT = HERE / "output"
EPSILON, DELTA = 1.0, 1e-6
console = Console(width=100)


def step(number: int, text: str) -> None:
    """Print a heading."""
    console.print(f"\n[bold cyan]{number}. {text}[/bold cyan]")


class Hospital:
    """The operator's side: the `curator` command on one data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.environment = os.environ | {"CURATOR_DATA_DIR": str(data_dir), "COLUMNS": "100"}
        self.command = [sys.executable, "-m", "curator_service.cli.main"]

    def run(self, *arguments: str, quiet: bool = False) -> str:
        """Run one command of the operator and return what it printed."""
        if not quiet:
            shown = " ".join(Path(word).name if "/" in word else word for word in arguments)
            console.print(f"[dim]$ curator {shown}[/dim]", highlight=False)
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, check=True, text=True, stdout=subprocess.PIPE
        )
        return done.stdout

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Run the server on a free port of loopback; stop it at the end."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        log = (OUTPUT / "server.log").open("w")
        process = subprocess.Popen(
            [*self.command, "serve", "--port", str(port)], env=self.environment, stdout=log, stderr=log
        )
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_ready(url, process)
            console.print(f"[dim]$ curator serve --port {port}    (process {process.pid})[/dim]", highlight=False)
            yield url
        finally:
            process.terminate()
            process.wait(30)
            log.close()


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers, or say where its log is."""
    for _ in range(300):
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit(f"the server did not start; see {OUTPUT / 'server.log'}")


def show_budget(client: CuratorClient, when: str) -> None:
    """Print how much of the budget is gone: the account's own unit first."""
    budget = client.budget("flchain")
    console.print(
        f"Budget {when}: µ² = {2 * budget.posted.rho:.5f} of {2 * budget.limit.rho:.5f} spent "
        f"([bold]{budget.share_spent:.1%}[/bold]); as (ε, δ): {budget.posted.epsilon:.3g} of "
        f"{budget.limit.epsilon:.3g} at δ = {budget.limit.delta:g}; one more release of ε = "
        f"{budget.remaining.epsilon:.3g} would fit."
    )


def show_price(client: CuratorClient) -> None:
    """Print the price and the noise of the release before it is bought."""
    quote = client.quote("flchain", FEATURES, target=TARGET, epsilon=EPSILON, delta=DELTA)
    console.print(
        f"Quote, free: ε = {quote.cost.epsilon:.3g} at δ = {quote.cost.delta:g}, µ² = {2 * quote.cost.rho:.5f}, "
        f"[bold]{quote.cost.share_of_budget:.1%}[/bold] of the budget. Noise (standard deviation, in rows at the "
        f"bound): XᵀX {quote.noise.xtx_offdiagonal:.1f} beside the diagonal, Xᵀy {quote.noise.xty:.1f}."
    )


def show_fit(fit: AdaSSP, without_privacy: np.ndarray, scores: tuple[float, float]) -> None:
    """Print both fits side by side."""
    table = Table(title=f"{TARGET} (mg/dL), by AdaSSP on one release at ε = {EPSILON:g}, δ = {DELTA:g}")
    table.add_column("term")
    table.add_column("private", justify="right", style="green")
    table.add_column("without privacy (an analyst never sees this)", justify="right", style="dim")
    names = ["(constant)", *fit.term_names_]
    for name, private, exact in zip(names, [fit.intercept_, *fit.coef_], without_privacy, strict=True):
        table.add_row(name, f"{private:.4f}", f"{exact:.4f}")
    table.add_section()
    table.add_row("R² on held-out rows", f"[bold]{scores[0]:.3f}[/bold]", f"{scores[1]:.3f}")
    console.print(table)


def plot(fit: AdaSSP, without_privacy: np.ndarray, path: Path) -> None:
    """Save the coefficients, each times its term's half range, so that they compare."""
    scales = [25.0, 1.0, 1.5, 3.0]  # half ranges of the bounds; 1 for a category
    places = np.arange(len(scales))
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    axes.barh(places - 0.19, fit.coef_ * scales, 0.36, color="#2a7f62", label=f"private, ε = {EPSILON:g}")
    axes.barh(places + 0.19, without_privacy[1:] * scales, 0.36, color="#b9b9b9", label="without privacy")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(places, fit.term_names_)
    axes.invert_yaxis()
    axes.set_xlabel(f"change of {TARGET} (mg/dL) over half of the term's range (sex: M against F)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Run the demo."""
    start = time.perf_counter()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    split = load_split()
    split.write_registered(OUTPUT / "cohort.csv")
    hospital = Hospital(OUTPUT / "curator-data")

    step(1, "The hospital opens one budget for its people and registers the cohort")
    console.print(
        hospital.run(
            "populations", "create", "olmsted", "--adjacency", "add_remove", "--epsilon", "3", "--delta", "1e-6"
        ),
        end="",
    )
    console.print(hospital.run("datasets", "add", str(HERE / "manifest.toml"), str(OUTPUT / "cohort.csv")), end="")
    console.print(
        f"({len(split.held_out):,} of {len(split.held_out) + len(split.registered):,} rows are held out here.)"
    )
    hospital.run("tokens", "create", "ada", "--role", "privacy_officer", "--json")
    token = json.loads(hospital.run("tokens", "create", "anna", "--role", "analyst", "--json"))["token"]
    console.print(hospital.run("permits", "grant", "anna", "flchain"), end="")

    with hospital.serve() as url, CuratorClient(url, token, memory=None) as client:
        step(2, "The analyst looks before paying")
        show_budget(client, "before")
        show_price(client)

        step(3, "The analyst buys one release and fits at home")
        release = client.release("flchain", FEATURES, target=TARGET, epsilon=EPSILON, delta=DELTA)
        release.save(OUTPUT / "release.json")
        fit = AdaSSP().fit(Release.load(OUTPUT / "release.json"))
        held_out = split.table(split.held_out)
        truth, without_privacy = clip(held_out[:, -1], TARGET), fit_without_privacy(split.table(split.registered))
        scores = (
            r_squared(truth, fit.predict(held_out[:, :-1], clip=True)),
            r_squared(truth, design_matrix(held_out) @ without_privacy),
        )
        show_fit(fit, without_privacy, scores)
        plot(fit, without_privacy, OUTPUT / "coefficients.png")
        show_budget(client, "after")

        step(4, "A request that costs too much is refused, and says what would pass")
        try:
            client.release("flchain", FEATURES, target=TARGET, epsilon=5.0, delta=DELTA)
            raise SystemExit("a request beyond the budget was granted")
        except BudgetExceededError as refusal:
            console.print(f"[yellow]{refusal}[/yellow]")

        step(5, "The admin reads the ledger and verifies it")
        console.print(hospital.run("ledger", "show", "olmsted"), end="")
        console.print(hospital.run("ledger", "verify", "olmsted"), end="")

        step(6, "For one model there is one call, which chooses what to buy")
        console.print(
            '[dim]>>> client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0)[/dim]'
        )
        one = client.fit(FEATURES[:3], target=TARGET, data="flchain", epsilon=EPSILON, yes=True, progress=False)
        console.print(str(one.choice_), markup=False, highlight=False)
        console.print(str(one.summary()), markup=False, highlight=False)
    console.print(
        f"Saved under {OUTPUT.relative_to(Path.cwd()) if OUTPUT.is_relative_to(Path.cwd()) else OUTPUT}: release.json "
        f"(load it offline), coefficients.png. Done in {time.perf_counter() - start:.0f} s."
    )


if __name__ == "__main__":
    main()
