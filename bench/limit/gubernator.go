package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// daemons are two daemons of gubernator in one cluster. Each key has an owner, to which the other daemon forwards. Both
// doors and the daemons among themselves go through links. It is the state of its deployment: what happens to it
// happens to the daemon that owned the keys of most requests until the first time.
type daemons struct {
	servers [2]*server
	webs    [2]*web
	doors   [2]string // addresses for HTTP
	owned   [2]atomic.Int64
	first   sync.Once
	owner   *server
}

// openGubernator starts two daemons. A service asks them over HTTP without a client of gubernator.
func openGubernator(ctx context.Context, dir, path string) (*deployment, error) {
	g := new(daemons)
	err := g.prepare(ctx, dir, path)
	for _, s := range g.servers {
		if err == nil {
			err = s.start(ctx)
		}
	}
	for i := range g.servers {
		if err == nil {
			err = g.servers[i].await(func() error { return g.whole(ctx, i) })
		}
	}
	if err != nil {
		g.stop()
		return nil, err
	}
	return &deployment{doors: [2]ask{g.door(0), g.door(1)}, state: g, stop: g.stop}, nil
}

// prepare configures each daemon. It has an IP address and a host name of its own, by which the members of a cluster
// know each other, and which two containers would have.
func (g *daemons) prepare(ctx context.Context, dir, path string) error {
	var members [2]string
	for i := range g.servers {
		s, _, addrs, err := newServer(dir, path, 3)
		if err != nil {
			return err
		}
		g.servers[i], g.webs[i], s.addr = s, newWeb(), addrs[0]
		if g.doors[i], err = s.through(ctx, addrs[0]); err != nil {
			return err
		}
		advertised, err := s.through(ctx, addrs[1])
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(addrs[2])
		if err != nil {
			return err
		}
		members[i] = fmt.Sprintf("127.0.0.%d:%s", i+1, port)
		s.env = []string{"GUBER_HTTP_ADDRESS=" + addrs[0], "GUBER_GRPC_ADDRESS=" + addrs[1],
			"GUBER_ADVERTISE_ADDRESS=" + advertised, "GUBER_PEER_DISCOVERY_TYPE=member-list",
			"GUBER_MEMBERLIST_ADDRESS=" + members[i], "GUBER_MEMBERLIST_BIND_ADDRESS=" + members[i],
			"GUBER_LOG_LEVEL=error", "OTEL_TRACES_EXPORTER=none"}
		s.path, s.args = "unshare", []string{"--uts", "sh", "-c", `hostname "$0" && exec "$1"`, fmt.Sprint("bench", i), path}
		if os.Geteuid() != 0 {
			s.args = append([]string{"--map-root-user"}, s.args...) // may name a host
		}
	}
	for _, s := range g.servers {
		s.env = append(s.env, "GUBER_MEMBERLIST_KNOWN_NODES="+strings.Join(members[:], ","))
	}
	return nil
}

// whole returns nil if daemon i knows both daemons.
func (g *daemons) whole(ctx context.Context, i int) error {
	var health struct {
		PeerCount int `json:"peer_count"`
	}
	err := g.webs[i].get(ctx, "http://"+g.doors[i]+"/v1/HealthCheck", &health)
	if err == nil && health.PeerCount != len(g.servers) {
		err = fmt.Errorf("gubernator: %d daemons in the cluster", health.PeerCount)
	}
	return err
}

// door asks daemon i.
func (g *daemons) door(i int) ask {
	return func(ctx context.Context, key, _ string) (bool, error) {
		var answer struct {
			Responses []struct {
				Status   string
				Error    string
				Metadata struct{ Owner string }
			}
		}
		err := g.webs[i].post(ctx, "http://"+g.doors[i]+"/v1/GetRateLimits", map[string]any{
			"requests": []map[string]any{{"name": "bench", "unique_key": key, "algorithm": "LEAKY_BUCKET", "hits": 1,
				"limit": rate, "duration": time.Second.Milliseconds(), "burst": burst}},
		}, &answer)
		if err == nil && len(answer.Responses) != 1 {
			err = fmt.Errorf("gubernator: %d answers", len(answer.Responses))
		}
		if err != nil {
			return false, err
		}
		r := answer.Responses[0]
		if r.Error != "" {
			return false, errors.New("gubernator: " + r.Error)
		}
		owner := i
		if r.Metadata.Owner != "" { // the daemon has forwarded
			owner = 1 - i
		}
		g.owned[owner].Add(1)
		return r.Status == "UNDER_LIMIT", nil
	}
}

func (g *daemons) stop() {
	for i, s := range g.servers {
		if s != nil {
			g.webs[i].CloseIdleConnections()
			s.stop()
		}
	}
}

// struck returns the daemon that fails.
func (g *daemons) struck() *server {
	g.first.Do(func() {
		g.owner = g.servers[0]
		if g.owned[1].Load() > g.owned[0].Load() {
			g.owner = g.servers[1]
		}
	})
	return g.owner
}

func (g *daemons) slow(d time.Duration)              { g.struck().slow(d) }
func (g *daemons) freeze() error                     { return g.struck().freeze() }
func (g *daemons) thaw() error                       { return g.struck().thaw() }
func (g *daemons) kill()                             { g.struck().kill() }
func (g *daemons) restart(ctx context.Context) error { return g.struck().restart(ctx) }
