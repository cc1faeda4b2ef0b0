# Two commands: `make report` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
BOOKS  := $(VENV)/.installed-notebooks
DOCS   := $(VENV)/.installed-docs
BENCH  := $(VENV)/.installed-bench
JOBS   ?= 2
MINUTES ?= 10
SEED   ?= 1
# Further options of pytest for `make coverage`.
LESS   ?=
# A file of versions to install, such as constraints.txt; the newest ones when empty.
CONSTRAINTS ?=
comma  := ,
# Most modules are never imported: each is compiled when it is, unless Python may not write there.
BYTECODE := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)

.PHONY: help setup report test coverage doctest fuzz lint types bench notebooks docs pictures build constraints licences audit clean

help:             ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/'

define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "anonbayes needs Python 3.11 or later: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(BYTECODE) $(addprefix --constraint ,$(CONSTRAINTS)) --editable "$(1)"
endef

$(RUN): pyproject.toml
	$(call install,.)
	@touch $@

$(DEV): pyproject.toml
	$(call install,.[dev])
	@touch $(RUN) $@

$(BOOKS): pyproject.toml
	$(call install,.[notebooks])
	@touch $(RUN) $@

$(DOCS): pyproject.toml
	$(call install,.[docs])
	@touch $(RUN) $@

$(BENCH): pyproject.toml
	$(call install,.[dev$(comma)bench])
	@touch $(RUN) $(DEV) $@

setup:            ## the environment of tests, checks, benchmarks and documentation, in one request to pip
	$(call install,.[dev$(comma)docs$(comma)bench])
	@touch $(RUN) $(DEV) $(DOCS) $(BENCH)

report: $(RUN)  ## assess the clinic's release: reports/clinic/report.html
	@$(BIN)/anonbayes assess data/clinic_k4_l3_local.csv --cleartext data/clinic.csv --sensitive diagnosis \
	  --hierarchies data/clinic_hierarchies --seed 1 --out reports/clinic --force

test: $(DEV)    ## run the test suite
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

coverage: $(DEV) ## the same, counting which lines run (3.12 and later count almost for free)
	COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")') \
	  $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(LESS) --cov --cov-report=term:skip-covered --cov-report=xml

doctest: $(DEV) ## run the examples in the docstrings
	$(BIN)/python -m pytest --doctest-modules anonbayes

fuzz: $(DEV)    ## odd inputs to readers, functions, commands and scenarios (`make fuzz MINUTES=10 SEED=1`)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED)

lint: $(DEV)    ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)   ## static types
	$(BIN)/mypy

bench: $(BENCH)   ## benchmarks (slow; `make bench SHORT=--short` for a quick look)
	$(BIN)/python -m benchmarks $(AREAS) $(SHORT)

notebooks: $(BOOKS) ## run the notebooks and store what they show (`make notebooks NAMES=first_steps` for one)
	$(BIN)/python -m notebooks $(NAMES)

docs: $(DOCS)   ## documentation: docs/_build/html/index.html
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs docs/_build/html
	@$(BIN)/python docs/check_site.py docs/_build/html

pictures: $(RUN) ## pictures of a report for the documentation (needs Chromium)
	$(BIN)/python docs/page_pictures.py
	$(BIN)/python docs/pictures.py

build:            ## wheel and source archive: dist/
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

constraints: ## write constraints.txt from .venv (3.11) and .venv-313, in which the tests have passed
	python3 .ci/constraints.py .venv .venv-313 > constraints.txt

licences: $(DEV) ## licences of everything that anonbayes brings along
	@$(BIN)/python .ci/licences.py

audit: $(DEV)   ## look up known vulnerabilities of what is installed (needs the network)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python -m pip_audit --skip-editable

clean:            ## remove the environment
	rm -rf $(VENV)
