package envoy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	_ "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3" // registers the schema for reflection
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Names of the services, as Envoy calls them.
const (
	serviceAuth      = "envoy.service.auth.v3.Authorization"
	serviceRateLimit = "envoy.service.ratelimit.v3.RateLimitService"
)

// Gate decides about requests, and holds descriptors to limits that are not in its rules. *gate.Gate
// is one.
type Gate interface {
	httplimit.Gate
	TakeLimit(ctx context.Context, now time.Time, l *gate.Limit, subject string, cost int64) hottype.Verdict
}

type Config struct {
	// Gate is required.
	Gate Gate
	// Clients says whose word about the client is taken: the peer that Envoy saw is the client,
	// unless it is a trusted proxy. nil trusts none.
	Clients *httplimit.Clients
	// Answers configure the responses to clients. Their Status is that of the authorization service.
	Answers httplimit.Responder
	// Authorize says whether a call may be made, by the address and the authorization of its
	// caller: 0, or the HTTP status of the denial. nil: all may. Health checks are not asked.
	Authorize func(*http.Request) int
	// Log hears of panics; nil: discarded.
	Log *slog.Logger
}

// Server answers Envoy. It may be used by many goroutines; [Server.Serve] runs once.
type Server struct {
	cfg    Config
	gate   *httplimit.SafeGate
	grpc   *grpc.Server
	health *health.Server
	limits atomic.Pointer[Limits]

	checks, denied, malformed, unauthorized, unsupported atomic.Uint64
}

// Stats are the counters of a server since it was built.
type Stats struct {
	Checks       uint64 `metric:"hotparam_envoy_checks_total" help:"Requests and descriptors that Envoy asked about."`
	Denied       uint64 `metric:"hotparam_envoy_denied_total" help:"Requests and descriptors of Envoy that were denied."`
	Malformed    uint64 `metric:"hotparam_envoy_malformed_total" help:"Calls of Envoy that describe no request."`
	Unauthorized uint64 `metric:"hotparam_envoy_unauthorized_total" help:"Calls without the token."`
	Unsupported  uint64 `metric:"hotparam_envoy_unsupported_total" help:"Descriptors that ask to give hits back, which is not done."`
	Panics       uint64 `metric:"hotparam_envoy_panics_total" help:"Requests allowed because deciding on them panicked; report it."`
}

// Bounds of one connection and one call.
const (
	maxMessage     = 1 << 20 // a body that Envoy sends along is within it, and is not looked at
	maxStreams     = 1024
	maxCallHeaders = 64 << 10 // of the call, not of the request that it describes
	// Windows that do not adapt: calls are small, and measuring the connection takes pings.
	streamWindow = 64 << 10
	// workers keep their stacks from call to call. Calls beyond them have goroutines of their own.
	workers = 64

	// A connection has callTimeout for its first call with the token: a health check is none. Envoy pings as often as
	// minPing if it is told to (connection_keepalive), and connects again when a connection has ended.
	callTimeout = 10 * time.Second
	idleTimeout = 5 * time.Minute
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	minPing     = time.Second
)

// newcomers are connections that end unless a call with the token comes in time. It is of grpc's credentials because
// these alone see a connection before its calls, and are seen by them.
type newcomers struct {
	credentials.TransportCredentials
}

// newcomer ends its connection when it fires.
type newcomer struct{ *time.Timer }

func (newcomer) AuthType() string { return "" }

func (newcomers) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, newcomer{time.AfterFunc(callTimeout, func() { _ = c.Close() })}, nil
}

// New builds a Server; it panics without a gate.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, gate: httplimit.NewSafeGate(httplimit.SafeGateConfig{
		Gate: cfg.Gate, RetryJitter: cfg.Answers.RetryJitter, Log: cfg.Log,
	})}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxCallHeaders),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.InTapHandle(s.authorize), // before a byte of a message is kept
		grpc.Creds(newcomers{insecure.NewCredentials()}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout, Time: pingAfter, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.NumStreamWorkers(workers),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(maxMessage),
	}
	s.grpc = grpc.NewServer(options...)
	s.health = health.NewServer()
	healthv1.RegisterHealthServer(s.grpc, s.health)
	s.grpc.RegisterService(method(serviceAuth, "Check", "envoy/service/auth/v3/external_auth.proto", s.check), s)
	s.grpc.RegisterService(method(serviceRateLimit, "ShouldRateLimit", "envoy/service/ratelimit/v3/rls.proto",
		s.shouldRateLimit), s)
	reflection.Register(s.grpc)
	return s
}

// method describes a service of one method whose request is read by hand.
func method[Request any](service, name, file string,
	call func(context.Context, *Request) (any, error)) *grpc.ServiceDesc {
	handle := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(Request)
		if err := decode(in); err != nil {
			return nil, err
		}
		return call(ctx, in)
	}
	return &grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil), Metadata: file,
		Methods: []grpc.MethodDesc{{MethodName: name, Handler: handle}},
	}
}

// Serve answers on ln until ctx ends, then lets calls under way finish for at most five seconds.
// It closes ln.
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
		Unauthorized: s.unauthorized.Load(), Unsupported: s.unsupported.Load(), Panics: s.gate.Panics(),
	}
}

// check answers the authorization service.
func (s *Server) check(ctx context.Context, in *checkRequest) (any, error) {
	if in.path == "" {
		s.malformed.Add(1)
		return nil, status.Error(codes.InvalidArgument, "envoy: the check says nothing of an HTTP request")
	}
	target := in.path
	if in.query != "" && !strings.Contains(target, "?") {
		target += "?" + in.query
	}
	req := &hottype.Request{Method: in.method, Host: in.host, Target: target, Header: &in.headers}
	s.identify(req, in)
	v := s.decide(ctx, req)
	if !httplimit.Wait(ctx, v) {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return s.checked(in, v), nil
}

// identify fills in who sent the request. Envoy names its own peer; where that is a trusted proxy, the
// header that it wrote counts, as on every other listener.
func (s *Server) identify(req *hottype.Request, in *checkRequest) {
	peer, err := netip.ParseAddr(in.source)
	if err != nil { // a pipe, or nothing
		peer = netip.Addr{}
	}
	s.cfg.Clients.Identify(req, peer.Unmap().WithZone(""), in.headers.Values)
}

func (s *Server) decide(ctx context.Context, r *hottype.Request) *hottype.Verdict {
	v := s.gate.Decide(ctx, r)
	return s.count(&v)
}

func (s *Server) count(v *hottype.Verdict) *hottype.Verdict {
	s.checks.Add(1)
	if !v.Allowed {
		s.denied.Add(1)
	}
	return v
}

// authorize lets calls with the token pass, and health checks. The connection of the former stays.
func (s *Server) authorize(ctx context.Context, call *tap.Info) (context.Context, error) {
	if strings.HasPrefix(call.FullMethodName, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") {
		return ctx, nil
	}
	from, _ := peer.FromContext(ctx)
	denied := 0
	if s.cfg.Authorize != nil {
		denied = s.cfg.Authorize(&http.Request{
			Header: http.Header{"Authorization": call.Header.Get("authorization")}, RemoteAddr: from.Addr.String(),
		})
	}
	if denied == 0 {
		from.AuthInfo.(newcomer).Stop()
		return ctx, nil
	}
	s.unauthorized.Add(1)
	if denied == http.StatusTooManyRequests {
		return ctx, status.Error(codes.ResourceExhausted, "envoy: too many wrong tokens came from this address")
	}
	return ctx, status.Error(codes.Unauthenticated,
		"envoy: the call has no valid token; set initial_metadata, authorization: Bearer TOKEN")
}
