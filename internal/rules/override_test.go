package rules

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestOverrides_FollowPrecedence(t *testing.T) {
	t.Parallel()
	file := []Override{
		{ID: "file-exact", Key: "topic?id=42"}, {ID: "file-pattern", Key: "topic?*"},
		{ID: "file-long", Key: "topic?id=4*"},
		{ID: "file-only", Key: "topic?id=1"},
	}
	live := []Override{
		{ID: "live-gone", Key: "topic?id=42", Until: noon}, {ID: "live-exact", Key: "topic?id=43"},
		{ID: "live-pattern", Key: "*id=4*", Until: noon.Add(time.Hour)}, {ID: "b", Key: "*=7"}, {ID: "a", Key: "*=7*"},
		{ID: "old", Key: "twice", Created: noon.Add(-2)}, {ID: "new", Key: "twice", Created: noon.Add(-1)},
	}
	o := NewOverrides(file, live)
	for _, c := range []struct {
		key  string
		now  time.Time
		want string
	}{
		{"topic?id=42", noon, "file-exact"}, {"topic?id=42", noon.Add(-1), "live-gone"},
		{"topic?id=43", noon, "live-exact"},
		{"topic?id=44", noon, "live-pattern"}, {"topic?id=44", noon.Add(time.Hour), "file-long"},
		{"topic?id=9", noon, "file-pattern"},
		{"topic?id=1", noon, "file-only"}, {"topic?id=7", noon, "a"}, {"topic", noon, ""}, {"", noon, ""},
		{"twice", noon, "new"},
	} {
		got := ""
		if f := o.Find([]byte(c.key), c.now); f != nil {
			got = f.ID
		}
		if got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.key, c.now.Format(time.TimeOnly), got, c.want)
		}
	}
	var none *Overrides
	if none.Find([]byte("topic"), noon) != nil || NewOverrides(nil, nil).Find([]byte("topic"), noon) != nil {
		t.Error("found one among none")
	}
	live[1].ID = "changed"
	if o.Find([]byte("topic?id=43"), noon).ID != "live-exact" {
		t.Error("the index shares the caller's memory")
	}
}

// TestOverrides_BlockMalformedRequests: any block of a key of its resource blocks it, unless an override of exactly the
// reserved key replaces the limit.
func TestOverrides_BlockMalformedRequests(t *testing.T) {
	t.Parallel()
	file := []Override{
		{ID: "late", Key: "topic?id=1", Action: ActionBlock}, {ID: "lifted", Key: "search?q=1", Action: ActionBlock},
		{ID: "limit", Key: "user?id=1"}, {ID: "short", Key: "user?*"}, {ID: "news", Key: "/news", Action: ActionBlock},
		{ID: "own", Key: "form?!malformed"}, {ID: "form", Key: "form?a=1", Action: ActionBlock},
		{ID: "lifted-too", Key: "search?q=*", Action: ActionBlock},
	}
	live := []Override{
		{ID: "gone", Key: "topic?id=0", Action: ActionBlock, Until: noon}, {ID: "lift", Key: "search?q=1"},
		{ID: "lift-too", Key: "search?q=*"},
		{ID: "blog", Key: "/blog/*?id=1", Action: ActionBlock},
		{ID: "shadow", Key: "topic?!malformed", Action: ActionShadow},
	}
	o := NewOverrides(file, live)
	for resource, want := range map[string]string{
		"topic": "late", "search": "", "user": "short", "/news": "news", "/news/1": "", "form": "own",
		"/blog/x": "blog", "/blog": "", "topics": "",
	} {
		got := ""
		if f := o.Find([]byte(resource+"?!malformed"), noon); f != nil {
			got = f.ID
		}
		if got != want {
			t.Errorf("%s: %q, want %q", resource, got, want)
		}
	}
	if f := o.Find([]byte("topic?id=2"), noon); f != nil {
		t.Errorf("a key that is not malformed: %+v", f)
	}
}

// A target that upstreams may read as any path, such as /news/today#x, is blocked while any path is blocked.
func TestOverrides_BlockFaultyTargetsWhileAPathIsBlocked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		block Override
		live  []Override
		found bool
	}{
		{Override{Key: "/news"}, nil, true},
		{Override{Key: "/news?id=1"}, nil, true},
		{Override{Key: "/news/*"}, nil, true},
		{Override{Key: "*"}, nil, true},
		{Override{Resource: "/news"}, nil, true},
		{Override{Key: "topic?id=1"}, nil, false},
		{Override{Key: "topic?id=*"}, nil, false},
		{Override{Resource: "topic"}, nil, false},
		{Override{Key: "/news"}, []Override{{Key: "/news", Action: ActionExempt}}, false},
		{Override{Resource: "/news"}, []Override{{Resource: "/news", Action: ActionExempt}}, false},
		{Override{Key: "/news/*"}, []Override{{Key: "/news/*", Action: ActionExempt}}, false},
		{Override{Key: "/news", Until: noon}, nil, false},
		{Override{Key: "/news"}, []Override{{Key: "/?!malformed", Action: ActionExempt}}, false},
	} {
		c.block.Action = ActionBlock
		f := NewOverrides([]Override{c.block}, c.live).Find([]byte("/?!malformed"), noon)
		if blocked := f != nil && f.Action == ActionBlock; blocked != c.found {
			t.Errorf("%+v and %+v: blocked %v, want %v", c.block, c.live, blocked, c.found)
		}
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestOverrides_FindAllocatesNothing(t *testing.T) {
	o := NewOverrides([]Override{{Key: "topic?id=42", Action: ActionBlock}, {Key: "topic?id=4*7*"}},
		[]Override{{Key: "*x"}})
	for _, key := range []string{"topic?id=42", "topic?id=4171", "other?a=b", "topic?!malformed"} {
		k := []byte(key)
		if n := testing.AllocsPerRun(50, func() { o.Find(k, noon) }); n != 0 {
			t.Errorf("%s: %v allocations", key, n)
		}
	}
}

func TestOverrideValidate(t *testing.T) {
	t.Parallel()
	good := Override{ID: "x-1", Key: "topic?id=42", Action: ActionLimit, Rate: 100, Burst: 5, Until: noon,
		Created: noon.Add(-1), Reason: "launch"}
	for _, c := range []struct {
		change func(*Override)
		want   string
	}{
		{func(*Override) {}, ""},
		{func(o *Override) { o.ID, o.Until, o.Burst, o.Rate = "", time.Time{}, 0, 1./3 }, ""},
		{func(o *Override) { o.Key = "topic?q=a b*" }, ""}, // any text may be a pattern
		{func(o *Override) { o.Key = "!hp1:topic.aZh0123456789abcdef0123456789abcdef" }, ""},
		{func(o *Override) { o.Action, o.Rate, o.Burst = ActionBlock, 0, 0 }, ""},
		{func(o *Override) { o.Key = "" }, "has no key"},
		{func(o *Override) { o.Key = "topic?id=*" + strings.Repeat("x", 4086) }, ""},
		{func(o *Override) { o.Key = "topic?id=*" + strings.Repeat("x", 4087) }, "has 4097 bytes, more than 4096"},
		{func(o *Override) { o.Key, o.Resource = "", "/"+strings.Repeat("x", 4095) }, ""},
		{func(o *Override) { o.Key, o.Resource = "", "/"+strings.Repeat("x", 4096) }, "has 4097 bytes, more than 4096"},
		{func(o *Override) { o.Key = "topic?id=4\n*" }, "control characters"},
		{func(o *Override) { o.Key = "topic?id=\xff*" }, "not UTF-8"},
		{func(o *Override) { o.Key = "topic?id=ü" }, `write "topic?id=%C3%BC"`},
		{func(o *Override) { o.Key = "/topic?b=1&a=2" }, `write "/topic?a=2&b=1"`},
		{func(o *Override) { o.Key = "Topic" }, "neither a rule's name nor a path"},
		{func(o *Override) { o.ID = "A" }, "cannot be used; write up to 64 of a-z, 0-9 and -"},
		{func(o *Override) { o.Action = "ban" }, `action ban, not limit`},
		{func(o *Override) { o.Action = "" }, "not limit, exempt, block, shadow or cache"},
		{func(o *Override) { o.Rate = 0 }, `block the key with action "block"`},
		{func(o *Override) { o.Rate = -1 }, "not between 0 and"},
		{func(o *Override) { o.Rate = math.NaN() }, "not between 0 and"},
		{func(o *Override) { o.Rate = math.Inf(1) }, "not between 0 and"},
		{func(o *Override) { o.Rate = rule.MaxRate }, ""},
		{func(o *Override) { o.Rate = math.Nextafter(rule.MaxRate, math.Inf(1)) }, "not between 0 and"},
		{func(o *Override) { o.Rate = 1e-9 }, "limit: "},
		{func(o *Override) { o.Burst = -1 }, "below 0"},
		{func(o *Override) { o.Burst, o.Rate = 1<<53, 3 }, "limit: "},
		{func(o *Override) { o.Action = ActionExempt }, "which action \"exempt\" does not use"},
		{func(o *Override) { o.Until = o.Created }, "not after it was made"},
		{func(o *Override) { o.Reason, o.Author = strings.Repeat(" ", 1024), strings.Repeat("~", 256) }, ""},
		{func(o *Override) { o.Reason = "a\x1b[2J" }, "reason of override"},
		{func(o *Override) { o.Reason = "a\x1f" }, "reason of override"},
		{func(o *Override) { o.Reason = "a\x7f" }, "reason of override"},
		{func(o *Override) { o.Reason = strings.Repeat("x", 1025) }, "reason of override"},
		{func(o *Override) { o.Author = strings.Repeat("x", 257) }, "author of override"},
	} {
		o := good
		c.change(&o)
		err := o.Validate()
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(strings.ReplaceAll(err.Error(), `"ban"`, "ban"), c.want) ||
			!strings.HasPrefix(err.Error(), "rules: ") {
			t.Errorf("%+v: %v, want %q", o, err, c.want)
		}
	}
}

func TestOverrideSpec(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate   float64
		burst  int64
		limit  int64
		window time.Duration
		want   int64
	}{
		{500, 1000, 500, time.Second, 1000}, {500, 0, 500, time.Second, 500}, {0.5, 0, 1, 2 * time.Second, 1},
		{2.5, 0, 5, 2 * time.Second, 3}, {20. / 60, 0, 1, 3 * time.Second, 1}, {7. / 86400, 3, 7, 24 * time.Hour, 3},
	} {
		got := Override{Action: ActionLimit, Rate: c.rate, Burst: c.burst}.Spec("")
		if want := (limit.Spec{Algorithm: limit.TokenBucket, Limit: c.limit, Window: c.window,
			Burst: c.want}); got != want {
			t.Errorf("%v: %+v, want %+v", c.rate, got, want)
		}
	}
	if got := (Override{Action: ActionBlock, Rate: 5}).Spec(""); got != (limit.Spec{}) {
		t.Errorf("a block has limit %+v", got)
	}
}

// TestAnyRateIsKept: any valid rate has a limit that differs from it by at most a millionth of a request a second and a
// hundred millionth of the rate.
func TestAnyRateIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := Override{Key: "k", Action: ActionLimit, Rate: rapid.Float64Range(0, 1e10).Draw(t, "rate")}
		if o.Validate() != nil {
			return
		}
		s := o.Spec("")
		if got := float64(s.Limit) / s.Window.Seconds(); math.Abs(got-o.Rate) > 1e-6+1e-8*o.Rate {
			t.Fatalf("%v is kept to %v: %+v", o.Rate, got, s)
		}
	})
}

func TestOverrideID(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"topic?id=42": "topic-id-42-506a744f", "/a/B?c=%20": "a-b-c-20-", "*": "",
		strings.Repeat("x", 500): strings.Repeat("x", 48) + "-",
	} {
		if got := OverrideID(key); !strings.HasPrefix(got, want) || !isID(got) || got != OverrideID(key) {
			t.Errorf("%.20s: %q, want %q", key, got, want)
		}
	}
	if OverrideID("a?b=1") == OverrideID("a?b-1") {
		t.Error("two keys have one ID")
	}
}

func TestChangeAsJSON(t *testing.T) {
	t.Parallel()
	c := Change{At: noon, Author: "ann", Action: ChangePut, ID: "x",
		After: &Override{ID: "x", Key: "topic", Action: ActionBlock}}
	got, err := json.Marshal(c)
	want :=
		`{"at":"2026-03-01T12:00:00Z","author":"ann","action":"put","id":"x","after":{"id":"x","key":"topic","action":"block"}}`
	if string(got) != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// The readable part of an ID ends with one dash, for any length, and is left out if it is empty.
func TestReadablePartOfAnID(t *testing.T) {
	t.Parallel()
	hash := overrideID("", "x")
	for key, want := range map[string]string{"a": "a-", "ab": "ab-", "a?": "a-", "??": "", "?A": "a-", "a??b": "a-b-"} {
		if got := overrideID(key, "x"); got != want+hash || len(hash) != 8 {
			t.Errorf("%q: %s, want %s", key, got, want+hash)
		}
	}
}
