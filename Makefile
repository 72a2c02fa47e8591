# One word for each thing a developer does; continuous integration uses the same words.

# The first Python that runs and is new enough. Choose another with: make PYTHON=/path/to/python3.12
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
PEERS := .venv-peers
NEEDS_PYTHON = $(if $(PYTHON),,$(error Dragoman needs Python 3.11 or newer, and none was found: install one, or name it with make PYTHON=/path/to/python))
# A newer Python than that of .venv, for `make machines`; by default one on the PATH: make machines NEWER=/path/to/python3.13
NEWER ?=
# Stamps of what .venv holds: the requirements of a demo, and those of extras in pyproject.toml, as in .venv/ready-test
READY := .venv/ready
INSTALLED_FROM := pyproject.toml constraints.txt scripts/install.py
# Where `make browser` keeps pictures of the pages that it opens; by default none: make browser PICTURES=/tmp/pictures
PICTURES ?=
# The run that `make examples` explains sentences with, and `make bench-translating` translates with
RUN ?= runs/phrasebook
# The data that `make gpu-train` trains with
DATA ?= data/tatoeba-en-it
# A Python that holds all requirements already, for `make gpu` without a network: make gpu GPU_PYTHON=python3
GPU_PYTHON ?= $(BIN)/python
GPU_READY := $(if $(filter $(BIN)/python,$(GPU_PYTHON)),$(READY)-test)
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -q -rs

.NOTPARALLEL:
.PHONY: help setup extras demo examples docs guide-zip test test-all machines browser clients check bench-training bench-tatoeba bench-translating gpu gpu-train clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## create .venv and install into it what a demo needs; every other target adds what it needs

extras: $(READY)-all  ## add every extra: TensorBoard, Parquet, the Hugging Face hub, spaCy, other toolkits

demo: $(READY)  ## train a small English-Italian translator, then translate what you type
	@$(BIN)/dragoman demo

examples: $(READY)  ## write the pages of examples/ with the run of make demo, in a minute; another: make examples RUN=runs/NAME
	@$(BIN)/dragoman explain $(RUN) "My grandmother is very tired because it is raining." --output examples/right.html
	@$(BIN)/dragoman explain $(RUN) "The bank of the river is near the station." --output examples/wrong.html
	@$(BIN)/dragoman explain $(RUN) "My grandmother's sourdough starter died of neglect." --output examples/hallucinated.html

docs: $(READY)-docs  ## build the guide into docs/_build/html, every page executed: up to an hour on two cores, later only what changed
	@$(BIN)/python -m sphinx -W --keep-going docs docs/_build/html
	@echo "the guide is ready: open docs/_build/html/index.html"

guide-zip: docs  ## pack the built guide for a release, as docs/_build/dragoman-guide.zip
	@cd docs/_build && rm -rf dragoman-guide dragoman-guide.zip && cp -r html dragoman-guide && ../../$(BIN)/python -m zipfile -c dragoman-guide.zip dragoman-guide && rm -rf dragoman-guide
	@echo "packed: docs/_build/dragoman-guide.zip"

test: $(READY)-test  ## run the tests that protect a change: about a quarter of an hour on two cores; ends with what was skipped and why
	@$(PYTEST) -m "not thorough and not browser"

test-all: $(READY)-dev  ## run every test that needs no browser or GPU, and check every shape: under an hour on two cores
	@CHECK_SHAPES=1 $(PYTEST) -m "not browser"

browser: $(READY)-browser  ## open the pages and the guide in Chromium and use all of their controls; needs Chromium: about half an hour
	@PICTURES="$(PICTURES)" $(BIN)/python -m pytest -q -rs -m browser tests/browser

clients:  ## install clients of the server in JavaScript, with which its tests then speak too; needs Node and npm
	@npm install --prefix tests/serving/clients --no-package-lock --no-audit --no-fund --loglevel=error

machines: $(READY)-test  ## run the tests as on other processors, without a compiler, as another user: under an hour on two cores
	@$(BIN)/python scripts/machines.py $(if $(NEWER),--python $(NEWER))

check: $(READY)-dev  ## check the format, lint, layers, types and English
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/lint-imports
	@$(BIN)/basedpyright --pythonpath $(BIN)/python --level error
	@$(BIN)/python scripts/check_english.py

bench-training: $(PEERS)/ready-peers  ## time training steps compared with other toolkits, installed in .venv-peers: an hour or two
	@$(PEERS)/bin/python benchmarks/training.py --size small --batches 4 --rounds 8 --out benchmarks/results/training.json
	@$(PEERS)/bin/python benchmarks/training.py --size base --batches 2 --rounds 4 --out benchmarks/results/training-base.json

bench-tatoeba: $(PEERS)/ready-peers  ## compare half an hour of training with another recipe: an hour and more
	@$(PEERS)/bin/python benchmarks/tatoeba.py --out benchmarks/results/tatoeba.json

bench-translating: $(READY)-ctranslate2  ## time translating with the run of make demo compared with CTranslate2: ten minutes; another: RUN=runs/NAME
	@$(BIN)/python benchmarks/translating.py $(RUN) --lines 500 --alone 40

gpu: $(GPU_READY)  ## run the tests that need an NVIDIA GPU, then time steps and translating: five minutes; elsewhere they are skipped
	@PYTHONPATH=src $(GPU_PYTHON) -m pytest -q -rs -p no:cacheprovider tests/test_on_gpu.py
	@PYTHONPATH=src $(GPU_PYTHON) benchmarks/gpu.py $(if $(wildcard $(RUN)),--model $(RUN))

gpu-train: $(GPU_READY)  ## train tatoeba-en-it on an NVIDIA GPU and score it: six minutes; needs its data: DATA=data/tatoeba-en-it
	@PYTHONPATH=src $(GPU_PYTHON) benchmarks/gpu.py --train $(DATA)

clean:  ## remove .venv, the built guide and every cache; your runs stay
	rm -rf .venv $(PEERS) docs/_build .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(INSTALLED_FROM)
	$(NEEDS_PYTHON)
	@$(PYTHON) scripts/install.py .venv

$(READY)-%: $(INSTALLED_FROM)
	$(NEEDS_PYTHON)
	@$(PYTHON) scripts/install.py .venv $*

$(PEERS)/ready-peers: $(INSTALLED_FROM) benchmarks/peers/requirements.txt
	$(NEEDS_PYTHON)
	@$(PYTHON) scripts/install.py $(PEERS) all --alone benchmarks/peers/requirements.txt
	@touch $@
