# Set-up, tests and checks. Needs Python 3.11 or newer, make and pip; everything else comes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Constraints, not requirements: pip takes these versions of whatever is needed, torch as a CPU build where one is at hand.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock

# Tests start many processes: what is compiled once is there for the next
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

WEB := .ci/web

.PHONY: demo test test-long test-all lint types check docs bench readme schema release-check lock clean

demo: $(VENV)/demo.stamp  ## set up, then classify the heads of the bundled model on the article's pair
	@ATTNSCAN_MODEL=bundled $(BIN)/attnscan classify "I went to the store." "At the store, I bought fresh strawberries."

test: $(VENV)/dev.stamp  ## set up, then run the tests but the long ones: fewer draws of each property, few processes
ifdef ALL
	$(PYTEST) --numprocesses 4 --dist loadgroup --no-loadscope-reorder  # much of it waits for other processes
else
	$(PYTEST) --dist worksteal -m 'not long' --hypothesis-profile quick
endif

test-long: $(VENV)/dev.stamp  ## what `make test` leaves out: browsers, examples, kills, all draws of each property
	$(PYTEST) --numprocesses 4 --dist loadgroup -m 'long or hypothesis'  # much of it waits for other processes

test-all:  ## every test once, with all draws of each property; what takes longest begins first
	$(MAKE) test ALL=1

lint: $(VENV)/dev.stamp $(WEB)/node_modules/.package-lock.json  ## format and lint; the page's scripts by eslint and tsc
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(WEB)/node_modules/.bin/eslint --config $(WEB)/eslint.config.js attnscan/views/page/web/*.js
	$(WEB)/node_modules/.bin/tsc --project $(WEB)

$(WEB)/node_modules/.package-lock.json: $(WEB)/package-lock.json
	npm ci --prefix $(WEB) --no-audit --no-fund --loglevel=error
	touch $@

types: $(VENV)/dev.stamp
	$(BIN)/mypy

check: test-all lint types docs  ## all that CI checks but the packages

docs: $(VENV)/dev.stamp  ## the pages of docs/, strictly: a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir build/docs

release-check: $(VENV)/dev.stamp  ## build wheel and source distribution, and try both in a clean environment
	bash .ci/release-check

bench: $(VENV)/dev.stamp  ## measure attnscan against its rivals, side by side
	$(BIN)/python benchmarks/run.py
	@echo 'written to benchmarks/RESULTS.md. By hand: truth, and scan on a GPU, which say what they need'
	@$(BIN)/python benchmarks/stale.py

readme: $(VENV)/dev.stamp  ## paste real output into the README, and make its pictures
	PYTHONPATH=tests:benchmarks $(BIN)/python -m support.readme
	PYTHONPATH=tests:benchmarks $(BIN)/python -m support.pictures

schema: $(VENV)/dev.stamp  ## write the JSON Schemas of all tables to docs/schema
	PYTHONPATH=tests $(BIN)/python -m support.schemas

lock: $(VENV)/dev.stamp  ## write the installed versions down as the new lock
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock

clean:
	rm -rf $(VENV) build dist

$(VENV)/python.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "attnscan needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/demo.stamp: $(VENV)/python.stamp pyproject.toml requirements.lock
	$(INSTALL) --editable '.[bundled,excel,plot,serve]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/demo.stamp
	$(INSTALL) --editable '.[bundled,excel,parquet,plot,serve,dev,docs]'
	touch $@
