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
		`"GET /a\x22 HTTP/1.1" 200 5 "-" "say \"x\"" "1.5"`, `971211336 2001:db8:: GET  /a" 200 say \"x\"`},
}

// The format of the example lines of public programs is detected, and each line parses to its request.
func TestDetect_RecognizesDocumentedLines(t *testing.T) {
	t.Parallel()
	for _, tt := range documented {
		t.Run(tt.program, func(t *testing.T) {
			t.Parallel()
			lines := strings.Split(tt.lines, "\n")
			named := !strings.HasPrefix(string(tt.format), "log_format:")
			if f, ok := accesslog.Detect(lines); named && (!ok || f != tt.format) {
				t.Errorf("detected %q, want %q", f, tt.format)
			}
			p, err := tt.format.Parser()
			if err != nil {
				t.Fatal(err)
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

// No line makes a parser panic, and what parses has a time, a method and a target.
func FuzzFormats(f *testing.F) {
	for _, d := range documented {
		f.Add(d.lines)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		_, _ = accesslog.Detect(lines)
		for _, name := range append(accesslog.Names(), `log_format:$remote_addr "$request" $msec "$http_user_agent"`) {
			p, err := accesslog.Format(name).Parser()
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
			}
		}
	})
}
