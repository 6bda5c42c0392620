package statsd

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

// Each fault has a reason, which the log tells with the sender, and a counter.
func TestReader_CountsAndLogsReasonOfMalformedLines(t *testing.T) {
	t.Parallel()
	const ours = "hp.news.t.hot_param.a=1"
	for line, want := range map[string]fault{
		strings.Repeat("x", 9000): tooLong, "nothing": noName, ":1|c": noName, "hp.news.t.hot_param.id=Zx:1|c": badName,
		ours + ":1": noType, ours + ":1|q": badType, ours + ":-1|c": badNumber, ours + ":one|c": badNumber,
		ours + ":1e15|c": tooMany,
		ours + ":1|c|@2": badRate, ours + ":1|c|@0.1|@0.1": badRate, ours + ":1|c|": badRate,
		ours + ":1|c|T1.5": badTime, ours + ":1|c|T990|T990": badTime,
		ours + ":who|s": badMember, "hp.news.alive:who|s": badMember,
	} {
		var log bytes.Buffer
		r := testReader(sink{}, func(c *ListenerConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		r.from = netip.MustParseAddrPort("[::ffff:192.0.2.7]:9")
		r.readPacket([]byte(line))
		if s := r.statsNow(); s.Malformed != 1 || s.MalformedBy[reasons[want].name].Lines != 1 {
			t.Errorf("%.60q: %+v", line, s.MalformedBy)
		}
		if out := log.String(); !strings.Contains(out, reasons[want].says) ||
			!strings.Contains(out, "sender=192.0.2.7") || len(out) > 900 {
			t.Errorf("%.60q: logged %s", line, out)
		}
	}
	var log bytes.Buffer
	r := testReader(sink{}, func(c *ListenerConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r.countCut([]byte(ours))
	if s := r.statsNow(); s.MalformedBy["cut_off"].Lines != 1 || !strings.Contains(log.String(), "unix socket") {
		t.Errorf("%+v, logged %s", s.MalformedBy, log.String())
	}
}

// A count names its sender, or of two senders the one with more requests.
func TestReader_CountsNameTheirSender(t *testing.T) {
	t.Parallel()
	var got []hottype.Count
	r := testReader(
		nil,
		func(c *ListenerConfig) { c.Handle = func(counts []hottype.Count) { got = append(got, counts...) } },
	)
	one, two := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	for from, line := range map[netip.Addr]string{
		one: "hp.news.t.hot_param.a=1:30|c\nhp.news.t.hot_param.a=2:5|c|@0.5",
		two: "hp.news.t.hot_param.a=1:10|c",
	} {
		r.from = netip.AddrPortFrom(from, 9)
		r.readPacket([]byte(line))
	}
	r.finish()
	want := map[hottype.Key]hottype.Origin{
		"t?a=1": {Tag: origins.SenderAddr(one), N: 20}, "t?a=2": {Tag: origins.SenderAddr(one), N: 10},
	}
	for _, c := range got {
		if c.Origin != want[c.Key] {
			t.Errorf("%+v, want %+v", c, want[c.Key])
		}
		delete(want, c.Key)
	}
	if len(want) > 0 {
		t.Errorf("missing: %+v of %+v", want, got)
	}
}
