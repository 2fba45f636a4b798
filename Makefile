# Two commands for a newcomer: `make demo` and `make test`. Both set up `.venv` themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SPARK := .venv-spark
CRATE := .venv-crate
PROJECTS := pyproject.toml analyst_client/pyproject.toml
QUIET := --quiet --disable-pip-version-check
export PYTHONHASHSEED ?= 0
# The exact Gram is bit-identical under any number of threads; one keeps timings and tests calm.
export OPENBLAS_NUM_THREADS = 1
# Of `make studies`: NAME/data.csv.gz of the collection treforevans/uci_datasets.
UCI ?= $(DATA)
WHEELHOUSE ?= build/wheelhouse
# Of `make fuzz`: how long it goes on at each of two databases, and where it begins.
FUZZ_SECONDS ?= 300
FUZZ_SEED ?= $(shell date +%s)
# Three workers share two cores: each waits for servers a third of its time, and longer for the same steps. A file of
# tests stays on one of them.
WORKERS ?= 3
export CURATOR_TEST_TIME_SCALE ?= 3
# Where it is set, each process that a test starts compiles every module anew.
export PYTHONDONTWRITEBYTECODE =
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help demo check test test-r test-spark lint types coverage races fuzz soak audit sweeps docs notebooks lock wheelhouse bench studies clean
.DEFAULT_GOAL := help

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# Both distributions, editable, on the packages of a lock file.
define install
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip install $(QUIET) --require-hashes -r locks/$(2).lock
	$(1)/bin/python -m pip install $(QUIET) --no-deps --no-build-isolation --editable . --editable analyst_client
endef

# What the tests and tools need; the demo runs on it, too.
$(VENV)/.installed: locks/dev.lock $(PROJECTS)
	$(call install,$(VENV),dev)
	@touch $@ $(VENV)/.demo

# What the demo needs, which is less.
$(VENV)/.demo: locks/demo.lock $(PROJECTS)
	$(call install,$(VENV),demo)
	@touch $@

demo: $(VENV)/.demo ## the main job on a real cohort: register, buy, fit, verify
	$(BIN)/python examples/flchain/demo.py

check: $(VENV)/.installed lint types ## lint, types, and every test that is not slow
	$(PYTEST) -m "not slow and not simulations and not crashes and not machines and not package"

test: $(VENV)/.installed $(CRATE)/.installed lint types ## lint, types and every test that is in no sweep
	$(PYTEST) -m "not simulations and not crashes and not machines and not package"

$(CRATE)/.installed: locks/crate.lock
	$(PYTHON) -m venv $(CRATE)
	$(CRATE)/bin/python -m pip install $(QUIET) --require-hashes -r locks/crate.lock
	@touch $@

$(SPARK)/.installed: locks/spark.lock $(PROJECTS)
	$(call install,$(SPARK),spark)
	@touch $@

test-spark: $(SPARK)/.installed ## the engine of Spark, on two cores: needs Java 17, and 450 MB of pyspark
	$(SPARK)/bin/python -m pytest tests/spark

# Of `make test-r`: where it writes, and the Python whose library R runs.
R_FOLDER ?= build/r
R_PYTHON ?= $(BIN)/python
# No reader's machine has all that is suggested, and a clock is asked for elsewhere.
R_CHECK = _R_CHECK_FORCE_SUGGESTS_=false _R_CHECK_SYSTEM_CLOCK_=0 _R_CHECK_FUTURE_FILE_TIMESTAMPS_=false

test-r: $(VENV)/.installed ## the R package: R CMD build and R CMD check; needs R, pandoc and packages (.ci/run names them)
	rm -rf $(R_FOLDER)/check && mkdir -p $(R_FOLDER)/check
	cd $(R_FOLDER)/check && CURATOR_PYTHON=$(abspath $(R_PYTHON)) R CMD build $(CURDIR)/r
	cd $(R_FOLDER)/check && CURATOR_PYTHON=$(abspath $(R_PYTHON)) $(R_CHECK) R CMD check --no-manual curator_*.tar.gz

coverage: $(VENV)/.installed ## lines that the unit tests execute
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/unit \
	  --cov=curator_service --cov=analyst_client --cov-report=term:skip-covered

races: $(VENV)/.installed ## kills, faults and races at every step, for two hours or so
	CURATOR_TEST_REQUESTS=100000 $(BIN)/python -m pytest tests/e2e/test_permit_races.py
	CURATOR_TEST_LONG=1 CURATOR_TEST_ROUNDS=20 $(BIN)/python -m pytest tests/e2e tests/integration/test_ledger_state_machine.py \
	  tests/integration/test_version_crashes.py tests/integration/test_every_column.py

fuzz: $(VENV)/.installed ## ten minutes of requests made from the OpenAPI document (FUZZ_SECONDS= for each database, FUZZ_SEED=)
	CURATOR_TEST_FUZZ_SECONDS=$(FUZZ_SECONDS) CURATOR_TEST_FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest -s tests/e2e/test_fuzzing.py

soak: $(VENV)/.installed ## ten minutes under load on each database: nothing may grow
	$(BIN)/python -m bench.soak

lint: $(VENV)/.installed ## ruff: rules and layout; numpydoc: docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/numpydoc lint $$(find analyst_client curator_service -name '*.py')

types: $(VENV)/.installed ## mypy, strict
	$(BIN)/mypy

audit: $(VENV)/.installed ## the guarantee from outside, and flaws on purpose; writes docs/audit.md (AUDIT=--check: does not)
	$(BIN)/python -m audit.run $(AUDIT)

sweeps: $(VENV)/.installed $(CRATE)/.installed ## tests that take minutes: simulations, crashes, machines; writes docs/sweeps.md (SWEEPS=NAME, or --check)
	$(BIN)/python tests/sweeps.py $(SWEEPS)

docs: $(VENV)/.installed ## the documentation as a site, in build/site; a broken link ends it
	$(BIN)/python docs/site/build.py

notebooks: $(VENV)/.installed ## run the documentation's notebooks, and store what they show
	for notebook in docs/notebooks/*.ipynb; do $(BIN)/python docs/notebooks/execute.py "$$notebook" || exit 1; done

LOCK = $(BIN)/uv pip compile --quiet --universal --no-strip-extras --generate-hashes --no-annotate --no-header --python-version 3.11
lock: $(VENV)/.installed ## write the lock files anew: names, versions, hashes, no addresses
	$(LOCK) --extra traces --extra docs --extra dev --extra plots --extra formula --extra truststore $(PROJECTS) -o locks/dev.lock
	$(LOCK) -c locks/dev.lock --extra plots $(PROJECTS) locks/build.in -o locks/demo.lock
	$(LOCK) -c locks/dev.lock pyproject.toml locks/build.in -o locks/server.lock
	$(LOCK) -c locks/dev.lock --extra formula analyst_client/pyproject.toml -o locks/client.lock
	$(LOCK) -c locks/dev.lock --all-extras $(PROJECTS) -o locks/spark.lock
	$(LOCK) locks/crate.in -o locks/crate.lock

wheelhouse: $(VENV)/.installed ## every wheel of server and client, a script that installs them offline, and deploy/
	rm -rf $(WHEELHOUSE)
	$(BIN)/python -m pip download $(QUIET) --require-hashes --only-binary :all: --requirement locks/server.lock --requirement locks/client.lock --dest $(WHEELHOUSE)
	$(BIN)/python -m hatchling build --target wheel --directory $(WHEELHOUSE)
	cd analyst_client && $(abspath $(BIN))/python -m hatchling build --target wheel --directory $(abspath $(WHEELHOUSE))
	cp -R locks/server.lock locks/client.lock deploy deploy/install-offline $(WHEELHOUSE)
	@du -sh $(WHEELHOUSE)

bench: $(VENV)/.installed ## the measurements of speed and accuracy, written to build/bench (DATA=DIR: of rows too; NAMES: some)
	$(BIN)/python -m bench.run $(NAMES) $(if $(DATA),--data $(DATA))

studies: $(VENV)/.installed ## published studies, measured again: DATA=DIR holds their rows, UCI=DIR the UCI sets if elsewhere
	$(BIN)/python -m studies.cps --data $(DATA)
	$(BIN)/python -m studies.wang --data $(UCI)
	$(BIN)/python -m studies.kalaja --data $(UCI)
	$(BIN)/python -m studies.nieminen
	$(BIN)/python -m studies.local_sgd
	$(BIN)/python -m studies.overview
	$(BIN)/python -m studies.refinement --data $(UCI)
	$(BIN)/python -m studies.which --data $(UCI)

clean: ## remove the environment and every cache
	rm -rf $(VENV) $(SPARK) $(CRATE) .mypy_cache .pytest_cache .ruff_cache .coverage build
