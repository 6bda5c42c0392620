package program

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/held"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Extras holds constructors of the parts that need gRPC or a client of a server. Package fleet has all of them. A
// program without them, such as cmd/serve, compiles none of their libraries and rejects settings that need them.
type Extras struct {
	Rules OpenRules
	Envoy OpenEnvoy
}

// OpenRules opens the central store of rules that cfg.Rules names. The second result closes the store.
type OpenRules func(cfg CentralConfig, namespace string, log *slog.Logger) (RuleStore, func() error, error)

// OpenEnvoy returns the part that answers Envoy, before it listens.
type OpenEnvoy func() Envoy

// EnvoyConfig holds the parts of the program that an Envoy uses. Authorize reports whether the credentials of a call
// are valid.
type EnvoyConfig struct {
	Gate      *gate.Gate
	Held      *held.Requests // whose ends Envoy reports
	Clients   *httplimit.Clients
	Answers   httplimit.Responder
	Authorize func(*http.Request) bool
	Log       *slog.Logger
}

// Envoy answers Envoy's external authorization and its rate limit service. ReadLimits may be called before Open.
type Envoy interface {
	// ReadLimits reads and checks files of limits by descriptor. They are in force from ApplyLimits on.
	ReadLimits(names []string) error
	Open(cfg EnvoyConfig)
	ApplyLimits()
	Serve(ctx context.Context, ln net.Listener) error
	// CallsBound returns an upper bound of the bytes that the calls under way take.
	CallsBound() int64
	// AllStats returns the statistics, whose fields are metrics.
	AllStats() any
}

// Learner watches the requests of the proxy, and writes a configuration when Run has seen enough of them.
type Learner interface {
	Wrap(next http.Handler) http.Handler
	Run(ctx context.Context) error
}

// OpenLearner prepares a Learner, or returns nil if there is nothing to learn.
type OpenLearner func(cfg config.Serve, set func() *rules.Set, clients *httplimit.Clients,
	log *slog.Logger) (Learner, error)
