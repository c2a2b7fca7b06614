# The two commands of this project: `make audit` (see it work) and `make test` (see that it is right).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: audit check test test-all clean

audit: $(VENV)/.core
	$(BIN)/aitest demo

test: check
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test-all: check
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m ""

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[all,dev]'
	touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) .aitest build dist *.egg-info
