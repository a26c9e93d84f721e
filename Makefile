# make test runs what must pass with every change; make help lists the targets.

GO       ?= go
PYTHON   ?= python3
FUZZTIME ?= 30s
BIN      := $(CURDIR)/bin/loaderd

# Four at a time, the longest first: they wait for daemons, timeouts and each other's processes as much as they compute. What each prints comes when it ends,
# and one that fails ends none of the others.
JOBS ?= 4
TOGETHER = @$(MAKE) --no-print-directory -k -j$(JOBS) -Otarget

.PHONY: test
test: ## what must pass with every change, in minutes
	$(TOGETHER) test-go-plain test-go-raced $(PYTHON_TESTS) lint

.PHONY: test-fresh
test-fresh: ## make test with empty caches, as on a fresh machine and as CI runs it; 12 to 14 minutes
	@.ci/run

.PHONY: test-all
test-all: lint test-go-all test-kernels test-python-all test-deploy bench-moment audit ## everything: races, every step, thirty kills, the oldest versions, all examples, what operators get, licences

UV_VERSION = 0.13.9
UV := $(CURDIR)/bin/uv-$(UV_VERSION)/bin/uv

$(UV):
	@$(PYTHON) -m venv --clear $(CURDIR)/bin/uv-$(UV_VERSION) && $(CURDIR)/bin/uv-$(UV_VERSION)/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

GROUP ?= test

.PHONY: environment
environment: $(UV) ## print the folder of the virtual environment of GROUP, a dependency group of python/pyproject.toml; it is made or updated
	@folder=$${XDG_CACHE_HOME:-$$HOME/.cache}/loaderd/venv-$(GROUP)-$$(cksum < python/uv.lock | cut -d' ' -f1) && \
	UV_PROJECT_ENVIRONMENT=$$folder UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 UV_HTTP_TIMEOUT=180 $(UV) sync --quiet --frozen --no-build --project python --python $(PYTHON) --only-group $(GROUP) && \
	echo $$folder

# The folder of a group's environment, and the interpreter of the tests' environment.
environment_of = $$(MAKEFLAGS= $(MAKE) --silent --no-print-directory environment GROUP=$(1))
VENV = $(call environment_of,test)/bin/python

.PHONY: venv
venv: $(UV) ## the virtual environment of the Python tests
	@$(MAKE) --silent --no-print-directory environment GROUP=test >/dev/null

.PHONY: lint
lint: lint-go lint-python lint-prose lint-commits ## formatting, static checks, prose, subjects of commits

.PHONY: lint-go
lint-go: ## gofmt, and golangci-lint with the checks of .golangci.yml
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	$(GOLANGCI) run ./...
	cd bench && $(GOLANGCI) run ./...

GOLANGCI = $(GO) tool -modfile=$(CURDIR)/tools/golangci/go.mod golangci-lint

# All folders with Python in them.
PYTHON_FOLDERS = bench/python examples python tokenizer/internal/gen tools

.PHONY: lint-python
lint-python: venv ## ruff, and mypy, strict
	@venv=$(VENV) && \
	"$$venv" -m ruff check --no-cache --config python/pyproject.toml $(PYTHON_FOLDERS) && \
	"$$venv" -m ruff format --no-cache --check --config python/pyproject.toml $(PYTHON_FOLDERS) && \
	cd python && "$$venv" -m mypy --cache-dir $(CURDIR)/bin/mypy

.PHONY: lint-prose
lint-prose: ## phrases of the deny-list in comments, strings and pages, against tools/vale/limits.json
	@$(PYTHON) tools/prose.py

BASE ?=

.PHONY: lint-commits
lint-commits: ## subjects of the commits after BASE; by default of those that are not on the main branch, or of the last
	@$(PYTHON) tools/commits.py $(BASE)

# Packages whose goroutines share much, whose tests take at most a minute with the race detector, and which do not link the clients of object stores: those
# take minutes to compile with it. All other packages run with it in test-all: whole daemons, clusters, the Flight server and the live page take two to four
# times as long with it, and code that only computes takes ten times as long.
RACED = $(addprefix loaderd/,stream/conn stream/messages stream/feed stream/deadletter stream/proxy stream/server $(addprefix internal/,auth ledger runadmin status top tracing))

.PHONY: browser
browser: ## Chromium and axe-core for the tests of pages, where they are not there yet
	@PYTHON=$(PYTHON) internal/browsertest/browser

.PHONY: test-go
test-go: test-go-raced test-go-plain ## Go tests, with the race detector where it takes a minute at the most

.PHONY: test-go-raced
test-go-raced:
	$(GO) test -race -timeout 20m $(RACED)

# Four packages at a time, as most of them wait.
.PHONY: test-go-plain
test-go-plain: browser
	$(GO) test -p 4 -timeout 20m $(filter-out $(RACED),$(shell $(GO) list ./...))
	$(GO) -C bench test -timeout 20m ./...

.PHONY: test-go-all
test-go-all: browser ## all Go tests, with the race detector
	LOADERD_TEST=all $(GO) test -race -timeout 40m ./...
	LOADERD_TEST=all $(GO) -C bench test -race -timeout 40m ./...

# The race detector switches the checks of pointers on too, but like the address sanitizer knows nothing of what kernels do: those are compared with their twins
# in Go, on texts that end where a page begins that must not be read.
.PHONY: test-kernels
test-kernels: ## packages with kernels in assembly: plain Go, no AVX2, checked pointers, address sanitizer
	$(GO) test -tags purego -timeout 20m ./tokenizer/... ./packonline/similarity
	GODEBUG=cpu.avx2=off $(GO) test -timeout 20m ./tokenizer/... ./packonline/similarity
	$(GO) test -gcflags=all=-d=checkptr -timeout 20m ./tokenizer/... ./packonline/similarity
	$(GO) test -asan -timeout 20m $(addprefix ./tokenizer/internal/,wordcache norm pretokenize) ./packonline/similarity

# One package after the other: each test starts three servers.
.PHONY: test-cluster
test-cluster: ## the tests of stream on a cluster of three servers, with the race detector
	LOADERD_TEST_CLUSTER=3 $(GO) test -race -p 1 -timeout 40m ./stream/...

KILLS ?= 300

.PHONY: torture
torture: ## KILLS faults while ranks read and documents come: kill -9 of the daemon, or with CLUSTER=3 all kinds to three; LOADERD_SEED repeats a run
	LOADERD_TEST=all LOADERD_KILLS=$(KILLS) $(GO) test -count=1 -timeout 24h -run '^TestTorture_$(if $(CLUSTER),Cluster,OneDaemon)$$' -v ./test/torture

TAKEOVERS ?= 20

.PHONY: bench-takeover
bench-takeover: ## how long ranks wait when one of three daemons ends, TAKEOVERS times for each kind of end
	LOADERD_TAKEOVERS=$(TAKEOVERS) $(GO) test -count=1 -timeout 2h -run '^TestTakeover_MeasuresWaitOfRanks$$' -v ./test/torture

SCALES ?= 3

.PHONY: bench-scale
bench-scale: ## serving by 1, 2 and 4 daemons, the leader under 1,024 ranks, three copies against one; SCALES times each
	LOADERD_SCALE=$(SCALES) $(GO) test -count=1 -timeout 2h -run '^TestScale_MeasuresDaemonsRanksAndReplicas$$' -v ./test/torture

PYTEST = LOADERD_BIN=$(BIN) PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/python" -m pytest -p no:cacheprovider -q
OLDEST = test_step test_errors test_prefetch test_client test_client_faults test_client_failover test_client_daemons test_client_protocol test_torch_batch test_torch_buffers test_torch_ranks test_torch_loader test_masks

TOKENIZERS = test_tokenizer*.py test_fingerprint.py
DOCUMENTS = test_chat*.py test_columns.py test_frozen.py test_import.py test_publish.py test_sft.py test_transformations.py
TORCH = test_torch*.py test_masks.py test_distributed.py test_culprits.py test_integrations.py test_examples.py
CLIENT = test_client*.py test_prefetch.py
PYTHON_TESTS = $(addprefix test-python-,documents client others torch tokenizers)

.PHONY: test-python
test-python: ## Python tests against the built binary
	$(TOGETHER) $(PYTHON_TESTS)

.PHONY: $(PYTHON_TESTS)
test-python-tokenizers: FILES = $(TOKENIZERS:%=python/tests/%)
test-python-torch:      FILES = $(TORCH:%=python/tests/%)
test-python-documents:  FILES = $(DOCUMENTS:%=python/tests/%)
test-python-client:     FILES = $(CLIENT:%=python/tests/%)
test-python-others:     FILES = python/tests $(patsubst %,--ignore-glob='*/%',$(TOKENIZERS) $(TORCH) $(DOCUMENTS) $(CLIENT))
$(PYTHON_TESTS): build venv
	@venv=$(call environment_of,test) && $(PYTEST) $(FILES)

.PHONY: test-python-all
test-python-all: ## all Python tests, those of recipes with their libraries among them, and those of client and loader with the oldest versions
	@# A test of wheels links the program of each platform: what it compiles from nothing takes longer than a test may.
	for platform in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -trimpath -o /dev/null ./cmd/loaderd || exit 1; done
	@# Two at a time: with everything they train to the end, and with four at once a test takes longer than it may.
	LOADERD_TEST=all $(MAKE) --no-print-directory test-python JOBS=2
	export LOADERD_TEST=all; venv=$(call environment_of,oldest) && $(PYTEST) $(OLDEST:%=python/tests/%.py)

.PHONY: build
build: ## bin/loaderd
	$(GO) build -ldflags "-X loaderd/internal/build.release=$$($(PYTHON) python/version.py)" -o $(BIN) ./cmd/loaderd

PLATFORMS ?=

.PHONY: dist
dist: ## wheels of daemon and client in bin/dist, for all platforms or those in PLATFORMS (linux-amd64 linux-arm64 darwin-arm64 windows-amd64)
	@$(VENV) tools/dist.py bin/dist $(PLATFORMS)

.PHONY: docs
docs: ## the pages of docs/ as a site, bin/site/index.html; a broken link is an error
	@venv=$(call environment_of,docs) && NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/mkdocs" build --strict

ARCHES ?= amd64 arm64

# nfpm, like all that looks through deploy/, is in a module of its own: deploy/check.
.PHONY: packages
packages: ## deb and rpm in bin/packages for ARCHES (amd64 arm64): the program, manual pages, completion, the service with its user
	@rm -rf bin/packages && mkdir -p bin/packages && $(GO) -C deploy/check build -o ../../bin/packages/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) $(GO) run -tags manual ./cmd/loaderd bin/packages/manual
	@gzip -9n bin/packages/manual/man/*.1
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
test-deploy: ## what is handed to operators, by the libraries of their tools: the chart, the image, compose files, units, packages
	cd deploy/check && $(GO) vet ./... && $(GO) test -count=1 -timeout 20m ./...

BILLS = bin/loaderd.cdx.json bin/loaderd-python.cdx.json

.PHONY: sbom
sbom: build $(UV) ## bills of materials (CycloneDX): the modules in the program, and what the Python package needs with all extras, in bin/*.cdx.json
	$(GO) tool -modfile=tools/go.mod cyclonedx-gomod bin -json -licenses -assert-licenses -std -noserial -version v$$($(PYTHON) python/version.py) \
		-output bin/loaderd.cdx.json $(BIN)
	$(UV) export --quiet --project python --frozen --all-extras --no-default-groups --no-emit-project --format cyclonedx1.5 --output-file $(CURDIR)/bin/loaderd-python.cdx.json >/dev/null

AUDIT_STRICT ?=
VULNDB ?=

.PHONY: audit
audit: sbom ## licences, known vulnerabilities where databases can be asked (AUDIT_STRICT=1: they must be; VULNDB: a copy of vuln.go.dev)
	@tools=$(call environment_of,audit) && tests=$(call environment_of,test) && \
	"$$tools/bin/python" tools/audit.py --program $(BIN) --bills $(BILLS) --site "$$(echo "$$tests"/lib/python*/site-packages)" --db "$(VULNDB)" $(if $(AUDIT_STRICT),--strict)

BENCH ?= bin/bench
ENTRIES ?=
MOMENT ?=

.PHONY: bench
bench: bench-programs ## one table: every measure beside its baseline, into BENCH.json and BENCH.md; ENTRIES="flight splice" for some
	@$(PYTHON) bench/python/table/run.py --out $(BENCH) $(if $(MOMENT),--moment) $(ENTRIES:%=--only %)

.PHONY: bench-programs
bench-programs: build
	@$(GO) -C bench build -o $(CURDIR)/bin/ ./...

FLOODS ?=

.PHONY: bench-security
bench-security: ## a reader's speed and the daemon's memory under floods, into docs/results/security.md, five minutes; FLOODS has names of some, printed
	@$(GO) -C bench build -o $(CURDIR)/bin/floods ./floods
	bin/floods $(if $(FLOODS),$(FLOODS),-page docs/results/security.md)

.PHONY: bench-security-flight
bench-security-flight: ## the same of Flight, with attackers in the server's process; three minutes
	$(GO) test -run '^$$' -bench 'GoodReader' -benchtime 500x -timeout 20m ./arrowout

.PHONY: bench-compare
bench-compare: ## which ratios of run B (.json) are worse than those of run A by a tenth or more; exits with an error then
	@$(PYTHON) bench/python/table/compare.py $(A) $(B)

.PHONY: bench-go
bench-go: ## all benchmarks of Go
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

.PHONY: bench-moment
bench-moment: build ## every benchmark for a moment: do they still run? Part of test-all
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./...
	$(MAKE) bench MOMENT=1 BENCH=bin/bench-moment
	$(MAKE) bench-flight FLIGHT="--seconds 0.1 --rounds 1"
	bin/endtoend -documents 300 -python $(VENV)
	bin/endtoend -documents 300 -tokenized -python $(VENV)
	$(MAKE) bench-columns COLUMNS="--messages 20 --rounds 1"
	bin/floods -rounds 1 -phase 100ms -settle 100ms
	bin/guarantees -documents 16000 -steps 4 tail
	bin/guarantees -planned 60000 -repeats 1 shares order balance mixspeed mixpicture mixneighbours
	LOADERD_SCALE=moment $(GO) test -count=1 -run '^TestScale_MeasuresDaemonsRanksAndReplicas$$' ./test/torture
	bin/pull
	bin/splice -pool 256 -bytes 4000000 $(shell $(GO) env GOROOT)/src/net
	$(MAKE) bench-import FORMATS="--megabytes 1 --rounds 1"

.PHONY: bench-simulate
bench-simulate: build ## packing figures on 1M log-normal lengths
	@$(BIN) gen-lengths --dist fineweb-edu > bin/lengths; \
	for method in bucket bfd concat; do $(BIN) simulate --method $$method --length 2048 --pool 4096 --max-age 16384 bin/lengths; done; \
	$(BIN) simulate --method bucket --buckets 1024,2048,4096,8192,16384 --pool 4096 --max-age 8192 bin/lengths

FLIGHT ?=

.PHONY: bench-flight
bench-flight: ## Flight into pyarrow against a raw socket
	@$(GO) -C bench build -o $(CURDIR)/bin/flightserve ./flightserve || exit 1; \
	for rows in 85 170; do \
		bin/flightserve -listen 127.0.0.1:18815 -raw 127.0.0.1:18816 -rows $$rows -bucket 2048 & server=$$!; sleep 1; \
		$(VENV) bench/python/flight_read.py --address 127.0.0.1:18815 --raw 127.0.0.1:18816 $(FLIGHT); status=$$?; kill $$server; \
		[ $$status = 0 ] || exit $$status; \
	done

.PHONY: bench-endtoend
bench-endtoend: ## JetStream to pyarrow, text and tokens, memory, and tokenizing alone as the baseline
	@$(GO) -C bench build -o $(CURDIR)/bin/endtoend ./endtoend; venv=$(VENV); \
	bin/endtoend -documents 40000 -python $$venv; \
	bin/endtoend -documents 40000 -tokenized -python $$venv; \
	bin/endtoend -documents 400000 -python $$venv; \
	$$venv bench/python/tokenize_only.py

TABLES ?=

.PHONY: bench-papers
bench-papers: ## rewrite the tables of docs/results/papers.md, three minutes; TABLES="seamless robust" for some
	@$(GO) -C bench build -o $(CURDIR)/bin/papers ./papers && bin/papers -write $(TABLES)

.PHONY: bench-guarantees
bench-guarantees: ## checkpoints, recovery, the plan log, ranks in lock step, buckets, attention cost by rank
	@$(GO) -C bench build -o $(CURDIR)/bin/guarantees ./guarantees && bin/guarantees

.PHONY: bench-culprits
bench-culprits: build ## what is shown while a rank or a full stream holds a job, into docs/results/culprits.md; eight minutes
	@venv=$(VENV) && LOADERD_BIN=$(BIN) PYTHONPATH=python/src PYTHONDONTWRITEBYTECODE=1 "$$venv" python/tests/record_culprits.py \
		docs/results/culprits.md $(CULPRITS)

.PHONY: bench-peers
bench-peers: ## packing against TRL, Grain, OLMo-core, LLM Foundry, Axolotl and torchtune
	@$(GO) -C bench build -o $(CURDIR)/bin/peers ./peers && \
	venv=$(call environment_of,peers) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/python" bench/python/peers/run.py --loaderd bin/peers

TOKENIZERS_VENV = $(call environment_of,tokenizers)/bin/python

.PHONY: bench-tokenizers
bench-tokenizers: ## encoding against tokenizers, tiktoken, gigatoken, fastokens and rs-bpe, about an hour
	@$(GO) -C bench build -o $(CURDIR)/bin/tokenizers ./tokenizers && venv=$(TOKENIZERS_VENV) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/tokenizers/run.py && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/tokenizers/run.py --hostile --cores 1 --rounds 1 --passes 2 --timeout 60 --vocabularies gpt2,cl100k,llama2

LOADING ?=

.PHONY: bench-loading
bench-loading: ## loading tokenizers on one core against Hugging Face tokenizers, two minutes; LOADING has flags
	@$(GO) -C bench build -o $(CURDIR)/bin/tokenizers ./tokenizers && venv=$(VENV) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/tokenizers/loading.py $(LOADING)

.PHONY: bench-chats
bench-chats: ## which tokens of the same chats have a loss with TRL, Axolotl and loaderd
	@venv=$(VENV) && PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/chats/run.py

COLUMNS ?=

.PHONY: bench-columns
bench-columns: build ## what columns of documents cost: bytes, processor time, memory; COLUMNS has flags
	@venv=$(VENV) && LOADERD_BIN=$(BIN) PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/columns.py $(COLUMNS)

LOADERS ?=

.PHONY: bench-loaders
bench-loaders: build ## StepLoader against DataLoader, MosaicML Streaming, Hugging Face datasets and LitData; LOADERS has flags
	@venv=$(call environment_of,test) && loaders=$(call environment_of,loaders) && \
	site() { "$$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; } && \
	PYTHONPATH="$$(site $$venv):$$(site $$loaders)" PYTHONDONTWRITEBYTECODE=1 \
	"$$venv/bin/python" bench/python/loaders/run.py --loaderd $(BIN) $(LOADERS)

GPU ?=

.PHONY: bench-gpu
bench-gpu: build ## a GPT that trains on a GPU from live text, against one batch that is there; GPU has flags
	@venv=$(VENV) && PYTHONDONTWRITEBYTECODE=1 "$$venv" bench/python/gpu/train.py --loaderd $(BIN) --text "$$($(GO) env GOROOT)/src" $(GPU)

MIXTURES ?=

FORMATS ?=

.PHONY: bench-import
bench-import: build ## reading every format of loaderd import beside the original library; FORMATS has flags
	@venv=$(call environment_of,test) && formats=$(call environment_of,formats) && \
	site() { echo "$$1"/lib/python*/site-packages; } && \
	PYTHONPATH="$$(site $$venv):$$(site $$formats)" PYTHONDONTWRITEBYTECODE=1 \
	"$$venv/bin/python" bench/python/formats/run.py --loaderd $(BIN) $(FORMATS)

.PHONY: bench-mixtures
bench-mixtures: ## shares, changes and epochs of several sources against six other libraries, about half an hour; MIXTURES has flags
	@$(GO) -C bench build -o $(CURDIR)/bin/mixing ./mixing && \
	venv=$(call environment_of,test) && mixtures=$(call environment_of,mixtures) && \
	site() { "$$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; } && \
	PYTHONPATH="$$(site $$venv):$$(site $$mixtures)" PYTHONDONTWRITEBYTECODE=1 JAX_PLATFORMS=cpu \
	"$$venv/bin/python" bench/python/mixtures/run.py --loaderd bin/mixing $(MIXTURES)

PULL ?=

.PHONY: bench-pull
bench-pull: ## a corpus goes from an object server through a small stream into steps, every document counted; PULL="--bytes 20e9 --window 2e9"
	@$(GO) -C bench build -o $(CURDIR)/bin/pull ./pull && bin/pull $(PULL)

# The text of Go's library and of the modules that the program is built of. It depends on the Go release and on the
# platform, so the page has the SHA-256 of the documents.
SPLICE_FOLDERS ?= $(shell $(GO) env GOROOT)/src \
	$(shell $(GO) list -deps -f '{{with .Module}}{{if not .Main}}{{.Dir}}{{end}}{{end}}' ./... | sort -u)

.PHONY: bench-splice
bench-splice: ## related documents in one row, against bm25s and faiss, into docs/results; six minutes
	@$(GO) -C bench build -o $(CURDIR)/bin/splice ./splice && \
	bin/splice -bytes 16000000 -pool 4096,16384 -record docs/results/splice.json -figure docs/img/splice.svg \
		-hand bin/splice-pools $(SPLICE_FOLDERS) && \
	venv=$(call environment_of,splice) && \
	PYTHONDONTWRITEBYTECODE=1 "$$venv/bin/python" bench/python/splice/queries.py \
		--record docs/results/splice-queries.json bin/splice-pools/4096 bin/splice-pools/16384 && \
	rm -r bin/splice-pools
	@$(MAKE) --no-print-directory bench-papers \
		TABLES="splice-corpus splice-4096 splice-16384 splice-speed splice-queries summary"

# Minimizing is kept short: it counts against FUZZTIME, and an input that only reaches new code is not worth more.
.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func / /' | while read -r file target; do \
		echo "$$(dirname $$file) $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname $$file)" || exit 1; \
	done

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin

.PHONY: help
help:
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
