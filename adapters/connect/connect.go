// Package hotparamconnect puts a pipeline before the handlers of a Connect service:
//
//	shopv1connect.NewTopicsHandler(s, connect.WithInterceptors(hotparamconnect.New(p, o)))
//
// A rule sees a POST of the procedure ("/shop.v1.Topics/Get"), also for calls by GET, with the header of the request,
// and with the fields of its message that Options.Query returns as the query: "/shop.v1.Topics/Get?id=42". A denied
// call ends with resource_exhausted, with RetryInfo as a detail if waiting helps, and with the fields of the limit in
// the error's metadata.
package hotparamconnect

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
)

// Call is a call, or a message of a stream.
type Call struct {
	Context   context.Context
	Procedure string
	Header    http.Header
	Peer      connect.Peer
	Message   any // nil while a stream opens
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

// New returns an interceptor for handlers; it does not judge calls of clients. It panics on invalid options.
func New(p *hotparam.Pipeline, o Options) connect.Interceptor {
	return &interceptor{adapter.New(p, o.Options), o}
}

type interceptor struct {
	layer *adapter.Adapter[Call]
	o     Options
}

func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, in connect.AnyRequest) (connect.AnyResponse, error) {
		if in.Spec().IsClient {
			return next(ctx, in)
		}
		fields, j, err := i.decideCall(Call{ctx, in.Spec().Procedure, in.Header(), in.Peer(), in.Any()})
		if err != nil {
			return nil, err
		}
		defer j.Done()
		j.HandlerStarted()
		out, err := next(j.Context(ctx), in)
		j.ResponseStarted(statusOf(err))
		if err == nil {
			maps.Copy(out.Header(), fields)
		}
		return out, err
	}
}

func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		call := Call{ctx, conn.Spec().Procedure, conn.RequestHeader(), conn.Peer(), nil}
		fields, j, err := i.decideCall(call)
		if err != nil {
			return err
		}
		defer j.Done()
		maps.Copy(conn.ResponseHeader(), fields)
		s := &judged{StreamingHandlerConn: conn, interceptor: i, call: call, stream: j, message: new(adapter.Decision)}
		defer func() { s.message.Done() }()
		err = next(j.Context(ctx), s)
		s.message.ResponseStarted(statusOf(err))
		j.ResponseStarted(statusOf(err))
		return err
	}
}

// statusOf returns the HTTP status that corresponds to the error of a handler.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return adapter.HTTPStatusFromRPC(uint32(connect.CodeOf(err)))
}

// judged is a stream whose opening was judged, and with EachMessage each message as it arrives. The handler is done
// with a message when it asks for the next message.
type judged struct {
	connect.StreamingHandlerConn
	*interceptor
	call            Call
	stream, message *adapter.Decision
}

func (s *judged) Receive(m any) (err error) {
	s.message.ResponseStarted(http.StatusOK)
	s.message.Done()
	err = s.StreamingHandlerConn.Receive(m)
	if errors.Is(err, io.EOF) || err == nil && s.Spec().StreamType == connect.StreamTypeServer {
		s.stream.HandlerStarted()
	}
	if err != nil || !s.o.EachMessage {
		return err
	}
	s.call.Message = m
	_, j, err := s.decideCall(s.call)
	if err != nil {
		return err
	}
	s.message = j
	j.HandlerStarted()
	return nil
}

func (s *judged) Send(m any) error {
	s.message.ResponseStarted(http.StatusOK)
	s.stream.ResponseStarted(http.StatusOK)
	return s.StreamingHandlerConn.Send(m)
}

// decideCall decides a call. It returns the fields of a response, or the error with which a denied call ends.
func (i *interceptor) decideCall(c Call) (http.Header, *adapter.Decision, error) {
	decide := i.layer.Decide
	if c.Message == nil {
		decide = i.layer.DecideOpening
	}
	j, err := decide(c, i.requestOf(c))
	if err != nil || j.Reason == 0 {
		return nil, j, err
	}
	fields, v := http.Header{}, j.Verdict
	i.layer.SetHeader(fields, v)
	if v.Allowed {
		return fields, j, nil
	}
	if i.o.Deny != nil {
		if err := i.o.Deny(c, v); err != nil {
			return nil, nil, err
		}
	}
	refusal := connect.NewError(connect.CodeResourceExhausted, errors.New("too many requests: "+v.Reason.String()))
	maps.Copy(refusal.Meta(), fields)
	if v.RetryAfter >= 0 { // not hottype.Never
		if d, err := connect.NewErrorDetail(&errdetails.RetryInfo{
			RetryDelay: durationpb.New(v.RetryAfter)}); err == nil {
			refusal.AddDetail(d)
		}
	}
	return nil, nil, refusal
}

// requestOf returns the call as rules see it.
func (i *interceptor) requestOf(c Call) *http.Request {
	target := c.Procedure
	if i.o.Query != nil {
		if query := i.o.Query(c).Encode(); query != "" {
			target += "?" + query
		}
	}
	r := &http.Request{Method: http.MethodPost, RequestURI: target, Header: c.Header, RemoteAddr: c.Peer.Addr}
	return r.WithContext(c.Context)
}
