package main

import (
	"context"
	"net"
)

// openThrottlecrab starts one throttlecrab-server, because its counts are in its process. Both doors ask it over HTTP.
// Its max_burst is the number of requests that may come at once for a new key, the first among them. A known key that
// was idle can be 19 intervals behind its rate, beside the 19 that it may be ahead.
func openThrottlecrab(ctx context.Context, dir, path string) (*deployment, error) {
	s, _, addrs, err := newServer(dir, path, 1)
	if err != nil {
		return nil, err
	}
	s.addr = addrs[0]
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return nil, err
	}
	s.args = []string{"--http", "--http-host", "127.0.0.1", "--http-port", port, "--log-level", "error"}
	addr, err := s.through(ctx, s.addr)
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	clients := [2]*web{newWeb(), newWeb()}
	d := &deployment{state: s}
	for i, w := range clients {
		d.doors[i] = askThrottlecrab(w, addr)
	}
	d.stop = func() {
		for _, w := range clients {
			w.CloseIdleConnections()
		}
		s.stop()
	}
	return d, nil
}

func askThrottlecrab(w *web, addr string) ask {
	return func(ctx context.Context, key, _ string) (bool, error) {
		var answer struct{ Allowed bool }
		err := w.post(ctx, "http://"+addr+"/throttle", map[string]any{
			"key": key, "max_burst": burst, "count_per_period": rate, "period": 1, "quantity": 1,
		}, &answer)
		return answer.Allowed, err
	}
}
