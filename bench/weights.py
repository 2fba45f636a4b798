"""How far row weights shrink sampling covariances on real sets, and what the client assumes of it.

Under the row map `ball` the score's sampling covariance is s²Σw⁴xxᵀ, and a release holds Σw²xxᵀ alone. For the default
norm, and bounds at each column's range ("fitted" to the middle 98 %), the table has the true standard errors of slopes
and of the constant over those that `Site.weight_shares` assumes, and what taking all weights for 1 would overstate the
median slope by. No noise is drawn. Prints Markdown.

    python -m bench.weights --data DIR

DIR holds NAME/data.csv.gz (last column: the response), as in the collection treforevans/uci_datasets.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analyst_client import Release
from analyst_client.inference.pooling import pool

Floats = npt.NDArray[np.float64]


def scaled(features: Floats, share: float) -> Floats:
    """Scale columns to [−1, 1] by their range, or by that of their middle; constant ones are left out."""
    lower, upper = np.quantile(features, [share, 1.0 - share], axis=0)
    varies = upper > lower
    lower, upper = lower[varies], upper[varies]
    return np.clip((2.0 * features[:, varies] - lower - upper) / (upper - lower), -1.0, 1.0)


def ratios(features: Floats) -> tuple[float, Floats, float] | None:
    """Return the mean weight, true over assumed standard errors, and the median slope's over the safe side's."""
    rows, d = features.shape
    norm = math.sqrt(1 + d / 10)
    design = np.column_stack([np.ones(rows), features])
    squares = np.minimum(1.0, norm**2 / np.sum(design**2, axis=1))
    A = (design * squares[:, None]).T @ design
    if np.linalg.cond(A) > 1e8:
        return None
    (equations,) = pool(Release.from_arrays((A + A.T) / 2, A[0], A[0, 0], norm=norm))
    inverse = np.linalg.inv(A)
    true = np.diag(inverse @ ((design * squares[:, None] ** 2).T @ design) @ inverse) / np.diag(inverse)
    found: Floats = np.sqrt(true / equations.sites[0].weight_shares)
    return float(squares.mean()), found, float(1.0 / np.sqrt(np.median(true[1:])))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    folders = sorted(path.parent for path in parser.parse_args().data.glob("*/data.csv.gz"))
    print("| set | bounds | mean w² | slopes: true / assumed | constant | with all weights 1 |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for folder in folders:
        data = np.loadtxt(folder / "data.csv.gz", delimiter=",")[:, :-1]
        for bounds, share in (("range", 0.0), ("fitted", 0.01)):
            found = ratios(scaled(data, share))
            if found is None:
                print(f"| {folder.name} | {bounds} | singular | | | |")
                continue
            mean, errors, safe = found
            slopes = f"{errors[1:].min():.2f} to {errors[1:].max():.2f}"
            print(f"| {folder.name} | {bounds} | {mean:.2f} | {slopes} | {errors[0]:.2f} | {safe:.2f} times |")


if __name__ == "__main__":
    main()
