# One place for every command a person or continuous integration runs. `make help` lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
FAST   := not slow and not gpu and not cluster
MODEL  := out/capitals
DATA   := examples/capitals.csv

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all check format format-check lint types bench docs clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(STAMP) ## make .venv and install byheart into it, once

# Installs anew only when the requirements change.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "byheart needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ..." >&2; exit 2; }
	@echo "Setting up $(VENV) (once; about a minute) ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -qq --disable-pip-version-check --no-input -c constraints.txt -e '.[dev]'
	@touch $@

run: $(STAMP) ## compile the bundled example, verify it and ask it a question
	$(BIN)/byheart compile $(DATA) -o $(MODEL) --method kajitsuka-sato-2025 --precision exact
	$(BIN)/byheart verify $(MODEL) $(DATA)
	$(BIN)/byheart predict $(MODEL) "capital of France"

format: $(STAMP) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: $(STAMP) ## fail if `make format` would change anything
	$(BIN)/ruff format --check .

lint: $(STAMP) ## ruff
	$(BIN)/ruff check .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

test: lint types ## lint, types and the fast tests
	$(BIN)/pytest -n 2 -m "$(FAST)"

test-all: lint types ## the same with the slow tests, and those for a GPU or a cluster where there is one
	$(BIN)/pytest -n 2

check: format-check test ## format, lint, types and tests: what continuous integration runs

bench: $(STAMP) ## run every benchmark; each prints its numbers and writes JSON under out/
	@set -e; for script in $(wildcard benchmarks/[a-z]*.py); do echo "$$script" >&2; $(BIN)/python "$$script"; done

docs: $(STAMP) ## build the site into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean: ## remove what the commands above made, except .venv
	rm -rf out docs/_build docs/_generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
