package hotparamconnect_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	hotparamconnect "github.com/hotparam/pipeline/adapters/connect"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

func TestNew_ReportsOutcomes(t *testing.T) {
	adaptertest.OutcomesBy(t, "go", "/shop.v1.Topics/Get", "/shop.v1.Topics/List", func(t *testing.T,
		p *hotparam.Pipeline, answer func(string) (int, string)) adaptertest.Ask {
		s := serve(t, p, hotparamconnect.Options{Query: query}, func(id string) error {
			switch code, text := answer(id); code {
			case http.StatusOK:
				return nil
			case http.StatusServiceUnavailable:
				return connect.NewError(connect.CodeUnavailable, errors.New(text))
			default:
				return connect.NewError(connect.CodeInternal, errors.New(text))
			}
		})
		return func(t *testing.T, path, id, client string) int {
			r := connect.NewRequest(&text{Value: id})
			r.Header().Set("X-Forwarded-For", client)
			_, err := connect.NewClient[text, text](s.Client(), s.URL+path).CallUnary(t.Context(), r)
			if err == nil {
				return http.StatusOK
			}
			return adapter.HTTPStatusFromRPC(uint32(connect.CodeOf(err)))
		}
	})
}

const oneEach = `
rules:
  - {name: all, match: {path: "/shop.v1.Topics/{method}"}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
ip: {in_flight: {limit: 1, lease: 1h}, trusted_proxies: [127.0.0.1]}
`

// TestNew_HoldsSlotsUntilCallsEnd checks that a stream holds its slot until it ends, also if its client goes away, and
// that a handler that panics releases its slot.
func TestNew_HoldsSlotsUntilCallsEnd(t *testing.T) {
	p := adaptertest.Pipeline(t, []byte(oneEach))
	s := serve(t, p, hotparamconnect.Options{Query: query}, func(id string) error {
		if id == "panic" {
			panic("on purpose")
		}
		return nil
	})
	until := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; {
			_, err := get(t, s, "7", "198.51.100.1")
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: after 30 s: %v", what, err)
			}
		}
	}
	open := func(ctx context.Context) *connect.ClientStreamForClient[text, text] {
		stream := connect.NewClient[text, text](s.Client(), s.URL+"/shop.v1.Topics/Add").CallClientStream(ctx)
		stream.RequestHeader().Set("X-Forwarded-For", "198.51.100.1")
		if err := stream.Send(&text{Value: "7"}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); ; { // until the server has seen the stream open
			if _, err := get(t, s, "7", "198.51.100.1"); connect.CodeOf(err) == connect.CodeResourceExhausted {
				return stream
			}
			if time.Now().After(deadline) {
				t.Fatal("a stream holds no place of its client")
			}
		}
	}
	if _, err := open(t.Context()).CloseAndReceive(); err != nil {
		t.Error(err)
	}
	until("the stream has ended")

	ctx, leave := context.WithCancel(t.Context())
	open(ctx)
	leave()
	until("its client has left")

	if _, err := get(t, s, "panic", "198.51.100.1"); err == nil {
		t.Error("a handler that panics answers")
	}
	until("a handler has panicked")
}

func TestNew_BelievesFieldsOfProxiesAlone(t *testing.T) {
	const path = "/shop.v1.Topics/Get"
	adaptertest.Trust(t, "go", path, func(t *testing.T, p *hotparam.Pipeline) adaptertest.AskWith {
		s := serve(t, p, hotparamconnect.Options{}, func(string) error { return nil })
		return func(t *testing.T, fields map[string]string) int {
			r := connect.NewRequest(new(text))
			for name, value := range fields {
				r.Header().Set(name, value)
			}
			_, err := connect.NewClient[text, text](s.Client(), s.URL+path).CallUnary(t.Context(), r)
			if err == nil {
				return http.StatusOK
			}
			return adapter.HTTPStatusFromRPC(uint32(connect.CodeOf(err)))
		}
	})
}
