package spoe

import (
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/held"
)

// ended is a message as deploy/haproxy/hotparam.spoe makes HAProxy send it when a response begins.
func ended(number, ms string) []byte {
	b := append(appendText(nil, "ended"), 5)
	b = appendString(appendText(b, "report"), number)
	b = append(appendText(b, "status"), typeInt32, 200)
	b = appendString(appendText(b, "ms"), ms)
	b = appendString(appendText(b, "response_cost"), "2.5")
	return append(appendText(b, "bytes"), typeNull)
}

// A request that HAProxy reports holds its slot until then, and costs what HAProxy says. The report sets no variables.
func TestAgent_HoldsRequestsUntilTheirEnds(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], "+
		"hot: {rate: 9}, limit: {algorithm: in_flight, limit: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	hot := new(hotset.Replica)
	hot.Replace("test", report.HotSet{At: time.Now(), Keys: []hottype.HotKey{{Key: "topic?id=1", Rule: "topic",
		Rate: 9, Until: time.Now().Add(time.Hour)}}})
	g := gate.New(gate.Config{Rules: set, Hot: hot})
	h := held.New(g)
	p := dial(t, New(Config{Gate: g, Held: h}))
	p.greet()
	question := notification("GET", "/topic?id=1", "192.0.2.1")
	question[len("check")+1]++ // one argument more
	question = append(appendText(question, "reports"), typeBool|flagTrue)
	ask := func(payload []byte) map[string]string {
		t.Helper()
		p.send(frameNotify, 1, 1, payload)
		return variables(t, p.receive().payload)
	}
	first := ask(question)
	if second := ask(question); first["allowed"] != "1" || first["report"] == "" || second["allowed"] != "0" ||
		second["report"] != "" {
		t.Fatalf("%v, then %v", first, second)
	}
	if got := ask(ended(first["report"], "31")); len(got) != 0 {
		t.Errorf("a report sets %v", got)
	}
	ask(ended("x", "-1"))
	ask(ended(first["report"], "31"))
	if st := h.Stats(); st.Held != 0 || st.Unknown != 2 {
		t.Errorf("%+v", st)
	}
	if third := ask(question); third["allowed"] != "1" {
		t.Errorf("after the end: %v", third)
	}
	if plain := ask(notification("GET", "/topic?id=1", "192.0.2.1")); plain["allowed"] != "1" || plain["report"] != "" {
		t.Errorf("without the promise: %v", plain)
	}
}

// Numbers come as texts or as numbers; others are unknown.
func TestAmount_ReadsNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    value
		want float64
	}{
		{value{kind: typeString, text: "2.5"}, 2.5}, {value{kind: typeUint32, number: 7}, 7}, {value{kind: typeNull}, -1},
		{value{kind: typeString, text: "-1"}, -1}, {value{kind: typeString, text: "NaN"}, -1},
		{value{kind: typeString}, -1}, {value{kind: typeInt64, number: 1 << 63}, -1},
		{value{kind: typeString, text: strconv.Itoa(1e9)}, -1},
	} {
		got, ok := c.v.amount(1e8)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%+v: %v, want %v", c.v, got, c.want)
		}
	}
}
