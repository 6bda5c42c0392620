package envoy

import (
	"bytes"
	"math"
	"net/http"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// recorder is the answer that another listener would have written.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// record writes the refusal that v is, as all listeners write it, for a client that accepts these media types.
func (s *Server) record(v *hottype.Verdict, method string, accept []string) *recorder {
	r := &recorder{header: http.Header{}}
	s.cfg.Answers.WriteDenied(r, method, accept, v)
	return r
}

// checked is the answer of the authorization service.
func (s *Server) checked(in *checkRequest, v *hottype.Verdict) *authv3.CheckResponse {
	metadata := metadataOf(v)
	if v.Allowed {
		h := http.Header{}
		s.cfg.Answers.SetLimits(h, v)
		return &authv3.CheckResponse{
			Status:          &rpcstatus.Status{},
			DynamicMetadata: metadata,
			HttpResponse: &authv3.CheckResponse_OkResponse{
				OkResponse: &authv3.OkHttpResponse{ResponseHeadersToAdd: headerOptions(h)},
			},
		}
	}
	r := s.record(v, in.method, in.headers.Values("Accept"))
	return &authv3.CheckResponse{
		Status:          &rpcstatus.Status{Code: int32(codes.ResourceExhausted), Message: string(v.Reason)},
		DynamicMetadata: metadata,
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(r.status)},
			Headers: headerOptions(r.header),
			Body:    strings.ToValidUTF8(r.body.String(), "\ufffd"),
		}},
	}
}

// limited is the answer of the rate limit service: the code of each descriptor, in their order,
// and what the client is told, which is about the refusal, or else about the first limit.
func (s *Server) limited(verdicts []*hottype.Verdict) *ratelimitv3.RateLimitResponse {
	out := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
	var tell *hottype.Verdict
	for _, v := range verdicts {
		out.Statuses = append(out.Statuses, statusOf(v))
		switch {
		case v == nil:
		case !v.Allowed:
			out.OverallCode, tell = ratelimitv3.RateLimitResponse_OVER_LIMIT, v
		case tell == nil && v.Window > 0:
			tell = v
		}
	}
	if tell == nil {
		return out
	}
	out.DynamicMetadata = metadataOf(tell)
	if tell.Allowed {
		h := http.Header{}
		s.cfg.Answers.SetLimits(h, tell)
		out.ResponseHeadersToAdd = headerValues(h)
		return out
	}
	r := s.record(tell, "", nil) // the status is the filter's own setting, rate_limited_status
	out.ResponseHeadersToAdd, out.RawBody = headerValues(r.header), r.body.Bytes()
	return out
}

// statusOf is the status of one descriptor; v is nil where it was not decided, because another
// one had been refused or no limit is meant.
func statusOf(v *hottype.Verdict) *ratelimitv3.RateLimitResponse_DescriptorStatus {
	if v == nil {
		return &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ratelimitv3.RateLimitResponse_OK}
	}
	st := &ratelimitv3.RateLimitResponse_DescriptorStatus{
		Code: ratelimitv3.RateLimitResponse_OK, CurrentLimit: limitOf(v),
		LimitRemaining: uint32(min(max(v.Remaining, 0), math.MaxUint32)),
	}
	wait := v.ResetAfter
	if !v.Allowed {
		st.Code, wait = ratelimitv3.RateLimitResponse_OVER_LIMIT, v.RetryAfter
	}
	if wait != hottype.Never {
		// Envoy makes Retry-After of it and cuts off what is less than a second.
		st.DurationUntilReset = durationpb.New((wait + time.Second - 1).Truncate(time.Second))
	}
	return st
}

// limitOf says a limit in Envoy's units: in that of its window, else in the shortest in which it is a
// whole number, or large enough that cutting it off does not matter. It is nil where no limit is
// enforced, so that Envoy writes no X-RateLimit fields.
func limitOf(v *hottype.Verdict) *ratelimitv3.RateLimitResponse_RateLimit {
	if v.Window <= 0 || v.Mode == hottype.ModeShadow {
		return nil
	}
	out := &ratelimitv3.RateLimitResponse_RateLimit{Name: v.Rule}
	for _, u := range units {
		n := float64(v.Limit) * float64(u.of) / float64(v.Window)
		out.Unit, out.RequestsPerUnit = u.code, uint32(min(n, math.MaxUint32))
		if u.of == v.Window || u.of > v.Window && n == math.Trunc(n) || n >= 100 {
			break
		}
	}
	return out
}

// metadataOf is what Envoy's access log can show of a verdict, nil where no rule had a word.
func metadataOf(v *hottype.Verdict) *structpb.Struct {
	if v.Rule == "" && v.Key == "" {
		return nil
	}
	text := func(s string) *structpb.Value { return structpb.NewStringValue(strings.ToValidUTF8(s, "\ufffd")) }
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"reason": text(string(v.Reason)), "rule": text(v.Rule), "key": text(string(v.Key)),
		"shadowed": structpb.NewBoolValue(v.Shadowed), "hot": structpb.NewBoolValue(v.Hot),
	}}
}

func headerValues(h http.Header) []*corev3.HeaderValue {
	out := make([]*corev3.HeaderValue, 0, len(h))
	for name, values := range h {
		if name == "Content-Length" {
			continue // Envoy writes its own
		}
		for _, value := range values {
			out = append(out, &corev3.HeaderValue{Key: strings.ToLower(name), Value: strings.ToValidUTF8(value, "\ufffd")})
		}
	}
	return out
}

func headerOptions(h http.Header) []*corev3.HeaderValueOption {
	values := headerValues(h)
	out := make([]*corev3.HeaderValueOption, len(values))
	for i, v := range values {
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		if v.Key == "access-control-expose-headers" { // the application may name others
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
		out[i] = &corev3.HeaderValueOption{Header: v, AppendAction: action}
	}
	return out
}
