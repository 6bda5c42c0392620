// Package hotparamgrpc puts a pipeline before the handlers of a gRPC server:
//
//	grpc.NewServer(grpc.UnaryInterceptor(hotparamgrpc.Unary(p, o)), grpc.StreamInterceptor(hotparamgrpc.Stream(p, o)))
//
// A rule sees a POST of the full method ("/shop.v1.Topics/Get"), with the metadata as header, and with the fields of
// the request that Options.Query returns as the query: "/shop.v1.Topics/Get?id=42". A denied call ends with
// RESOURCE_EXHAUSTED, with RetryInfo as a detail if waiting helps, and with the fields of the limit in the trailers.
package hotparamgrpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
)

// Call is a call, or a message of a stream.
type Call struct {
	Context context.Context
	Method  string
	Message any // nil while a stream opens
}

// Options are the options of all adapters; Status has no meaning here. A call ends with the error that Deny or
// OnClientError returns. If Deny returns nil, the call ends with the default denial.
type Options struct {
	hotparam.Options[Call]
	// Query returns the fields of a request that distinguish keys. If it is nil, there are no such fields.
	Query func(Call) url.Values
	// EachMessage is true if each message that arrives on a stream is judged, besides its opening.
	EachMessage bool
}

type interceptor struct {
	layer *adapter.Adapter[Call]
	o     Options
}

// Unary returns an interceptor for calls of one message. It panics on invalid options.
func Unary(p *hotparam.Pipeline, o Options) grpc.UnaryServerInterceptor {
	i := interceptor{adapter.New(p, o.Options), o}
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		j, err := i.decideCall(Call{ctx, info.FullMethod, in})
		if err != nil {
			return nil, err
		}
		defer j.Done()
		j.HandlerStarted()
		out, err := next(j.Context(ctx), in)
		j.ResponseStarted(statusOf(err))
		return out, err
	}
}

// Stream returns an interceptor for streams, which it judges when they open. It panics on invalid options.
func Stream(p *hotparam.Pipeline, o Options) grpc.StreamServerInterceptor {
	i := interceptor{adapter.New(p, o.Options), o}
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		j, err := i.decideCall(Call{s.Context(), info.FullMethod, nil})
		if err != nil {
			return err
		}
		defer j.Done()
		stream := &judged{ServerStream: s, interceptor: i, info: info, stream: j, message: new(adapter.Decision)}
		defer func() { stream.message.Done() }()
		err = next(srv, stream)
		stream.message.ResponseStarted(statusOf(err))
		j.ResponseStarted(statusOf(err))
		return err
	}
}

// statusOf returns the HTTP status that corresponds to the error of a handler.
func statusOf(err error) int { return adapter.HTTPStatusFromRPC(uint32(status.Code(err))) }

// judged is a stream whose opening was judged, and with EachMessage each message as it arrives. The handler is done
// with a message when it asks for the next message.
type judged struct {
	grpc.ServerStream
	interceptor
	info            *grpc.StreamServerInfo
	stream, message *adapter.Decision
}

// Context returns the context of the stream, with the verdict on its opening for hotparam.FromContext.
func (s *judged) Context() context.Context { return s.stream.Context(s.ServerStream.Context()) }

func (s *judged) RecvMsg(m any) (err error) {
	s.message.ResponseStarted(http.StatusOK)
	s.message.Done()
	err = s.ServerStream.RecvMsg(m)
	if errors.Is(err, io.EOF) || err == nil && !s.info.IsClientStream {
		s.stream.HandlerStarted()
	}
	if err != nil || !s.o.EachMessage {
		return err
	}
	j, err := s.decideCall(Call{s.Context(), s.info.FullMethod, m})
	if err != nil {
		return err
	}
	s.message = j
	j.HandlerStarted()
	return nil
}

func (s *judged) SendMsg(m any) error {
	s.message.ResponseStarted(http.StatusOK)
	s.stream.ResponseStarted(http.StatusOK)
	return s.ServerStream.SendMsg(m)
}

// decideCall decides a call. It returns the error with which a denied call ends.
func (i *interceptor) decideCall(c Call) (*adapter.Decision, error) {
	decide := i.layer.Decide
	if c.Message == nil {
		decide = i.layer.DecideOpening
	}
	j, err := decide(c, i.requestOf(c))
	switch {
	case c.Context.Err() != nil:
		if err == nil {
			j.Done()
		}
		return nil, status.FromContextError(c.Context.Err()).Err()
	case err != nil || j.Reason == 0:
		return j, err
	}
	v := j.Verdict
	h, md := http.Header{}, metadata.MD{}
	i.layer.SetHeader(h, v)
	for name, values := range h {
		md.Append(strings.ToLower(name), values...)
	}
	if v.Allowed {
		_ = grpc.SetHeader(c.Context, md) // fails for later messages of a stream
		return j, nil
	}
	_ = grpc.SetTrailer(c.Context, md) // the denial is valid without them
	if i.o.Deny != nil {
		if err := i.o.Deny(c, v); err != nil {
			return nil, err
		}
	}
	return nil, denialOf(v)
}

func denialOf(v *hotparam.Verdict) error {
	st := status.New(codes.ResourceExhausted, "too many requests: "+v.Reason.String())
	if v.RetryAfter < 0 { // hottype.Never
		return st.Err()
	}
	detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(v.RetryAfter)})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

// requestOf returns the call as rules see it.
func (i *interceptor) requestOf(c Call) *http.Request {
	r := &http.Request{Method: http.MethodPost, RequestURI: c.Method, Header: http.Header{}}
	if i.o.Query != nil {
		if query := i.o.Query(c).Encode(); query != "" {
			r.RequestURI += "?" + query
		}
	}
	md, _ := metadata.FromIncomingContext(c.Context)
	for name, values := range md {
		r.Header[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	if authority := md[":authority"]; len(authority) > 0 {
		r.Host = authority[0]
	}
	if from, ok := peer.FromContext(c.Context); ok {
		r.RemoteAddr = from.Addr.String()
	}
	return r.WithContext(c.Context)
}
