# Two commands do everything on a fresh machine: `make quickstart` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check

.PHONY: quickstart test lint format board site clean

quickstart: $(VENV)/.core            ## run the main job on the built-in tasks
	$(BIN)/l2bench run quickstart

test: $(VENV)/.all                   ## set up everything and pass the tests
	$(BIN)/python -m pytest

lint: $(VENV)/.all                   ## style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/.all
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

SUITE ?= quickstart
board:                               ## run and accept the project's own entries on SUITE, from installed packages
	$(PYTHON) -m venv .venv-board
	.venv-board/bin/python -m pip --disable-pip-version-check install --quiet -c tests/constraints.txt \
		. $(if $(findstring libero,$(SUITE)),./plugins/l2bench-agents ./plugins/l2bench-libero)
	L2BENCH=.venv-board/bin/l2bench sh leaderboards/seed.sh $(SUITE)

site: $(VENV)/.core                  ## the pages of the board
	$(BIN)/l2bench leaderboard build leaderboards -o site --force

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip

$(VENV)/.core: $(VENV)/bin/python pyproject.toml
	$(PIP) install --quiet -c plugins/constraints.txt -e .
	touch $@

$(VENV)/.all: $(VENV)/bin/python pyproject.toml plugins/constraints.txt tests/constraints.txt \
		$(wildcard plugins/*/pyproject.toml)
	sh tests/system_packages.sh
	$(PIP) install --quiet -c tests/constraints.txt -e . $(patsubst %,-e %,$(wildcard plugins/l2bench-*)) \
		--group pyproject.toml:test --group pyproject.toml:lint
	touch $(VENV)/.core $@

clean:
	rm -rf $(VENV) .venv-board site dist build runs
