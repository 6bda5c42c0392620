package accesslog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// documented are example lines of the documentation of public programs.
var documented = []struct {
	program string
	format  accesslog.Format
	lines   string
	want    string // second, client, method, host, target, status, agent
}{
	{"Apache httpd", accesslog.Combined, `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" ` +
		`200 2326 "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"`,
		"971211336 127.0.0.1 GET  /apache_pb.gif 200 Mozilla/4.08 [en] (Win98; I ;Nav)"},
	{"nginx through syslog", accesslog.Combined, `<190>Oct 10 13:55:36 web nginx: 192.0.2.1 - - ` +
		`[10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 404 2 "-" "curl/8"`,
		"971211336 192.0.2.1 GET  /a?b=c 404 curl/8"},
	{"RFC 5424", accesslog.Combined, `<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 ` +
		`[exampleSDID@32473 iut="3" eventSource="App]lication"] 192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" ` +
		`200 2`, "971211336 192.0.2.1 GET  / 200 "},
	{"HAProxy", accesslog.HAProxy, `Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 ` +
		`[06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} ` +
		`"GET /index.html HTTP/1.1"`, "1233922454 10.0.1.2 GET  /index.html 200 "},
	{"Envoy", accesslog.Envoy, `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 ` +
		`"10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"`,
		"1460751420 10.0.35.28 POST locations /api/v1/locations 204 nsq2http"},
	{"AWS ALB", accesslog.ALB, `http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 ` +
		`192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/a?b=c HTTP/1.1" ` +
		`"curl/7.46.0" - - arn:aws:x "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z ` +
		`"forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
		"1530570180 192.168.131.39 GET www.example.com /a?b=c 200 curl/7.46.0"},
	{"AWS CloudFront", accesslog.CloudFront, "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method " +
		"cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie)\n" +
		"2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\t" +
		"Mozilla/5.0%20(Windows%20NT%2010.0;%20Win64;%20x64)\ta=b\t-",
		"1575493351 192.0.2.100 GET d111111abcdef8.cloudfront.net /index.html?a=b 200 " +
			"Mozilla/5.0 (Windows NT 10.0; Win64; x64)"},
	{"IIS", accesslog.IIS, "#Software: Internet Information Services 6.0\n#Fields: date time c-ip cs-username s-ip s-port " +
		"cs-method cs-uri-stem cs-uri-query sc-status sc-bytes cs-bytes time-taken cs(User-Agent) cs(Referrer)\n" +
		"2002-05-24 20:18:01 172.224.24.114 - 206.73.118.24 80 GET /Default.htm - 200 7930 248 31 " +
		"Mozilla/4.0+(compatible;+MSIE+5.01;+Windows+2000+Server) http://64.224.24.114/",
		"1022271481 172.224.24.114 GET  /Default.htm 200 Mozilla/4.0 (compatible; MSIE 5.01; Windows 2000 Server)"},
	{"Caddy", accesslog.JSON, `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request",` +
		`"request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET",` +
		`"host":"localhost","uri":"/","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]}},"bytes_read":0,` +
		`"user_id":"","duration":0.000929675,"size":10900,"status":200}`, "1646861401 127.0.0.1 GET localhost / 200 curl/7.82.0"},
	{"Traefik", accesslog.JSON, `{"ClientAddr":"192.168.1.105:52410","ClientHost":"192.168.1.105","DownstreamStatus":200,` +
		`"RequestHost":"app.example","RequestMethod":"GET","RequestPath":"/dashboard?tab=2","StartUTC":` +
		`"2024-03-15T09:30:00.5Z","request_User-Agent":"Mozilla/5.0"}`,
		"1710495000 192.168.1.105 GET app.example /dashboard?tab=2 200 Mozilla/5.0"},
	{"nginx, escape=json", accesslog.JSON, `{"time_local":"10/Oct/2000:13:55:36 -0700","remote_addr":"192.0.2.1",` +
		`"request":"GET /a?b=c HTTP/1.1","status":"200","http_user_agent":"curl/8"}`,
		"971211336 192.0.2.1 GET  /a?b=c 200 curl/8"},
	{"Google Cloud", accesslog.JSON, `{"httpRequest":{"requestMethod":"GET","requestUrl":"http://www.example.com/a?b=c",` +
		`"status":200,"userAgent":"curl/8","remoteIp":"192.0.2.1"},"timestamp":"2024-03-15T09:30:00Z"}`,
		"1710495000 192.0.2.1 GET www.example.com /a?b=c 200 curl/8"},
	{"Elastic Common Schema", accesslog.JSON, `{"@timestamp":"2024-03-15T09:30:00.000Z","source":{"ip":"192.0.2.1"},"http":` +
		`{"request":{"method":"GET"},"response":{"status_code":404}},"url":{"path":"/a","query":"b=c","domain":"x.example"},` +
		`"user_agent":{"original":"curl/8"}}`, "1710495000 192.0.2.1 GET x.example /a?b=c 404 curl/8"},
	{"nginx, log_format", "log_format:" + `$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent ` +
		`"$http_referer" "$http_user_agent" "$gzip_ratio"`, `2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] ` +
		`"GET /a\x22 HTTP/1.1" 200 5 "-" "say \"x\"" "1.5"`, `971211336 2001:db8:: GET  /a" 200 say "x"`},
	{"Apache, common", accesslog.Combined, `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 200 2326`,
		"971211336 192.0.2.1 GET  /a?b=c 200 "},
	{"Apache, vhost_combined", accesslog.Combined, `www.example.org:443 192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] ` +
		`"GET /a?b=c HTTP/1.0" 200 2326 "-" "curl/8"`, "971211336 192.0.2.1 GET www.example.org /a?b=c 200 curl/8"},
	{"Apache, HostnameLookups", accesslog.Combined, `host.example.org - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" ` +
		`200 2326`, "971211336 host.example.org GET  / 200 "},
	{"nginx, main", accesslog.Combined, `10.0.0.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 5 "-" ` +
		`"curl/8" "198.51.100.4, 192.0.2.1, 10.0.0.9"`, "971211336 192.0.2.1 GET  /a?b=c 200 curl/8"},
	{"ingress-nginx", accesslog.Combined, `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/2.0" 200 5 "-" ` +
		`"curl/8" 418 0.004 [default-web-80] [] 10.0.0.5:8080 12 0.004 200 7f3a`,
		"971211336 192.0.2.1 GET  /a?b=c 200 curl/8"},
	{"lighttpd", accesslog.Combined, `192.0.2.1 www.example.org - [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" ` +
		`200 5 "-" "curl/8"`, "971211336 192.0.2.1 GET  /a?b=c 200 curl/8"},
	{"Traefik, common", accesslog.Combined, `192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET /a?b=c HTTP/1.1" 200 5 "-" ` +
		`"curl/8" 7 "web@docker" "http://10.0.0.5:80" 2ms`, "971186136 192.0.2.1 GET  /a?b=c 200 curl/8"},
	{"Varnish", accesslog.Combined, `192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET http://www.example.org/a?b=c ` +
		`HTTP/1.1" 200 5 "-" "curl/8"`, "971186136 192.0.2.1 GET  http://www.example.org/a?b=c 200 curl/8"},
	{"Gunicorn", accesslog.Combined, `192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "POST /a?b=c HTTP/1.1" 201 - "-" "curl/8"`,
		"971186136 192.0.2.1 POST  /a?b=c 201 curl/8"},
	{"ingress-nginx, JSON", accesslog.JSON, `{"time": "2024-03-15T09:30:00+00:00", "remote_addr": "", ` +
		`"x_forwarded_for": "192.0.2.1", "request_id": "1", "status": 200, "vhost": "www.example.org", ` +
		`"request_proto": "HTTP/1.1", "path": "/a", "request_query": "b=c", "method": "GET", "http_user_agent": "curl/8"}`,
		"1710495000 192.0.2.1 GET www.example.org /a?b=c 200 curl/8"},
	{"nginx, JSON without escape=json", accesslog.JSON, `{"time_iso8601":"2024-03-15T09:30:00+00:00","remote_addr":` +
		`"192.0.2.1","request":"GET /a\x22?b=\xD0\xBF\x5C HTTP/1.1","status":"200","http_user_agent":"say \x22x\x22"}`,
		`1710495000 192.0.2.1 GET  /a"?b=п\ 200 say "x"`},
	{"Caddy, wall", accesslog.JSON, `{"level":"info","ts":"2024/03/15 09:30:00","request":{"remote_ip":"10.0.0.1",` +
		`"client_ip":"192.0.2.1","method":"GET","host":"www.example.org","uri":"/a?b=c"},"status":200}`,
		"1710495000 192.0.2.1 GET www.example.org /a?b=c 200 "},
	{"Istio", accesslog.Istio, `[2024-03-15T09:30:00.409Z] "GET /a?b=c HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" ` +
		`"curl/8" "84961386" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 192.0.2.1:37652 ` +
		`outbound_.8000_._.httpbin default`, "1710495000 192.0.2.1 GET httpbin /a?b=c 418 curl/8"},
	{"AWS ELB", accesslog.ELB, `2024-03-15T09:30:00.945958Z my-elb 192.0.2.1:2817 10.0.0.1:80 0.000073 0.001048 0.000057 ` +
		`200 200 0 29 "GET http://www.example.org:80/a?b=c HTTP/1.1" "curl/8" - -`,
		"1710495000 192.0.2.1 GET www.example.org /a?b=c 200 curl/8"},
	{"IIS advanced logging", accesslog.IIS, "#Fields:  date time s-ip cs-method cs-uri-stem cs-uri-query s-port " +
		"cs-username c-ip cs(User-Agent) sc-status\n2024-03-15 09:30:00.190 - GET /a b=c 80 - 192.0.2.1 " +
		`"curl 8 (x y)" 404`, "1710495000 192.0.2.1 GET  /a?b=c 404 curl 8 (x y)"},
	{"IIS behind a gateway", "log_format:w3c:client=X-Forwarded-For", "#Fields: date time cs-method cs-uri-stem " +
		"cs-uri-query c-ip sc-status time-taken X-Forwarded-For\n2024-03-15 09:30:00 GET /a b=c 192.0.2.9 200 85 " +
		"192.0.2.1:30000,+172.16.0.1:49770", "1710495000 192.0.2.1 GET  /a?b=c 200 "},
	{"AWS S3", "log_format:" + `$_ $_ [$time_local] $remote_addr $_ $_ $_ $_ "$request" $status $_ $_ $_ $_ $_ ` +
		`"$http_referer" "$http_user_agent" $_`, `79a5 bucket [10/Oct/2000:13:55:36 +0000] 192.0.2.1 79a5 3E57 ` +
		`REST.GET.OBJECT k "GET /bucket/k?b=c HTTP/1.1" 200 - 113 - 7 - "-" "curl/8" - x`,
		"971186136 192.0.2.1 GET  /bucket/k?b=c 200 curl/8"},
	{"AWS API Gateway", accesslog.JSON, `{"requestId":"c6af","ip":"192.0.2.1","requestTime":"10/Oct/2000:13:55:36 +0000",` +
		`"httpMethod":"GET","resourcePath":"/a","path":"/a","status":"200","protocol":"HTTP/1.1"}`,
		"971186136 192.0.2.1 GET  /a 200 "},
	{"AWS WAF", accesslog.JSON, `{"timestamp":1710495000123,"action":"ALLOW","httpRequest":{"clientIp":"192.0.2.1",` +
		`"uri":"/a","args":"b=c","httpMethod":"GET"}}`, "1710495000 192.0.2.1 GET  /a?b=c 0 "},
	{"Cloudflare", accesslog.JSON, `{"ClientIP":"192.0.2.1","ClientRequestHost":"www.example.org","ClientRequestMethod":` +
		`"GET","ClientRequestURI":"/a?b=c","EdgeStartTimestamp":1710495000000000000,"EdgeResponseStatus":200,` +
		`"ClientRequestUserAgent":"curl/8"}`, "1710495000 192.0.2.1 GET www.example.org /a?b=c 200 curl/8"},
	{"Azure Application Gateway", accesslog.JSON, `{"timeStamp":"2024-03-15T09:30:00+00:00","category":` +
		`"ApplicationGatewayAccessLog","properties":{"clientIP":"192.0.2.1","clientPort":53057,"httpMethod":"GET",` +
		`"requestUri":"/a","requestQuery":"b=c","userAgent":"curl/8","httpStatus":200,"host":"www.example.org"}}`,
		"1710495000 192.0.2.1 GET www.example.org /a?b=c 200 curl/8"},
	{"Kong", accesslog.JSON, `{"client_ip":"192.0.2.1","started_at":1710495000123,"request":{"method":"GET","uri":"/a?b=c",` +
		`"url":"http://www.example.org:8000/a?b=c","headers":{"host":"www.example.org","user-agent":"curl/8"}},` +
		`"response":{"status":200}}`, "1710495000 192.0.2.1 GET  /a?b=c 200 curl/8"},
	{"Fastify", accesslog.JSON, `{"level":30,"time":1710495000123,"reqId":"1","req":{"method":"GET","url":"/a?b=c",` +
		`"hostname":"www.example.org","remoteAddress":"192.0.2.1","remotePort":1},"msg":"incoming request"}`,
		"1710495000 192.0.2.1 GET  /a?b=c 0 "},
	{"GitLab Workhorse", accesslog.JSON, `{"correlation_id":"1","host":"www.example.org","level":"info","method":"GET",` +
		`"msg":"access","remote_addr":"127.0.0.1:0","remote_ip":"192.0.2.1","status":200,"system":"http",` +
		`"time":"2024-03-15T09:30:00Z","uri":"/a?b=c","user_agent":"curl/8"}`,
		"1710495000 192.0.2.1 GET www.example.org /a?b=c 200 curl/8"},
	{"nginx with scheme and host", "log_format:" + `$remote_addr [$time_iso8601] "$request_method ` +
		`$scheme://$host$request_uri $server_protocol" $status`, `192.0.2.1 [2024-03-15T09:30:00+00:00] ` +
		`"GET https://www.example.org/a?b=c HTTP/1.1" 200`, "1710495000 192.0.2.1 GET www.example.org /a?b=c 200 "},
}

// The format of the example lines of public programs is detected, and each line parses to its request.
func TestOpen_RecognizesDocumentedLines(t *testing.T) {
	t.Parallel()
	for _, tt := range documented {
		t.Run(tt.program, func(t *testing.T) {
			t.Parallel()
			lines := strings.Split(tt.lines, "\n")
			named := !strings.HasPrefix(string(tt.format), "log_format:")
			cfg := accesslog.Config{Format: tt.format}
			if named {
				cfg.Format = ""
			}
			p, found, err := accesslog.Open(cfg, lines)
			if err != nil || !found || p.Format() != tt.format {
				t.Fatalf("found %q, want %q: %v", p.Format(), tt.format, err)
			}
			var e accesslog.Entry
			for _, line := range lines {
				err = p.Parse(line, &e)
			}
			r := &e.Request
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(e.Second, " ", r.Client.String(), " ", r.Method, " ", r.Host, " ", r.Target, " ",
				e.Status, " ", r.Header.Get("User-Agent")); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// A form without the parts of a request is refused with the missing part.
func TestFormatParser_RejectsIncompleteForms(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		`$remote_addr "$request"`:     "add $time_local",
		`$msec $status`:               "add $request",
		`$msec$request`:               "separates",
		`json:time=ts,klient=ip`:      "klient",
		`$msec $remote_addr $request`: "",
		`log_format main '$remote_addr [$time_local] ' '"$request"';`: "",
		`json:time=a.b,client=c,target=u`:                             "",
	} {
		_, err := accesslog.Custom(form)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", form, err, want)
		}
	}
	f, err := accesslog.Custom("json:time=a.b,client=c,target=u")
	var e accesslog.Entry
	if err = errors.Join(err, f.Parse(`{"a":{"b":1710495000123},"c":"x","u":"/?q"}`, &e)); err != nil ||
		e.Second != 1710495000 || e.Nanos != 123_000_000 || e.Request.Target != "/?q" {
		t.Errorf("%+v, %v", e, err)
	}
}

// No line makes a parser panic, and what parses has a time, a method, a target, and a client that is an address or a
// name that the format allows.
func FuzzFormats(f *testing.F) {
	for _, d := range documented {
		f.Add(d.lines)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		for _, name := range append(accesslog.Names(), `log_format:$remote_addr "$request" $msec "$http_user_agent"`) {
			p, _, err := accesslog.Open(accesslog.Config{Format: accesslog.Format(name)}, lines)
			if err != nil {
				t.Fatal(err)
			}
			var e accesslog.Entry
			for _, line := range lines {
				if p.Parse(line, &e) != nil {
					continue
				}
				if e.Second <= 0 || e.Nanos < 0 || e.Request.Method == "" || e.Request.Target == "" {
					t.Errorf("%s: %q: %+v", name, line, e)
				}
				named := name == string(accesslog.Events) || name == string(accesslog.JSONL)
				who := e.Request.Client.Name
				if !named && who != "" && (!strings.Contains(who, ".") || strings.ContainsAny(who, " :,\"")) {
					t.Errorf("%s: %q: the client is %q", name, line, who)
				}
			}
		}
	})
}
