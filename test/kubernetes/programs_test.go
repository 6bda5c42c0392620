package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const (
	adminToken   = "admin-token-of-the-test"
	gatewayToken = "gateway-token-of-the-test"
)

// instance is a program as a manifest starts it.
type instance struct {
	*program.Process
	container corev1.Container
	addrs     map[string]string // where it listens, by the name of the container's port
	gateway   *tls.Config       // the gateways' TLS, or nil if they ask without TLS but with a token
}

// site is a Redis, by TLS if authority is not nil.
type site struct {
	*redistest.Server
	addr      string
	authority *redistest.Authority
}

func newSite(t *testing.T, withTLS bool) *site {
	t.Helper()
	if !withTLS {
		s := redistest.Start(t)
		return &site{s, s.Addr(), nil}
	}
	a := redistest.NewAuthority(t)
	s, addr := redistest.StartTLS(t, a, a.Issue(time.Now().Add(time.Hour), "127.0.0.1"), "--tls-auth-clients", "no")
	return &site{s, addr, a}
}

// certificates writes the files of the Secret for certificates.
func (s *site) certificates(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s.authority.IssueTo(redistest.Certificate{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")},
		time.Now().Add(time.Hour), "127.0.0.1")
	ca, err := os.ReadFile(s.authority.CA)
	for _, name := range []string{"client-ca.crt", "redis-ca.crt"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), ca, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts the program of a container with its arguments, rules and environment. Only files and addresses are
// replaced by ones of this machine.
func start(t *testing.T, m manifests, c corev1.Container, redis *site) *instance {
	t.Helper()
	dir := t.TempDir()
	for name, text := range m.configs[0].Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i := &instance{container: c, addrs: map[string]string{}}
	replace := []string{"/etc/hotparam/", dir + "/", "redis:6379", redis.addr}
	if redis.authority != nil {
		replace = append(replace, "/etc/hotparam-tls", redis.certificates(t))
		i.gateway = redis.authority.Client()
	}
	for _, p := range c.Ports {
		i.addrs[p.Name] = freeport.Addr(t)
		replace = append(replace, fmt.Sprintf(".listen=:%d", p.ContainerPort), ".listen="+i.addrs[p.Name])
	}
	args := slices.Clone(c.Args)
	for n, arg := range args {
		args[n] = strings.NewReplacer(replace...).Replace(arg)
		if arg == args[n] && strings.Contains(arg, ".listen=:") {
			t.Errorf("%s: %s is no port of the container", c.Name, arg)
		}
	}
	cmd := exec.Command(filepath.Join(program.Ours(t), "hotparam"), args...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	for _, e := range c.Env {
		switch key := e.ValueFrom.SecretKeyRef.Key; key {
		case "admin-token":
			cmd.Env = append(cmd.Env, e.Name+"="+adminToken)
		case "gateway-token":
			cmd.Env = append(cmd.Env, e.Name+"="+gatewayToken)
		}
	}
	i.Process = program.Start(t, cmd)
	return i
}

// probe asks as kubelet does: 200 to 399 is success.
func (i *instance) probe(p *corev1.Probe) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.TimeoutSeconds)*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+i.addrs[p.HTTPGet.Port.String()]+p.HTTPGet.Path, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode >= 200 && res.StatusCode < 400
}

// decides asks a limiter with the token of gateways.
func (i *instance) decides() (status int) {
	scheme := "http"
	if i.gateway != nil {
		scheme = "https"
	}
	req, err := http.NewRequest(http.MethodPost, scheme+"://"+i.addrs["decide"]+"/v1/decide",
		strings.NewReader(`{"uri":"/topic?id=1"}`))
	if err != nil {
		return 0
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: i.gateway, DisableKeepAlives: true}}
	if i.gateway == nil {
		req.Header.Set("Authorization", "Bearer "+gatewayToken)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// Each program accepts the arguments of its manifest, answers the probes, with Redis and without, and ends within the
// grace period. A limiter that is stopping still answers while endpoints are withdrawn.
func TestPods_StartAndStop(t *testing.T) {
	t.Parallel()
	soon := `stop={"delaySeconds":1,"timeoutSeconds":10}`
	for name, m := range map[string]manifests{
		"central": render(t, central, soon), "sidecar": render(t, sidecar, soon, `aggregator.enabled=false`),
		"TLS":   render(t, central, soon, viaTLS),
		"Kafka": render(t, central, append([]string{soon, `kafka.brokers=["127.0.0.1:1"]`}, viaCheck...)...),
	} {
		for _, w := range m.workloads {
			i := slices.IndexFunc(containers(w), ours)
			t.Run(name+" "+w.name, func(t *testing.T) {
				t.Parallel()
				lives(t, m, w, containers(w)[i], newSite(t, name == "TLS"))
			})
		}
	}
}

func lives(t *testing.T, m manifests, w workload, c corev1.Container, redis *site) {
	i := start(t, m, c, redis)
	program.Await(t, time.Minute, "the start", func() bool { return i.probe(c.StartupProbe) })
	limiter := c.Name == "limiter"
	if limiter {
		program.Await(t, time.Minute, "the first read", func() bool { return i.probe(c.ReadinessProbe) })
		redis.Freeze()
		for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
			if !i.probe(p) {
				t.Errorf("%s fails without Redis", p.HTTPGet.Path)
			}
		}
		redis.Thaw()
	}
	if _, ok := i.addrs["decide"]; ok {
		program.Await(t, time.Minute, "a decision", func() bool { return i.decides() == http.StatusOK })
	}
	i.Signal(syscall.SIGTERM)
	if limiter && i.addrs["decide"] != "" {
		program.Await(t, time.Minute, "not ready", func() bool { return !i.probe(c.ReadinessProbe) })
		if status := i.decides(); status != http.StatusOK {
			t.Errorf("told to stop, it answers %d before endpoints are withdrawn", status)
		}
	}
	if code := i.Wait(time.Duration(*w.pod.Spec.TerminationGracePeriodSeconds) * time.Second); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}
