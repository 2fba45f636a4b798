"""The digest of simulated code: words leave it as it is, and code does not."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "simulations" / "simulate.py"
_SPEC = importlib.util.spec_from_file_location("simulate", FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
simulate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(simulate)

CODE = '"""Say one."""\n\n\ndef one(a: int = 1) -> str:\n    """Say it."""\n    return f"{a} one"\n'


@pytest.mark.parametrize(
    "changed",
    [
        CODE.replace("Say it.", "Say it again."),
        CODE.replace("Say one", "Say two"),
        CODE.replace('one"\n', 'one"  # said\n'),
        CODE.replace("\n\n\n", "\n\n"),
        CODE.replace('    """Say it."""\n', ""),
    ],
)
def test_words_make_no_simulation_due(changed: str) -> None:
    assert changed != CODE
    assert simulate.read_code(changed) == simulate.read_code(CODE)


@pytest.mark.parametrize(
    "changed",
    [
        CODE.replace("= 1", "= 2"),
        CODE.replace("} one", "} two"),
        CODE.replace("return", "yield"),
        CODE.replace('return f"{a} one"', 'return "a" f"{a} one"'),
        CODE + "\n\nTWO = 2\n",
    ],
)
def test_code_does(changed: str) -> None:
    assert simulate.read_code(changed) != simulate.read_code(CODE)


def test_the_digest_is_of_every_simulation_and_the_code_that_it_runs() -> None:
    files = {str(path.relative_to(simulate.ROOT)) for path in simulate.list_files()}
    assert {"tests/simulations/test_families.py", "analyst_client/inference/score.py", "bench/refined.py"} <= files
    assert "bench/ideal.py" in files  # by what others of bench import
    assert all((simulate.ROOT / name).exists() for name in simulate.CODE)
