"""Run a notebook in plain Python and store what its cells show: no Jupyter, no traces of the machine.

``python docs/notebooks/execute.py docs/notebooks/first_fit.ipynb``
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

DPI = 95
Output = dict[str, Any]


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """Work in an empty folder, in a terminal of 80 columns: a notebook needs nothing but what is installed."""
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["COLUMNS"] = "80"
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("COLUMNS")
            if columns is not None:
                os.environ["COLUMNS"] = columns


def run_cell(source: str, names: dict[str, Any]) -> list[Output]:
    """Run one cell: what it prints, the value of its last expression (unless it ends in a semicolon), its figures."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": as_lines(printed.getvalue())})
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/plain": as_lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = as_lines(value._repr_html_())
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    for number in plt.get_fignums():
        image = io.BytesIO()
        figure = plt.figure(number)
        figure.savefig(image, format="png", dpi=DPI, metadata={"Software": None})
        data = {"image/png": base64.b64encode(image.getvalue()).decode(), "text/plain": ["<Figure>"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    return outputs


def run_notebook(path: Path) -> Iterator[tuple[dict[str, Any], list[Output]]]:
    """Run the code cells in their order, in one namespace; return each with what it shows."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    plt.close("all")  # what was drawn before is not the notebook's
    with elsewhere():
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                yield cell, run_cell("".join(cell["source"]), names)


def read_image(cell: dict[str, Any]) -> bytes:
    """Return the first image that a cell shows; its metadata may name a file of it, for other pages."""
    images = [output["data"]["image/png"] for output in cell["outputs"] if "image/png" in output.get("data", {})]
    return base64.b64decode(images[0])


def as_lines(text: str) -> list[str]:
    """Return text as notebooks store it: lines with their ends."""
    return text.splitlines(keepends=True)


def main(path: Path) -> None:
    """Store what the cells of a notebook show."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    shown = {cell["id"]: outputs for cell, outputs in run_notebook(path)}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            for output in shown[cell["id"]]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
            cell.update(execution_count=count, outputs=shown[cell["id"]])
            if "image" in cell["metadata"]:
                (path.parent / cell["metadata"]["image"]).write_bytes(read_image(cell))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
