# What a developer does, one word each; CI does the same.

# The first of these that runs and is new enough. Another one: make PYTHON=/path/to/python3.12
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
READY := .venv/ready
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile -q

.PHONY: help setup demo quick test check clean

help:  ## list these words
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## make .venv and install everything into it

demo: $(READY)  ## train a small English-Italian translator, then translate what you type
	@$(BIN)/dragoman demo

quick: $(READY)  ## the tests that take seconds: under two minutes on two cores
	@$(PYTEST) -m "not slow"

test: $(READY)  ## every test that needs no network, browser or GPU; ends with what was skipped and why
	@$(PYTEST) -rs

check: $(READY)  ## format, lint and types
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/basedpyright --pythonpath $(BIN)/python --level error

clean:  ## remove .venv and every cache; your runs stay
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt scripts/install.py
	$(if $(PYTHON),,$(error Dragoman needs Python 3.11 or newer, and none was found: install one, or name it with make PYTHON=/path/to/python))
	@$(PYTHON) scripts/install.py .venv
	@touch $@
