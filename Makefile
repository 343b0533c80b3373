# The two commands that matter: `make demo` and `make test`. Each does all set-up by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-all lint bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $(STAMP)

test: setup
	$(BIN)/python -m pytest -n 2 -m "not slow and not live"

test-all: setup
	$(BIN)/gym sandbox build
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: setup
	$(BIN)/gym sandbox build
	$(BIN)/gym eval prepare --benchmark visual_puzzles_opencode
	$(BIN)/gym eval run --benchmark visual_puzzles_opencode --model-type scripted_model --output results/demo.jsonl

bench: setup
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) results
