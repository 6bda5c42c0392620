package doctor

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/storage/redisclient"
)

// Redis judges the store of the hot set, overrides and shared limits.
func Redis(in redisclient.Inspection, want Expected) []Finding {
	l := &list{where: "redis " + strings.Join(in.Addrs, ",")}
	l.redisSentinels(in)
	if in.Err != "" {
		l.redisSilent(in)
		return l.findings
	}
	l.addOK("Redis %s answers", in.Version)
	l.redisRole(in)
	if _, hidden := in.Unknown["INFO"]; !hidden {
		l.redisMemory(in)
		l.redisDurability(in)
	}
	l.redisPace(in, want)
	l.redisRights(in, want)
	l.redisPublishers(in)
	for _, name := range slices.Sorted(maps.Keys(in.Unknown)) {
		l.redisUnknown(in, name)
	}
	return l.findings
}

func (l *list) redisSilent(in redisclient.Inspection) {
	if len(in.Rights.Limiter) > 0 {
		l.redisDenied(in.Rights.User, in.Rights.Limiter)
		return
	}
	if tooFewSentinels(in) {
		return // the Sentinels are the cause: the master itself may be well
	}
	l.addFailure(Finding{What: "it does not answer: " + in.Err,
		Why: "limits are local to each process, live overrides and hot keys of others are not seen",
		Fix: redisCLI(in.Addrs[0]) + " ping   # then start it, or fix redis.addr"})
}

// redisCLI returns the redis-cli command for the server at an address, which may be the path of a socket.
func redisCLI(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "redis-cli -s " + addr
	}
	return "redis-cli -h " + host + " -p " + port
}

// tooFewSentinels reports whether fewer than a majority of the Sentinels name the master.
func tooFewSentinels(in redisclient.Inspection) bool {
	return in.Sentinels > 0 && in.Sentinels-len(in.Silent) <= in.Sentinels/2
}

// redisSentinels judges the Sentinels, which name the master. A majority must answer.
func (l *list) redisSentinels(in redisclient.Inspection) {
	if tooFewSentinels(in) {
		why := "the master is used while it reports itself as one; a replacement by the others is not noticed"
		if in.Err != "" {
			why = "no program finds the master, which may be well: " + in.Err
		}
		l.addFailure(Finding{What: fmt.Sprintf("only %d of %d Sentinels say which server is the master",
			in.Sentinels-len(in.Silent), in.Sentinels), Why: why, Fix: "start or repair the Sentinels that follow"})
	}
	for _, addr := range slices.Sorted(maps.Keys(in.Silent)) {
		l.addWarning(Finding{What: "a Sentinel does not say which server is the master: " + in.Silent[addr],
			Where: "Sentinel " + addr, Why: "when the others fail too, no program finds the master",
			Fix: redisCLI(addr) + " SENTINEL masters   # start it, or fix redis.sentinel_master"})
	}
	if in.Sentinels > 0 && len(in.Silent) == 0 {
		l.addOK("all %d Sentinels know the master", in.Sentinels)
	}
}

// redisRights judges the rights of the user. A limiter does not need the right to publish.
func (l *list) redisRights(in redisclient.Inspection, want Expected) {
	l.redisDenied(in.Rights.User, in.Rights.Limiter)
	if want.RulesInRedis {
		l.redisRules(in.Rights)
	}
	if want.Passes {
		l.redisDenied(in.Rights.User, in.Rights.Passes)
	}
	for _, name := range in.Missing {
		l.addFailure(Finding{What: fmt.Sprintf("the server has no command %s", strings.ToUpper(name)),
			Why: "the programs need it", Fix: "a server that has it: docs/deploy.md names the tested ones"})
	}
	switch rights := in.Rights; {
	case len(rights.Limiter)+len(in.Missing) > 0:
	case len(rights.Aggregator) > 0:
		words := make([]string, len(rights.Aggregator))
		for i, d := range rights.Aggregator {
			words[i] = d.Right
		}
		l.addOK("user %s may do what limiters do; for an aggregator or to change overrides it lacks %s", rights.User,
			strings.Join(words, " "))
	default:
		l.addOK("user %s may do all that the programs do", rights.User)
	}
}

func (l *list) redisRules(r redisclient.Rights) {
	l.redisDenied(r.User, r.Rules)
	switch {
	case len(r.Rules) > 0:
	case len(r.RulesChange) > 0:
		l.addOK("user %s may follow the rules in Redis; to change them it lacks +publish %s", r.User,
			r.RulesChange[0].Right)
	default:
		l.addOK("user %s may follow and change the rules in Redis", r.User)
	}
}

func (l *list) redisDenied(user string, denied []redisclient.Denied) {
	for _, d := range denied {
		l.addFailure(Finding{What: fmt.Sprintf("user %s lacks %s: %s", user, d.Right, d.Err),
			Why: "the programs need it",
			Fix: fmt.Sprintf("redis-cli ACL SETUSER %s '%s'   # and in the ACL file; docs/redis.md has the whole line",
				user, d.Right)})
	}
}

// redisUnknown reports a fact that the server does not show, with the right that is missing.
func (l *list) redisUnknown(in redisclient.Inspection, name string) {
	f := Finding{What: name + " is not known: " + in.Unknown[name], Why: "an unknown value cannot be judged"}
	rights := map[string]string{"INFO": "+info", "CONFIG GET": "+config|get", "CLUSTER INFO": "+cluster|info"}
	if right, ok := rights[name]; ok && strings.Contains(in.Unknown[name], "NOPERM") {
		f.What += "; memory, eviction and persistence are not judged"
		f.Fix = fmt.Sprintf("hotparam doctor --redis.username ADMINISTRATOR, or: redis-cli ACL SETUSER %s '%s'",
			in.Rights.User, right)
	}
	l.add(Warn, f)
}

func (l *list) redisRole(in redisclient.Inspection) {
	if in.ReadOnly || in.Role == "slave" && !in.Cluster {
		l.addFailure(Finding{What: "it is a replica",
			Why: "it refuses writes (READONLY): no limit is shared and nothing is published",
			Fix: "redis.addr: the address of its master (redis-cli INFO replication: master_host, master_port)"})
	}
	if in.ClusterState != "" && in.ClusterState != "ok" {
		l.addFailure(Finding{What: fmt.Sprintf("the cluster reports the state %q", in.ClusterState),
			Why: "some or all keys cannot be reached", Fix: "redis-cli --cluster check " + in.Addrs[0]})
	}
	if in.WholeOnly {
		l.addWarning(Finding{What: "cluster-require-full-coverage is yes",
			Why: "when a master dies, all nodes refuse everything until a replica has taken over: all limits are local meanwhile, not just those that lay on it",
			Fix: "redis-cli --cluster call " + in.Addrs[0] +
				" CONFIG SET cluster-require-full-coverage no   # and in redis.conf"})
	}
}

func (l *list) redisMemory(in redisclient.Inspection) {
	evicts := in.MaxMemory > 0 && in.Policy != "noeviction"
	const fix = "redis-cli CONFIG SET maxmemory-policy noeviction   # and in redis.conf"
	switch {
	case evicts && in.Evicted > 0:
		l.addFailure(Finding{What: fmt.Sprintf("maxmemory-policy is %s, and %d keys were thrown away", in.Policy,
			in.Evicted),
			Why: "limits, hot keys and overrides are evicted like any other key: a limited or blocked client starts again",
			Fix: fix})
	case evicts:
		l.addWarning(Finding{
			What: fmt.Sprintf("maxmemory-policy is %s with maxmemory %s", in.Policy, formatBytes(in.MaxMemory)),
			Why:  "when memory is full, limits and overrides are thrown away like any other key", Fix: fix})
	case in.MaxMemory > 0 && in.UsedMemory > in.MaxMemory/5*4:
		l.addWarning(Finding{
			What: fmt.Sprintf("%s of %s of memory are used", formatBytes(in.UsedMemory), formatBytes(in.MaxMemory)),
			Why:  "when it is full, writes are refused: limits are local then",
			Fix:  fmt.Sprintf("redis-cli CONFIG SET maxmemory %d", 2*in.MaxMemory)})
	default:
		l.addOK("no key is evicted when memory is full")
	}
}

func (l *list) redisDurability(in redisclient.Inspection) {
	_, hidden := in.Unknown["CONFIG GET"]
	switch {
	case in.AppendOnly:
		l.addOK("written data survives a restart (appendonly)")
	case in.Overrides > 0 && !in.SavesToRDB && !hidden:
		l.addFailure(Finding{What: fmt.Sprintf("it holds %d overrides and writes nothing to disk", in.Overrides),
			Why: "after a restart every live override is gone",
			Fix: "redis-cli CONFIG SET appendonly yes   # and in redis.conf"})
	case in.Overrides > 0:
		l.addWarning(Finding{
			What: fmt.Sprintf("it holds %d overrides and saves at most now and then (RDB)", in.Overrides),
			Why:  "after a crash the overrides of the last minutes are gone",
			Fix:  "redis-cli CONFIG SET appendonly yes   # and in redis.conf"})
	default:
		l.addOK("there is no live override that a restart could lose (appendonly is off)")
	}
}

func (l *list) redisPace(in redisclient.Inspection, want Expected) {
	what := fmt.Sprintf("100 pings took %v in the middle, %v at worst", in.Median.Round(time.Microsecond),
		in.Worst.Round(time.Microsecond))
	const why = "decisions that wait longer than gate.budget are made without it, by on_store_failure"
	fix := "redis-cli --latency-history; bring it nearer, or gate: {budget: " +
		(2 * in.Worst).Round(time.Millisecond).String() + "}"
	switch {
	case in.Median > want.Budget:
		l.addFailure(Finding{What: what + fmt.Sprintf("; gate.budget is %v", want.Budget), Why: why, Fix: fix})
	case in.Median > want.Budget/2 || in.Worst > want.Budget:
		l.addWarning(Finding{What: what + fmt.Sprintf("; gate.budget is %v", want.Budget), Why: why, Fix: fix})
	default:
		l.addOK("%s; gate.budget is %v", what, want.Budget)
	}
	off := in.ClockAhead.Abs()
	if off <= time.Second {
		l.addOK("its clock differs from this machine's by %v", off.Round(time.Millisecond))
		return
	}
	level := Warn
	if off >= want.HotTTL {
		level = Fail
	}
	l.add(level, Finding{
		What: fmt.Sprintf("its clock is %v ahead of this machine's", in.ClockAhead.Round(time.Millisecond)),
		Why: fmt.Sprintf("hot keys expire by one clock and are made by the other: beyond detect.hot_ttl (%v) they come "+
			"or go at the wrong time", want.HotTTL),
		Fix: "chronyc tracking   # on both machines"})
}

func (l *list) redisPublishers(in redisclient.Inspection) {
	live := 0
	for _, p := range in.Publishers {
		if p.Live {
			live++
		}
		if p.Takeovers > 0 {
			l.addFailure(Finding{
				What: fmt.Sprintf("aggregator %q changed hands %d times in a second", p.Name, p.Takeovers),
				Why:  "two processes have one name: each takes the other's hot keys away",
				Fix:  "aggregator: {id: another-name}   # a name for each"})
		}
	}
	if live == 0 {
		l.addWarning(Finding{What: "no aggregator publishes a hot set in this namespace",
			Why: "no limiter has hot keys",
			Fix: "aggregator --redis.addr " + in.Addrs[0] + "   # and the same namespace in its file"})
		return
	}
	l.addOK("%d aggregators publish", live)
}
