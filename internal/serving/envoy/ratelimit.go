package envoy

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/serving/held"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// shouldRateLimit answers the rate limit service. If a descriptor carries a limit or a file has one for it, that limit
// decides, otherwise the rules do. Descriptors are decided in order up to the first denial; later ones are charged
// nothing.
func (s *Server) shouldRateLimit(ctx context.Context, in *rateLimitRequest) (any, error) {
	if in.domain == "" {
		s.malformed.Add(1)
		return nil, status.Error(codes.InvalidArgument, "envoy: the rate limit request has no domain")
	}
	if in.surplus > 0 {
		s.cfg.Log.WarnContext(ctx, "envoy: descriptors are not decided; let the route send at most 100 of at most 100 entries",
			"domain", in.domain, "count", s.surplus.Add(uint64(in.surplus)))
	}
	if s.endRequests(in) {
		return encoded(nil).appendNumber(1, codeOK), nil
	}
	limits := s.limits.Load().resolve(in)
	requests := requestsOf(in, limits)
	verdicts, report := make([]*hottype.Verdict, len(in.descriptors)), uint64(0)
	for i := range in.descriptors {
		v := s.decideDescriptor(ctx, in, i, limits[i], requests[i], &report)
		if verdicts[i] = v; v == nil {
			continue
		}
		if !v.Allowed {
			s.endUnreported(report)
			break
		}
		if !httplimit.Wait(ctx, v) {
			s.endUnreported(report)
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return s.rateLimitResponse(verdicts, report), nil
}

// endUnreported ends a request that does not pass, so that Envoy does not report its end. report is its number or 0.
func (s *Server) endUnreported(report uint64) {
	if report != 0 {
		s.cfg.Held.End(report, held.End{Status: -1, Given: costs.NothingGiven})
	}
}

// decideDescriptor decides about descriptor i, which has a limit of its own or stands for a request. It returns nil if
// it has neither. It sets report to the number by which Envoy reports the end of the request, if there is one.
func (s *Server) decideDescriptor(ctx context.Context, in *rateLimitRequest, i int, own limitMatch,
	request *describedRequest, report *uint64) *hottype.Verdict {
	d := &in.descriptors[i]
	cost := int64(min(cmp.Or(d.hits, in.hits, 1), 1<<53-1)) // its own hits go before the call's
	switch {
	case d.negative:
		s.unsupported.Add(1) // a limit refunds nothing on request
		return nil
	case own.descriptorLimit == nil && request == nil:
		return nil
	case own.descriptorLimit == nil:
		request.request.Cost = cost
		v := hottype.Verdict{}
		switch {
		case request.clientCharged:
			v = s.cfg.Gate.DecideKeysForGateway(ctx, time.Now(), &request.request)
		case d.reports && s.cfg.Held != nil:
			v, *report = s.cfg.Held.DecideReported(ctx, time.Now(), &request.request)
		default:
			v = s.cfg.Gate.DecideForGateway(ctx, time.Now(), &request.request)
		}
		return s.countVerdict(&v)
	case own.limit == nil:
		return &hottype.Verdict{Allowed: true, Remaining: math.MaxUint32}
	default:
		v := s.cfg.Gate.TakeLimit(ctx, time.Now(), own.limit, own.subject, cost)
		return s.countVerdict(&v)
	}
}

// requestsOf returns the requests of the descriptors that the rules decide, at their indexes. All are about one HTTP
// request, whose client is charged once and counted under each key. A descriptor that holds only the client's address
// identifies the client of the others, and is a request itself only if there is no other.
func requestsOf(in *rateLimitRequest, limits []limitMatch) []*describedRequest {
	out := make([]*describedRequest, len(in.descriptors))
	first, lone := -1, -1
	var address *describedRequest // of descriptor lone
	var client hottype.Request    // its Client and Address
	for i := range in.descriptors {
		if limits[i].descriptorLimit != nil || len(in.descriptors[i].entries) == 0 {
			continue
		}
		one := requestOf(in.domain, &in.descriptors[i])
		if client.Client.IsZero() {
			client = one.request
		}
		switch {
		case one.named:
			if out[i] = one; first < 0 {
				first = i
			}
		case address == nil:
			lone, address = i, one
		}
	}
	if first < 0 && address != nil {
		first, out[lone] = lone, address
	}
	for i, r := range out {
		if r != nil {
			r.clientCharged = i != first
			if r.request.Client.IsZero() {
				r.request.Client, r.request.Address = client.Client, client.Address
			}
		}
	}
	return out
}

// Keys of a descriptor's entries that do not name a query parameter. An entry
// "header.User-Agent" is the header of that name.
const (
	keyPath         = "path"
	keyMethod       = "method"
	keyHost         = "host"
	keyGeneric      = "generic_key"
	keyRemote       = "remote_address"
	keyMaskedRemote = "masked_remote_address"
	prefixHeader    = "header."
)

// describedRequest is the request that a descriptor describes.
type describedRequest struct {
	request hottype.Request
	headers httplimit.Headers
	// named is true if the descriptor holds more than the client's address.
	named bool
	// clientCharged is true if another descriptor charges the limits of the client.
	clientCharged bool
}

// requestOf returns the request that a descriptor describes:
//
//	path            the request target as received, with its query (Envoy's header ":path").
//	                Other entries are then not taken for query parameters
//	method, host    the method (default GET) and the host
//	generic_key     without path: the path, with a slash in front
//	remote_address, masked_remote_address   the client
//	header.NAME     a header
//	anything else   without path: a query parameter of that name
//
// Without path and generic_key the path is the domain. A leading colon of a key is ignored, so
// that ":path" is path.
func requestOf(domain string, d *descriptor) *describedRequest {
	r := &describedRequest{request: hottype.Request{Method: "GET", FromProxy: true}}
	path, target, query := domain, "", []byte(nil)
	for _, e := range d.entries {
		client := false
		switch key := strings.TrimPrefix(e.key, ":"); key {
		case keyPath:
			target = e.value
		case keyMethod:
			r.request.Method = e.value
		case keyHost, "authority":
			r.request.Host = e.value
		case keyGeneric:
			path = e.value
		case keyRemote, keyMaskedRemote:
			client = true
			address, _, _ := strings.Cut(e.value, "/") // of a masked address, the network's
			httplimit.IdentifyText(&r.request, address)
		default:
			if name, ok := strings.CutPrefix(key, prefixHeader); ok {
				r.headers = append(r.headers, httplimit.HeaderField{Name: name, Value: e.value})
				break
			}
			if len(query) > 0 {
				query = append(query, '&')
			}
			query = append(appendQuery(query, e.key), '=')
			query = appendQuery(query, e.value)
		}
		r.named = r.named || !client
	}
	r.request.Header = httplimit.JoinedHeaders{Header: &r.headers}
	if r.request.Target = target; target == "" {
		r.request.Target = targetOf(path, query)
	}
	return r
}

// targetOf returns a request target of a path in plain text and an escaped query.
func targetOf(path string, query []byte) string {
	b := append(make([]byte, 0, 2+3*len(path)+len(query)), '/')
	b = httplimit.AppendEscaped(b, strings.TrimPrefix(path, "/"),
		func(c byte) bool { return isUnreserved(c) || c == '/' })
	if len(query) > 0 {
		b = append(append(b, '?'), query...)
	}
	return string(b)
}

// appendQuery escapes a part of a query that Envoy has decoded. Envoy leaves a plus sign as it is, so it may have been
// written "+" or "%2B". It is sent on as "+", so that the rule's setting for plus signs applies, because clients write
// "+".
func appendQuery(b []byte, s string) []byte {
	return httplimit.AppendEscaped(b, s, func(c byte) bool { return isUnreserved(c) || c == '+' })
}

// isUnreserved reports whether RFC 3986 lets a character stand for itself everywhere.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
