# `make` alone prints this help. Everything here is an ordinary go command.
.DEFAULT_GOAL := help
GO ?= go
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# Each adapter to a framework is a module of its own.
ADAPTERS = $(patsubst %/go.mod,%,$(wildcard adapters/*/go.mod))
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0

.PHONY: help demo build test test-long race integration mutate mutants lint bench peers fuzz fleet soak incident upstreams evasion snapshot clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: ## the whole pipeline in one process, alive in ten seconds
	$(GO) run ./cmd/hotparam demo

build: ## the four programs, into bin/
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

integration: ## everything, also what starts clusters of Redis, a browser and Apache Kafka; nothing may skip
	@set -ex; for module in . test $(ADAPTERS); do \
	  (cd $$module; HOTPARAM_REQUIRE_SERVERS=1 $(GO) test -json -count=1 ./...) | (cd test; $(GO) run ./skips); done

RUN ?= .
mutate: ## plants faults, one at a time, and prints which of them no test notices (RUN=gate: some); about 40 minutes
	cd test && $(GO) run ./mutate -run '$(RUN)'

SAMPLE ?= 0
mutants: ## changes the core by rule, and prints what no test notices (RUN=canon: some, SAMPLE=60 of each); hours
	cd test && $(GO) run ./mutate -mutants '$(or $(RUN),.)' -sample $(SAMPLE) -seed $(or $(SEED),1)

lint: ## go vet and golangci-lint (with staticcheck in it)
	@set -ex; for module in . test $(ADAPTERS); do (cd $$module; $(GO) vet ./...; $(GO) run $(GOLANGCI) run ./...); done

bench: ## benchmarks of the hot path, with allocations
	$(GO) test -run '^$$' -bench . -benchmem -cpu 1,2 ./internal/canon/ ./internal/rules/ ./internal/counting/tally/ \
	    ./hotparam/limit/ ./internal/hotset/ ./internal/detection/window/ ./internal/deciding/gate/ \
	    ./internal/serving/middleware/ ./internal/transport/statsd/ ./internal/operator/replay/

peers: ## comparisons with other libraries and servers; about ten minutes, needs redis-server and npm
	cd bench && $(GO) vet ./... && $(GO) test ./...
	GOBIN=$(CURDIR)/bin $(GO) install github.com/prometheus/statsd_exporter@v0.31.0
	cd bench && for p in inprocess window redis batch; do echo "## $$p"; $(GO) run ./$$p || exit 1; done
	npm install --prefix bin/peers statsd@0.9.0
	cd bench && $(GO) run ./udp -exporter $(CURDIR)/bin/statsd_exporter

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
	cd test && SOAK=$(SOAK) $(GO) test -count=1 -v -timeout 2h -run 'TestSoak$$' ./e2e

INCIDENT ?= 5m
incident: ## an incident of INCIDENT (default 5m) against serve, handled on the page by keyboard; needs chromium
	cd test && INCIDENT=$(INCIDENT) $(GO) test -count=1 -v -timeout 2h -run TestIncidentByKeyboard ./admin

UPSTREAMS ?= bin/upstreams
upstreams: ## ask real frameworks how they read targets, and compare with the presets' table; installs them
	test/parseas/setup.sh $(UPSTREAMS)
	cd test/parseas && $(GO) vet ./... && $(GO) run . -dir ../../$(UPSTREAMS)

REQUESTS ?= 25000
evasion: ## REQUESTS (default 25000) mutated targets through serve to each of 12 frameworks, for which one value is blocked
	test/parseas/setup.sh $(UPSTREAMS) fuzz
	cd test && HOTPARAM_UPSTREAMS=$(CURDIR)/$(UPSTREAMS) HOTPARAM_FUZZ_REQUESTS=$(REQUESTS) HOTPARAM_REQUIRE_SERVERS=1 \
	    $(GO) test -count=1 -v -timeout 2h -run TestNoSpellingEvades ./parseas

snapshot: ## the release's binaries for this machine, into dist/, by the release's configuration
	$(GO) run $(GORELEASER) check
	$(GO) run $(GORELEASER) build --snapshot --clean --single-target

clean: ## what build made
	rm -rf bin dist
