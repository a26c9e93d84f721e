# make test runs the checks that every change must pass. make help lists the targets.

GO       ?= go
PYTHON   ?= python3
FUZZTIME ?= 30s
BIN      := $(CURDIR)/bin/loaderd

# Four jobs in parallel, the longest first, because tests wait for daemons and timeouts about as long as they compute.
# The output of a job is printed when it ends. A failed job does not stop the others.
JOBS ?= 4
IN_PARALLEL = @$(MAKE) --no-print-directory -k -j$(JOBS) -Otarget

.PHONY: test
test: ## run the checks that every change must pass
	$(IN_PARALLEL) test-go-plain test-go-raced $(PYTHON_TESTS) lint

.PHONY: test-fresh
test-fresh: ## run make test with empty caches, as CI does
	@.ci/run

.PHONY: test-all
test-all: lint test-go-all test-kernels test-python-all test-deploy bench-moment audit ## run all checks: race detector, long tests, oldest versions, deployment files, benchmarks, licenses

UV_VERSION = 0.13.9
UV := $(CURDIR)/bin/uv-$(UV_VERSION)/bin/uv

$(UV):
	@$(PYTHON) -m venv --clear $(CURDIR)/bin/uv-$(UV_VERSION) && $(CURDIR)/bin/uv-$(UV_VERSION)/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

GROUP ?= test

# Bytecode is compiled for the environments in which many processes start, because importing torch without it takes seconds.
.PHONY: environment
environment: $(UV) ## create or update the virtual environment of the dependency group GROUP, and print its folder
	@folder=$${XDG_CACHE_HOME:-$$HOME/.cache}/loaderd/venv-$(GROUP)-$$(cksum < python/uv.lock | cut -d' ' -f1) && \
	UV_PROJECT_ENVIRONMENT=$$folder UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 UV_HTTP_TIMEOUT=180 UV_COMPILE_BYTECODE=$(if $(filter test oldest,$(GROUP)),1,0) $(UV) sync --quiet --frozen --no-build --project python --python $(PYTHON) --only-group $(GROUP) && \
	echo $$folder

# environment_of prints the folder of a group's virtual environment. VENV is the interpreter of the test environment.
environment_of = $$(MAKEFLAGS= $(MAKE) --silent --no-print-directory environment GROUP=$(1))
VENV = $(call environment_of,test)/bin/python

.PHONY: venv
venv: $(UV) ## create the virtual environment of the Python tests
	@$(MAKE) --silent --no-print-directory environment GROUP=test >/dev/null

.PHONY: lint
lint: lint-go lint-python lint-prose lint-commits ## check formatting, code, prose and commit subjects

.PHONY: lint-go
lint-go: ## run gofmt and golangci-lint (.golangci.yml)
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	$(GOLANGCI) run ./...
	cd bench && $(GOLANGCI) run ./...

GOLANGCI = $(GO) tool -modfile=$(CURDIR)/tools/golangci/go.mod golangci-lint

PYTHON_FOLDERS = bench/python examples python tokenizer/internal/gen tools

.PHONY: lint-python
lint-python: venv ## run ruff and mypy --strict
	@venv=$(VENV) && \
	"$$venv" -m ruff check --no-cache --config python/pyproject.toml $(PYTHON_FOLDERS) && \
	"$$venv" -m ruff format --no-cache --check --config python/pyproject.toml $(PYTHON_FOLDERS) && \
	cd python && "$$venv" -m mypy --cache-dir $(CURDIR)/bin/mypy

.PHONY: lint-prose
lint-prose: ## compare phrases of the deny-list with tools/vale/limits.json, limit the words of the pages, and check their spelling
	@$(PYTHON) tools/prose.py
	@$(PYTHON) tools/words.py --limit 45000
	@$(GO) tool -modfile=tools/go.mod vale --config=tools/vale/spelling.ini --no-global $$(git ls-files '*.md')

BASE ?=

.PHONY: lint-commits
lint-commits: ## check the subjects of commits after BASE; default: commits not on the main branch, else the last one
	@$(PYTHON) tools/commits.py $(BASE)

# Packages with much shared state whose tests take at most a minute with the race detector. Packages that link clients of
# object stores are excluded, because they compile for minutes with it. test-all runs all packages with the race detector.
# It slows down daemons, clusters, the Flight server and the live page by a factor of 2 to 4, and pure computation by 10.
RACED = $(addprefix loaderd/,stream/conn stream/messages stream/feed stream/proxy stream/server $(addprefix internal/,auth ledger status top tracing))

.PHONY: browser
browser: ## install Chromium and axe-core for the browser tests if they are missing
	@PYTHON=$(PYTHON) internal/browsertest/browser

.PHONY: test-go
test-go: test-go-raced test-go-plain ## run the Go tests, with the race detector on selected packages

.PHONY: test-go-raced
test-go-raced:
	$(GO) test -vet=off -race -timeout 20m $(RACED)

# The packages whose tests take longest, which start first.
LONGEST = $(addprefix loaderd/,test/torture stream internal/webui loader internal/cli internal/daemon stream/docstream test/endtoend)

# Four packages in parallel, because most tests spend their time waiting. Vet is off because lint-go runs it.
.PHONY: test-go-plain
test-go-plain: browser
	$(GO) test -vet=off -p 4 -timeout 20m $(LONGEST) $(filter-out $(RACED) $(LONGEST),$(shell $(GO) list ./...))
	$(GO) -C bench test -vet=off -timeout 20m ./...

.PHONY: test-go-all
test-go-all: browser ## run all Go tests with the race detector
	LOADERD_TEST=all $(GO) test -race -timeout 40m ./...
	LOADERD_TEST=all $(GO) -C bench test -race -timeout 40m ./...

KERNELS = $(addprefix ./tokenizer/internal/,wordcache norm pretokenize) ./packonline/similarity

# The race detector and the address sanitizer do not instrument assembly. The tests therefore compare each kernel with its
# Go implementation, on texts that end at the start of an unreadable memory page.
.PHONY: test-kernels
test-kernels: test-kernels-arm64 ## test packages with assembly kernels: pure Go, without AVX2, checkptr, address sanitizer, arm64
	$(GO) test -tags purego -timeout 20m ./tokenizer/... ./packonline/similarity
	GODEBUG=cpu.avx2=off $(GO) test -timeout 20m ./tokenizer/... ./packonline/similarity
	$(GO) test -gcflags=all=-d=checkptr -timeout 20m ./tokenizer/... ./packonline/similarity
	$(GO) test -asan -timeout 20m $(KERNELS)

.PHONY: qemu
qemu: ## install qemu-user, which runs programs for arm64, if it is missing
	@command -v qemu-aarch64 >/dev/null || ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ] || { \
		echo "installing qemu-user for the tests of arm64 kernels" >&2; export DEBIAN_FRONTEND=noninteractive; \
		install="apt-get install -y -qq --no-install-recommends qemu-user"; \
		$$install >/dev/null 2>&1 || { apt-get update -qq && $$install >/dev/null; }; } || true

.PHONY: test-kernels-arm64
test-kernels-arm64: qemu ## test the assembly kernels of arm64 in an emulator
	@if command -v qemu-aarch64 >/dev/null; then set -x; \
		CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) test -exec qemu-aarch64 -timeout 20m $(KERNELS); \
	else echo "SKIPPED: the kernels of arm64 are untested without qemu-aarch64 (Debian's package qemu-user)" >&2; fi

# Packages run sequentially, because each test starts three servers.
.PHONY: test-cluster
test-cluster: ## run the tests of stream/ on a cluster of three servers, with the race detector
	LOADERD_TEST_CLUSTER=3 $(GO) test -race -p 1 -timeout 40m ./stream/...

KILLS ?= 300

.PHONY: torture
torture: ## inject KILLS faults under load: kill -9 of one daemon, or all faults in a cluster (CLUSTER=3); LOADERD_SEED repeats
	LOADERD_TEST=all LOADERD_KILLS=$(KILLS) $(GO) test -count=1 -timeout 24h -run '^TestTorture_$(if $(CLUSTER),Cluster,OneDaemon)$$' -v ./test/torture

TAKEOVERS ?= 20

.PHONY: bench-takeover
bench-takeover: ## measure how long ranks wait after the loss of one of three daemons, TAKEOVERS times per kind of loss
	LOADERD_TAKEOVERS=$(TAKEOVERS) $(GO) test -count=1 -timeout 2h -run '^TestTakeover_MeasuresWaitOfRanks$$' -v ./test/torture

SCALES ?= 3

.PHONY: bench-scale
bench-scale: ## measure 1, 2 and 4 daemons, a leader with 1,024 ranks, 3 replicas and 1; SCALES times each
	LOADERD_SCALE=$(SCALES) $(GO) test -count=1 -timeout 2h -run '^TestScale_MeasuresDaemonsRanksAndReplicas$$' -v ./test/torture

PYTEST = LOADERD_BIN=$(BIN) PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/python" -m pytest -p no:cacheprovider -q
OLDEST = test_step test_errors test_prefetch test_client test_client_faults test_client_failover test_client_daemons test_client_protocol test_torch_batch test_torch_buffers test_torch_ranks test_torch_loader test_masks

TOKENIZERS = test_tokenizer*.py test_fingerprint.py
DOCUMENTS = test_chat*.py test_columns.py test_frozen.py test_import.py test_publish.py test_sft.py test_transformations.py
TORCH = test_torch*.py test_masks.py test_distributed.py test_culprits.py test_integrations.py test_examples.py
CLIENT = test_client*.py test_prefetch.py
PYTHON_TESTS = $(addprefix test-python-,others torch documents client tokenizers)

.PHONY: test-python
test-python: ## run the Python tests with the built binary
	$(IN_PARALLEL) $(PYTHON_TESTS)

.PHONY: $(PYTHON_TESTS)
test-python-tokenizers: FILES = $(TOKENIZERS:%=python/tests/%)
test-python-torch:      FILES = $(TORCH:%=python/tests/%)
test-python-documents:  FILES = $(DOCUMENTS:%=python/tests/%)
test-python-client:     FILES = $(CLIENT:%=python/tests/%)
test-python-others:     FILES = python/tests $(patsubst %,--ignore-glob='*/%',$(TOKENIZERS) $(TORCH) $(DOCUMENTS) $(CLIENT))
$(PYTHON_TESTS): build venv
	@venv=$(call environment_of,test) && $(PYTEST) $(FILES)

.PHONY: test-python-all
test-python-all: ## run all Python tests, also of recipes, and the client tests with the oldest supported versions
	@# Fill the build cache for each platform. Without it, the test of the wheels exceeds its timeout.
	for platform in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -trimpath -o /dev/null ./cmd/loaderd || exit 1; done
	@# Two jobs in parallel: full training runs exceed the timeout of a test with four.
	LOADERD_TEST=all $(MAKE) --no-print-directory test-python JOBS=2
	export LOADERD_TEST=all; venv=$(call environment_of,oldest) && $(PYTEST) $(OLDEST:%=python/tests/%.py)

.PHONY: build
build: ## build bin/loaderd
	$(GO) build -ldflags "-X loaderd/internal/build.release=$$($(PYTHON) python/version.py)" -o $(BIN) ./cmd/loaderd

PLATFORMS ?=

.PHONY: dist
dist: ## build wheels in bin/dist for PLATFORMS (default: linux-amd64 linux-arm64 darwin-arm64 windows-amd64)
	@$(VENV) tools/dist.py bin/dist $(PLATFORMS)

.PHONY: docs
docs: ## build the documentation site, bin/site/index.html; fails on broken links
	@venv=$(call environment_of,docs) && NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/mkdocs" build --strict

ARCHES ?= amd64 arm64

# nfpm is a dependency of the separate module deploy/check, as are all tools that check deploy/.
.PHONY: packages
packages: ## build deb and rpm packages in bin/packages for ARCHES (default: amd64 arm64)
	@rm -rf bin/packages && mkdir -p bin/packages && $(GO) -C deploy/check build -o ../../bin/packages/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	@$(GO) build -o bin/packages/loaderd ./cmd/loaderd && mkdir -p bin/packages/manual/completion
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) bin/packages/loaderd man bin/packages/manual/man
	@gzip -9n bin/packages/manual/man/*.1
	@for shell in bash:loaderd.bash zsh:_loaderd fish:loaderd.fish; do \
		bin/packages/loaderd completion $${shell%%:*} > bin/packages/manual/completion/$${shell#*:} || exit 1; done
	@version=$$($(PYTHON) python/version.py) && for arch in $(ARCHES); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags "-s -w -X loaderd/internal/build.release=$$version" \
			-o bin/packages/$$arch/loaderd ./cmd/loaderd && \
		$(PYTHON) tools/notices.py bin/packages/$$arch/loaderd > bin/packages/$$arch/notices || exit 1; \
		for kind in deb rpm; do \
			ARCH=$$arch VERSION=$$(echo "$$version" | sed 's/\.dev/~dev/') \
				bin/packages/nfpm package --config deploy/packages/nfpm.yaml --packager $$kind --target bin/packages || exit 1; \
		done; \
	done

.PHONY: test-deploy
test-deploy: ## test the Helm chart, image, Compose files, systemd unit and packages
	cd deploy/check && $(GO) vet ./... && $(GO) test -count=1 -timeout 20m ./...

BILLS = bin/loaderd.cdx.json bin/loaderd-python.cdx.json

.PHONY: sbom
sbom: build $(UV) ## write bills of materials (CycloneDX) of the program and the Python package, bin/*.cdx.json
	$(GO) tool -modfile=tools/go.mod cyclonedx-gomod bin -json -licenses -assert-licenses -std -noserial -version v$$($(PYTHON) python/version.py) \
		-output bin/loaderd.cdx.json $(BIN)
	$(UV) export --quiet --project python --frozen --all-extras --no-default-groups --no-emit-project --format cyclonedx1.5 --output-file $(CURDIR)/bin/loaderd-python.cdx.json >/dev/null

AUDIT_STRICT ?=
VULNDB ?=

.PHONY: audit
audit: sbom ## check licenses and vulnerabilities; AUDIT_STRICT=1 requires the databases, VULNDB is a copy of vuln.go.dev
	@tools=$(call environment_of,audit) && tests=$(call environment_of,test) && \
	"$$tools/bin/python" tools/audit.py --program $(BIN) --bills $(BILLS) --site "$$(echo "$$tests"/lib/python*/site-packages)" --db "$(VULNDB)" $(if $(AUDIT_STRICT),--strict)

BENCH ?= bin/bench
ENTRIES ?=
MOMENT ?=
RUNS ?= 1

.PHONY: bench
bench: bench-programs ## measure everything with its baselines, RUNS times, into BENCH.json and BENCH.md; ENTRIES="flight splice" selects entries
	@$(PYTHON) bench/python/table/run.py --out $(BENCH) --runs $(RUNS) $(if $(MOMENT),--moment) $(ENTRIES:%=--only %)
	@$(if $(filter docs/%,$(BENCH)),bin/charts -run $(BENCH).json -folder $(dir $(BENCH))img)

.PHONY: bench-programs
bench-programs: build
	@$(GO) -C bench build -o $(CURDIR)/bin/ ./...

FLOODS ?=

.PHONY: bench-security
bench-security: ## measure floods of requests, into docs/results/security.md, 10 minutes; FLOODS selects some and prints them
	@$(GO) -C bench build -o $(CURDIR)/bin/floods ./floods
	bin/floods $(if $(FLOODS),$(FLOODS),-page docs/results/security.md)

.PHONY: bench-security-flight
bench-security-flight: ## measure floods of Flight requests from the server's process; 3 minutes
	$(GO) test -run '^$$' -bench 'GoodReader' -benchtime 500x -timeout 20m ./arrowout

.PHONY: bench-compare
bench-compare: ## fail if a ratio of run B (.json) is worse than that of run A by 10 % or more
	@$(PYTHON) bench/python/table/compare.py $(A) $(B)

.PHONY: bench-go
bench-go: ## run all Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

.PHONY: bench-moment
bench-moment: build ## run every benchmark briefly, to check that it works; part of test-all
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./...
	$(MAKE) bench MOMENT=1 BENCH=bin/bench-moment
	$(MAKE) bench-flight FLIGHT="--seconds 0.1 --rounds 1"
	bin/endtoend -documents 300 -python $(VENV)
	bin/endtoend -documents 300 -tokenized -python $(VENV)
	bin/endtoend -documents 300 -files $(BIN) -python $(VENV)
	$(MAKE) bench-columns COLUMNS="--messages 20 --rounds 1"
	bin/floods -rounds 1 -phase 100ms -settle 100ms
	bin/guarantees -documents 16000 -steps 4 tail
	bin/guarantees -planned 60000 -repeats 1 shares order balance mixspeed mixpicture mixneighbours
	LOADERD_SCALE=moment $(GO) test -count=1 -run '^TestScale_MeasuresDaemonsRanksAndReplicas$$' ./test/torture
	bin/pull
	bin/splice -pool 256 -bytes 4000000 $(shell $(GO) env GOROOT)/src/net
	$(MAKE) bench-import FORMATS="--megabytes 1 --rounds 1"

.PHONY: bench-simulate
bench-simulate: build ## print packing statistics of 1M log-normal lengths
	@$(BIN) gen-lengths --dist fineweb-edu > bin/lengths; \
	for method in bucket bfd concat; do $(BIN) simulate --method $$method --length 2048 --pool 4096 --max-age 16384 bin/lengths; done; \
	$(BIN) simulate --method bucket --buckets 1024,2048,4096,8192,16384 --pool 4096 --max-age 8192 bin/lengths

FLIGHT ?=

.PHONY: bench-flight
bench-flight: ## compare Flight into pyarrow with Arrow's C++ server and a raw socket
	@$(GO) -C bench build -o $(CURDIR)/bin/flightserve ./flightserve || exit 1; \
	for rows in 85 170; do \
		bin/flightserve -listen 127.0.0.1:18815 -raw 127.0.0.1:18816 -rows $$rows -bucket 2048 & server=$$!; sleep 1; \
		$(VENV) bench/python/flight_read.py --address 127.0.0.1:18815 --raw 127.0.0.1:18816 --server $$server --cpp $(FLIGHT); status=$$?; kill $$server; \
		[ $$status = 0 ] || exit $$status; \
	done

.PHONY: bench-endtoend
bench-endtoend: build ## measure JetStream to pyarrow: text, tokens, memory; baseline: tokenization alone
	@$(GO) -C bench build -o $(CURDIR)/bin/endtoend ./endtoend; venv=$(VENV); \
	bin/endtoend -documents 40000 -python $$venv; \
	bin/endtoend -documents 40000 -tokenized -python $$venv; \
	bin/endtoend -documents 40000 -files $(BIN) -alone -python $$venv; \
	bin/endtoend -documents 400000 -python $$venv; \
	$$venv bench/python/tokenize_only.py

INGEST ?=

.PHONY: bench-ingest
bench-ingest: build ## compare publishing of files and from Python with prepared documents in memory; flags: INGEST
	@$(GO) -C bench build -o $(CURDIR)/bin/ingest ./ingest && bin/ingest -python $(VENV) $(INGEST)

TABLES ?=

.PHONY: bench-papers
bench-papers: ## rewrite the tables of docs/results/papers.md, 3 minutes; TABLES="seamless robust" selects tables
	@$(GO) -C bench build -o $(CURDIR)/bin/papers ./papers && bin/papers -write $(TABLES)

.PHONY: bench-guarantees
bench-guarantees: ## measure checkpoints, recovery, the plan log, ranks in lockstep, buckets, attention cost per rank
	@$(GO) -C bench build -o $(CURDIR)/bin/guarantees ./guarantees && bin/guarantees

.PHONY: bench-culprits
bench-culprits: build ## record the reports on a rank or full stream that blocks a job, into docs/results/culprits.md; 8 minutes
	@venv=$(VENV) && LOADERD_BIN=$(BIN) PYTHONPATH=python/src PYTHONDONTWRITEBYTECODE=1 "$$venv" python/tests/record_culprits.py \
		docs/results/culprits.md $(CULPRITS)

.PHONY: bench-peers
bench-peers: ## compare packing with six libraries, into docs/results/peers.md; flags print instead: PEERS="--only grain"
	@$(GO) -C bench build -o $(CURDIR)/bin/peers ./peers && \
	venv=$(call environment_of,peers) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/python" bench/python/peers/run.py --loaderd bin/peers $(or $(PEERS),--page docs/results/peers.md)

TOKENIZERS_VENV = $(call environment_of,tokenizers)/bin/python

.PHONY: bench-tokenizers
bench-tokenizers: ## compare encoding with tokenizers, tiktoken, gigatoken, fastokens and rs-bpe; about an hour
	@$(GO) -C bench build -o $(CURDIR)/bin/tokenizers ./tokenizers && venv=$(TOKENIZERS_VENV) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/tokenizers/run.py && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/tokenizers/run.py --hostile --cores 1 --rounds 1 --passes 2 --timeout 60 --vocabularies gpt2,cl100k,llama2

LOADING ?=

.PHONY: bench-loading
bench-loading: ## compare tokenizer loading on one core with Hugging Face tokenizers, 2 minutes; flags: LOADING
	@$(GO) -C bench build -o $(CURDIR)/bin/tokenizers ./tokenizers && venv=$(VENV) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/tokenizers/loading.py $(LOADING)

.PHONY: bench-chats
bench-chats: ## compare the loss masks of the same chats in TRL, Axolotl and loaderd, into docs/results/chats.md
	@venv=$(VENV) && PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/chats/run.py docs/results/chats.md

COLUMNS ?=

.PHONY: bench-columns
bench-columns: build ## measure the cost of document columns: bytes, CPU time, memory; flags: COLUMNS
	@venv=$(VENV) && LOADERD_BIN=$(BIN) PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/columns.py $(COLUMNS)

LOADERS ?=

.PHONY: bench-loaders
bench-loaders: build ## compare StepLoader with DataLoader, MosaicML Streaming, Hugging Face datasets and LitData; flags: LOADERS
	@venv=$(call environment_of,test) && loaders=$(call environment_of,loaders) && \
	site() { "$$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; } && \
	PYTHONPATH="$$(site $$venv):$$(site $$loaders)" PYTHONDONTWRITEBYTECODE=1 \
	"$$venv/bin/python" bench/python/loaders/run.py --loaderd $(BIN) $(LOADERS)

GPU ?=

.PHONY: bench-gpu
bench-gpu: build ## train a GPT on a GPU from live text, and from one constant batch as the baseline; flags: GPU
	@venv=$(VENV) && PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/gpu/train.py --loaderd $(BIN) --text "$$($(GO) env GOROOT)/src" $(GPU)

MIXTURES ?=

FORMATS ?=

.PHONY: bench-import
bench-import: build ## compare every format of loaderd import with its original library; flags: FORMATS
	@venv=$(call environment_of,test) && formats=$(call environment_of,formats) && \
	site() { echo "$$1"/lib/python*/site-packages; } && \
	PYTHONPATH="$$(site $$venv):$$(site $$formats)" PYTHONDONTWRITEBYTECODE=1 \
	"$$venv/bin/python" bench/python/formats/run.py --loaderd $(BIN) $(FORMATS)

.PHONY: bench-mixtures
bench-mixtures: ## compare mixtures with six libraries, into docs/results/mixture-peers.md, 30 minutes; flags print instead: MIXTURES
	@$(GO) -C bench build -o $(CURDIR)/bin/mixing ./mixing && \
	venv=$(call environment_of,test) && mixtures=$(call environment_of,mixtures) && \
	site() { "$$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; } && \
	PYTHONPATH="$$(site $$venv):$$(site $$mixtures)" PYTHONDONTWRITEBYTECODE=1 JAX_PLATFORMS=cpu \
	"$$venv/bin/python" bench/python/mixtures/run.py --loaderd bin/mixing \
		$(or $(MIXTURES),--page docs/results/mixture-peers.md)

PULL ?=

.PHONY: bench-pull
bench-pull: ## pull a corpus from an object server through a small stream into steps; PULL="--bytes 20e9 --window 2e9"
	@$(GO) -C bench build -o $(CURDIR)/bin/pull ./pull && bin/pull $(PULL)

# The sources of Go's standard library and of the program's modules. They depend on the Go release and the platform, so
# the page contains the SHA-256 of the documents.
SPLICE_FOLDERS ?= $(shell $(GO) env GOROOT)/src \
	$(shell $(GO) list -deps -f '{{with .Module}}{{if not .Main}}{{.Dir}}{{end}}{{end}}' ./... | sort -u)

.PHONY: bench-splice
bench-splice: ## compare packing of related documents with bm25s and faiss, into docs/results; 6 minutes
	@$(GO) -C bench build -o $(CURDIR)/bin/splice ./splice && \
	bin/splice -bytes 16000000 -pool 4096,16384 -record docs/results/splice.json -figure docs/img/splice.svg \
		-hand bin/splice-pools $(SPLICE_FOLDERS) && \
	venv=$(call environment_of,splice) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/python" bench/python/splice/queries.py \
		--record docs/results/splice-queries.json bin/splice-pools/4096 bin/splice-pools/16384 && \
	rm -r bin/splice-pools
	@$(MAKE) --no-print-directory bench-papers \
		TABLES="splice-corpus splice-4096 splice-16384 splice-speed splice-queries summary"

# Minimization is limited, because it counts towards FUZZTIME.
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func / /' | while read -r file target; do \
		echo "$$(dirname $$file) $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname $$file)" || exit 1; \
	done

.PHONY: clean
clean: ## remove bin/
	rm -rf bin

.PHONY: help
help:
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
