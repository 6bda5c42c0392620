package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/hotparam/pipeline/internal/storage/redisclient"
)

const redisNode = "redis"

// Redis is miniredis behind the network. Like Redis it executes one command after the other, and a script is one
// command. Its interpreters are reused, because miniredis makes one for each call, which is half of all processor time.
type Redis struct {
	net *Network
	mem *miniredis.Miniredis
	srv *server.Server // mem's

	mu          sync.Mutex // held while a command runs
	scripts     map[string]*script
	lua         *interpreter
	commands    uint64
	aged        time.Time      // until when keys have expired
	subscribers []subscription // in the order in which they came
	behind      time.Duration  // by which its clock is behind

	listeners map[string]listener // by address
	sentinels []*Sentinel         // empty: its address is fixed
	misled    atomic.Int64        // commands for which a program took the replica for the master
	freezer
}

// listener executes the commands that reach an address.
type listener struct {
	node string
	held *freezer
	do   func(peer *server.Peer, args []string)
}

// subscription is the subscription of a connection to a channel. The subscriptions of miniredis are in a map by
// address, so a message would reach its subscribers in another order each time.
type subscription struct {
	peer    *server.Peer
	channel string
}

func newRedis(n *Network) *Redis {
	r := &Redis{net: n, mem: miniredis.NewMiniRedis(), scripts: map[string]*script{}}
	conn, err := r.mem.Dial() // makes its server, without a socket
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
	r.mem.Seed(int(n.seed))
	r.aged = time.Now()
	r.srv = r.mem.Server()
	r.lua = newInterpreter(r.call)
	r.listeners = map[string]listener{redisAddr: {redisNode, &r.freezer, r.do}}
	return r
}

func (r *Redis) close() {
	r.mem.Close()
	r.lua.close()
}

// Lose empties the server: data and scripts.
func (r *Redis) Lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem.FlushAll()
	clear(r.scripts)
}

// SetBack sets its clock back, as a fail-over to a replica does whose clock is behind.
func (r *Redis) SetBack(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind += by
}

// settings returns the settings by which a node finds the server.
func (r *Redis) settings(node string) redisclient.Config {
	cfg := redisclient.Config{Addrs: []string{redisAddr}, Namespace: namespace}
	if len(r.sentinels) > 0 {
		cfg.Addrs, cfg.SentinelMaster = sentinelAddrs, masterName
	}
	cfg.Dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		l, ok := r.listeners[addr]
		if !ok {
			return nil, syscall.ECONNREFUSED
		}
		mine, theirs, err := r.net.Connect(node, l.node)
		if err == nil {
			go r.serve(theirs, l)
		}
		return mine, err
	}
	return cfg
}

// serve executes the commands of a connection.
func (r *Redis) serve(conn net.Conn, l listener) {
	defer conn.Close()
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	peer := server.NewPeer(out)
	for {
		args, err := readCommand(in)
		if err != nil {
			break
		}
		l.held.awaitThaw()
		l.do(peer, args)
		if in.Buffered() == 0 {
			peer.Flush()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = slices.DeleteFunc(r.subscribers, func(s subscription) bool { return s.peer == peer })
}

func (r *Redis) do(peer *server.Peer, args []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands++
	r.expire()
	switch name := strings.ToUpper(args[0]); name {
	case "EVAL":
		sum := sha1.Sum([]byte(args[1]))
		sha := hex.EncodeToString(sum[:])
		if r.scripts[sha] == nil {
			s, err := compile(args[1])
			if err != nil {
				peer.WriteError("ERR " + err.Error())
				return
			}
			r.scripts[sha] = s
		}
		r.lua.run(peer, r.scripts[sha], args[2:])
	case "EVALSHA":
		s := r.scripts[strings.ToLower(args[1])]
		if s == nil {
			peer.WriteError("NOSCRIPT No matching script. Please use EVAL.")
			return
		}
		r.lua.run(peer, s, args[2:])
	default:
		r.dispatch(peer, name, args)
	}
}

// dispatch executes a command that is not a script. It requires r.mu.
func (r *Redis) dispatch(peer *server.Peer, name string, args []string) {
	if name == "HELLO" && len(args) == 1 { // miniredis requires a version
		greet(peer, args, "master")
		return
	}
	switch name {
	case "SCRIPT", "MULTI", "UNSUBSCRIBE", "PSUBSCRIBE":
		panic("fleet: Redis has no " + name + " here")
	case "TIME":
		now := time.Now().Add(-r.behind)
		peer.Block(func(w *server.Writer) {
			w.WriteLen(2)
			w.WriteBulk(strconv.FormatInt(now.Unix(), 10))
			w.WriteBulk(strconv.Itoa(now.Nanosecond() / 1000))
		})
	case "SUBSCRIBE":
		for i, channel := range args[1:] {
			r.subscribers = append(r.subscribers, subscription{peer, channel})
			push(peer, "subscribe", channel, func(w *server.Writer) { w.WriteInt(i + 1) })
		}
	case "PUBLISH":
		n := 0
		for _, s := range r.subscribers {
			if s.channel == args[1] {
				push(s.peer, "message", s.channel, func(w *server.Writer) { w.WriteBulk(args[2]) })
				s.peer.Flush()
				n++
			}
		}
		peer.WriteInt(n)
	default:
		r.srv.Dispatch(peer, args)
	}
}

// push writes a message that does not answer a command.
func push(peer *server.Peer, kind, channel string, last func(*server.Writer)) {
	peer.Block(func(w *server.Writer) {
		w.WritePushLen(3)
		w.WriteBulk(kind)
		w.WriteBulk(channel)
		last(w)
	})
}

// expireEvery is the precision of expiry, because miniredis visits all keys each time.
const expireEvery = 20 * time.Millisecond

// expire removes expired keys. It requires r.mu.
func (r *Redis) expire() {
	if d := time.Since(r.aged); d >= expireEvery {
		r.aged = r.aged.Add(d)
		r.mem.FastForward(d)
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	reply, err := server.ParseReply(in)
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("fleet: %T is no command", reply)
	}
	args := make([]string, len(list))
	for i, a := range list {
		switch a := a.(type) {
		case []byte:
			args[i] = string(a)
		case string:
			args[i] = a
		default:
			return nil, fmt.Errorf("fleet: %T in a command", a)
		}
	}
	return args, nil
}

// call executes a command of a script and returns its reply. It requires r.mu.
func (r *Redis) call(args []string) (any, error) {
	var buf bytes.Buffer
	out := bufio.NewWriter(&buf)
	peer := server.NewPeer(out)
	r.dispatch(peer, strings.ToUpper(args[0]), args)
	peer.Flush()
	return server.ParseReply(bufio.NewReader(&buf))
}

var errArguments = errors.New("ERR number of keys is not right")

// keysAndArgs splits "2 k1 k2 a1 ...".
func keysAndArgs(args []string) (keys, rest []string, err error) {
	if len(args) == 0 {
		return nil, nil, errArguments
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n >= len(args) {
		return nil, nil, errArguments
	}
	return args[1 : n+1], args[n+1:], nil
}
