package redisclient

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/wait"
)

// pings is the number of pings by which Inspect measures the response time.
const pings = 100

// Inspection holds the findings of Inspect. It is plain data, which package doctor judges. A field that could not be
// read is empty, and Unknown has the reason.
type Inspection struct {
	Addrs []string
	Err   string // the reason if nothing answers; all other fields are then empty
	// Version is the version of Redis that the server speaks, with its own version if that differs: "7.2.4 (Valkey
	// 8.1.1)".
	Version      string
	Cluster      bool   // the server is one node of several
	ClusterState string // "ok", or the state that the cluster reports
	WholeOnly    bool   // all nodes refuse everything while one master has no replacement
	Role         string // "master" or "slave"
	UsedMemory   int64  // bytes
	MaxMemory    int64  // bytes; 0 for no bound
	Policy       string
	Evicted      int64 // number of evicted keys since the server started
	AppendOnly   bool
	SavesToRDB   bool
	Overrides    int64
	// Median and Worst are the times of 100 pings, one after the other.
	Median, Worst time.Duration
	ClockAhead    time.Duration     // the server's clock less this machine's, to within half of Median
	ReadOnly      bool              // the server refuses writes, as a replica does
	Sentinels     int               // number of Sentinels that were asked
	Silent        map[string]string // Sentinels that do not report the master, with the reason
	Rights        Rights            // rights that the ACL of the user refuses
	Missing       []string          // commands of ours that the server does not have
	Publishers    []PublisherSeen   // aggregators that have written, by name
	Unknown       map[string]string // questions without an answer, with the reason
}

// PublisherSeen is one aggregator's hot set.
type PublisherSeen struct {
	Name      string
	Live      bool  // the set has not expired
	Takeovers int64 // growth of the epoch during Inspect; above 0 if two processes have the name
}

// Inspect examines the server without changing anything that lasts: it writes one key of its own for a second and
// publishes to a channel without subscribers. It takes some 150 round trips and a second.
func (c *Client) Inspect(ctx context.Context) Inspection {
	in := Inspection{Addrs: c.cfg.Addrs, Cluster: c.cfg.isCluster(), Unknown: map[string]string{}}
	if c.sentinels != nil {
		in.Sentinels, in.Silent = len(c.sentinels.nodes), c.sentinels.inspectSentinels(ctx)
	}
	err := c.retryCall(ctx, func() error { return c.Ping(ctx) })
	if command := refusedCommand(err); command != "" && command != "ping" { // while it connects
		in.Rights = Rights{User: c.userName(), Limiter: []Denied{{Right: "+" + command, Err: err.Error()}}}
	}
	if err != nil && refusedCommand(err) != "ping" {
		in.Err = err.Error()
		return in
	}
	c.inspectServer(ctx, &in)
	c.inspectConfig(ctx, &in)
	c.inspectPace(ctx, &in)
	c.inspectRights(ctx, &in)
	c.inspectPublishers(ctx, &in)
	if n, err := c.rdb.HLen(ctx, c.keys.Overrides()).Result(); err == nil {
		in.Overrides = n
	} else {
		in.Unknown["overrides"] = err.Error()
	}
	return in
}

func (c *Client) inspectServer(ctx context.Context, in *Inspection) {
	text, err := c.rdb.Info(ctx).Result()
	if err != nil {
		in.Unknown["INFO"] = err.Error()
		c.inspectHello(ctx, in)
		return
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64) // an absent field is 0
		return n
	}
	in.Version, in.Role = info["redis_version"], info["role"]
	if v := info["valkey_version"]; v != "" {
		in.Version += " (Valkey " + v + ")"
	}
	in.UsedMemory, in.MaxMemory, in.Policy = number("used_memory"), number("maxmemory"), info["maxmemory_policy"]
	in.Evicted = number("evicted_keys")
	in.AppendOnly = info["aof_enabled"] == "1"
	in.Cluster = in.Cluster || info["cluster_enabled"] == "1"
	if in.Cluster {
		state, err := c.rdb.ClusterInfo(ctx).Result()
		if err != nil {
			in.Unknown["CLUSTER INFO"] = err.Error()
		}
		_, rest, _ := strings.Cut(state, "cluster_state:")
		in.ClusterState = strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0])
	}
}

// inspectHello reads the version, the role and the mode from the greeting, which every user may ask for, instead of
// INFO.
func (c *Client) inspectHello(ctx context.Context, in *Inspection) {
	answer, err := c.rdb.Do(ctx, "HELLO").Slice()
	if err != nil {
		return // before Redis 6; INFO is unknown already
	}
	for i := 0; i+1 < len(answer); i += 2 {
		value := fmt.Sprint(answer[i+1])
		switch answer[i] {
		case "version":
			in.Version = value
		case "role":
			in.Role = strings.Replace(value, "replica", "slave", 1) // as INFO has it
		case "mode":
			in.Cluster = in.Cluster || value == "cluster"
		}
	}
}

// inspectConfig reads settings that INFO does not contain. Managed servers often refuse this.
func (c *Client) inspectConfig(ctx context.Context, in *Inspection) {
	read := func(name string) string {
		values, err := c.rdb.ConfigGet(ctx, name).Result()
		if err != nil {
			in.Unknown["CONFIG GET"] = err.Error()
		}
		return values[name]
	}
	in.SavesToRDB = read("save") != ""
	if in.Cluster {
		in.WholeOnly = read("cluster-require-full-coverage") == "yes"
	}
}

func (c *Client) inspectPace(ctx context.Context, in *Inspection) {
	took := make([]time.Duration, 0, pings)
	for range pings {
		begin := time.Now()
		_ = c.rdb.Ping(ctx).Err() // a lost ping takes as long as its timeout
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	in.Median, in.Worst = took[len(took)/2], took[len(took)-1]
	begin := time.Now()
	there, err := c.rdb.Time(ctx).Result()
	if err != nil {
		in.Unknown["TIME"] = err.Error()
		return
	}
	in.ClockAhead = there.Sub(begin.Add(time.Since(begin) / 2))
}

// inspectPublishers reads the publishers twice, a second apart.
func (c *Client) inspectPublishers(ctx context.Context, in *Inspection) {
	index, err := c.rdb.HGetAll(ctx, c.keys.HotIndex()).Result()
	if err != nil {
		in.Unknown["hot set"] = err.Error()
		return
	}
	names := slices.Sorted(maps.Keys(index))
	before := c.readEpochs(ctx, names)
	if len(names) > 0 && !wait.For(ctx, time.Second) {
		return
	}
	after := c.readEpochs(ctx, names)
	now := time.Now().Add(in.ClockAhead)
	for _, name := range names {
		_, rest, _ := strings.Cut(index[name], " ") // after the version: an optional flag and the expiry
		expiry := rest[strings.LastIndexByte(rest, ' ')+1:]
		ms, _ := strconv.ParseInt(expiry, 10, 64) // 0 has expired
		if strings.HasPrefix(rest, "stopped ") {
			ms = 0
		}
		in.Publishers = append(in.Publishers, PublisherSeen{
			Name: name, Live: ms > now.UnixMilli(), Takeovers: after[name] - before[name],
		})
	}
}

// readEpochs returns the epoch of each publisher's name, which grows when the name changes hands.
func (c *Client) readEpochs(ctx context.Context, names []string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range names {
		text, err := c.rdb.Get(ctx, c.keys.HotEpoch(name)).Result()
		if err != nil {
			continue // absent or not readable: no change is seen
		}
		epoch, _, _ := strings.Cut(text, " ")
		out[name], _ = strconv.ParseInt(epoch, 10, 64)
	}
	return out
}
