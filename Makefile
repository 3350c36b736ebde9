# Every target sets itself up: a virtual environment in .venv, with the versions in constraints/. `make demo` installs what
# users need; the others install what developers need, Flower included.
# `make demo` begins again each time: it removes runs/demo/, which is its own folder, and nothing else. Keep what you like
# of it elsewhere.
# A machine without a GPU: see docs/installing.md (TORCH_INDEX chooses where the torch build comes from).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH_INDEX ?=
TESTS ?= --ignore tests/docs
# Each worker has half of the tests in their order, so that it shares what is computed once, and takes what the other leaves.
WORKERS := -n 2 --dist worksteal
export TACIT_DATA ?= $(abspath ../shared/data)
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test test-all check lint pages bench wheels docs format clean
.DEFAULT_GOAL := test

define environment
$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'tacit needs Python 3.11 or newer: make PYTHON=python3.11')"
test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
$(BIN)/pip install -q $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $$(grep '^torch==' constraints/all.txt)
endef

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml setup.py $(wildcard constraints/*.txt)
	$(environment)
	$(BIN)/pip install -q -c constraints/development.txt -c constraints/federated.txt -e '.[dev]'
	touch $@ $(VENV)/.user-ready

$(VENV)/.user-ready: pyproject.toml setup.py constraints/core.txt constraints/all.txt
	$(environment)
	$(BIN)/pip install -q -c constraints/all.txt -e '.[all,tsne]'
	touch $@

demo: $(VENV)/.user-ready
	rm -rf runs/demo
	$(BIN)/tacit demo --out runs/demo

test: setup
	$(BIN)/pytest $(WORKERS) $(TESTS)

test-all: setup
	$(BIN)/pytest $(WORKERS) --timeout 3600 -m "slow or not slow"

check: lint pages

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

pages: setup
	$(BIN)/pytest $(WORKERS) tests/docs

bench: setup
	$(BIN)/python -m benchmarks

wheels: setup
	$(BIN)/python tools/wheels.py

docs: setup
	$(BIN)/pip install -q -c constraints/development.txt -c constraints/federated.txt -e '.[docs]'
	$(BIN)/python tools/site.py
	$(BIN)/mkdocs build --strict -q

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
