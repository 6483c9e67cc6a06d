# Every target works as the first command in a fresh clone. Needed: make, git, Python >= 3.11 with venv.
# Say `make PYTHON=/path/to/python3` to choose the interpreter, `make test ARGS="-k resolve"` to pass arguments on.

# The first interpreter that is new enough; the recipe of .venv says what is wrong where there is none.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help up test check fix bench docs cases gpu-test lock clean

help: ## show these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

up: $(VENV)/.project ## resolve, lock and render the shipped example into out/, and report it
	$(BIN)/provisioner up --to out $(ARGS)

test: $(VENV)/.project ## every test; real parts that are missing here are skips that say why
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.project ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(VENV)/.project ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.project ## whole-process times against hpccm, and 1,000 answers of the resolver
	$(BIN)/python -m benchmarks $(ARGS)

cases: $(VENV)/.project ## answer the cases from public reports, with a score for each kind
	$(BIN)/python -m tests.cases
	$(BIN)/python -m pytest --quiet tests/unit/knowledge/test_cases.py $(ARGS)

docs: $(VENV)/.project ## write docs/compatibility.md from the matrix
	$(BIN)/python -m tools.build_docs

gpu-test: ## the checks on a machine that has a GPU, with the Python that is there
	@test -n "$(PYTHON)" || { echo "make: no python3 >= 3.11 on PATH; name one: make gpu-test PYTHON=/path/to/python3" >&2; exit 2; }
	$(PYTHON) -m tests.gpu $(ARGS)

# uv does not read pip's configuration, so the locks come from the public index and hold anywhere.
UV_LOCK = $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(LOCK_ARGS)

lock: $(VENV)/.deps ## write requirements/*.txt again (LOCK_ARGS=--upgrade takes newer releases)
	$(UV_LOCK) pyproject.toml -o requirements/run.txt
	$(UV_LOCK) pyproject.toml --extra lint --group dev -c requirements/run.txt -o requirements/dev.txt

clean: ## remove what make made
	rm -rf $(VENV) out build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two stamps: a new lock rebuilds the environment, a new pyproject.toml only reinstalls the project into it.
$(VENV)/.deps: requirements/dev.txt
	@test -n "$(PYTHON)" || { echo "make: no python3 >= 3.11 on PATH ($$(python3 --version 2>&1)); name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is $$($(PYTHON) --version 2>&1), and 3.11 or newer is needed; name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: $(PYTHON) has no venv; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.project: $(VENV)/.deps pyproject.toml hatch_build.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
