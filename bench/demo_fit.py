"""The demo's fit over fresh releases: R² on held-out rows beside the non-private fit of the same rows.

Every release is bought from a real server on loopback (ε = 1, δ = 1e-6, the demo's request, ``fresh``). The same is
repeated with bounds of 0 to 30 mg/dL, which hold every value of the file: the story that docs/data.md tells.

    python -m bench.demo_fit [--releases 20]
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

from analyst_client import AdaSSP, CuratorClient
from bench.serving import open_population, serve
from curator_service.container import Curator
from curator_service.privacy.accountant import Price
from examples.flchain.cohort import (
    BOUNDS,
    FEATURES,
    HERE,
    TARGET,
    clip,
    design_matrix,
    fit_without_privacy,
    load_split,
    r_squared,
)


def set_up(curator: Curator, folder: Path, *, wide: bool) -> None:
    """Register the training rows, with the manifest's bounds or with wide ones."""
    manifest = (HERE / "manifest.toml").read_text(encoding="utf-8")
    if wide:
        manifest = manifest.replace("upper = 6", "upper = 30").replace("upper = 3\n", "upper = 30\n")
    (folder / "manifest.toml").write_text(manifest, encoding="utf-8")
    load_split().write_registered(folder / "cohort.csv")
    open_population(curator, "olmsted", Price(mu=100.0))
    curator.datasets.register(folder / "manifest.toml", folder / "cohort.csv", actor="bench")


def main() -> None:
    """Buy, fit, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=20)
    count = parser.parse_args().releases
    split = load_split()
    held_out = split.table(split.held_out)
    truth = clip(held_out[:, -1], TARGET)
    without = r_squared(truth, design_matrix(held_out) @ fit_without_privacy(split.table(split.registered)))
    print(f"bounds {BOUNDS}\nR² on {len(truth)} held-out rows without privacy: {without:.3f}")
    for wide in (False, True):
        scores = []
        with (
            serve(partial(set_up, wide=wide)) as server,
            CuratorClient(f"http://127.0.0.1:{server.port}", server.analyst("flchain"), memory=None) as client,
        ):
            for _ in range(count):
                release = client.release("flchain", FEATURES, target=TARGET, epsilon=1.0, delta=1e-6, fresh=True)
                scores.append(r_squared(truth, AdaSSP().fit(release).predict(held_out[:, :-1], clip=True)))
        name = "bounds of 0 to 30 mg/dL" if wide else "the manifest's bounds"
        print(
            f"AdaSSP at ε = 1 with {name}, {count} fresh releases: R² median {statistics.median(scores):.3f}, "
            f"worst {min(scores):.3f}, best {max(scores):.3f}; median below the non-private fit by "
            f"{without - statistics.median(scores):.3f}"
        )


if __name__ == "__main__":
    main()
