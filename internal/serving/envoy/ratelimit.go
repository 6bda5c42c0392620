package envoy

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// shouldRateLimit answers the rate limit service. A descriptor is held to its limit, if it brings
// one along or a file says one, else it is decided by the rules. They are decided in order up to
// the first refusal: what comes behind it is charged nothing.
func (s *Server) shouldRateLimit(ctx context.Context, in *rateLimitRequest) (any, error) {
	if in.domain == "" {
		s.malformed.Add(1)
		return nil, status.Error(codes.InvalidArgument, "envoy: the rate limit request has no domain")
	}
	limits := s.limits.Load().resolve(in)
	requests := requestsOf(in, limits)
	verdicts := make([]*hottype.Verdict, len(in.descriptors))
	for i := range in.descriptors {
		v := s.decideDescriptor(ctx, in, i, limits[i], requests[i])
		if verdicts[i] = v; v == nil {
			continue
		}
		if !v.Allowed {
			break
		}
		if !httplimit.Wait(ctx, v) {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return s.limited(verdicts), nil
}

// decideDescriptor decides about descriptor i, which has a limit of its own or stands for a request.
// nil: it has neither.
func (s *Server) decideDescriptor(ctx context.Context, in *rateLimitRequest, i int, own limitMatch,
	request *described) *hottype.Verdict {
	d := &in.descriptors[i]
	switch cost := costOf(in, d); {
	case d.negative:
		s.unsupported.Add(1) // a limit gives nothing back on request
		return nil
	case own.descriptorLimit == nil && request == nil:
		return nil
	case own.descriptorLimit == nil:
		request.request.Cost = cost
		return s.decide(ctx, &request.request)
	case own.limit == nil:
		return &hottype.Verdict{Allowed: true, Remaining: math.MaxUint32}
	default:
		v := s.gate.Recover(func() hottype.Verdict {
			return s.cfg.Gate.TakeLimit(ctx, time.Now(), own.limit, own.subject, cost)
		})
		return s.count(&v)
	}
}

// requestsOf are the requests that those descriptors stand for which the rules decide, at their
// places. They are all about one HTTP request, whose client is charged once: a descriptor that
// holds only the client's address says whose request the next one is, and is a request itself
// only where there is no other.
func requestsOf(in *rateLimitRequest, limits []limitMatch) []*described {
	out := make([]*described, len(in.descriptors))
	first, lone := -1, -1
	var address *described // of descriptor lone
	var client hottype.Client
	for i := range in.descriptors {
		if limits[i].descriptorLimit != nil || len(in.descriptors[i].entries) == 0 {
			continue
		}
		one := describe(in.domain, &in.descriptors[i])
		if client.IsZero() {
			client = one.request.Client
		}
		one.request.Client = hottype.Client{}
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
	if first >= 0 {
		out[first].request.Client = client
	}
	return out
}

// costOf is what a descriptor takes: what it says itself, else what the call says, else 1.
func costOf(in *rateLimitRequest, d *descriptor) int64 {
	hits := d.hits
	if hits == 0 {
		hits = in.hits
	}
	return int64(min(max(hits, 1), 1<<53-1))
}
