package detect

import (
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// The key of requests without any parameter of their rule is not hot at any rate until a request has a parameter. A hot
// key then stays hot when no request has one any more.
func TestDetector_WithholdsTheKeyWithoutParameters(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("test.yaml", []byte(
		"rules: [{name: topic, params: [topic_id], hot: {rate: 10, window: 5s, cooldown: 5s}}]"))
	if err != nil {
		t.Fatal(err)
	}
	d := New(set, Options{Shards: 4})
	flood := func(from, to int) (crossed bool) {
		for s := from; s < to; s++ {
			crossed = d.Add(at(float64(s)), count("topic", int64(s), 100)) || crossed
			d.Tick(at(float64(s) + 0.5))
		}
		return crossed
	}
	hot := func(second float64) bool { s, _ := d.Tick(at(second)); return len(s.Keys)+len(s.Loops) > 0 }
	if flood(0, 30) || hot(30) {
		t.Fatal("the key of all requests is hot, or a loop, and no request had topic_id")
	}
	if d.Add(at(30), hottype.Count{Key: "topic?topic_id=x", Second: 1030, N: 1}); !hot(30.1) {
		t.Fatal("who leaves topic_id out escapes although others send it")
	}
	if flood(30, 3700); !hot(3700) {
		t.Error("it cooled under a flood because no one else came for an hour")
	}
	if hot(3800) {
		t.Fatal("it is hot without requests")
	}
	if flood(7400, 7410) || hot(7410) {
		t.Error("it became hot again after an hour in which no request had topic_id")
	}
	d.MergeUse(at(7410), []report.RuleUse{{Rule: "topic", Params: "topic_id", WithParams: 1000 + 7400}})
	if !hot(7410.5) {
		t.Error("another process has seen topic_id, and the key is withheld here")
	}
}
