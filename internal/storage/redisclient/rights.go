package redisclient

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Denied is a right that the user of the programs lacks.
type Denied struct {
	// Right is the right to add to the user, as ACL SETUSER writes it: "+evalsha", "~hp:{news}:limit:*".
	Right string
	// Err is the refusal in the server's words.
	Err string
}

// Rights holds the rights that the user lacks. Each is tested by a command that the programs run, in a form that
// changes nothing but the key that [Keys.Probe] names.
type Rights struct {
	// User is the tested user; "default" if none is configured.
	User string
	// Limiter holds the missing rights without which no program works, Aggregator the missing rights that only
	// aggregators and programs that change overrides use.
	Limiter, Aggregator []Denied
	// Rules holds the missing rights without which a program cannot follow the rules in Redis, RulesChange those
	// without which its admin listener cannot change them, and it cannot write back rules that Redis lost.
	Rules, RulesChange []Denied
	// Passes holds the missing right without which limiters share no secrets of passes.
	Passes []Denied
}

// trial is a command that the programs or their scripts use, and the word of the documented users that allows it. A
// script may do the same as its caller. The arguments let no command make or change a key except SET: most commands
// meet a string or an absent key, and HSET has a value too few. A server checks its ACL before all of that.
type trial struct {
	allowedBy string
	args      []any // the first one is the command
}

func (t trial) commandName() string { return t.args[0].(string) }

// limiterTrials returns trials for a key that is a string or is absent.
func limiterTrials(key string) []trial {
	return slices.Concat([]trial{{"+ping", []any{"ping"}}},
		newTrials(key, "+@read", "get", "mget", "exists", "hget f", "hmget f", "hgetall", "hlen", "lrange 0 0", "zcard",
			"zcount 0 0", "zscore m", "zrange 0 0", "zrangebyscore 0 0"),
		newTrials(key, "+@write", "set x px 1000", "pexpire 1000", "hset f v odd", "hdel f", "zadd xx 0 m", "zrem m",
			"zremrangebyscore 0 0", "del"),
		[]trial{
			{"+eval", []any{"eval", "return 1", 0}},
			{"+evalsha", []any{"evalsha", strings.Repeat("0", 40), 0}},
			{"+time", []any{"time"}},
		})
}

// newTrials returns commands on a key, each with its arguments after the key.
func newTrials(key, allowedBy string, commands ...string) (all []trial) {
	for _, c := range commands {
		t := trial{allowedBy: allowedBy}
		for i, word := range strings.Fields(c) {
			if t.args = append(t.args, word); i == 0 {
				t.args = append(t.args, key)
			}
		}
		all = append(all, t)
	}
	return all
}

func (c *Client) inspectRights(ctx context.Context, in *Inspection) {
	in.Rights = Rights{User: c.userName()}
	limiter := limiterTrials(c.keys.Probe())
	if c.cluster != nil { // go-redis asks every cluster
		limiter = append(limiter, trial{"+cluster|slots", []any{"cluster", "slots"}},
			trial{"+command", []any{"command"}})
	}
	r := &in.Rights
	r.Limiter = append(c.tryCommands(ctx, in, limiter), c.tryKeys(ctx, in)...)
	err := c.retryCall(ctx, func() error { return c.trySubscribe(ctx, c.keys.HotNotice()) })
	r.Limiter = append(r.Limiter, c.channelDenied(in, "subscribe", err)...)
	// Only aggregators and admin listeners use these. LPUSH has no form that changes nothing.
	r.Aggregator = c.tryCommands(ctx, in, slices.Concat(
		newTrials(c.keys.Probe(), "+@read", "lindex 0", "zrevrange 0 0", "zrevrangebyscore 0 0", "zrangebylex - -",
			"zrevrangebylex - -"),
		newTrials(c.keys.Probe(), "+@write", "ltrim 0 -1", "zremrangebyrank 0 0", "zincrby odd m")))
	r.Aggregator = append(r.Aggregator, c.tryAggregator(ctx, in)...)
	rules := c.keys.Prefix() + "rules:"
	r.Rules = c.tryFamily(ctx, in, rules, "%R~"+rules+"*", "get")
	r.RulesChange = c.tryFamily(ctx, in, rules, "~"+rules+"*", "del")
	passes := c.keys.Prefix() + "pass:"
	r.Passes = c.tryFamily(ctx, in, passes, "~"+passes+"*", "get", "del")
	// A right that the limiter lacks already is reported once.
	r.Aggregator = slices.DeleteFunc(r.Aggregator, func(d Denied) bool {
		return slices.ContainsFunc(r.Limiter, func(l Denied) bool { return l.Right == d.Right })
	})
}

func (c *Client) userName() string { return cmp.Or(c.cfg.Username, "default") }

// tryCommands returns every command that is refused, or its category if all commands of the category are.
func (c *Client) tryCommands(ctx context.Context, in *Inspection, trials []trial) []Denied {
	tried, refused := map[string]int{}, map[string][]Denied{}
	for _, t := range trials {
		tried[t.allowedBy]++
		err := c.tryCommand(ctx, in, t.args...)
		switch {
		case refusedKind(err) == "command":
			refused[t.allowedBy] = append(refused[t.allowedBy], Denied{Right: "+" + t.commandName(), Err: err.Error()})
		case err != nil && strings.Contains(err.Error(), "unknown command"):
			in.Missing = append(in.Missing, t.commandName())
		}
	}
	var out []Denied
	for _, word := range slices.Sorted(maps.Keys(refused)) {
		if some := refused[word]; len(some) < tried[word] {
			out = append(out, some...)
			continue
		}
		out = append(out, Denied{Right: word, Err: refused[word][0].Err})
	}
	return out
}

// tryKeys tests every family of keys that limiters use.
func (c *Client) tryKeys(ctx context.Context, in *Inspection) []Denied {
	prefix := c.keys.Prefix()
	var out []Denied
	for _, family := range []string{"hot:", "override:", "command:"} {
		out = append(out, c.tryFamily(ctx, in, prefix+family, "%R~"+prefix+family+"*", "get")...)
	}
	for _, family := range []string{"report:", "limit:", "block:"} {
		out = append(out, c.tryFamily(ctx, in, prefix+family, "~"+prefix+family+"*", "get", "del")...)
	}
	if c.cluster != nil {
		shard := NewKeys(c.cfg.Namespace + "/0").Prefix()
		out = append(out, c.tryFamily(ctx, in, shard+"limit:", "~hp:{"+c.cfg.Namespace+"/*}:*", "get", "del")...)
	}
	return out
}

// tryFamily runs commands on an unused key of a family, so it writes nothing. It returns right if the server denies a
// command for the key.
func (c *Client) tryFamily(ctx context.Context, in *Inspection, family, right string, commands ...string) []Denied {
	for _, command := range commands {
		if err := c.tryCommand(ctx, in, command, family+"probe"); refusedKind(err) == "key" {
			return []Denied{{Right: right, Err: err.Error()}}
		}
	}
	return nil
}

// tryAggregator tests whether the user may publish and write where aggregators and changes of overrides do.
func (c *Client) tryAggregator(ctx context.Context, in *Inspection) []Denied {
	out := c.channelDenied(in, "publish", c.retryCall(ctx, func() error {
		return c.rdb.Publish(ctx, c.keys.Doctor(), "").Err() // it has no subscribers
	}))
	for _, family := range []string{c.keys.Prefix() + "hot:", c.keys.Prefix() + "override:",
		c.keys.Prefix() + "command:"} {
		out = append(out, c.tryFamily(ctx, in, family, "~"+family+"*", "del")...)
	}
	return out
}

func (c *Client) channelDenied(in *Inspection, command string, err error) []Denied {
	switch refusedKind(err) {
	case "command":
		return []Denied{{Right: "+" + command, Err: err.Error()}}
	case "channel":
		return []Denied{{Right: "&" + c.keys.Prefix() + "*", Err: err.Error()}}
	}
	if err != nil {
		in.Unknown[strings.ToUpper(command)] = err.Error()
	}
	return nil
}

func (c *Client) trySubscribe(ctx context.Context, channel string) error {
	sub := c.rdb.Subscribe(ctx, channel)
	defer sub.Close()
	_, err := sub.ReceiveTimeout(ctx, c.cfg.Timeout)
	return err
}

// tryCommand makes a call. It records an error that is not a reply of the server as unknown.
func (c *Client) tryCommand(ctx context.Context, in *Inspection, args ...any) error {
	err := c.retryCall(ctx, func() error { return c.rdb.Do(ctx, args...).Err() })
	if err != nil && !isReply(err) {
		in.Unknown[strings.ToUpper(args[0].(string))] = err.Error()
	}
	if isReadOnly(err) {
		in.ReadOnly = true
	}
	return err
}

// tries is the number of tries of a call that gets no reply, because a busy machine may be late once.
const tries = 3

func (c *Client) retryCall(ctx context.Context, call func() error) (err error) {
	for range tries {
		if err = call(); err == nil || isReply(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func isReply(err error) bool {
	_, is := errors.AsType[redis.Error](err)
	return is
}

// refusedKind returns the kind of right that an ACL refusal is about: "command", "key", "channel", or "" for any other
// error. It looks for a command first, because servers differ in their words, and a name in a refusal may be anything.
func refusedKind(err error) string {
	switch {
	case err == nil || !strings.Contains(err.Error(), "NOPERM"):
		return ""
	case refusedCommand(err) != "":
		return "command"
	case strings.Contains(err.Error(), "channel"):
		return "channel"
	}
	return "key"
}

// refusedCommand returns the command that an ACL does not allow ("client|setname"), or "" for any other error.
func refusedCommand(err error) string {
	if err == nil || !strings.Contains(err.Error(), "NOPERM") {
		return ""
	}
	_, after, _ := strings.Cut(err.Error(), "permissions to run the '")
	command, _, _ := strings.Cut(after, "'")
	return command
}
