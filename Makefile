# Every target makes its own environment in .venv from requirements.lock; only python3 (3.10 or newer) and Java are needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help env test test-all check format demo soak fuzz long-run bench lock clean

help: ## Show this list.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

env: $(STAMP) ## Make or renew the environment in .venv.

# Only a change of the lock or of the project's metadata installs anything again.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "make: $(PYTHON) must be Python 3.10 or newer: set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "make: $(PYTHON) has no venv and pip: install the python3-venv package" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --doctest-modules --doctest-glob=README.md

test: env ## Run the tests that protect every change, and the examples in docstrings and README: minutes.
	$(PYTEST) -m "not slow" --hypothesis-profile=quick src tests README.md

test-all: env ## Run all tests, with many more examples of each property: the deep run.
	$(PYTEST) --hypothesis-profile=deep src tests README.md

check: env ## Lint, check the format, types and layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: env ## Format the code, and fix what the linter can.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: env ## Join a generated stream with a generated table, and check the result.
	$(BIN)/semistream demo

KILLS ?= 40
RUNS ?= 9
SEED ?= 1
OUT ?= docs/results/soak.json

soak: env ## Kill drivers, executors and Python workers at random moments, a thousand times, and compare: an hour or more.
	$(BIN)/python -m tests.runtime.spark.chaos --kills $(KILLS) --runs $(RUNS) --seed $(SEED) --jobs $(JOBS) --out $(OUT)

SECONDS ?= 3600
FUZZ_OUT ?=

fuzz: env ## Let joins read files and states that were changed at random, for SECONDS: an hour.
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(if $(FUZZ_OUT),--json $(FUZZ_OUT))

HOURS ?= 6
LONG_OUT ?=

long-run: env ## Join hours of stream in simulated time while the table changes; memory, open files and folders stay flat.
	$(BIN)/python -m tests.runtime.long_run --hours $(HOURS) --seed $(SEED) $(if $(LONG_OUT),--out $(LONG_OUT))

bench: env ## Run the micro-benchmark; result file and picture go to bench-data/results.
	$(BIN)/semistream bench micro --overwrite

lock: ## Write requirements.lock again, with the newest versions that fit.
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	echo 'setuptools>=77' | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 \
		--generate-hashes --extra dev --no-annotate --no-emit-index-url --no-emit-find-links \
		--custom-compile-command 'make lock' --output-file requirements.lock pyproject.toml -

clean: ## Remove the environment, caches and outputs.
	rm -rf $(VENV) build dist demo-output bench-data .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
