package rediscontrol

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/lua"
)

// data is a model of the server's data: each key's value, and its last life, in ms. A value is a string, a []string
// (list), a map[string]string (hash) or a map[string]int64 (sorted set).
type data struct {
	values map[string]any
	lives  map[string]int64
	sent   []string // "channel message"
}

func (d *data) set(key string, v any, life int64) { d.values[key], d.lives[key] = v, life }

// expire sets the life of a key, and deletes an empty value.
func (d *data) expire(key string, life int64) {
	switch v := d.values[key].(type) {
	case nil:
		return
	case []string:
		if len(v) == 0 {
			delete(d.values, key)
			return
		}
	case map[string]string:
		if len(v) == 0 {
			delete(d.values, key)
			return
		}
	case map[string]int64:
		if len(v) == 0 {
			delete(d.values, key)
			return
		}
	}
	d.lives[key] = life
}

func (d *data) text(key string) string { s, _ := d.values[key].(string); return s }

func (d *data) number(key string) int64 { n, _ := strconv.ParseInt(d.text(key), 10, 64); return n }

func (d *data) hash(key string) map[string]string {
	h, ok := d.values[key].(map[string]string)
	if !ok {
		h = map[string]string{}
		d.values[key] = h
	}
	return h
}

func (d *data) sorted(key string) map[string]int64 {
	z, ok := d.values[key].(map[string]int64)
	if !ok {
		z = map[string]int64{}
		d.values[key] = z
	}
	return z
}

// push puts an entry before a list, and keeps at most most entries.
func (d *data) push(key, entry string, most int) {
	list, _ := d.values[key].([]string)
	list = append([]string{entry}, list...)
	d.values[key] = list[:min(most, len(list))]
}

// byScore returns the members of a sorted set, lowest score first.
func byScore(z map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(z), func(a, b string) int {
		return cmp.Or(cmp.Compare(z[a], z[b]), cmp.Compare(a,
			b))
	})
}

// cut keeps the members with the highest scores.
func cut(z map[string]int64, most int) {
	all := byScore(z)
	for _, m := range all[:max(0, len(all)-most)] {
		delete(z, m)
	}
}

// pair is a server and its model, which get the same calls.
type pair struct {
	t     *testing.T
	c     *Feed
	clock *redistest.Clock
	r     *rand.Rand
	model data
	now   int64 // us
	keys  []string
	calls int
}

func (p *pair) ms() int64 { return p.now / 1000 }

func (p *pair) pick(list ...int64) int64 { return list[p.r.IntN(len(list))] }

// call runs a script and compares its reply, and then all keys, with the model's.
func (p *pair) call(script *redis.Script, want []int64, args ...any) {
	p.t.Helper()
	p.calls++
	p.clock.Set(time.UnixMicro(p.now))
	reply, err := script.Run(p.t.Context(), p.c.rdb, p.keys, args...).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	var got []int64
	if list, ok := reply.([]any); ok {
		for _, n := range list {
			got = append(got, n.(int64))
		}
	} else {
		n, _ := strconv.ParseInt(fmt.Sprint(reply), 10, 64)
		got = []int64{n}
	}
	if !slices.Equal(got, want) {
		p.t.Fatalf("call %d, %v: %v, want %v", p.calls, args, got, want)
	}
	p.compare(args)
}

func (p *pair) compare(args []any) {
	p.t.Helper()
	const read = `local out = {}
		for i, key in ipairs(KEYS) do
			local kind = redis.call('TYPE', key).ok
			local text = ''
			if kind == 'string' then text = redis.call('GET', key)
			elseif kind == 'list' then text = table.concat(redis.call('LRANGE', key, 0, -1), '\n')
			elseif kind == 'zset' then text = table.concat(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), '\n')
			elseif kind == 'hash' then text = table.concat(redis.call('HGETALL', key), '\n') end
			out[2 * i - 1], out[2 * i] = text, redis.call('PTTL', key)
		end
		return out`
	raw, err := p.c.rdb.Eval(p.t.Context(), read, p.keys).Slice()
	if err != nil {
		p.t.Fatal(err)
	}
	for i, key := range p.keys {
		got, left := raw[2*i].(string), raw[2*i+1].(int64)
		want := ""
		switch v := p.model.values[key].(type) {
		case string:
			want = v
		case []string:
			want = strings.Join(v, "\n")
		case map[string]int64:
			var parts []string
			for _, m := range byScore(v) {
				parts = append(parts, m, fmt.Sprint(v[m]))
			}
			want = strings.Join(parts, "\n")
		case map[string]string:
			want = pairs(v)
			list := strings.Split(got, "\n")
			h := map[string]string{}
			for j := 0; j+1 < len(list); j += 2 {
				h[list[j]] = list[j+1]
			}
			got = pairs(h)
		}
		if got != want {
			p.t.Fatalf("call %d, %q: %s is\n%s\nwant\n%s", p.calls, args, key, got, want)
		}
		const clockAdds = 3_600_000 // see redistest.Clock
		if life := p.model.lives[key] + clockAdds; want != "" && (left > life || left < life-60_000) {
			p.t.Fatalf("call %d, %q: %s lives for %d ms, want %d", p.calls, args, key, left, life)
		}
	}
}

func pairs(h map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		parts = append(parts, name, h[name])
	}
	return strings.Join(parts, "\n")
}

// Each script of the control plane changes its keys, their lives and its channel as its model in Go does, with clocks
// that go back and numbers at their bounds.
func TestScriptsMatchTheirModels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	clock := redistest.NewClock(time.Time{}, lua.ClaimHot(), lua.PublishHot(), lua.PublishBounds(), lua.WriteOverride(),
		lua.RestoreOverrides(), lua.WriteReport(), lua.WriteCommand(), lua.WriteRules())
	c.rdb.AddHook(clock)
	sub := s.Client().PSubscribe(t.Context(), "model:*")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, step := range map[string]func(*pair){
		"hot": (*pair).hot, "bounds": (*pair).bounds, "overrides": (*pair).overrides, "report": (*pair).report,
		"command": (*pair).command, "rules": (*pair).rules,
	} {
		for seed := range uint64(6) {
			p := &pair{t: t, c: c, clock: clock, r: rand.New(rand.NewPCG(seed, 1)), now: 1_800_000_000_000_000,
				model: data{values: map[string]any{}, lives: map[string]int64{}}}
			for i := range 10 {
				p.keys = append(p.keys, fmt.Sprint("model:", name, seed, ":", i))
			}
			for range 60 {
				p.now += p.pick(0, 1, 999, 1000, 60_000_000, -1000)
				step(p)
			}
			for i, want := range p.model.sent {
				m, err := sub.ReceiveMessage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got := m.Channel + " " + m.Payload; got != want {
					t.Fatalf("%s: message %d is %q, want %q", name, i, got, want)
				}
			}
		}
	}
}
