# One place for every command a person or continuous integration runs. `make help` lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.can-run
STAMP  := $(VENV)/.installed
FAST   := not slow and not gpu
DATA   := examples/capitals.csv
SECONDS ?= 60
SEED   ?= 0

# Many processes import the same packages: they are compiled to bytecode once, whatever the shell says about it.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup lock run test test-all check format format-check lint types bench fuzz mutants kills docs wording pictures clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(STAMP) ## make .venv with everything for working on byheart, once

# What running needs, and then what testing needs. Installed anew only when the requirements change. For running, modules are compiled
# as they are imported: most of those that come with torch never are. Tests import many more, each in several processes at once.
$(RUN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "byheart needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ..." >&2; exit 2; }
	@echo "Setting up $(VENV) (once; about a minute) ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -qq --disable-pip-version-check --no-input --no-compile -c constraints.txt -e .
	@touch $@

$(STAMP): $(RUN)
	@echo "Adding the tools for tests and docs (once; about a minute) ..." >&2
	@$(BIN)/pip install -qq --disable-pip-version-check --no-input -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null || true
	@touch $@

lock: ## write constraints.txt anew: every package of .venv that byheart[dev] needs, by name and version
	@$(BIN)/python .ci/lock.py > constraints.txt.new && mv constraints.txt.new constraints.txt && touch $(RUN) $(STAMP)

run: $(RUN) ## compile the bundled example, ask it, then the same by the theorem, verified in exact arithmetic
	@for arguments in \
		"compile -q $(DATA) -o out/capitals" \
		"predict out/capitals 'capital of France' 'capital of Atlantis'" \
		"compile -q $(DATA) -o out/theorem --method kajitsuka-sato-2025" \
		"verify out/theorem $(DATA)" \
		"predict out/theorem 'capital of France'"; \
	do echo "\$$ byheart $$arguments"; eval "$(BIN)/byheart $$arguments" || exit; done

format: $(STAMP) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: $(STAMP) ## fail if `make format` would change anything
	$(BIN)/ruff format --check .

lint: $(STAMP) ## ruff, and vulture for code that nothing reaches
	$(BIN)/ruff check .
	$(BIN)/vulture

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

test: $(STAMP) ## the fast tests; lint and types are among them
	$(BIN)/pytest -n 2 --dist loadfile -m "$(FAST)"

test-all: $(STAMP) ## the same with the slow tests, more examples, and what needs a GPU where there is one
	BYHEART_THOROUGH=1 $(BIN)/pytest -n 2 --dist loadfile

check: format-check test ## format, lint, types and tests: what continuous integration runs

bench: $(STAMP) ## run every benchmark; each prints its numbers and writes JSON under out/
	@set -e; for script in $(wildcard benchmarks/[a-z]*.py); do echo "$$script" >&2; $(BIN)/python "$$script"; done

fuzz: $(STAMP) ## attack for SECONDS=60, from SEED=0: spoilt files and odd requests; findings are kept in out/fuzz
	$(BIN)/python -m tests.attacks.fuzz --seconds $(SECONDS) --seed $(SEED)

mutants: $(STAMP) ## make mistakes in five rooms and in the code of limits, one at a time; count those that the tests notice
	$(BIN)/python -m tests.attacks.mutants --seed $(SEED)

kills: $(STAMP) ## kill -9 compile, verify, export and measure a hundred times each, and look at what is left
	$(BIN)/python -m tests.attacks.kills

docs: $(STAMP) ## build the site into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wording: $(STAMP) ## write what every command prints into tests/cli/golden; read the difference before you commit it
	BYHEART_WORDING=1 $(BIN)/pytest -q tests/cli/test_first_hour.py -k wording

pictures: $(STAMP) ## draw the pictures of the README and of docs/graft.md anew, from a compiled model and from stored records
	$(BIN)/python docs/readme_pictures.py

clean: ## remove what the commands above made, except .venv
	rm -rf out docs/_build docs/_generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
