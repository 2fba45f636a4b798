"""Bodies of later steps: what is asked before the first charge is as long to write as any rows will have them post."""

import math

import numpy as np
import pytest

from analyst_client.kinds.arrays import FloatArray
from analyst_client.kinds.gram.two_steps import BITS
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement import questions
from analyst_client.refinement.practice import longest_body
from analyst_client.refinement.requests import LEAST, inverse_root
from analyst_client.refinement.robust import _DIGITS


def body(theta: FloatArray, P: FloatArray, norm: float, bits: int) -> ScoreRequest:
    names = ["(constant)", *(f"x{i}" for i in range(len(theta) - 1))]
    return ScoreRequest(
        names[1:],
        "y",
        coefficients=dict(zip(names, theta.tolist(), strict=True)),
        directions=dict(zip(names, P.tolist(), strict=True)),
        norm=norm,
        bits=bits,
        statistics=("meat",),
        mu=0.123456789012,
    )


def whitening(d: int, law: str, generator: np.random.Generator) -> FloatArray:
    rank = {"unrelated": 0, "in groups": 5, "hardly told": d // 2}[law]
    beside = generator.normal(size=(d, max(rank, 1))) / math.sqrt(max(rank, 1))
    least = {"unrelated": 1.0, "in groups": 0.02, "hardly told": LEAST}[law]
    eigenvalues, Q = np.linalg.eigh(least * np.eye(d) + (beside @ beside.T if rank else 0.0))
    return inverse_root(np.maximum(eigenvalues, LEAST), Q)


@pytest.mark.parametrize("law", ["unrelated", "in groups", "hardly told"])
@pytest.mark.parametrize("d", [11, 61, 101])
def test_no_rows_have_a_longer_body_than_was_asked_before(d: int, law: str) -> None:
    generator = np.random.default_rng(d)
    for sd in (0.02, 1.0):
        theta, P, norm = generator.normal(size=d), whitening(d, law, generator), sd * math.sqrt(d) * 1.2345678901
        asked = len(body(np.full(d, _DIGITS), np.full((d, d), _DIGITS), 1.0, BITS).to_json())
        assert len(body(theta, P, norm, BITS).to_json()) <= asked
        made_up = body(np.full(d, 0.01), np.eye(d), norm, questions.BITS)
        assert len(body(theta, P, norm, questions.BITS).to_json()) <= longest_body(made_up)


def test_numbers_that_are_no_whole_ones_stay_as_they_are() -> None:
    request = body(np.zeros(3), np.eye(3), 1.0, 4)
    assert b'"mu":0.123456789012' in request.to_json()
    whole = request.to_json().decode().count("0,") + request.to_json().decode().count("0]")
    assert whole >= 6
    assert longest_body(request) < len(request.to_json()) + 9 * 9 + 60
