# `make demo` and `make test` need nothing but Python 3.11+ and make; each sets up what it uses in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-sanitized sanitize fuzz lint lint-page screenshots format clean
.DEFAULT_GOAL := demo

demo: .venv/user
	$(BIN)/headwise demo --out runs/demo

test: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-slow: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

# The native engine with AddressSanitizer and UndefinedBehaviorSanitizer, which end its tests at the first bad access.
# What they say goes by pytest, which would swallow it. Its own leaks are looked for apart, as Python has many.
SANITIZED := build/sanitized/headwise/decoding/native
SANITIZED_TESTS := $(addprefix tests/unit/test_,native_engine.py native_library.py native_job.py engines.py shortlist.py ids.py)

test-sanitized: sanitize
	LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 OMP_NUM_THREADS=1 \
	$(BIN)/pytest --native $(SANITIZED) --capture=sys -n 2 -k 'not portable' $(SANITIZED_TESTS) tests/faults

sanitize: .venv/dev
	$(BIN)/python setup.py --quiet build_sanitized

# Damaged model files: case by case what `make fuzz CASES=200000 FIRST=2000 WORKERS=1` finds is the same everywhere.
CASES ?= 2000
FIRST ?= 0
WORKERS ?= 2

fuzz: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/fuzz.py --first $(FIRST) --cases $(CASES) --workers $(WORKERS)

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
