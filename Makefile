# `make demo` and `make test` need nothing but Python 3.11+ and make; each sets up what it uses in .venv (VENV=DIR for another place).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-numerical lint lint-page screenshots format clean
.DEFAULT_GOAL := demo

demo: $(VENV)/user
	$(BIN)/headwise demo --out runs/demo

test: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

# What arithmetic could change, as another processor: CPU=avx2 has no AVX-512, CPU=default has no AVX at all.
CPU ?= avx2
ISA_avx2 := AVX2
ISA_default := SSE41
test-numerical: $(VENV)/dev
	ATEN_CPU_CAPABILITY=$(CPU) ONEDNN_MAX_CPU_ISA=$(ISA_$(CPU)) OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m 'numerical and not slow'

test-slow: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# The page's types and style; npm brings TypeScript and Biome, which nobody needs who only runs it.
lint-page: node_modules
	npm run --silent check

screenshots: $(VENV)/dev
	$(BIN)/python benchmarks/screenshots.py $(RUN)

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv* node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Exact versions stand in package.json; these two packages have no dependencies, so a lock file would add nothing.
node_modules: package.json
	npm install --silent --no-package-lock --no-fund --no-audit
	touch $@

$(VENV)/user: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headwise needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/dev: $(VENV)/user
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
