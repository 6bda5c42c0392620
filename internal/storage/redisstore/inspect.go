package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// pings is how often Inspect asks for the time it takes to answer.
const pings = 100

// Inspection is what a look at the server found. It is plain: package preflight
// judges it. What could not be read is empty, and why is in Unknown.
type Inspection struct {
	Addrs []string
	// Err is why nothing answers; then all else is empty.
	Err string
	// Version is that of Redis that the server speaks, and its own where it is
	// another: "7.2.4 (Valkey 8.1.1)". Cluster says that it is one node of several.
	Version string
	Cluster bool
	// ClusterState is "ok", or what the cluster says of itself. WholeOnly says that
	// all its nodes refuse everything while one master has no replacement.
	ClusterState string
	WholeOnly    bool
	// Role is "master" or "slave".
	Role       string
	UsedMemory int64 // bytes
	MaxMemory  int64 // bytes; 0: no bound
	Policy     string
	Evicted    int64 // keys thrown away since the server started
	AppendOnly bool
	SavesToRDB bool
	Overrides  int64
	// Median and Worst are of 100 pings, one after the other.
	Median, Worst time.Duration
	// ClockAhead is the server's clock less this machine's, to within half of
	// Median.
	ClockAhead time.Duration
	// Refused are the commands of ours that the server does not allow, with its
	// words.
	Refused map[string]string
	// Publishers are the aggregators that have written, by name.
	Publishers []PublisherSeen
	// Unknown are the questions that were not answered, with the reason.
	Unknown map[string]string
}

// PublisherSeen is one aggregator's hot set.
type PublisherSeen struct {
	Name string
	// Live says that the set has not expired.
	Live bool
	// Takeovers is how often the name changed hands while Inspect looked: two
	// processes call themselves by it.
	Takeovers int64
}

// Inspect looks at the server without changing anything that lasts: it writes
// one key of its own for a second and publishes to nobody. It takes some 100
// round trips and a second.
func (c *Client) Inspect(ctx context.Context) Inspection {
	in := Inspection{Addrs: c.cfg.Addrs, Cluster: c.cfg.isCluster(), Refused: map[string]string{}, Unknown: map[string]string{}}
	if err := c.Ping(ctx); err != nil {
		in.Err = err.Error()
		return in
	}
	c.inspectServer(ctx, &in)
	c.inspectConfig(ctx, &in)
	c.inspectPace(ctx, &in)
	c.inspectCommands(ctx, &in)
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
		return
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64) // what is absent is 0
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

// inspectConfig reads what INFO does not say. Managed servers often refuse it.
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

// inspectPace measures pings and clocks.
func (c *Client) inspectPace(ctx context.Context, in *Inspection) {
	took := make([]time.Duration, 0, pings)
	for range pings {
		begin := time.Now()
		if err := c.rdb.Ping(ctx).Err(); err != nil {
			in.Unknown["PING"] = err.Error()
			continue
		}
		took = append(took, time.Since(begin))
	}
	if len(took) == 0 {
		return
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

// inspectCommands tries what the programs need. An ACL is best asked by doing.
func (c *Client) inspectCommands(ctx context.Context, in *Inspection) {
	key := c.keys.Check()
	for name, try := range map[string]func() error{
		"SET":     func() error { return c.rdb.Set(ctx, key, "1", time.Second).Err() },
		"GET":     func() error { return c.rdb.Get(ctx, key).Err() },
		"HGETALL": func() error { return c.rdb.HGetAll(ctx, c.keys.HotIndex()).Err() },
		"ZRANGE":  func() error { return c.rdb.ZRange(ctx, c.keys.ReportIndex(), 0, 0).Err() },
		"LRANGE":  func() error { return c.rdb.LRange(ctx, c.keys.OverrideAudit(), 0, 0).Err() },
		"EVAL": func() error {
			// In one script what the scripts of this package do.
			return c.rdb.Eval(ctx, "redis.call('TIME'); redis.call('SET', KEYS[1], '1', 'PX', 1000); return redis.call('PEXPIRE', KEYS[1], 1000)", []string{key}).Err()
		},
		"SCRIPT LOAD": func() error { return c.rdb.ScriptLoad(ctx, "return 1").Err() },
		"PUBLISH":     func() error { return c.rdb.Publish(ctx, key, "").Err() },
		"SUBSCRIBE":   func() error { return c.trySubscribe(ctx, c.keys.HotNotice()) },
	} {
		if err := try(); err != nil && !errors.Is(err, redis.Nil) {
			in.Refused[name] = err.Error()
		}
	}
}

func (c *Client) trySubscribe(ctx context.Context, channel string) error {
	sub := c.rdb.Subscribe(ctx, channel)
	defer sub.Close()
	_, err := sub.Receive(ctx)
	return err
}

// inspectPublishers looks twice, a second apart.
func (c *Client) inspectPublishers(ctx context.Context, in *Inspection) {
	index, err := c.rdb.HGetAll(ctx, c.keys.HotIndex()).Result()
	if err != nil {
		in.Unknown["hot set"] = err.Error()
		return
	}
	names := slices.Sorted(maps.Keys(index))
	before := c.epochs(ctx, names)
	if len(names) > 0 {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
	after := c.epochs(ctx, names)
	now := time.Now().Add(in.ClockAhead)
	for _, name := range names {
		_, expiry, _ := strings.Cut(index[name], " ")
		ms, _ := strconv.ParseInt(strings.TrimSpace(expiry), 10, 64) // 0 has expired
		in.Publishers = append(in.Publishers, PublisherSeen{
			Name: name, Live: ms > now.UnixMilli(), Takeovers: after[name] - before[name],
		})
	}
}

// epochs reads how often each publisher's name has changed hands so far.
func (c *Client) epochs(ctx context.Context, names []string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range names {
		text, err := c.rdb.Get(ctx, c.keys.HotEpoch(name)).Result()
		if err != nil {
			continue // gone or not readable: no change is seen
		}
		epoch, _, _ := strings.Cut(text, " ")
		out[name], _ = strconv.ParseInt(epoch, 10, 64)
	}
	return out
}

// String is where the server is, for messages.
func (in Inspection) String() string { return fmt.Sprintf("Redis %v", in.Addrs) }
