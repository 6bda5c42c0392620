package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

const masterName = "main"

// These are the addresses of servers; a name would be resolved, outside of the bubble. Two servers were the master
// before Redis: the replica, and a server in whose place nothing listens.
const (
	redisAddr   = "10.0.0.1:6379"
	replicaAddr = "10.0.0.2:6379"
	nobodyAddr  = "10.0.0.3:6379"
	replicaNode = "replica"
)

var sentinelAddrs = []string{"10.0.2.1:26379", "10.0.2.2:26379", "10.0.2.3:26379"}

func sentinelNode(i int) string { return fmt.Sprintf("sentinel%d", i+1) }

// Sentinel is a model of a Sentinel, which answers questions about the master.
type Sentinel struct {
	node string
	old  atomic.Value // string: address of an old master, which it names while it is cut off, or ""
	freezer
}

// watch adds three Sentinels, and a replica that was the master before.
func (r *Redis) watch() {
	for i, addr := range sentinelAddrs {
		s := &Sentinel{node: sentinelNode(i)}
		s.old.Store("")
		r.sentinels = append(r.sentinels, s)
		r.listeners[addr] = listener{s.node, &s.freezer, s.do}
	}
	r.listeners[replicaAddr] = listener{replicaNode, new(freezer), r.doAsReplica}
}

// do answers a command. A Sentinel that is cut off does not know the newest epoch.
func (s *Sentinel) do(peer *server.Peer, args []string) {
	addr, epoch := redisAddr, "2"
	if old := s.old.Load().(string); old != "" {
		addr, epoch = old, "1"
	}
	switch strings.ToUpper(strings.Join(args[:min(2, len(args))], " ")) {
	case "SENTINEL GET-MASTER-ADDR-BY-NAME":
		writeTexts(peer, strings.Split(addr, ":")...)
	case "SENTINEL MASTER":
		writeTexts(peer, "name", masterName, "config-epoch", epoch)
	default:
		greet(peer, args, "sentinel")
	}
}

// doAsReplica answers a command to the replica, and counts commands that ask for more than its role.
func (r *Redis) doAsReplica(peer *server.Peer, args []string) {
	if !greet(peer, args, "replica") {
		r.misled.Add(1)
	}
}

// greet answers the commands by which a connection begins, and reports whether args is one of them.
func greet(peer *server.Peer, args []string, role string) bool {
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		writeTexts(peer, "role", role)
	case "CLIENT":
		peer.WriteOK()
	default:
		peer.WriteError("READONLY You can't write against a read only replica.")
		return false
	}
	return true
}

func writeTexts(peer *server.Peer, texts ...string) {
	peer.Block(func(w *server.Writer) {
		w.WriteLen(len(texts))
		for _, text := range texts {
			w.WriteBulk(text)
		}
	})
}

// These are the behaviors of a Sentinel.
const (
	isWell       = "is well"
	hangs        = "hangs"
	refuses      = "refuses connections"
	namesReplica = "names an old master, which is a replica"
	namesNobody  = "names an old master, which is gone"
)

// sentinelFault is a time in which not all Sentinels are well. The other laws do not know of it, because a process that
// has known the master works on without Sentinels.
type sentinelFault struct {
	at, took time.Duration
	behave   [3]string
}

func (f sentinelFault) end() time.Duration { return f.at + f.took }

func (f sentinelFault) String() string {
	return fmt.Sprintf("Sentinels at %.2fs for %.2fs: %s", f.at.Seconds(), f.took.Seconds(),
		strings.Join(f.behave[:], ", "))
}

// count returns the number of Sentinels that have one of the given behaviors.
func (f sentinelFault) count(behaviors ...string) (n int) {
	for _, b := range f.behave {
		if slices.Contains(behaviors, b) {
			n++
		}
	}
	return n
}

// watchBySentinels adds Sentinels and their faults to a plan, and faults of Redis meanwhile that are too short for a
// fail-over.
func (p *plan) watchBySentinels(r *rand.Rand) {
	between := func(a, b time.Duration) time.Duration { return a + time.Duration(r.Int64N(int64(b-a))) }
	at := between(2*time.Second, 10*time.Second)
	if r.IntN(4) == 0 {
		at = 0
	}
	for at < faultsTo {
		f := sentinelFault{at: at, took: between(time.Second/2, 10*time.Second)}
		if r.IntN(8) == 0 {
			f.took = between(20*time.Second, 40*time.Second)
		}
		for i := range f.behave {
			f.behave[i] = []string{isWell, hangs, hangs, refuses}[r.IntN(4)]
		}
		if r.IntN(3) > 0 { // more than one would be a majority for the old master
			f.behave[r.IntN(3)] = []string{namesReplica, namesNobody}[r.IntN(2)]
		}
		if at == 0 && f.count(isWell) == 0 {
			f.behave[r.IntN(3)] = isWell // no process knows the master yet
		}
		p.sentinels = append(p.sentinels, f)
		if short := f.at + between(0, f.took); r.IntN(2) == 0 && short > faultsFrom && short < faultsTo {
			kind := []string{"freeze-redis", "restart-redis"}[r.IntN(2)]
			p.faults = append(p.faults, fault{kind: kind, at: short, took: 300 * time.Millisecond})
		}
		at = f.end() + between(time.Second/2, 6*time.Second)
	}
	for i := range p.faults {
		switch f := &p.faults[i]; f.kind {
		case "kill-limiter", "kill-aggregator", "hand-over":
			f.after += p.knowsMaster(f.back()) - f.back()
		}
	}
}

// learnWithin is the maximum time in which a process finds the master that a Sentinel names.
const learnWithin = 2 * time.Second

// knowsMaster returns the time at which a process that begins at a time knows the master. A new process cannot find the
// master before a Sentinel names it.
func (p *plan) knowsMaster(began time.Duration) time.Duration {
	for _, f := range p.sentinels {
		if f.count(isWell) == 0 && began+learnWithin > f.at && began < f.end() {
			began = f.end() + learnWithin
		}
	}
	return began
}

// disturb causes a fault of Sentinels.
func (w *World) disturb(f sentinelFault) {
	w.seen.note("fault %v", f)
	for i, s := range w.redis.sentinels {
		switch f.behave[i] {
		case hangs:
			s.Freeze(f.took)
		case refuses:
			w.net.Kill(s.node)
			w.after(f.end(), func() { w.net.Revive(s.node) })
		case namesReplica, namesNobody:
			s.old.Store(map[string]string{namesReplica: replicaAddr, namesNobody: nobodyAddr}[f.behave[i]])
			w.after(f.end(), func() { s.old.Store("") })
		}
	}
}
