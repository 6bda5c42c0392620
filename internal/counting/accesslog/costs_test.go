package accesslog_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// The time of the upstream precedes the time of the request, and several upstreams are added up. A cost that a line
// lacks is -1.
func TestParse_ReadsCosts(t *testing.T) {
	t.Parallel()
	const ms, s = time.Millisecond, time.Second
	nginx := `$remote_addr [$time_local] "$request" $status $body_bytes_sent $request_time "$upstream_response_time" ` +
		`$upstream_http_x_cost`
	line := func(tail string) string {
		return `192.0.2.1 [17/May/2015:10:05:03 +0000] "GET /a?b=1 HTTP/1.1" ` + tail
	}
	for _, c := range []struct {
		format accesslog.Format
		line   string
		want   accesslog.Costs
	}{
		{custom(t, nginx), line(`200 512 1.250 "0.812" 7.5`), accesslog.Costs{Time: 812 * ms, Bytes: 512, Cost: 7.5}},
		{custom(t, nginx), line(`200 512 1.250 "0.100, 0.050 : 0.025" -`), accesslog.Costs{Time: 175 * ms, Bytes: 512, Cost: -1}},
		{custom(t, nginx), line(`200 512 1.250 "-" -`), accesslog.Costs{Time: 1250 * ms, Bytes: 512, Cost: -1}},
		{custom(t, nginx), line("429 512 1.250 \"0.812\" 7"), accesslog.NoCosts},
		{custom(t, nginx), line("200 - x \"y\" z"), accesslog.NoCosts},
		{custom(t, nginx), line("200 -5 -1 \"-0.5\" -7"), accesslog.NoCosts},
		{custom(t, nginx), line("200 99999999999999999999 1e300 \"1e300\" 1e400"), accesslog.NoCosts},
		{accesslog.Combined, `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326 "-" "curl"`,
			accesslog.Costs{Time: -1, Bytes: 2326, Cost: -1}},
		{accesslog.Combined, `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 304 -`, accesslog.NoCosts},
		{accesslog.HAProxy, `192.0.2.1:56000 [17/May/2015:10:05:03.123] web app/s1 5/700/1/69/775 200 2750 - - ---- ` +
			`1/1/1/1/0 0/0 "GET /a HTTP/1.1"`, accesslog.Costs{Time: 69 * ms, Bytes: 2750, Cost: -1}},
		{accesslog.HAProxy, `192.0.2.1:56000 [17/May/2015:10:05:03.123] web app/s1 5/-1/-1/-1/775 503 0 - - sQ-- ` +
			`1/1/1/1/0 0/0 "GET /a HTTP/1.1"`, accesslog.Costs{Time: -1, Bytes: 0, Cost: -1}},
		{accesslog.ALB, `h2 2018-07-02T22:23:00.186641Z app/lb 192.0.2.1:2817 10.0.0.1:80 0.001 0.048 0.037 200 200 34 366 ` +
			`"GET https://a.example:443/ HTTP/2.0" "curl"`, accesslog.Costs{Time: 48 * ms, Bytes: 366, Cost: -1}},
		{accesslog.ALB, `h2 2018-07-02T22:23:00.186641Z app/lb 192.0.2.1:2817 - -1 -1 -1 502 - 34 366 ` +
			`"GET https://a.example:443/ HTTP/2.0" "curl"`, accesslog.Costs{Time: -1, Bytes: 366, Cost: -1}},
		{accesslog.Envoy, `[2016-04-15T20:17:00.310Z] "GET /a HTTP/2" 200 - 0 154 26 22 "192.0.2.1" "curl" "id" "h" "10.0.0.1:80"`,
			accesslog.Costs{Time: 22 * ms, Bytes: 154, Cost: -1}},
		{accesslog.JSON, `{"time_iso8601":"2023-11-14T22:13:20Z","remote_addr":"192.0.2.1","request_uri":"/","status":200,` +
			`"request_time":1.5,"upstream_response_time":"0.5","body_bytes_sent":10}`,
			accesslog.Costs{Time: 500 * ms, Bytes: 10, Cost: -1}},
		{accesslog.JSON, `{"ts":1700000000.5,"request":{"remote_ip":"192.0.2.1","method":"GET","host":"h","uri":"/"},` +
			`"duration":0.812,"size":99,"status":200}`, accesslog.Costs{Time: 812 * ms, Bytes: 99, Cost: -1}},
		{accesslog.JSON, `{"StartUTC":"2023-11-14T22:13:20Z","ClientHost":"192.0.2.1","RequestMethod":"GET",` +
			`"RequestPath":"/","Duration":2000000000,"OriginDuration":1000000000,"DownstreamContentSize":7}`,
			accesslog.Costs{Time: s, Bytes: 7, Cost: -1}},
		{custom(t, "json:time=at,client=from,target=what,ms=took,cost=price"),
			`{"at":1700000000,"from":"192.0.2.1","what":"/","took":12.5,"price":"3"}`,
			accesslog.Costs{Time: 12500 * time.Microsecond, Bytes: -1, Cost: 3}},
		{accesslog.JSONL, `{"t":1700000000,"client":"192.0.2.1","method":"GET","target":"/","ms":1.5,"bytes":0,"cost":0.25}`,
			accesslog.Costs{Time: 1500 * time.Microsecond, Bytes: 0, Cost: 0.25}},
		{accesslog.JSONL, `{"t":1700000000,"client":"192.0.2.1","method":"GET","target":"/","ms":-1,"bytes":-2,"cost":-3}`,
			accesslog.NoCosts},
	} {
		var e accesslog.Entry
		if err := c.format.Parse(c.line, &e); err != nil || e.Costs != c.want {
			t.Errorf("%s\n%+v, want %+v (%v)", c.line, e.Costs, c.want, err)
		}
	}
}

// CloudFront writes time-taken in seconds, IIS in milliseconds.
func TestParse_ReadsCostsOfW3C(t *testing.T) {
	t.Parallel()
	for format, lines := range map[accesslog.Format][2]string{
		accesslog.CloudFront: {"#Fields: date time sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs-uri-query time-taken",
			"2023-11-14\t22:13:20\t99\t192.0.2.1\tGET\th\t/\t200\t-\t0.812"},
		accesslog.IIS: {"#Fields: date time cs-method cs-uri-stem cs-uri-query c-ip sc-status sc-bytes time-taken",
			"2023-11-14 22:13:20 GET / - 192.0.2.1 200 99 812"},
	} {
		p, err := format.Parser()
		if err != nil {
			t.Fatal(err)
		}
		var e accesslog.Entry
		_ = p.Parse(lines[0], &e)
		want := accesslog.Costs{Time: 812 * time.Millisecond, Bytes: 99, Cost: -1}
		if err := p.Parse(lines[1], &e); err != nil || e.Costs != want {
			t.Errorf("%s: %+v, %v", format, e.Costs, err)
		}
	}
}

func custom(t *testing.T, text string) accesslog.Format {
	t.Helper()
	f, err := accesslog.Custom(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
