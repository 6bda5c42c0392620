package others

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const sourceOfH2spec = "github.com/summerwind/h2spec"

// junit is the report of h2spec.
type junit struct {
	Suites []struct {
		Package string `xml:"package,attr"`
		Cases   []struct {
			Name    string  `xml:"classname,attr"`
			Failure *string `xml:"failure"`
			Error   *string `xml:"error"`
			Skipped *string `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// h2Listener is a listener of the product and what h2spec asks it for.
type h2Listener struct {
	name, addr, path string
	tls              bool
}

// Every listener that speaks HTTP/2 passes h2spec, its strict cases included.
func TestListeners_PassH2spec(t *testing.T) {
	s := begin(t, "h2spec", sourceOfH2spec)
	h2spec := tool(t, sourceOfH2spec+"/cmd/h2spec")
	var group sync.WaitGroup
	for _, l := range startListeners(t) {
		group.Go(func() { // most of the time is waiting for the absence of frames
			outcome := runH2spec(t, h2spec, l)
			for range 2 { // a busy machine may answer after a case has given up
				again := unlisted(s, l, outcome)
				if len(again) == 0 {
					break
				}
				t.Logf("%s: again %q", l.name, again)
				for name, fault := range runH2spec(t, h2spec, l, again...) {
					if fault == nil {
						outcome[name] = nil
					}
				}
			}
			for name, fault := range outcome {
				s.record(l.name+", "+name, fault, l.group(name))
			}
		})
	}
	group.Wait()
}

// group returns the name of a case at all listeners of net/http.
func (l h2Listener) group(name string) string {
	if l.name == "envoy" { // the only listener of grpc-go
		return ""
	}
	return "HTTP, " + name
}

// unlisted returns the sections with cases that may not differ, and do.
func unlisted(s *suite, l h2Listener, outcome map[string]error) (sections []string) {
	for name, fault := range outcome {
		if fault != nil && s.listed(l.name+", "+name, l.group(name)) == "" {
			section, _, _ := strings.Cut(name, ": ")
			sections = append(sections, section)
		}
	}
	return sections
}

// startListeners starts programs with all their listeners, and returns them when they answer.
func startListeners(t *testing.T) []h2Listener {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(upstream.Close)
	authority := redistest.NewAuthority(t)
	cert := authority.Issue(time.Now().Add(time.Hour), "127.0.0.1")
	addr := map[string]string{}
	for _, name := range []string{"proxy", "tls", "admin", "decide", "check", "envoy", "edge", "mirror"} {
		addr[name] = freeport.Addr(t)
	}
	state := filepath.Join(t.TempDir(), "state")
	program.Launch(t, "hotparam", "serve", "--upstream", upstream.URL, "--listen", addr["proxy"], "--state.dir", state,
		"--admin.listen", addr["admin"], "--decide.listen", addr["decide"], "--check.listen", addr["check"],
		"--check.dialect", "path", "--envoy.listen", addr["envoy"], "--edge.listen", addr["edge"])
	program.Launch(t, "hotparam", "serve", "--upstream", upstream.URL, "--listen", addr["tls"], "--state.dir",
		filepath.Join(t.TempDir(), "state"), "--admin.listen", "",
		"--proxy.tls_cert", cert.Cert, "--proxy.tls_key", cert.Key)
	counts, err := net.ListenPacket("udp", "127.0.0.1:0") // of the collector
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	program.Launch(t, "collector", "--mirror.listen", addr["mirror"], "--statsd.addr", counts.LocalAddr().String(),
		"--admin.listen", "")
	list := []h2Listener{{"proxy", addr["proxy"], "/", false}, {"proxy with TLS", addr["tls"], "/", true},
		{"admin", addr["admin"], "/livez", false}, {"decide", addr["decide"], "/v1/decide", false},
		{"check", addr["check"], "/check", false}, {"edge", addr["edge"], "/v1/edge", false},
		{"mirror", addr["mirror"], "/", false}, {"envoy", addr["envoy"], "/", false}}
	for _, l := range list {
		program.Await(t, time.Minute, l.name, func() bool {
			c, err := net.Dial("tcp", l.addr)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	return list
}

var notInNames = regexp.MustCompile(`\s+`)

// runH2spec returns the outcome of each case of some sections, or of all, at a listener.
func runH2spec(t *testing.T, h2spec string, l h2Listener, sections ...string) map[string]error {
	t.Helper()
	host, port, _ := net.SplitHostPort(l.addr)
	report := filepath.Join(t.TempDir(), "junit.xml")
	args := []string{"--host", host, "--port", port, "--path", l.path, "--strict", "--junit-report", report}
	if l.tls {
		args = append(args, "--tls", "--insecure")
	}
	args = append(args, sections...)
	out, err := exec.CommandContext(t.Context(), h2spec, args...).CombinedOutput() // fails if a case does
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", l.name, err)
	}
	data, err := os.ReadFile(report)
	var doc junit
	if err == nil {
		err = xml.Unmarshal(data, &doc)
	}
	outcome, seen := map[string]error{}, map[string]int{}
	for _, suite := range doc.Suites {
		for _, c := range suite.Cases {
			name := suite.Package + ": " + notInNames.ReplaceAllString(strings.TrimSpace(c.Name), " ")
			if seen[name]++; seen[name] > 1 {
				name = fmt.Sprintf("%s (%d)", name, seen[name])
			}
			outcome[name] = nil
			if c.Skipped != nil {
				outcome[name] = errors.New("skipped: " + *c.Skipped)
			} else if fault := cmp.Or(c.Failure, c.Error); fault != nil {
				outcome[name] = errors.New(notInNames.ReplaceAllString(*fault, " "))
			}
		}
	}
	if err != nil || len(outcome) < 100 && len(sections) == 0 {
		t.Errorf("%s: %d cases, %v\n%s", l.name, len(outcome), err, out)
	}
	return outcome
}
