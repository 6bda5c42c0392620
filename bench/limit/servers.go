package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

// servers returns the contenders that a service asks over the network, and nginx, which stands before it. The programs
// are in dir.
func servers(dir string) []contender {
	in := func(p peer) string { return filepath.Join(dir, p.path()) }
	return []contender{
		{name: gubernator.name, version: gubernator.version,
			kind: "leaky bucket of 20, at the key's owner of two daemons", most: bucket(burst), own: true,
			open: func(ctx context.Context, dir string, _ []string) (*deployment, error) {
				return openGubernator(ctx, dir, in(gubernator))
			}},
		{name: ratelimit.name, version: ratelimit.version,
			kind: "fixed window of a second", most: windows, redis: true, cluster: true,
			open: func(ctx context.Context, dir string, addrs []string) (*deployment, error) {
				return openRatelimit(ctx, dir, in(ratelimit), addrs)
			}},
		{name: throttlecrab.name, version: throttlecrab.version,
			kind: "GCRA, one server, burst 20 of a new key and up to 38 of a known one", most: bucket(2*burst - 2),
			own: true,
			open: func(ctx context.Context, dir string, _ []string) (*deployment, error) {
				return openThrottlecrab(ctx, dir, in(throttlecrab))
			}},
		{name: "nginx", version: versionBy("nginx", "-v"), kind: "leaky bucket, burst 20 behind the first, one server",
			most: bucket(burst + 1),
			open: func(ctx context.Context, dir string, _ []string) (*deployment, error) {
				return openNginx(ctx, dir)
			}},
	}
}

// web is a client of HTTP with connections of its own, which stay open for all that ask at a time.
type web struct{ http.Client }

func newWeb() *web {
	return &web{http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}}}
}

// post sends a JSON document and reads the one in the answer.
func (w *web) post(ctx context.Context, url string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	status, answer, err := w.do(req)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", url, status, answer)
	}
	return json.Unmarshal(answer, out)
}

// do returns the whole answer, so that the connection serves the next request.
func (w *web) do(req *http.Request) (status int, body []byte, err error) {
	res, err := w.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close() // it was read
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}
