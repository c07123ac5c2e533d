# `make quickstart` and `make test` each start from a fresh machine: Python 3.11 to 3.13 and make.
# On Linux the package index serves torch with CUDA, several GB; without a GPU, this saves them:
#   export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

PYTHONS ?= python3.11 python3.12 python3.13 python3
BIN := .venv/bin
# Made last, so that an interrupted installation is taken up again.
STAMP := .venv/installed
# A module is compiled at its first import; to compile those of all packages here takes most of a minute.
# Each process would compile them anew where Python is told to write none of it, as in many containers.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check --constraint constraints.txt
# uv, where it is there, installs the same in less time, and torch without CUDA where there is no GPU.
# It reads none of pip's settings: where it finds no package, pip does it.
UV := $(shell command -v uv)
UV_TORCH_BACKEND ?= auto
UV_INSTALL = $(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt
# $(call install,PACKAGE,OPTIONS OF UV)
install = $(if $(UV),$(UV_INSTALL) $(2) $(1) 2>/dev/null || )$(PIP) $(1)

# A file is run by one process: its tests share a session of Ray, or a compiler's cache. Three processes,
# since many tests wait for another program.
PYTEST := $(BIN)/pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder
CHECKS := $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

.PHONY: help quickstart test drill siege checks docs

help:
	@echo "make quickstart   environment and a complete search on an embedded corpus: CPU, minutes"
	@echo "make test         environment, linter, type checker and the tests that decide on a change"
	@echo "make drill        environment and the tests that take long: clusters over time, kills, ..."
	@echo "make siege        environment and what takes an hour: attacks by the hundred, every GPU stage"
	@echo "make checks       environment, linter and type checker"
	@echo "make docs         environment and the documentation as a site, in build/docs"

quickstart: $(STAMP)
	@$(BIN)/fathom run quickstart
	@echo "On the path:  source $(BIN)/activate"

# The checks run beside the tests; what they found is shown last. (Without $(MAKE), which also runs under
# `make --dry-run`.)
test: $(STAMP)
	@found=$$(mktemp); { $(CHECKS); } > $$found 2>&1 & checks=$$!; \
	trap 'kill $$checks 2>/dev/null; rm -f $$found' EXIT; \
	$(PYTEST) -m 'not drill and not siege'; tests=$$?; \
	wait $$checks || { cat $$found; exit 1; }; exit $$tests

drill: $(STAMP)
	@$(PYTEST) -m drill

siege: $(STAMP)
	@$(PYTEST) -m siege

checks: $(STAMP)
	@$(CHECKS)

docs: $(STAMP)
	@$(BIN)/sphinx-build --quiet --fresh-env --write-all --fail-on-warning --keep-going docs build/docs
	@echo "The documentation:   build/docs/index.html"

# An environment that was once complete is brought up to date in place; any other starts anew.
# A name on the PATH is not enough: a version manager's may refuse, and Debian's may lack venv.
$(STAMP): pyproject.toml constraints.txt
	@if ! { [ -e $@ ] && $(BIN)/python -c 'import pip'; } 2>/dev/null; then \
	    for python in $(PYTHONS) ""; do \
	        "$$python" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	            2>/dev/null && break; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "Fathom needs Python 3.11, 3.12 or 3.13 with its venv module, but none of these is one:" \
	            "$(PYTHONS); install python3.11 and python3.11-venv, or name yours:" \
	            "make PYTHONS=/path/to/python" >&2; \
	        exit 1; \
	    fi; \
	    echo "1 of 3: environment in .venv, $$("$$python" --version)"; \
	    "$$python" -m venv --clear .venv; \
	fi
	@rm -f $@
	@echo "2 of 3: PyTorch"
	@$(call install,torch,--torch-backend $(UV_TORCH_BACKEND))
	@echo "3 of 3: Fathom and everything else"
	@$(call install,--editable '.[dev]')
	@touch $@
