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

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// daemons are two daemons of gubernator in one cluster. Each key has an owner, to which the other daemon forwards. Both
// doors and the daemons among themselves go through links. It is the state of its deployment: what happens to it
// happens to the daemon that owned the keys of most requests until the first time.
type daemons struct {
	servers [2]*server
	conns   [2]*grpc.ClientConn
	owned   [2]atomic.Int64
	first   sync.Once
	owner   *server
}

// openGubernator starts two daemons. They are asked over gRPC, as its own client does.
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
		g.servers[i], s.addr = s, addrs[0]
		advertised, err := s.through(ctx, addrs[1])
		if err != nil {
			return err
		}
		g.conns[i], err = grpc.NewClient(advertised, grpc.WithTransportCredentials(insecure.NewCredentials()))
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
		s.path, s.args = "unshare", []string{"--uts", "sh", "-c", `hostname "$0" && exec "$1"`, fmt.Sprint("bench", i),
			path}
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
	answer, err := g.call(ctx, i, "HealthCheck", nil)
	if err != nil {
		return err
	}
	const count = 3
	if n := numbers(answer)[count]; n != uint64(len(g.servers)) {
		return fmt.Errorf("gubernator: %d daemons in the cluster", n)
	}
	return nil
}

// door asks daemon i. The other daemon owns the key if the answer has metadata, which name the owner.
func (g *daemons) door(i int) ask {
	return func(ctx context.Context, key, _ string) (bool, error) {
		answer, err := g.call(ctx, i, "GetRateLimits", appendText(nil, 1, string(gubernatorRequest(key))))
		if err != nil {
			return false, err
		}
		const status, problem, metadata = 1, 5, 6
		one := []byte(texts(answer)[1])
		if len(one) == 0 {
			return false, errors.New("gubernator: no verdict")
		}
		if text := texts(one)[problem]; text != "" {
			return false, errors.New("gubernator: " + text)
		}
		owner := i
		if texts(one)[metadata] != "" {
			owner = 1 - i
		}
		g.owned[owner].Add(1)
		return numbers(one)[status] == 0, nil
	}
}

// call calls a method of daemon i.
func (g *daemons) call(ctx context.Context, i int, method string, request []byte) (answer []byte, err error) {
	err = g.conns[i].Invoke(ctx, "/pb.gubernator.V1/"+method, &request, &answer, grpc.ForceCodec(plain{}))
	return answer, err
}

func (g *daemons) stop() {
	for i, s := range g.servers {
		if g.conns[i] != nil {
			_ = g.conns[i].Close() // the daemon ends anyway
		}
		if s != nil {
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
