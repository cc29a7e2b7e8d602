# Everything sets itself up in .venv, once, from a machine with nothing but Python >= 3.11.
.PHONY: setup run test test-all lint bench clean
.DEFAULT_GOAL := setup

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

setup: $(STAMP)

$(STAMP): pyproject.toml
	@found=; for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "theorykit needs Python >= 3.11, and none was found; try: make PYTHON=/path/to/python3.12 setup" >&2; exit 1; \
	fi; \
	echo "setting up .venv with $$found (once)"; \
	$$found -m venv .venv || { echo "$$found cannot make virtual environments; install its venv package" >&2; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[test,dev]'
	@touch $@

run: $(STAMP)
	@$(BIN)/python -m theorykit reproduce -o out

# make test THEORY=population leaves out what concerns other theories alone
PYTEST := $(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal $(if $(THEORY),--theory $(THEORY))

test: $(STAMP)
	@$(PYTEST) -m "not slow"

test-all: $(STAMP)
	@$(PYTEST)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP)
	@$(BIN)/python benchmarks/run.py

clean:
	@rm -rf .venv build dist out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .ci/katex
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
