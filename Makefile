# Two commands: `make report` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: report test lint types doctest bench clean help

help:            ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

report: $(STAMP)  ## read a released table and print its anatomy
	$(BIN)/anonbayes describe data/clinic_2anonymous.csv --sensitive diagnosis

test: $(STAMP)    ## run the test suite
	$(BIN)/python -m pytest -n 2 --dist loadscope

doctest: $(STAMP) ## run the examples in the docstrings
	$(BIN)/python -m pytest --doctest-modules anonbayes

lint: $(STAMP)    ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)   ## static types
	$(BIN)/mypy

bench: $(STAMP)   ## benchmarks (slow)
	$(BIN)/python -m benchmarks

clean:           ## remove the environment
	rm -rf $(VENV)
