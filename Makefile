# RestViz: `make demo` opens the page, `make test` runs everything.  Both work on a fresh machine with Python >= 3.11
# and can be repeated at no cost: a stage runs again only when what it depends on has changed.
NEW_ENOUGH := -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do $$p $(NEW_ENOUGH) 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 7860
export HOST PORT

.PHONY: demo test lint bench shots runs static resolve clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	@$(BIN)/python -m restviz prepare
	@$(BIN)/python app.py

test: $(VENV)/.installed-dev
	@$(BIN)/python tests/browser/bring.py
	@$(BIN)/python -m restviz prepare
	@$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# every figure in README and more
bench: $(VENV)/.installed
	@$(BIN)/python -m restviz bench retrieval
	@$(BIN)/python -m restviz bench baseline
	@$(BIN)/python -m restviz bench attention
	@$(BIN)/python -m restviz bench speed --datastore python-code
	@$(BIN)/python -m restviz bench speed --runs pld rest eagle rasd rasd:prune_k=0 --prompts humaneval --max-new-tokens 192
	@$(BIN)/python -m restviz bench speed --runs pld rest eagle rasd rasd:prune_k=0 --prompts short --max-new-tokens 192
	@$(BIN)/python -m restviz bench speed --limit 8 --prompts humaneval --max-new-tokens 192 --runs rasd rasd:prune_k=1 \
	  rasd:prune_k=5 rasd:prune_k=20 rasd:prune_k=50 rasd:prune_k=0 eagle:draft_depth=5,draft_nodes=32
	@$(BIN)/python -m restviz bench head --limit 8 --max-new-tokens 128
	@$(BIN)/python -m restviz bench head --limit 8 --max-new-tokens 128 --prompts short
	@$(BIN)/python -m restviz bench lossless

# the pictures in README, taken from the running page
shots: $(VENV)/.installed-dev
	@$(BIN)/python tests/browser/bring.py
	@$(BIN)/python tests/browser/shots.py
	@mkdir -p docs && cp out/readme.png docs/page.png

# a folder with lessons and player that any static host can serve
static: $(VENV)/.installed
	@$(BIN)/python -m restviz.ui.site site

# whether requirements.txt resolves where a Space installs it; downloads what it resolves
resolve: $(VENV)/.installed
	@for torch in 2.8.0 2.11.0; do echo "torch==$$torch" > .resolve; $(BIN)/python -m pip install --dry-run --quiet \
	  --ignore-installed --only-binary=:all: --python-version 3.12 --target .resolved -r requirements.txt -c .resolve \
	  || exit 1; echo "Python 3.12, torch $$torch: resolved"; done; rm -f .resolve

# the recorded runs that the page shows first; on a quiet machine, since people see the times in them
runs: $(VENV)/.installed
	@$(BIN)/python -m restviz.ui.bundled

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis out

$(VENV)/bin/python:
	@$(or $(PYTHON),false) $(NEW_ENOUGH) 2>/dev/null \
	  || { echo "RestViz needs Python 3.11 or newer with venv (package python3-venv); set PYTHON to one: make PYTHON=python3.12 demo" >&2; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: requirements.txt constraints.txt | $(VENV)/bin/python
	@echo "installing (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar on -r requirements.txt -c constraints.txt
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	@echo "installing what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -c constraints.txt
	@touch $@
