package envoy

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// denyResponse records the denial that another listener would have written.
type denyResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *denyResponse) Header() http.Header         { return r.header }
func (r *denyResponse) WriteHeader(status int)      { r.status = status }
func (r *denyResponse) Write(b []byte) (int, error) { return r.body.Write(b) }

// recordDenial returns the denial of a request in the form of all listeners.
func (s *Server) recordDenial(denied httplimit.Denied, v *hottype.Verdict) *denyResponse {
	r := &denyResponse{header: http.Header{}}
	s.cfg.Answers.WriteDenied(r, denied, v)
	return r
}

// answerSize is enough room for usual responses.
const answerSize = 1024

// Values of Envoy's enumerations. The tests compare them with the published schema.
const (
	codeOK                 = 1 // RateLimitResponse.Code
	codeOverLimit          = 2
	overwriteIfExistsOrAdd = 2 // HeaderValueOption.HeaderAppendAction
)

// checkResponse returns the response of the authorization service, envoy.service.auth.v3.CheckResponse.
func (s *Server) checkResponse(in *checkRequest, v *hottype.Verdict) encoded {
	b := make(encoded, 0, answerSize)
	if v.Allowed {
		h := http.Header{}
		s.cfg.Answers.SetLimits(h, v)
		b = b.appendMessage(1, func(b encoded) encoded { return b }) // status: OK
		b = b.appendMessage(3, func(b encoded) encoded { return b.appendHeaderOptions(6, h) })
		return b.appendMetadata(4, v, 0)
	}
	r := s.recordDenial(httplimit.Denied{Method: in.method, Accept: in.headers.Values("Accept"),
		TLS: httplimit.IsHTTPS(in.headers.Values("X-Forwarded-Proto"))}, v)
	b = b.appendMessage(1, func(b encoded) encoded {
		return b.appendNumber(1, uint64(codes.ResourceExhausted)).appendText(2, v.Reason.String())
	})
	b = b.appendMessage(2, func(b encoded) encoded {
		b = b.appendMessage(1, func(b encoded) encoded { return b.appendNumber(1, uint64(r.status)) })
		return b.appendHeaderOptions(2, r.header).appendText(3, r.body.String())
	})
	return b.appendMetadata(4, v, 0)
}

// rateLimitResponse returns the response of the rate limit service, envoy.service.ratelimit.v3.RateLimitResponse: the
// code of each descriptor, in their order, and the headers for the client, which describe the denial, or else the first
// limit.
func (s *Server) rateLimitResponse(verdicts []*hottype.Verdict, report uint64) encoded {
	overall := uint64(codeOK)
	var tell *hottype.Verdict
	for _, v := range verdicts {
		switch {
		case v == nil:
		case !v.Allowed:
			overall, tell = codeOverLimit, v
		case tell == nil && v.Window > 0:
			tell = v
		}
	}
	b := make(encoded, 0, answerSize).appendNumber(1, overall)
	for _, v := range verdicts {
		b = b.appendMessage(2, func(b encoded) encoded { return b.appendStatus(v) })
	}
	if tell == nil || tell.Allowed {
		h := http.Header{}
		if tell == nil {
			tell = &hottype.Verdict{}
		} else {
			s.cfg.Answers.SetLimits(h, tell)
		}
		return b.appendHeaders(3, h).appendMetadata(6, tell, report)
	}
	tell.Pass = nil // the descriptors of later requests would not carry its cookie
	// The status is the filter's own setting, rate_limited_status.
	r := s.recordDenial(httplimit.Denied{}, tell)
	return b.appendHeaders(3, r.header).appendBytes(5, r.body.Bytes()).appendMetadata(6, tell, 0)
}

// appendStatus adds the RateLimitResponse.DescriptorStatus of one descriptor. v is nil if the descriptor was not
// decided, because an earlier one was denied or no limit applies.
func (b encoded) appendStatus(v *hottype.Verdict) encoded {
	if v == nil {
		return b.appendNumber(1, codeOK)
	}
	code, wait := uint64(codeOK), v.ResetAfter
	if !v.Allowed {
		code, wait = codeOverLimit, v.RetryAfter
	}
	b = b.appendNumber(1, code)
	if v.Window > 0 && v.Mode != hottype.ModeShadow { // else Envoy would write X-RateLimit fields of no limit
		b = b.appendMessage(2, func(b encoded) encoded {
			n, unit := inUnit(v)
			return b.appendNumber(1, n).appendNumber(2, unit).appendText(3, v.Rule)
		})
	}
	b = b.appendNumber(3, uint64(min(max(v.Remaining, 0), math.MaxUint32)))
	if wait == hottype.Never {
		return b
	}
	return b.appendMessage(4, func(b encoded) encoded {
		// Envoy makes Retry-After of it and cuts off fractions of a second.
		return b.appendNumber(1, uint64((max(wait, 0)+time.Second-1)/time.Second))
	})
}

// inUnit returns a limit in the first of Envoy's units, from the shortest, that is the unit of its window, or is longer
// and makes it a whole number, or makes it at least 100, so that cutting off the fraction does not matter.
func inUnit(v *hottype.Verdict) (requests, unit uint64) {
	for _, u := range units {
		n := float64(v.Limit) * float64(u.length) / float64(v.Window)
		requests, unit = uint64(min(n, math.MaxUint32)), u.code
		if u.length == v.Window || u.length > v.Window && n == math.Trunc(n) || n >= 100 {
			break
		}
	}
	return requests, unit
}

// appendMetadata adds the parts of a verdict that Envoy's access log can show, as a google.protobuf.Struct. It adds
// nothing if the verdict has neither rule nor key nor a number by which Envoy reports the end of the request.
func (b encoded) appendMetadata(field wireField, v *hottype.Verdict, report uint64) encoded {
	if v.Rule == "" && v.Key == "" && report == 0 {
		return b
	}
	return b.appendMessage(field, func(b encoded) encoded {
		if report != 0 {
			b = b.appendTextMember(memberReport, strconv.FormatUint(report, 10))
		}
		return b.appendTextMember("reason", v.Reason.String()).appendTextMember("rule", v.Rule).
			appendTextMember("key", string(v.Key)).
			appendBoolMember("shadowed", v.WouldDeny).appendBoolMember("hot", v.Hot)
	})
}

// appendHeaders adds a config.core.v3.HeaderValue for each field of h.
func (b encoded) appendHeaders(field wireField, h http.Header) encoded {
	return b.appendFields(h, func(b encoded, name, value string) encoded {
		return b.appendMessage(field, func(b encoded) encoded { return b.appendText(1, name).appendText(2, value) })
	})
}

// appendHeaderOptions adds a config.core.v3.HeaderValueOption for each field of h.
func (b encoded) appendHeaderOptions(field wireField, h http.Header) encoded {
	return b.appendFields(h, func(b encoded, name, value string) encoded {
		return b.appendMessage(field, func(b encoded) encoded {
			b = b.appendMessage(1, func(b encoded) encoded { return b.appendText(1, name).appendText(2, value) })
			if name == "access-control-expose-headers" || name == "set-cookie" { // the application may have others
				return b // APPEND_IF_EXISTS_OR_ADD
			}
			return b.appendNumber(3, overwriteIfExistsOrAdd)
		})
	})
}

func (b encoded) appendFields(h http.Header, add func(b encoded, name, value string) encoded) encoded {
	for name, values := range h {
		if name == "Content-Length" {
			continue // Envoy writes its own
		}
		for _, value := range values {
			b = add(b, strings.ToLower(name), value)
		}
	}
	return b
}

// encoded is a protocol buffer to which fields are added, or a part of one. The responses are encoded by hand because
// building and encoding the messages took a third of the time of a denial. The tests read them by the published schema.
// As in proto3, zero numbers and empty texts are left out.
type encoded []byte

type wireField = protowire.Number

func (b encoded) appendNumber(field wireField, n uint64) encoded {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendText adds a string, which has to be UTF-8.
func (b encoded) appendText(field wireField, s string) encoded {
	if s == "" {
		return b
	}
	return b.appendString(field, s)
}

func (b encoded) appendString(field wireField, s string) encoded {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), strings.ToValidUTF8(s, "\ufffd"))
}

func (b encoded) appendBytes(field wireField, s []byte) encoded {
	if len(s) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendMessage adds the message that add writes, also an empty one.
func (b encoded) appendMessage(field wireField, add func(encoded) encoded) encoded {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	at := len(b)
	b = add(append(b, 0)) // room for a short length
	n := len(b) - at - 1
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+1+more:], b[at+1:at+1+n])
	}
	protowire.AppendVarint(b[:at], uint64(n))
	return b
}

// appendTextMember adds a member of a google.protobuf.Struct. It also adds an empty value, because the value is one of
// several alternatives.
func (b encoded) appendTextMember(name, value string) encoded {
	return b.appendMessage(1, func(b encoded) encoded {
		return b.appendText(1, name).appendMessage(2, func(b encoded) encoded { return b.appendString(3, value) })
	})
}

func (b encoded) appendBoolMember(name string, value bool) encoded {
	return b.appendMessage(1, func(b encoded) encoded {
		return b.appendText(1, name).appendMessage(2, func(b encoded) encoded {
			return protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.VarintType), protowire.EncodeBool(value))
		})
	})
}
