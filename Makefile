# `make demo` and `make test` need nothing but a python3 >= 3.11 with pip: each sets up .venv first.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
READY_BENCH := $(VENV)/.ready-bench
WORKERS ?= 2
PYTEST_ARGS ?=

# Pyright's wrapper announces new versions on stderr; the version here is the one in .venv.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test soak lint types imports bench format clean

help:
	@echo "make demo     fulfil 830 real orders, once in turn, once by 4 processes, once under kill -9"
	@echo "make test     run the tests (PYTEST_ARGS='-k retry' to choose)"
	@echo "make soak     run the full dose of the slow tests"
	@echo "make lint     ruff: rules and format"
	@echo "make types    mypy --strict and pyright"
	@echo "make imports  the directions of import between the layers"
	@echo "make bench    the benchmarks, beside DBOS, Celery and bare SQLite commits"
	@echo "make format   let ruff format and fix what it can"
	@echo "make clean    remove .venv and every cache"

$(READY): pyproject.toml
	@command -v bash >/dev/null || { echo "set-up needs bash" >&2; exit 1; }
	@bash .ci/setup $(VENV) dev
	@touch $@

$(READY_BENCH): $(READY)
	@bash .ci/setup $(VENV) dev,bench
	@touch $@

demo: $(READY)
	@$(PYTHON) -m demo

test: $(READY)
	@$(PYTHON) -m pytest -n $(WORKERS) $(PYTEST_ARGS)

soak: $(READY)
	@HYPOTHESIS_PROFILE=soak $(PYTHON) -m pytest -m slow --timeout 1800 -n $(WORKERS) $(PYTEST_ARGS)

lint: $(READY)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

types: $(READY)
	@$(VENV)/bin/mypy
	@$(VENV)/bin/pyright

imports: $(READY)
	@$(VENV)/bin/lint-imports --no-logo

bench: $(READY_BENCH)
	@$(PYTHON) -m benchmarks.import_cost
	@$(PYTHON) -m benchmarks.step_overhead
	@$(PYTHON) -m benchmarks.long_run
	@$(PYTHON) -m benchmarks.background
	@$(PYTHON) -m benchmarks.coordination

format: $(READY)
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
