package accesslog_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

func TestParse_ReadsEventsAndJSONL(t *testing.T) {
	t.Parallel()
	ev, js := accesslog.Events, accesslog.JSONL
	tests := []struct {
		format accesslog.Format
		line   string
		want   string // "second.nanos client method host target agent", or the error
	}{
		{ev, "1331923247\t192.0.2.7\tGET\t/r?g=1", "1331923247.0 192.0.2.7 GET  /r?g=1 "},
		{ev, "1331923247.25\tc0ffee\tGET\t/r?g=a b", "1331923247.250000000 c0ffee GET  /r?g=a b "},
		{ev, "", "skip"},
		{ev, " \t", "skip"},
		{ev, "#t\tclient\tmethod\ttarget", "skip"},
		{ev, "1331923247\tc\tGET", "bad"},
		{ev, "1331923247\tc\tGET\t/\t/", "bad"},
		{ev, "1331923247\tc\tGET\t", "bad"},
		{ev, "1331923247\t\tGET\t/", "bad"},
		{ev, "1331923247\tc\tG T\t/", "bad"},
		{ev, "1331923247000\tc\tGET\t/", "bad"},
		{ev, "0\tc\tGET\t/", "bad"},
		{ev, "-5\tc\tGET\t/", "bad"},
		{ev, "1.\tc\tGET\t/", "bad"},
		{ev, "99999999999999999999\tc\tGET\t/", "bad"},
		{js, `{"t":1331923247,"client":"192.0.2.7","method":"GET","target":"/r","host":"h","user_agent":"u"}`,
			"1331923247.0 192.0.2.7 GET h /r u"},
		{js, `{"t":1331923247.5,"client":"c","method":"GET","target":"/"}`, "1331923247.500000000 c GET  / "},
		{js, `{"t":1.3319232475e9,"client":"c","method":"GET","target":"/","status":200}`,
			"1331923247.500000000 c GET  / "},
		{js, `{"t":"2012-03-16T20:40:47+02:00","client":"c","method":"GET","target":"/"}`, "1331923247.0 c GET  / "},
		{js, ``, "skip"},
		{js, `{}`, "bad"},
		{js, `[]`, "bad"},
		{js, `{"t":1331923247,"client":"c","method":"GET"}`, "bad"},
		{js, `{"t":1331923247000,"client":"c","method":"GET","target":"/"}`, "bad"},
		{js, `{"t":"yesterday","client":"c","method":"GET","target":"/"}`, "bad"},
		{js, `{"t":null,"client":"c","method":"GET","target":"/"}`, "bad"},
		{js, `{"t":1331923247,"client":"c","method":"GET","target":"/"`, "bad"},
		{"syslog", `x`, "bad"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			if got := outcome(tt.format, tt.line); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func outcome(f accesslog.Format, line string) string {
	var (
		e   accesslog.Entry
		bad *accesslog.Error
	)
	switch err := f.Parse(line, &e); {
	case errors.Is(err, accesslog.ErrSkip):
		return "skip"
	case errors.As(err, &bad):
		return "bad"
	}
	r := e.Request
	nanos := "0"
	if e.Nanos != 0 {
		nanos = fmt.Sprintf("%09d", e.Nanos)
	}
	return fmt.Sprintf("%d.%s %s %s %s %s %s", e.Second, nanos, r.Client, r.Method, r.Host, r.Target,
		r.Header.Get("User-Agent"))
}

// The home-made calendar agrees with package time for every zone and second.
func TestParse_AgreesWithCalendar(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "minutes east"))
		at := time.Unix(rapid.Int64Range(1, 253402300799-86400).Draw(t, "unix"), 0).In(zone)
		line := `192.0.2.7 - - [` + at.Format("02/Jan/2006:15:04:05 -0700") + `] "GET / HTTP/1.1" 200 0`
		var e accesslog.Entry
		if err := accesslog.Combined.Parse(line, &e); err != nil {
			t.Fatal(err)
		}
		if !e.At().Equal(at) {
			t.Fatalf("%s is %s, want %s", line, e.At(), at.UTC())
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`news.test:443 192.0.2.7 - - [17/May/2015:10:05:03.25 +0000] "GET /a\"b\xe4 HTTP/2.0" 200 1 "-" "Mozilla \"x"`,
		"1331923247.5\tc\tGET\t/r?g=1",
		`{"t":"2012-03-16T20:40:47+02:00","client":"c","method":"GET","target":"/"}`,
		`{"t":1e9,"client":"::1","method":"GET","target":"/","host":"h"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, format := range []accesslog.Format{accesslog.Combined, accesslog.Events, accesslog.JSONL} {
			var e accesslog.Entry
			if err := format.Parse(line, &e); err != nil {
				var bad *accesslog.Error
				if !errors.Is(err, accesslog.ErrSkip) && !errors.As(err, &bad) {
					t.Fatalf("%s: unknown error %v", format, err)
				}
				continue
			}
			if e.Second <= 0 || e.Nanos < 0 || e.Nanos >= 1e9 || e.Request.Target == "" || e.Request.Method == "" ||
				e.Request.Header == nil {
				t.Fatalf("%s accepts %q as %+v", format, line, e)
			}
		}
	})
}

// An event line is parsed to its own fields.
func FuzzEventRoundTrip(f *testing.F) {
	f.Add(int64(1331923247), "c", "/r?g=1&u=%2F")
	f.Fuzz(func(t *testing.T, second int64, who, target string) {
		line := fmt.Sprintf("%d\t%s\tGET\t%s", second, who, target)
		var e accesslog.Entry
		if accesslog.Events.Parse(line, &e) != nil {
			return
		}
		if e.Second != second || e.Request.Target != target {
			t.Fatalf("%q is read as %d %q", line, e.Second, e.Request.Target)
		}
	})
}

// An entry is parsed from its JSONL line unchanged.
func TestAppendJSONL_IsInvertedByParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, who := rapid.StringN(0, 40, -1), rapid.SampledFrom([]string{"192.0.2.7", "2001:db8:1:2::", "c0ffee"})
		e := accesslog.Entry{Second: rapid.Int64Range(1, 1<<33).Draw(t, "second"),
			Nanos: rapid.Int32Range(0, 999_999_999).Draw(t, "nanos"), Status: rapid.IntRange(0, 599).Draw(t, "status")}
		e.Request = hottype.Request{Method: "GET", Host: text.Draw(t, "host"), Target: "/" + text.Draw(t, "target"),
			Client: hottype.ParseClient(who.Draw(t, "client")),
			Header: &accesslog.Header{UserAgent: text.Draw(t, "agent"), Referer: text.Draw(t, "referer")}}
		line := accesslog.AppendJSONL([]byte("before"), &e)
		line = line[len("before") : len(line)-1]
		var got accesslog.Entry
		if err := accesslog.JSONL.Parse(string(line), &got); err != nil || bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("%s: %v", line, err)
		}
		same := got.Second == e.Second && got.Nanos == e.Nanos && got.Status == e.Status &&
			got.Request.Client == e.Request.Client && got.Request.Host == e.Request.Host &&
			got.Request.Target == e.Request.Target
		for _, name := range []string{"User-Agent", "Referer"} {
			same = same && got.Request.Header.Get(name) == e.Request.Header.Get(name)
		}
		if !same {
			t.Fatalf("%s: %+v, want %+v", line, &got.Request, &e.Request)
		}
	})
}
