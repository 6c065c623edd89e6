# The command surface of the project: people and CI call these targets and nothing else.
# A machine with Python 3.11 (with its venv module) and make is enough to start.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	command -v $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps
PIP := $(BIN)/python $(INSTALL)
FLIGHTS := examples/flights
WORK := out
SITE_VENV := $(VENV)/site
TESTS ?=
# More than cores: some tests wait for Kubernetes, not for a processor.
WORKERS ?= 3
PARTS ?=
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n $(WORKERS) --dist loadfile
# With nothing but Python.
ALONE := not spark and not minio and not azurite and not kafka and not postgres and not interop and not api_server
REPORT := -o junit_family=xunit1 --junit-xml
SCHEDULE := -p tideline.testing.suite_schedule
# The suite starts hundreds of processes that import the packages: bytecode is kept.
unexport PYTHONDONTWRITEBYTECODE

##@ Start

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) } \
		/^[a-z][a-z0-9-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.project-installed $(VENV)/.flights-installed ## Create .venv with everything that run and test need.

.PHONY: run
run: setup ## Land a year of real flights in a Hudi table and query it.
	@$(BIN)/python $(FLIGHTS)/make_landing.py $(WORK)/flights/landing
	@$(BIN)/tideline run -f $(FLIGHTS)/laketable.yaml --once --state $(WORK)/flights/state
	@$(BIN)/python $(FLIGHTS)/queries.py $(WORK)/flights/table
	@$(BIN)/tideline report $(WORK)/flights/table --output $(WORK)/flights/table.html

.PHONY: stream
stream: setup ## Start a broker of Kafka and watch a topic become a table (two minutes; Maven and Java).
	@$(BIN)/python examples/kafka/stream.py $(WORK)/stream

##@ Check

# Which target proves which claim: CONTRIBUTING.md.
.PHONY: test
test: lint peers api-server ## Lint, then run all but the long tests (TESTS="path -k name" narrows it).
	@$(PYTEST) -m "$(if $(TESTS),,not rest and )not slow and not storm" $(PARALLEL) $(or $(TESTS),--ignore engine/tests/test_architecture.py)

.PHONY: rest
rest: setup peers api-server ## Run the tests that take longer than `make test` has time for (CI does).
	@$(PYTEST) -m "rest and not slow and not storm" $(PARALLEL) $(TESTS)

.PHONY: unit
unit: setup ## Run only the quick tests that need no Spark, no MinIO and no other engine.
	@$(PYTEST) -m "$(if $(TESTS),,not longer and )$(ALONE) and not rest and not slow and not storm" \
		$(if $(TESTS),$(TESTS),-n 2 --dist loadfile)

.PHONY: slow
slow: setup peers tools ## Run the tests with a Spark of their own and the long ones with other engines.
	@$(PYTEST) -m "slow and not storm" $(PARALLEL) $(TESTS)

.PHONY: interop
interop: setup peers ## Run only the tests against Hudi's and Iceberg's own engines, all of them.
	@$(PYTEST) -m "interop and not storm" $(PARALLEL) $(TESTS)

.PHONY: foreign
foreign: setup ## Run only the tests on real tables of other engines, in ../shared/fixtures.
	@$(PYTEST) -m "fixtures and not slow and not storm" $(PARALLEL) $(TESTS)

.PHONY: e2e
e2e: cluster ## Test on a real Kubernetes, built from nothing if need be (as root, or with kind).
	@$(PYTEST) -c e2e/pytest.ini -m "not release" $(or $(TESTS),e2e/tests)

.PHONY: e2e-ci
e2e-ci: cluster ## Of these only the golden path and three kills.
	@$(PYTEST) -c e2e/pytest.ini -m ci e2e/tests $(TESTS)

.PHONY: e2e-rest
e2e-rest: cluster ## Of these only the others.
	@$(PYTEST) -c e2e/pytest.ini -m "not ci and not release" $(SCHEDULE) e2e/tests $(TESTS)

.PHONY: e2e-release
e2e-release: cluster release-tools ## Release HEAD to a registry on this machine, twice, and install it from there.
	@$(PYTEST) -c e2e/pytest.ini $(SCHEDULE) -m release e2e/tests $(TESTS)

.PHONY: mutants
mutants: setup peers ## Plant faults in the code, one after another: a test must notice each.
	@$(BIN)/python -m tideline.testing.mutants $(TESTS)

.PHONY: storms
storms: setup peers ## Kill writers, services, erasers, publishers by the hundred: nothing is lost or doubled.
	@TIDELINE_KILLS=$(or $(KILLS),500) $(PYTEST) -m storm $(TESTS)

.PHONY: histories
histories: setup peers ## Let others and Tideline write 300 random tables alternately, publish a hundred, follow 500 (two hours).
	@TIDELINE_HISTORIES=$(or $(HISTORIES),100) TIDELINE_RUNS=$(or $(FOLLOWED),500) \
		TIDELINE_SHARED=$(or $(SHARED),200) $(PYTEST) -n 2 --dist worksteal \
		engine/tests/iceberg/test_shared_histories.py \
		engine/tests/interop/test_random_histories_with_hudi.py \
		engine/tests/publication/test_published_histories.py \
		engine/tests/hudi/read/test_histories_of_followers.py

.PHONY: walks
walks: setup peers tools ## Edit every field of random tables 200 times over while all around fails: what is said is so.
	@TIDELINE_WALKS=$(or $(WALKS),200) $(PYTEST) -n 2 --dist worksteal \
		operator/tests/controller/test_random_walks.py $(TESTS)

.PHONY: ci-slice
ci-slice: setup ## Run the slice of the long tests that this commit gets in CI.
	@$(BIN)/python -m tideline.testing.ci_slice

.PHONY: verify
verify: setup ## Run everything, including the README's commands on a bare clone (hours).
	@$(BIN)/python -m tideline.testing.verify $(PARTS)

.PHONY: seconds
seconds: setup peers tools ## Measure how long each test takes: which `make test` leaves out, and the order of files.
	@$(PYTEST) -m "not slow and not storm" $(PARALLEL) $(REPORT)=$(WORK)/quick.xml
	@$(PYTEST) -m "slow and not storm" $(PARALLEL) $(REPORT)=$(WORK)/slow.xml
	@$(PYTEST) -m "$(ALONE) and not slow and not storm" $(REPORT)=$(WORK)/unit.xml
	@$(BIN)/python -m tideline.testing.file_seconds $(WORK)/quick.xml $(WORK)/slow.xml $(WORK)/unit.xml

.PHONY: tested
tested: setup ## Count tests, faults and peers into docs/how-tideline-is-tested.md.
	@$(BIN)/python -m tideline.testing.tested_page

.PHONY: lint
lint: setup ## Check style, types, imports, sizes and prose.
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/python -m tools.prose
	@$(BIN)/lint-imports --no-logo > $(VENV)/import-linter.txt & imports=$$!; \
	 $(PYTEST) -q --no-header -p no:cacheprovider engine/tests/test_architecture.py \
		> $(VENV)/architecture.txt & architecture=$$!; \
	 good=true; $(BIN)/mypy --no-error-summary || good=false; \
	 wait $$imports || { cat $(VENV)/import-linter.txt; good=false; }; \
	 wait $$architecture || { cat $(VENV)/architecture.txt; good=false; }; \
	 $$good

.PHONY: fmt
fmt: setup ## Format the code and fix what can be fixed.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: bench
bench: setup peers ## Measure Tideline against Hudi (takes a while).
	@$(BIN)/python -m bench.run_all

.PHONY: scale
scale: setup api-server ## Measure the operator with a thousand tables (a quarter of an hour).
	@$(BIN)/python -m bench.controller_scale

##@ Docs and release

.PHONY: docs
docs: setup $(SITE_VENV)/.installed ## Make a site of the docs in out/site/html: links checked, search included.
	@$(BIN)/python -m tools.site $(SITE_VENV)/bin/mkdocs $(WORK)/site

.PHONY: next-version
next-version: setup ## Name VERSION everywhere, as the commit of a release does, and render manifests again.
	@$(BIN)/python -m tools.release.next_version "$(VERSION)"
	@$(MAKE) install-yaml

.PHONY: release
release: setup release-tools ## Make the files of a release of HEAD: VERSION, REGISTRY; COSIGN_KEY signs.
	@$(BIN)/python -m tools.release build "$(VERSION)" --registry "$(REGISTRY)"

.PHONY: publish
publish: setup release-tools ## Push the files of `make release` to REGISTRY, and sign what is there.
	@$(BIN)/python -m tools.release publish "$(VERSION)" --registry "$(REGISTRY)"

.PHONY: registry-login
registry-login: setup release-tools ## Store credentials of REGISTRY: REGISTRY_USER, REGISTRY_PASSWORD of the environment.
	@$(BIN)/python -m tools.release login "$(or $(VERSION),0.0.0)" --registry "$(REGISTRY)"

.PHONY: release-page
release-page: setup ## Attach the files of `make release` to the tag's release on the hosting site, by its `gh`.
	@$(BIN)/python -m tools.release page "$(VERSION)" --registry "$(REGISTRY)"

.PHONY: workflows
workflows: setup ## Check the workflows of hosted CI with actionlint.
	@$(BIN)/python -m e2e.build actionlint
	@$(BIN)/python -m tools.workflows .github/workflows

.PHONY: release-tools
release-tools: tools ## Build crane, cosign, syft, operator-verify, and a registry for trials, from their Go modules.
	@$(BIN)/python -m e2e.build release-tools

##@ Tools

.PHONY: minio
minio: setup ## Build MinIO if need be and serve it on this machine for trials.
	@$(BIN)/python -m tideline.testing.minio_server start

.PHONY: peers
peers: setup ## Build what tests compare with and connect to: MinIO, Hudi and its tables, Iceberg, Lance.
	@$(BIN)/python -m tideline.testing.peers

.PHONY: api-server
api-server: setup ## Build kube-apiserver, etcd and kubectl from their Go modules.
	@$(BIN)/python -m e2e.build api-server

.PHONY: tools
tools: api-server ## And Helm, which tests of the chart need.
	@$(BIN)/python -m e2e.build tools

.PHONY: cluster
cluster: setup peers
	@$(BIN)/python -m e2e.build all

.PHONY: images
images: setup peers ## Build the container images for end-to-end tests.
	@$(BIN)/python -m e2e.build images

.PHONY: crds
crds: setup ## Write the CustomResourceDefinitions and docs/reference.md from the typed resources.
	@$(BIN)/python -m tools.crds charts/tideline/crds
	@$(BIN)/python -m tools.resource_page docs/reference.md

.PHONY: settings
settings: setup ## Write the tables of docs/configuration.md and docs/settings.md from the settings.
	@$(BIN)/python -m tools.settings_page docs/configuration.md docs/settings.md

.PHONY: reference
reference: setup ## Write docs/cli.md from the commands and docs/api.md from the exported names.
	@$(BIN)/python -m tools.command_page docs/cli.md
	@$(BIN)/python -m tools.api_page docs/api.md

.PHONY: install-yaml
install-yaml: crds tools ## Render the chart's operator.yaml, and install.yaml of a release in out/release.
	@$(BIN)/python -m tideline_operator.testing.helm_chart charts/tideline $(WORK)/release

.PHONY: class-list
class-list: setup ## Write the list of Java's classes that the engine's image archives, after a new Spark or Java.
	@$(BIN)/python -m tools.class_list images/engine/classes.txt.gz

.PHONY: lock
lock: setup ## Resolve the dependencies again and write the lock files.
	@$(LOCK) pyproject.toml --upgrade --extra spark --extra operator --extra minio --extra java \
		--extra iceberg --extra report --extra sql --extra polars --extra lineage --extra tracing \
		--extra kafka --extra postgres --extra hive --extra dev \
		--output-file requirements.lock
	@printf '%s\n' pip setuptools wheel hatchling \
		| $(LOCK) - --constraint requirements.lock --output-file requirements-build.lock
	@$(LOCK) pyproject.toml --extra spark --extra minio --extra java --extra iceberg --extra lineage \
		--extra tracing --extra kafka --extra postgres --extra hive --constraint requirements.lock \
		--output-file images/engine/requirements.lock
	@$(LOCK) pyproject.toml --extra operator --extra iceberg --extra tracing \
		--constraint requirements.lock \
		$(patsubst %,--unsafe-package %,$(OPERATOR_UNUSED)) --no-allow-unsafe \
		--output-file images/operator/requirements.lock
	@sed -i '/^# WARNING/,$$d' images/operator/requirements.lock
	@$(LOCK) images/minio/requirements.in --upgrade --output-file images/minio/requirements.lock
	@$(LOCK) tools/site/requirements.in --upgrade --output-file tools/site/requirements.lock
	@$(LOCK) $(FLIGHTS)/requirements.in --constraint requirements.lock \
		--output-file $(FLIGHTS)/requirements.txt

.PHONY: clean
clean: ## Remove what runs and tests left, not the virtual environment.
	@rm -rf $(WORK) .pytest-kind spark-warehouse metastore_db derby.log build dist .mypy_cache .ruff_cache \
		.pytest_cache .import_linter_cache .hypothesis

.PHONY: distclean
distclean: clean ## Remove the virtual environment as well.
	@rm -rf $(VENV)

OPERATOR_UNUSED = $(shell grep -v '^\#' images/operator/unused-packages.txt)

LOCK := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
	--annotation-style line

# mkdocs and its theme, which nothing else needs.
$(SITE_VENV)/.installed: tools/site/requirements.lock
	@test -x $(SITE_VENV)/bin/python || $(BIN)/python -m venv $(SITE_VENV)
	@$(SITE_VENV)/bin/python $(INSTALL) -r tools/site/requirements.lock
	@touch $@

# Build backends come first, hashed like everything else, so that nothing is built in isolation
# with unlocked versions.
$(VENV)/.packages-installed: requirements-build.lock requirements.lock
	@echo "Setting up $(VENV): about 1.6 GB of packages, once."
	@test -n "$(PYTHON)" || { echo "No Python found: install Python 3.11 or later."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is too old: Tideline needs Python 3.11 or later."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements-build.lock
	@$(PIP) --no-build-isolation -r requirements.lock
	@touch $@

# The distribution of earlier checkouts had another name, and the same programs.
$(VENV)/.project-installed: $(VENV)/.packages-installed pyproject.toml
	@$(BIN)/python -m pip --disable-pip-version-check uninstall --quiet --yes tideline 2> /dev/null
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps \
		--no-build-isolation --editable .
	@touch $@

$(VENV)/.flights-installed: $(VENV)/.packages-installed $(FLIGHTS)/requirements.txt
	@$(PIP) --no-build-isolation -r $(FLIGHTS)/requirements.txt
	@touch $@
