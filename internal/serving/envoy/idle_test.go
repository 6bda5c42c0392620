package envoy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// A connection ends 10 s after its beginning if no call with the token came, and 5 minutes after its last call. Neither
// health checks nor pings, such as those by Envoy's connection_keepalive, keep it open.
func TestServer_EndsIdleConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does func(ctx context.Context, conn *grpc.ClientConn) error
		want time.Duration
	}{
		"nothing": {func(context.Context, *grpc.ClientConn) error { return nil }, 10 * time.Second},
		"wrong token": {func(ctx context.Context, conn *grpc.ClientConn) error {
			return conn.Invoke(ctx, check, &authv3.CheckRequest{}, &authv3.CheckResponse{})
		}, 10 * time.Second},
		"health": {func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
			return err
		}, 10 * time.Second},
		"watched health": {func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{})
			return err
		}, 10 * time.Second},
		"a call": {func(ctx context.Context, conn *grpc.ClientConn) error {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer right")
			return conn.Invoke(ctx, check, &authv3.CheckRequest{}, &authv3.CheckResponse{})
		}, 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln := bufconn.Listen(1 << 16)
			s := New(Config{Gate: gateFunc(denyHot), Authorize: func(r *http.Request) bool {
				return r.Header.Get("Authorization") == "Bearer right"
			}})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx, ln) }()
			var dialed []*timed
			conn, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, PermitWithoutStream: true}),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					raw, err := ln.DialContext(ctx)
					dialed = append(dialed, &timed{Conn: raw, began: time.Now()})
					return dialed[len(dialed)-1], err
				}))
			if err != nil {
				t.Fatal(err)
			}
			conn.Connect()
			if err := c.does(ctx, conn); status.Code(err) == codes.Unavailable {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			if len(dialed) == 0 || dialed[0].lasted.Round(time.Second) != c.want {
				t.Errorf("%s: the connection ended after %v, want %v", name, dialed[0].lasted, c.want)
			}
			_ = conn.Close()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			synctest.Wait()
			time.Sleep(time.Hour)
		})
	}
}

// timed notes when its connection ended.
type timed struct {
	net.Conn
	began  time.Time
	lasted time.Duration
}

func (c *timed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.lasted == 0 {
		c.lasted = time.Since(c.began)
	}
	return n, err
}

// A call without the token is denied before its message: none of it is kept.
func TestServer_ReadsNoMessageWithoutTheToken(t *testing.T) {
	t.Parallel()
	s := New(Config{Gate: gateFunc(denyHot), Authorize: func(*http.Request) bool { return false }})
	ln := bufconn.Listen(1 << 16)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	conn, err := ln.DialContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, http2.ClientPreface)
	f := http2.NewFramer(conn, conn)
	go func() {
		_ = f.WriteSettings()
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headers(check)})
	}()
	for { // the answer comes although the message does not
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := frame.(*http2.HeadersFrame); ok && h.StreamEnded() {
			break
		}
	}
	stop()
	_ = conn.Close()
	if err := <-ended; err != nil || s.Stats().Unauthorized != 1 {
		t.Errorf("%v, %+v", err, s.Stats())
	}
}

// headers is the beginning of a call.
func headers(path string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	return b.Bytes()
}
