# `make demo` and `make test` need nothing but Python 3.11+ and make; each sets up what it uses in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint lint-page screenshots format clean
.DEFAULT_GOAL := demo

demo: .venv/user
	$(BIN)/headwise demo --out runs/demo

test: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-slow: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# The page's types and style; npm brings TypeScript and Biome, which nobody needs who only runs it.
lint-page: node_modules
	npm run --silent check

screenshots: .venv/dev
	$(BIN)/python benchmarks/screenshots.py $(RUN)

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Exact versions stand in package.json; these two packages have no dependencies, so a lock file would add nothing.
node_modules: package.json
	npm install --silent --no-package-lock --no-fund --no-audit
	touch $@

.venv/user: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headwise needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/dev: .venv/user
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
