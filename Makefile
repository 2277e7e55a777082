# Two commands: `make chat` and `make test`. Both do all the set-up on a fresh machine.
PYTHON ?= python3
MODEL ?= qwen2.5-coder-1.5b
VENV := .venv
BIN := $(VENV)/bin
NATIVE := hatch_build.py kernels/ultra_kernels/cpu/build.py $(wildcard kernels/ultra_kernels/cpu/src/*)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help chat serve test check sanitize format screenshot clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

chat: $(VENV)/.engine ## install, download the model (once), and chat with it in the terminal
	@$(BIN)/ultra models pull $(MODEL)
	@$(BIN)/ultra-chat --model $(MODEL)

serve: $(VENV)/.engine ## serve the model without the app
	@$(BIN)/ultra serve --model $(MODEL)

test: $(VENV)/.dev ## run every test (downloads the small test model once)
	$(BIN)/python -m pytest -q

check: $(VENV)/.dev ## ruff, mypy, import directions and the import-time budget
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py
	$(BIN)/python scripts/import_budget.py

sanitize: $(VENV)/.dev ## the CPU machine's tests under address, undefined-behaviour and thread sanitizers
	$(BIN)/python scripts/sanitize.py

format: $(VENV)/.dev ## format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshot: $(VENV)/.engine ## take the README's picture from the running app
	$(BIN)/python scripts/screenshot.py

clean: ## remove the virtual environment and caches of tools (never models)
	rm -rf $(VENV) kernels/ultra_kernels/cpu/*.so tests/kernels/cpu/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Ultra needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.engine: pyproject.toml constraints.txt $(NATIVE) | $(VENV)/bin/python
	@echo "Installing (the first time takes a few minutes) ..."
	$(PIP_INSTALL) -e '.[engine]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(NATIVE) | $(VENV)/bin/python
	@echo "Installing (the first time takes a few minutes) ..."
	$(PIP_INSTALL) -e '.[dev]'
	$(PIP_INSTALL) --no-deps dflash # what it asks for beside torch and transformers is for its benchmarks
	@touch $@ $(VENV)/.engine
