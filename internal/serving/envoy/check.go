package envoy

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// answerCheck answers a call of the authorization service. A request that is too long is denied, because Envoy treats
// an error as no answer, which a client must not be able to choose.
func (s *Server) answerCheck(ctx context.Context, m *message) (any, error) {
	in := new(checkRequest)
	err := in.receiveMessage(m)
	if errors.Is(err, errTooLong) {
		return s.checkResponse(in, s.denyTooLong(ctx)), nil
	}
	if err == nil {
		err = m.close()
	}
	if err != nil {
		return nil, s.countBusy(err)
	}
	return s.check(ctx, in)
}

// answerRateLimit answers a call of the rate limit service.
func (s *Server) answerRateLimit(ctx context.Context, m *message) (any, error) {
	in := new(rateLimitRequest)
	b, err := m.readBytes(m.size)
	if errors.Is(err, errTooLong) {
		return s.rateLimitResponse([]*hottype.Verdict{s.denyTooLong(ctx)}, 0), nil
	}
	if err == nil {
		err = in.unmarshal(b)
	}
	if err == nil {
		err = m.close()
	}
	if err != nil {
		return nil, s.countBusy(err)
	}
	return s.shouldRateLimit(ctx, in)
}

// denyTooLong returns the verdict on a request that is longer than maxKept allows.
func (s *Server) denyTooLong(ctx context.Context) *hottype.Verdict {
	s.cfg.Log.WarnContext(ctx, "envoy: a request is too long and is denied; let Envoy accept shorter headers "+
		"(max_request_headers_kb)", "most", maxKept, "count", s.tooLong.Add(1))
	return s.countVerdict(&hottype.Verdict{Reason: hottype.ReasonMalformed, Mode: hottype.ModeEnforce})
}

func (s *Server) countBusy(err error) error {
	if errors.Is(err, errBusy) {
		s.cfg.Log.Warn("envoy: a call gets no answer because those under way take all memory that they may have",
			"bytes", int64(CallsBound), "count", s.busy.Add(1))
	}
	return err
}

func (s *Server) check(ctx context.Context, in *checkRequest) (any, error) {
	if !in.isHTTP {
		s.malformed.Add(1)
		return nil, status.Error(codes.InvalidArgument, "envoy: the check describes no HTTP request")
	}
	if in.headers.count > usualFields {
		s.manyFields.Add(1)
	}
	target := cmp.Or(in.path, in.host, "/") // CONNECT has no path, and its target is the host
	if in.query != "" && !strings.Contains(target, "?") {
		target += "?" + in.query
	}
	req := &hottype.Request{Method: in.method, Host: in.host, Target: target, Header: &in.headers, FromProxy: true}
	if in.joined {
		req.Header = httplimit.JoinedHeaders{Header: &in.headers}
	}
	s.identifyClient(req, in)
	v := s.decideRequest(ctx, req)
	if !httplimit.Wait(ctx, v) {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return s.checkResponse(in, v), nil
}

// identifyClient sets the sender of the request. Envoy names its own peer; if that is a trusted proxy, the header that
// it wrote counts, as on every other listener.
func (s *Server) identifyClient(req *hottype.Request, in *checkRequest) {
	peer, err := netip.ParseAddr(in.source)
	if err != nil { // a pipe, or no address
		peer = netip.Addr{}
	}
	s.cfg.Clients.Identify(req, peer.Unmap().WithZone(""), in.headers.Values)
}

func (s *Server) decideRequest(ctx context.Context, r *hottype.Request) *hottype.Verdict {
	v := s.cfg.Gate.DecideForGateway(ctx, time.Now(), r)
	return s.countVerdict(&v)
}

// countVerdict counts a verdict, and returns it in the form that responses quote.
func (s *Server) countVerdict(v *hottype.Verdict) *hottype.Verdict {
	httplimit.Quote(v)
	s.checks.Add(1)
	if !v.Allowed {
		s.denied.Add(1)
	}
	return v
}
