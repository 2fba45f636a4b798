"""Duration of a refinement, from the first quote to the fit, beside one fit of the same rows by scikit-learn.

Rows are made up: 20 correlated numbers and a target, within bounds twice as wide as they are. A real server answers at
public times, which follow from the row capacity; the capacity is the number of rows here. Both are measured in turn in
one run.

    python -m bench.refinement [--rows 1000000] [--features 20] [--rounds 3]
"""

import argparse
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LinearRegression

from analyst_client import CuratorClient, EstimationWarning, RefinedRegression
from bench.serving import open_population, serve
from bench.uci import column_names, manifest
from curator_service.container import Curator
from curator_service.privacy.accountant import Price

MU = 0.2367
"""ε = 1 at δ = 10⁻⁶."""


def main() -> None:
    """Register, take turns, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    generator = np.random.default_rng(1)
    shared = generator.standard_normal((options.rows, 1))
    x = 0.5 * shared + generator.standard_normal((options.rows, options.features))
    y = x @ generator.normal(0.0, 0.2, options.features) + generator.standard_normal(options.rows)
    names = column_names(options.features + 1)

    def set_up(curator: Curator, folder: Path) -> None:
        open_population(curator, "uci", Price(mu=1000.0))
        (folder / "manifest.toml").write_text(manifest("rows", [(-10.0, 10.0)] * len(names), options.rows))
        columns = dict(zip(names, [*x.T, y], strict=True))
        pq.write_table(pa.table(columns), folder / "rows.parquet")
        curator.datasets.register(folder / "manifest.toml", folder / "rows.parquet", actor="bench")

    plans, fits, errors = [], [], []
    with (
        serve(set_up) as server,
        CuratorClient(f"http://127.0.0.1:{server.port}", server.analyst("rows"), memory=None) as client,
    ):
        for k in range(options.rounds):
            begin = time.perf_counter()
            plain = LinearRegression().fit(x, y)
            fits.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            found = client.refine("rows", names[:-1], target="y", mu=MU + 1e-6 * k)  # another price: nothing is stored
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EstimationWarning)
                fit = RefinedRegression().fit(found)
            plans.append(time.perf_counter() - begin)
            errors.append(float(np.max(np.abs(fit.coef_ - plain.coef_))))
    ratios = [plan / fit for plan, fit in zip(plans, fits, strict=True)]
    print(
        f"{options.rows:,} rows, {options.features} features: a refinement of {len(found.releases)} releases takes "
        f"{statistics.median(plans):.1f} s ({min(plans):.1f} to {max(plans):.1f}), scikit-learn's fit "
        f"{statistics.median(fits):.2f} s ({min(fits):.2f} to {max(fits):.2f}): {statistics.median(ratios):.1f} times. "
        f"Coefficients are at most {max(errors):.4f} apart."
    )


if __name__ == "__main__":
    main()
