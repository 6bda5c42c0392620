package redisclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// The behaviors of a Sentinel that is asked for the master.
const (
	isWell    = "is well"
	isCutOff  = "names the old master with the older epoch"
	isLate    = "answers after more than a third of the time"
	hangs     = "accepts connections and says nothing"
	refuses   = "refuses connections"
	closes    = "accepts connections and closes them"
	knowsNone = "watches no master of this name"

	isMaster  = "says that it is a master" // the behaviors of a server
	isReplica = "says that it is a replica"

	newMaster, oldMaster = "10.0.0.1:1", "10.0.0.2:2"
	callTime             = 900 * time.Millisecond
)

// halfDead is three Sentinels and two servers on virtual time, by address, each with its behavior. It does not change,
// because the servers of its connections read it and may outlive a check.
type halfDead map[string]string

var sentinelAddrs = []string{"10.0.1.1:1", "10.0.1.2:1", "10.0.1.3:1"}

// sentinels returns the code under test; last is the master that it has found before, or "".
func (h halfDead) sentinels(last string) *sentinels {
	open := func(addr string) *redis.Client {
		o := Config{Timeout: callTime, PoolSize: 2}.clientOptions().Simple()
		o.Addr, o.Dialer = addr, newWatchdog().watchedDialer(h.dial)
		return redis.NewClient(o)
	}
	s := &sentinels{name: "news", timeout: callTime, conns: newWatchdog(), server: open}
	for _, addr := range sentinelAddrs {
		s.nodes = append(s.nodes, open(addr))
	}
	if last != "" {
		s.last.Store(&last)
	}
	return s
}

func (h halfDead) dial(_ context.Context, _, addr string) (net.Conn, error) {
	if h[addr] == refuses {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	mine, theirs := net.Pipe()
	go h.serve(addr, theirs)
	return mine, nil
}

// serve answers the commands of one connection.
func (h halfDead) serve(addr string, conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil || h[addr] == closes {
			return
		}
		answer := "+OK\r\n"
		switch name := strings.ToUpper(command); {
		case h[addr] == hangs:
			continue
		case strings.Contains(name, "HELLO") && h[addr] == isReplica:
			answer = bulks("role", "replica")
		case strings.Contains(name, "HELLO"):
			answer = bulks("role", "master")
		case strings.Contains(name, "GET-MASTER-ADDR"):
			answer = h.whereIsMaster(addr)
		case strings.Contains(name, "SENTINEL MASTER"):
			answer = h.whatIsMaster(addr)
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// readCommand reads the words of one command.
func readCommand(in *bufio.Reader) (string, error) {
	var words []string
	for left := 1; left > 0; {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		switch line = strings.TrimSpace(line); line[0] {
		case '*':
			left, _ = strconv.Atoi(line[1:])
		case '$': // the word is on the next line
		default:
			words = append(words, line)
			left--
		}
	}
	return strings.Join(words, " "), nil
}

func (h halfDead) whereIsMaster(addr string) string {
	switch h[addr] {
	case knowsNone:
		return "*-1\r\n"
	case isCutOff:
		return bulks(strings.Split(oldMaster, ":")...)
	case isLate:
		time.Sleep(callTime/3 + time.Millisecond)
	}
	return bulks(strings.Split(newMaster, ":")...)
}

func (h halfDead) whatIsMaster(addr string) string {
	switch h[addr] {
	case knowsNone:
		return "-ERR No such master with that name\r\n"
	case isCutOff:
		return bulks("config-epoch", "1")
	}
	return bulks("config-epoch", "2")
}

func bulks(texts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(texts))
	for _, text := range texts {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(text), text)
	}
	return b.String()
}

// allowed returns the masters that may be found, or no master if there must be an error, and whether too few Sentinels
// answer in time. Two Sentinels that are cut off together are a majority; which two of three answer first is not known.
func (h halfDead) allowed(last string) (addrs []string, tooFew bool) {
	well, cutOff := 0, 0
	for _, addr := range sentinelAddrs {
		switch h[addr] {
		case isWell:
			well++
		case isCutOff:
			cutOff++
		}
	}
	if well+cutOff >= 2 {
		if well > 0 {
			addrs = append(addrs, newMaster)
		}
		if cutOff > 1 {
			addrs = append(addrs, oldMaster)
		}
		return addrs, false
	}
	candidates := []string{last}
	switch {
	case well == 1:
		candidates = []string{newMaster, last}
	case cutOff == 1:
		candidates = []string{oldMaster, last}
	}
	for _, addr := range candidates {
		if h[addr] == isMaster {
			return []string{addr}, true
		}
	}
	return nil, true
}

// TestSentinels_FindMasterWhenHalfDead asks three Sentinels with any behaviors, and servers that may or may not have
// the role that Sentinels report. The master is the server of the newest configuration that a majority knows, or else a
// server that claims to be the master. It is found within two thirds of the time of a call, and when too few Sentinels
// answer, a connection after a look does not wait for the silent ones again.
func TestSentinels_FindMasterWhenHalfDead(t *testing.T) {
	t.Parallel()
	kinds := []string{isWell, isCutOff, isLate, hangs, refuses, closes, knowsNone}
	roles := []string{isMaster, isReplica, hangs, refuses}
	synctest.Test(t, func(t *testing.T) {
		for i, a := range kinds {
			for j, b := range kinds[i:] {
				for _, c := range kinds[i+j:] {
					for _, one := range roles {
						// The old master may not know that it was replaced.
						for _, other := range []string{isMaster, isReplica} {
							h := halfDead{sentinelAddrs[0]: a, sentinelAddrs[1]: b, sentinelAddrs[2]: c,
								newMaster: one, oldMaster: other}
							for _, last := range []string{"", newMaster, oldMaster} {
								h.check(t, last)
							}
						}
					}
				}
			}
		}
	})
}

// A caller that is canceled gets its answer at once, whether Sentinels or the server that they name are silent. A
// subscription would otherwise hold its lock for as long as they are asked, and its Close would wait for the lock.
func TestSentinels_AnswerCanceledCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]halfDead{
			"Sentinels": {sentinelAddrs[0]: hangs, sentinelAddrs[1]: hangs, sentinelAddrs[2]: hangs},
			"server": {sentinelAddrs[0]: isWell, sentinelAddrs[1]: refuses, sentinelAddrs[2]: refuses,
				newMaster: hangs},
		} {
			s := h.sentinels("")
			ctx, cancel := context.WithCancel(t.Context())
			const after = callTime / 10
			time.AfterFunc(after, cancel)
			began := time.Now()
			_, err := s.findMaster(ctx)
			if took := time.Since(began); !errors.Is(err, context.Canceled) || took != after {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, took, context.Canceled, after)
			}
			s.close()
		}
	})
}

// TestClient_BoundsItsConnections makes many calls and pipelines at once. They use at most PoolSize connections to the
// master, and the queries for new connections two to each Sentinel.
func TestClient_BoundsItsConnections(t *testing.T) {
	t.Parallel()
	const pool = 20
	h := halfDead{newMaster: isMaster}
	for _, addr := range sentinelAddrs {
		h[addr] = isWell
	}
	var mu sync.Mutex
	dials := map[string]int{}
	c := openWith(t, Config{Addrs: sentinelAddrs, SentinelMaster: "news", PoolSize: pool, Timeout: time.Minute,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dials[addr]++
			mu.Unlock()
			return h.dial(ctx, network, addr)
		}})
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
		calls.Go(func() {
			_, err := c.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Ping(t.Context()).Err() })
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for addr, n := range dials {
		if most := map[bool]int{true: pool, false: 2}[addr == newMaster]; n > most {
			t.Errorf("%d connections to %s, at most %d", n, addr, most)
		}
	}
}

func (h halfDead) check(t *testing.T, last string) {
	t.Helper()
	s := h.sentinels(last)
	defer s.close()
	want, tooFew := h.allowed(last)
	began := time.Now()
	found, err := s.refreshMaster(t.Context())
	took := time.Since(began)
	if (err == nil) != (len(want) > 0) || err == nil && !slices.Contains(want, found.addr) || found.tooFew != tooFew {
		t.Errorf("%v, last %q: found %+v (%v), want one of %v, too few %v", h, last, found, err, want, tooFew)
	}
	if took > callTime*2/3 {
		t.Errorf("%v, last %q: the search took %v of %v", h, last, took, callTime)
	}
	if err != nil || !tooFew {
		return
	}
	began = time.Now()
	if addr, err := s.masterToDial(t.Context()); addr != found.addr || err != nil {
		t.Errorf("%v, last %q: a look found %s, a connection goes to %q (%v)", h, last, found.addr, addr, err)
	}
	if took := time.Since(began); took > 0 {
		t.Errorf("%v, last %q: a connection waited %v for Sentinels that are known to be silent", h, last, took)
	}
}
