"""What a process makes once, made here: whoever is forked from a process that has imported this finds it made.

Modules that are imported at their first use, routes, and tables of known sums are the same in every process. Each
server tests itself all the same.
"""

import importlib
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from curator_service import app
from curator_service.cli.main import Commands
from curator_service.datasets.engines.conformance import check_engine
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.kinds.registry import KINDS
from curator_service.privacy.selftest import run_self_test

for name in ("anyio._backends._asyncio", "encodings.idna", "uvicorn.lifespan.on", "uvloop"):
    importlib.import_module(name)
for name in Commands.places:
    Commands.load(name)
app._routes(tuple(app.SLICES))
run_self_test(KINDS.self_tests)
with TemporaryDirectory() as folder, closing(NumpyEngine(1)) as engine:
    check_engine(engine, KINDS.conformance, Path(folder))
