package respcache

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func testPolicy() *hottype.CachePolicy {
	return &hottype.CachePolicy{TTL: time.Second, Stale: 10 * time.Second, StaleIfError: time.Minute,
		Vary: []string{"Accept-Encoding", "X-Lang"}, MaxBody: 1 << 16}
}

func header(fields ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return h
}

// A response of each status is stored by the rules of RFC 9110, without a stated lifetime, with one, and with public
// alone.
func TestNewAnswer_StoresStatusesOfRFC9110(t *testing.T) {
	t.Parallel()
	byThemselves := []int{200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501} // RFC 9110, section 15.1
	for status := 100; status < 700; status++ {
		final := status >= 200 && status < 600 && status != http.StatusNotModified
		for control, want := range map[string]bool{
			"": slices.Contains(byThemselves, status), "max-age=5": final, "public": final,
			"max-age=5, must-understand, no-store": final && http.StatusText(status) != "",
			"max-age=5, no-store":                  false,
			"max-age=5, must-understand":           final && http.StatusText(status) != "",
		} {
			h := header()
			if control != "" {
				h.Set("Cache-Control", control)
			}
			if a, why := storableAnswer(status, h, testPolicy(), time.Unix(1000, 0)); (a != nil) != want ||
				(why == "") != want {
				t.Errorf("%d %q: kept %v, %q", status, control, a != nil, why)
			}
		}
	}
}

// The age and the lifetimes of an answer follow from its fields.
func TestNewAnswer_DerivesAgeAndLifetimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	const s = time.Second
	for _, c := range []struct {
		fields                   []string
		age, fresh, stale, error time.Duration
		why                      string
	}{
		{nil, 0, s, 11 * s, 61 * s, ""},
		{[]string{"Age", "7"}, 7 * s, s, 11 * s, 61 * s, ""}, // by the rule it is kept from now on
		{[]string{"Age", "7", "Cache-Control", "max-age=9"}, 7 * s, 2 * s, 12 * s, 62 * s, ""},
		{[]string{"Age", "9", "Cache-Control", "max-age=9"}, 0, 0, 0, 0, "expired"},
		{[]string{"Age", "9", "Cache-Control", "max-age=9", "Etag", "x"}, 9 * s, 0, 0, 0, ""},
		{[]string{"Age", "9", "Cache-Control", "max-age=9", "Last-Modified", date(0)}, 9 * s, 0, 0, 0, ""},
		{[]string{"Cache-Control", "max-age=9, no-cache", "Etag", "x"}, 0, 0, 0, 0, ""},
		{[]string{"Date", date(-3 * s), "Cache-Control", "max-age=9"}, 3 * s, 6 * s, 16 * s, 66 * s, ""},
		{[]string{"Date", date(-3 * s), "Age", "4", "Cache-Control", "max-age=9"}, 4 * s, 5 * s, 15 * s, 65 * s, ""},
		{[]string{"Date", date(-4 * s), "Age", "3", "Cache-Control", "max-age=9"}, 4 * s, 5 * s, 15 * s, 65 * s, ""},
		{[]string{"Date", date(3 * s), "Cache-Control", "max-age=9"}, 0, 9 * s, 19 * s, 69 * s, ""},
		{[]string{"Date", "x", "Expires", date(9 * s)}, 0, 9 * s, 19 * s, 69 * s, ""},
		{[]string{"Date", date(-3 * s), "Expires", date(9 * s)}, 3 * s, 9 * s, 19 * s, 69 * s, ""},
		{[]string{"Expires", date(9 * s), "Expires", date(9 * s)}, 0, 0, 0, 0, "expired"},
		{[]string{"Expires", date(-9 * s), "Cache-Control", "max-age=9"}, 0, 9 * s, 19 * s, 69 * s, ""},
		{[]string{"Cache-Control", "max-age=1, s-maxage=9"}, 0, 9 * s, 9 * s, 9 * s, ""},
		{[]string{"Cache-Control", "max-age=9, must-revalidate"}, 0, 9 * s, 9 * s, 9 * s, ""},
		{[]string{"Cache-Control", "max-age=9, stale-while-revalidate=3"}, 0, 9 * s, 12 * s, 69 * s, ""},
		{[]string{"Cache-Control", "max-age=9, stale-if-error=3"}, 0, 9 * s, 19 * s, 19 * s, ""},
		{[]string{"Cache-Control", "max-age=9, stale-if-error=30, stale-while-revalidate=0"}, 0, 9 * s, 9 * s, 39 * s,
			""},
		{[]string{"Set-Cookie", "a=b"}, 0, 0, 0, 0, "set-cookie"},
		{[]string{"Trailer", "X"}, 0, 0, 0, 0, "stream"},
		{[]string{"Vary", "X-Lang, ,accept-encoding", "Vary", "X-LANG"}, 0, s, 11 * s, 61 * s, ""},
		{[]string{"Vary", "X-Lang, X-Other"}, 0, 0, 0, 0, "vary"},
	} {
		a, why := storableAnswer(200, header(c.fields...), testPolicy(), now)
		if why != c.why || (a == nil) != (why != "") {
			t.Errorf("%q: %q", c.fields, why)
			continue
		}
		if a == nil {
			continue
		}
		if a.age != c.age || a.fresh != c.fresh || a.stale != c.stale || a.onError != c.error ||
			!a.received.Equal(now) || a.mustRevalidate() != (c.fresh == 0) {
			t.Errorf("%q: age %v, %v, %v, %v; want %+v", c.fields, a.age, a.fresh, a.stale, a.onError, c)
		}
		if len(c.fields) > 0 && c.fields[0] == "Vary" && !slices.Equal(a.vary, []string{"X-Lang"}) {
			t.Errorf("%q", a.vary)
		}
	}
}

// An answer is kept if any of its time is left.
func TestNewAnswer_StoresTheLastNanosecond(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]time.Duration{time.Second - 1: 1, time.Second: 0} {
		h := header("Date", made.Format(http.TimeFormat), "Cache-Control", "max-age=1")
		a, _ := storableAnswer(200, h, testPolicy(), made.Add(age))
		if (a != nil) != (want > 0) || a != nil && (a.fresh != want || a.mustRevalidate()) {
			t.Errorf("%v: %+v", age, a)
		}
	}
}

// A part of a part is cut where it is wholly within it.
func TestAnswer_CutsPartOfPart(t *testing.T) {
	t.Parallel()
	build := func() *answer {
		a, why := storableAnswer(206, header("Content-Range", "bytes 10-19/100", "Etag", `"1"`, "A", "b"), testPolicy(),
			time.Unix(1000, 0))
		if a == nil {
			t.Fatal(why)
		}
		a.setBody([]byte("0123456789"))
		return a
	}
	value := func(a *answer, name string) (list []string) {
		for _, f := range a.fields {
			if f.name == name {
				list = append(list, f.values...)
			}
		}
		return list
	}
	for part, want := range map[string]string{
		"bytes=10-19": "0123456789", "bytes=10-10": "0", "bytes=19-19": "9", "bytes=12-15": "2345",
		"bytes=9-12": "", "bytes=19-20": "", "bytes=15-14": "", "bytes=20-25": "", "bytes=12-": "", "bytes=-5": "",
		"bytes=12-15,17-18": "", "bytes=012-15": "", "bytes= 12-15": "", "items=12-15": "", "": "",
	} {
		a := build()
		s := a.cutPart(part)
		if (s != nil) != (want != "") {
			t.Errorf("%q: cut %v", part, s != nil)
		}
		if s != nil && (string(s.body) != want || fmt.Sprint(value(s,
			"Content-Length")) != fmt.Sprint([]int{len(want)}) ||
			strings.Join(value(s, "Content-Range"), "|") != "bytes "+part[6:]+"/100" || s.status != 206 ||
			strings.Join(value(s, "A"), "|") != "b" || s.fresh != a.fresh || !s.received.Equal(a.received)) {
			t.Errorf("%q: %+v", part, s)
		}
		if string(a.body) != "0123456789" || strings.Join(value(a, "Content-Length"), "|") != "10" {
			t.Errorf("%q changed what it was cut from: %+v", part, a)
		}
	}
	for _, bad := range []string{"bytes */100", "bytes 10-19/*", "x"} {
		a, _ := storableAnswer(206, header("Content-Range", bad), testPolicy(), time.Unix(1000, 0))
		if a.setBody([]byte("0123456789")); a.cutPart("bytes=10-12") != nil {
			t.Errorf("cut from %q", bad)
		}
	}
	whole, _ := storableAnswer(200, header(), testPolicy(), time.Unix(1000, 0))
	if whole.setBody([]byte("0123456789")); whole.cutPart("bytes=0-1") != nil {
		t.Error("cut from a whole response")
	}
}
