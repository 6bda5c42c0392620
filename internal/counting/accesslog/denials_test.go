package accesslog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// deniedAt is the time of denials in tests.
func deniedAt() time.Time { return time.Date(2026, 11, 29, 23, 5, 7, 250_000_000, time.UTC) }

func denial() accesslog.Denial {
	return accesslog.Denial{At: deniedAt(), Client: hottype.ParseClient("192.0.2.7"), Reason: "hot", Rule: "topic",
		Class: "crawler", Method: "GET", Host: "news.example", Key: "topic?id=42", Target: "/topic?id=42&x=1",
		Limit: 10, Retry: 1500 * time.Millisecond}
}

// A user's filter depends on names, order and quotes of the fields.
func TestDenialForm_WritesFields(t *testing.T) {
	t.Parallel()
	plain, watched, odd := denial(), denial(), denial()
	watched.Shadow, watched.Retry = true, 0
	odd.Client, odd.Class, odd.Retry, odd.Host = hottype.Client{}, "", hottype.Never, "a\"\n\\\x00\u202e\xffé\U000e0001"
	odd.Target, odd.Key = "", ""
	const js, logfmt = accesslog.DenialJSON, accesslog.DenialLogfmt
	for _, tt := range []struct {
		form accesslog.DenialForm
		of   accesslog.Denial
		want string
	}{
		{js, plain, `{"time":"2026-11-29T23:05:07.250000Z","client":"192.0.2.7","shadow":false,"reason":"hot",` +
			`"rule":"topic","limit":10,"retry":1.5,"class":"crawler","method":"GET","host":"news.example",` +
			`"key":"topic?id=42","target":"/topic?id=42&x=1"}`},
		{js, odd, `{"time":"2026-11-29T23:05:07.250000Z","client":"-","shadow":false,"reason":"hot","rule":"topic",` +
			`"limit":10,"retry":-1,"class":"","method":"GET","host":"a\"\u000a\\\u0000\u202e\ufffdé\udb40\udc01",` +
			`"key":"","target":""}`},
		{logfmt, watched, `time=2026-11-29T23:05:07.250000Z client=192.0.2.7 shadow=true reason=hot rule=topic limit=10 ` +
			`retry=0 class=crawler method=GET host=news.example key="topic?id=42" target="/topic?id=42&x=1"`},
		{logfmt, odd, `time=2026-11-29T23:05:07.250000Z client=- shadow=false reason=hot rule=topic limit=10 retry=-1 ` +
			`class="" method=GET host="a\"\u000a\\\u0000\u202e\ufffdé\udb40\udc01" key="" target=""`},
	} {
		if got := string(tt.form.Append(nil, &tt.of)); got != tt.want+"\n" {
			t.Errorf("%s, want\n%s", got, tt.want)
		}
	}
	if got := string(js.AppendLeftOut(nil, deniedAt(), 7)) + string(logfmt.AppendLeftOut(nil, deniedAt(), 8)); got !=
		`{"time":"2026-11-29T23:05:07.250000Z","left_out":7}`+"\ntime=2026-11-29T23:05:07.250000Z left_out=8\n" {
		t.Error(got)
	}
	short := denial()
	for wait, want := range map[time.Duration]string{1: "0.001", time.Second: "1", 1_000_000_001: "1.001"} {
		short.Retry = wait
		if got := string(logfmt.Append(nil, &short)); !strings.Contains(got, " retry="+want+" ") {
			t.Errorf("%v: %s", wait, got)
		}
	}
}

// judgeDenial checks a line that hostile texts are in: it is one printable line, and a reader finds the request in it,
// and no other.
func judgeDenial(t interface{ Fatalf(string, ...any) }, form accesslog.DenialForm, d *accesslog.Denial) {
	line := string(form.Append([]byte("before"), d))
	line = strings.TrimPrefix(line, "before")
	text, ended := strings.CutSuffix(line, "\n")
	if !ended || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == '\ufffd' }) {
		t.Fatalf("%s: %q is not one printable line", form, line)
	}
	p, found, err := accesslog.Open(accesslog.Config{}, []string{text})
	if err != nil || !found || p.Format() != accesslog.Denials {
		t.Fatalf("%s: is taken for %s, %v", text, p.Format(), err)
	}
	var e accesslog.Entry
	if err := p.Parse(text, &e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	r := &e.Request
	if !e.At().Equal(d.At) || r.Client != hottype.ParseClient(valid(d.Client.String())) || r.Method != d.Method ||
		r.Host != valid(d.Host) || r.Target != valid(d.Target) || e.Status != 0 {
		t.Fatalf("%s: %v %+v, want %+v", text, e.At(), r, d)
	}
}

// valid returns a text as JSON can hold it.
func valid(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

// A line is read as the request that was denied, in both forms.
func TestDenialForm_IsInvertedByParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, d := rapid.StringN(0, 40, -1), denial()
		d.At = time.UnixMicro(rapid.Int64Range(1_000_000, 1<<52).Draw(t, "at")).UTC()
		d.Client = hottype.ParseClient(rapid.SampledFrom([]string{"192.0.2.7", "2001:db8:1:2::", "c0ffee", "a b"}).
			Draw(t, "client"))
		d.Host, d.Class, d.Key = text.Draw(t, "host"), text.Draw(t, "class"), text.Draw(t, "key")
		d.Target = "/" + text.Draw(t, "target")
		judgeDenial(t, accesslog.DenialJSON, &d)
		judgeDenial(t, accesslog.DenialLogfmt, &d)
	})
}

// No text that a client writes ends its line, or adds a field to it.
func FuzzDenials(f *testing.F) {
	f.Add("a\nb", "x\" client=192.0.2.9", "k\r\n", "/a\" target=\"/b")
	f.Add(`h","client":"192.0.2.9`, "x=1", `\`, `/"}`)
	f.Add("\x1b[2J", "\u2028", "\xff\xfe", "/\x00")
	f.Fuzz(func(t *testing.T, host, name, key, target string) {
		d := denial()
		d.Host, d.Key, d.Target = host, key, "/"+target
		if name = valid(name); name != "" && name != "-" {
			d.Client = hottype.ParseClient(name)
		}
		judgeDenial(t, accesslog.DenialJSON, &d)
		judgeDenial(t, accesslog.DenialLogfmt, &d)
	})
}

// Lines without a target are read by their key. Lines without a request are skipped, others are refused.
func TestDenials_ReadsLines(t *testing.T) {
	t.Parallel()
	const at = `"time":"2026-11-29T23:05:07.25Z"`
	for _, tt := range []struct{ line, want string }{
		{`{` + at + `,"client":"192.0.2.7","shadow":false,"method":"PUT","key":"topic?id=42","target":""}`,
			"192.0.2.7 PUT /topic?id=42"},
		{`time=2026-11-29T23:05:07Z client=- shadow=true key="topic?id=42" more=1 target="/t?a= b"`, "- GET /t?a= b"},
		{`{` + at + `,"client":"-","shadow":false,"method":"","key":"","target":""}`, "skip"},
		{`{` + at + `,"left_out":7}`, "skip"},
		{`time=2026-11-29T23:05:07Z left_out=7`, "skip"},
		{` `, "skip"},
		{`{` + at + `,"client":"192.0.2.7","target":"/"}`, "bad"}, // of another program
		{`{"time":"yesterday","client":"192.0.2.7","shadow":false,"target":"/"}`, "bad"},
		{`{"client":"192.0.2.7","shadow":false,"target":"/"}`, "bad"},
		{`{` + at + `,"client":"192.0.2.7","shadow":false,"target":"/"`, "bad"},
		{`time=2026-11-29T23:05:07Z client=192.0.2.7 target=/`, "bad"},
		{`time=2026-11-29T23:05:07Z shadow=true client=192.0.2.7 target="/`, "bad"},
		{`time=2026-11-29T23:05:07Z shadow=true client=192.0.2.7 target="/"x`, "bad"},
		{`time=2026-11-29T23:05:07Z shadow=true client=192.0.2.7 and more target=/`, "bad"},
		{`time=2026-11-29T23:05:07Z shadow=maybe client=192.0.2.7 target=/`, "bad"},
		{`time=2026-11-29T23:05:07Z left_out=-1`, "bad"},
		{`time=2026-11-29T23:05:07Z shadow=true client= target=/`, "bad"},
		{`time=1700000000 shadow=true client=- target=/`, "bad"},
	} {
		var e accesslog.Entry
		err, got := accesslog.Denials.Parse(tt.line, &e), "bad"
		if errors.Is(err, accesslog.ErrSkip) {
			got = "skip"
		} else if err == nil {
			got = fmt.Sprintf("%s %s %s", e.Request.Client, e.Request.Method, e.Request.Target)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s (%v)", tt.line, got, tt.want, err)
		}
	}
}

// A log of denials is recognized behind what containers and syslog write, with a name as the client.
func TestOpen_RecognizesDenials(t *testing.T) {
	t.Parallel()
	d := denial()
	d.Client = hottype.Client{Name: "key-7"}
	for _, form := range []accesslog.DenialForm{accesslog.DenialJSON, accesslog.DenialLogfmt} {
		line := strings.TrimSuffix(string(form.Append(nil, &d)), "\n")
		left := strings.TrimSuffix(string(form.AppendLeftOut(nil, deniedAt(), 7)), "\n")
		for _, before := range []string{"", "2026-11-29T23:05:08.000000000Z stdout F ",
			"Nov 29 23:05:08 host hotparam[7]: "} {
			p, found, err := accesslog.Open(accesslog.Config{}, []string{before + left, before + line})
			if err != nil || !found {
				t.Fatalf("%s%s: %t %v", before, line, found, err)
			}
			var e accesslog.Entry
			if err := p.Parse(before+line, &e); err != nil || e.Request.Client.Name != "key-7" ||
				e.Request.Target != d.Target || p.Format() != accesslog.Denials {
				t.Errorf("%s%s: %v as %s: %+v", before, line, err, p.Format(), &e.Request)
			}
			if err := p.Parse(before+left, &e); !errors.Is(err, accesslog.ErrSkip) {
				t.Errorf("%s%s: %v", before, left, err)
			}
		}
	}
}
