package envoy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/protofield"
	"github.com/hotparam/pipeline/internal/serving/held"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Names of the services, as Envoy calls them.
const (
	serviceAuth      = "envoy.service.auth.v3.Authorization"
	serviceRateLimit = "envoy.service.ratelimit.v3.RateLimitService"
	// healthRateLimit is the name under which health checks for envoyproxy/ratelimit ask.
	healthRateLimit = "ratelimit"
)

// Gate decides about requests, and applies limits of descriptors that are not in its rules. *gate.Gate is one.
type Gate interface {
	DecideForGateway(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
	// DecideKeysForGateway is like DecideForGateway, for a request whose client was already charged as a part of
	// another one.
	DecideKeysForGateway(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
	TakeLimit(ctx context.Context, now time.Time, l *gate.Limit, subject string, cost int64) hottype.Verdict
}

type Config struct {
	// Gate is required.
	Gate Gate
	// Held keeps requests whose ends Envoy reports; nil means that Envoy reports none.
	Held *held.Requests
	// Clients decides whose statement about the client counts: the peer that Envoy saw is the client, unless it is a
	// trusted proxy. nil trusts no proxy.
	Clients *httplimit.Clients
	// Answers configures the responses to clients. Its Status is for the authorization service.
	Answers httplimit.Responder
	// Authorize reports whether a call is allowed, by the address and the authorization of its caller; nil allows all.
	// It is not asked about health checks. A call that is not allowed ends with an error, which Envoy treats as no
	// answer.
	Authorize func(*http.Request) bool
	// Log receives panics; nil discards them.
	Log *slog.Logger
}

// Server answers Envoy. Any number of goroutines may use it; [Server.Serve] runs once.
type Server struct {
	cfg    Config
	grpc   *grpc.Server
	health *health.Server
	limits atomic.Pointer[Limits]

	calls, probes account

	checks, denied, malformed, unauthorized, unsupported atomic.Uint64
	tooLong, manyFields, surplus, busy                   atomic.Uint64
}

// Stats are the counters of a server since it was built.
type Stats struct {
	Checks       uint64 `metric:"hotparam_envoy_checks_total" help:"Requests and descriptors that Envoy asked about."`
	Denied       uint64 `metric:"hotparam_envoy_denied_total" help:"Requests and descriptors of Envoy that were denied."`
	Malformed    uint64 `metric:"hotparam_envoy_malformed_total" help:"Malformed calls of Envoy."`
	TooLong      uint64 `metric:"hotparam_envoy_too_long_total" help:"Requests of Envoy that were denied because their header is longer than 1 MiB."`
	ManyFields   uint64 `metric:"hotparam_envoy_many_fields_total" help:"Requests of Envoy with more than 1000 header fields; fields that no rule or setting names are ignored."`
	Surplus      uint64 `metric:"hotparam_envoy_surplus_descriptors_total" help:"Descriptors of Envoy without a decision because their call has more than 100, or they have more than 100 entries."`
	Busy         uint64 `metric:"hotparam_envoy_busy_total" help:"Calls of Envoy without a response because open calls use all memory that is allowed for them."`
	Unauthorized uint64 `metric:"hotparam_envoy_unauthorized_total" help:"Calls without the token."`
	Unsupported  uint64 `metric:"hotparam_envoy_unsupported_total" help:"Descriptors that request a refund of hits, which is not supported."`
}

// Bounds of one connection and one call.
const (
	maxProbe       = 4 << 10 // a health check or a call of reflection
	maxStreams     = 1024
	maxCallHeaders = 64 << 10 // of the call, not of the request in it; Envoy copies tracestate into it
	// The windows do not adapt, because calls are small, and measuring the connection takes pings.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// workers is the number of goroutines that keep their stacks from call to call. Calls beyond it have goroutines of
	// their own.
	workers = 64

	// A connection has callTimeout for its first call with the token; a health check does not count. Envoy pings as
	// often as minPing if it is configured so (connection_keepalive), and connects again when a connection has ended.
	callTimeout = 10 * time.Second
	idleTimeout = 5 * time.Minute
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	minPing     = time.Second
)

// newcomers ends connections unless a call with the token comes in time. It is implemented as grpc's credentials
// because only credentials see a connection before its calls, and are visible to them.
type newcomers struct {
	credentials.TransportCredentials
}

// newcomer ends its connection when it fires.
type newcomer struct{ *time.Timer }

func (newcomer) AuthType() string { return "" }

func (newcomers) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, newcomer{time.AfterFunc(callTimeout, func() { _ = c.Close() })}, nil
}

// New returns a Server. It panics without a gate.
func New(cfg Config) *Server {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg}
	s.calls.most, s.probes.most = servicesBound, probesBound
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxProbe),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxCallHeaders),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.InTapHandle(s.beginCall), // before a byte of a message is kept
		grpc.Creds(newcomers{insecure.NewCredentials()}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout, Time: pingAfter, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		// gRPC's own response would quote the name of the method at any length.
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			return status.Error(codes.Unimplemented, "envoy: there is no such method")
		}),
		grpc.NumStreamWorkers(workers),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
	}
	s.grpc = grpc.NewServer(options...)
	s.health = health.NewServer()
	for _, name := range []string{serviceAuth, serviceRateLimit, healthRateLimit} {
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(s.grpc, s.health)
	s.grpc.RegisterService(newServiceDesc(serviceAuth, "Check", "envoy/service/auth/v3/external_auth.proto",
		s.answerCheck), s)
	s.grpc.RegisterService(newServiceDesc(serviceRateLimit, "ShouldRateLimit", "envoy/service/ratelimit/v3/rls.proto",
		s.answerRateLimit), s)
	registerReflection(s.grpc)
	return s
}

// newServiceDesc returns the description of a service of one method, whose message answer receives.
func newServiceDesc(service, name, file string, answer func(context.Context, *message) (any, error)) *grpc.ServiceDesc {
	handle := func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		of := ctx.Value(shareKey{}).(*share)
		if !of.stop() {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		defer of.release()
		m, err := openMessage(ctx, of)
		if err != nil {
			return nil, err
		}
		defer m.free()
		out, err := answer(ctx, m)
		if errors.Is(err, protofield.ErrMalformed) {
			err = status.Error(codes.Internal, "envoy: "+err.Error())
		}
		return out, err
	}
	return &grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil), Metadata: file,
		Methods: []grpc.MethodDesc{{MethodName: name, Handler: handle}},
	}
}

// Serve answers on ln until ctx ends. It then lets calls under way finish, for at most five seconds, and closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	stopped := make(chan struct{})
	running := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.health.Shutdown()
		cut := time.AfterFunc(5*time.Second, s.grpc.Stop)
		defer cut.Stop()
		s.grpc.GracefulStop()
	})
	err := s.grpc.Serve(ln) // nil after a stop
	if !running() {
		<-stopped
	}
	return err
}

// SetLimits replaces the limits by descriptor, for calls from now on.
func (s *Server) SetLimits(l *Limits) { s.limits.Store(l) }

func (s *Server) Stats() Stats {
	return Stats{
		Checks: s.checks.Load(), Denied: s.denied.Load(), Malformed: s.malformed.Load(),
		Unauthorized: s.unauthorized.Load(), Unsupported: s.unsupported.Load(),
		TooLong: s.tooLong.Load(), ManyFields: s.manyFields.Load(), Surplus: s.surplus.Load(), Busy: s.busy.Load(),
	}
}

// beginCall lets a call begin if it is allowed and there is memory for it. Health checks and reflection have an account
// of their own, because health checks need no token.
func (s *Server) beginCall(ctx context.Context, call *tap.Info) (context.Context, error) {
	if err := s.authorize(ctx, call); err != nil {
		return ctx, err
	}
	of := &s.probes
	if service, _, _ := strings.Cut(strings.TrimPrefix(call.FullMethodName, "/"), "/"); service == serviceAuth ||
		service == serviceRateLimit {
		of = &s.calls
	}
	ctx, ok := of.acquireShare(ctx, call.Header)
	if !ok {
		return ctx, s.countBusy(errBusy)
	}
	return ctx, nil
}

// authorize accepts health checks and calls with the token. The connection of a call with the token stays.
func (s *Server) authorize(ctx context.Context, call *tap.Info) error {
	if strings.HasPrefix(call.FullMethodName, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") {
		return nil
	}
	from, _ := peer.FromContext(ctx)
	if s.cfg.Authorize == nil || s.cfg.Authorize(&http.Request{
		Header: http.Header{"Authorization": call.Header.Get("authorization")}, RemoteAddr: from.Addr.String(),
	}) {
		from.AuthInfo.(newcomer).Stop()
		return nil
	}
	s.unauthorized.Add(1)
	return status.Error(codes.Unauthenticated,
		"envoy: the gateway is refused: its token is missing or wrong; set initial_metadata, authorization: Bearer TOKEN")
}
