"""The notebooks run offline as they stand, and show what is stored in them; they hold no trace of a machine."""

import base64
import importlib.util
import io
import json
import re
import shutil
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from analyst_client.tutorial import SESSIONS, Recorded

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
LARGEST_BYTES = 400_000


def load(name: str) -> ModuleType:
    """Import a module beside the notebooks, under a name that is nobody else's."""
    specification = importlib.util.spec_from_file_location(f"docs_notebooks_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


EXECUTE = load("execute")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param  # type: ignore[no-any-return]


def shown(outputs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what can be read: each kind of text, and that there is a picture."""
    found = []
    for output in outputs:
        if output["output_type"] == "stream":
            found.append(("printed", "".join(output["text"])))
            continue
        for kind, data in output["data"].items():
            found.append((kind, "" if kind == "image/png" else "".join(data)))
    return found


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "").replace("−", "-")) for number in NUMBER.findall(text)]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


def test_cells_show_what_is_stored(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("a notebook of the documentation works offline")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse)
    alone = tmp_path / path.name  # outside of the repository
    shutil.copy(path, alone)
    for cell, outputs in EXECUTE.run_notebook(alone):
        stored, found = shown(cell["outputs"]), shown(outputs)
        assert [kind for kind, _ in stored] == [kind for kind, _ in found], cell["id"]
        for (_, before), (_, after) in zip(stored, found, strict=True):
            assert NUMBER.sub("#", before) == NUMBER.sub("#", after), f"{cell['id']}: make notebooks"
            assert numbers(after) == pytest.approx(numbers(before), rel=2e-3, abs=1e-9), f"{cell['id']}: make notebooks"


def test_stored_cells_are_in_order_and_whole(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])


def test_a_notebook_is_small_and_says_nothing_of_the_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST_BYTES
    notebook = json.loads(text)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert all(set(cell["metadata"]) <= {"image"} for cell in notebook["cells"])
    written = [words for cell in notebook["cells"] for _, words in shown(cell.get("outputs", []))]
    assert not re.search(r"/(?:home|root|tmp|usr|opt|srv)/|localhost|127\.0\.0\.1", "".join(written))


def test_pictures_of_other_pages_are_those_of_the_notebook(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if "image" in cell["metadata"]:
            picture = (path.parent / cell["metadata"]["image"]).read_bytes()
            stored = [out["data"]["image/png"] for out in cell["outputs"] if "image/png" in out.get("data", {})]
            assert picture == base64.b64decode(stored[0])


def unpacked(answer: dict[str, Any]) -> list[str]:
    """Return the texts of an archive that was answered."""
    archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["base64"])))
    return [archive.read(name).decode("utf-8") for name in archive.namelist()]


@pytest.mark.parametrize("answers", [answers for answers, _ in SESSIONS.values()], ids=lambda answers: answers.stem)
def test_a_recording_holds_no_token_and_no_address(answers: Path) -> None:
    recorded = Recorded(answers).answers
    texts = [json.dumps(recorded), *(text for answer in recorded if "base64" in answer for text in unpacked(answer))]
    assert not re.search(r"(?i)bearer|authorization|idempotency|localhost|127\.0\.0\.1|/tmp/", "".join(texts))


def test_what_was_not_recorded_cannot_be_asked() -> None:
    with httpx.Client(transport=Recorded()) as client, pytest.raises(httpx.ConnectError, match="recorded"):
        client.get("https://curator.example/v1/datasets")


def test_answers_to_one_request_come_in_their_order_and_the_last_again() -> None:
    with httpx.Client(transport=Recorded()) as client:
        spent = [
            client.get("https://curator.example/v1/datasets/flchain/budget").json()["share_spent"] for _ in range(3)
        ]
    assert spent[0] == 0.0
    assert spent[1] == spent[2] > 0.0


def test_a_price_is_asked_before_it_is_paid(path: Path) -> None:
    """Whatever is bought was quoted in an earlier cell, at the same price; `client.fit` shows its price itself."""
    quoted: set[str] = set()
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
        bought = re.findall(r"client\.release\(.*?(epsilon=[\d.]+)", source)
        if "BudgetExceededError" not in source:  # which shows what is refused
            assert set(bought) <= quoted, cell["id"]
        quoted |= set(re.findall(r"client\.(?:quote|fit)\(.*?(epsilon=[\d.]+)", source))
    assert quoted
