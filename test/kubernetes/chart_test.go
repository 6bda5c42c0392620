package kubernetes

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	central = deploy + "helm/central.yaml"
	sidecar = deploy + "helm/sidecar.yaml"
)

// everything enables each feature that is off by default.
var everything = []string{
	`networkPolicy={"enabled":true,"gateways":[{"podSelector":{"matchLabels":{"app":"envoy"}}}],"monitoring":[{"namespaceSelector":{}}]}`,
	`podMonitor={"enabled":true,"interval":"15s","labels":{"release":"prometheus"}}`,
	`podAnnotations={"a":"b"}`, `podLabels={"team":"news"}`, `nodeSelector={"disk":"ssd"}`, `priorityClassName="high"`,
	`tolerations=[{"key":"edge","operator":"Exists"}]`, `imagePullSecrets=[{"name":"registry"}]`,
	`redis.username="limiter"`,
}

// viaCheck opens the port of /check.
var viaCheck = []string{`limiter.ports.check=8185`, `limiter.checkDialect="forwarded"`}

// viaTLS has gateways show certificates, and Redis one.
const viaTLS = `tls={"secretName":"certificates","limiter":true,"clientCA":true,"redisCA":true}`

var viaKafka = []string{`kafka.brokers=["kafka-0:9092","kafka-1:9092"]`, `aggregator.replicas=3`}

// renderings checks each form of the chart, because all rules hold for all forms.
func renderings(t *testing.T, check func(t *testing.T, m manifests)) {
	t.Helper()
	for name, r := range map[string]struct {
		values string
		set    []string
	}{
		"central":             {central, nil},
		"central, everything": {central, slices.Concat(everything, viaCheck)},
		"central, Kafka":      {central, slices.Concat(everything, viaKafka)},
		"central, no aggregator": {central, []string{`aggregator.enabled=false`,
			`limiter.ports={"decide":0,"envoy":8183}`}},
		"central, TLS":        {central, append([]string{viaTLS}, viaCheck...)},
		"sidecar":             {sidecar, nil},
		"sidecar, everything": {sidecar, everything},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, render(t, r.values, r.set...))
		})
	}
}

// The files in deploy/kubernetes are renderings of the chart, for users without Helm.
func TestPlainManifests_EqualChart(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"central", "sidecar"} {
		path := deploy + "kubernetes/" + form + ".yaml"
		want := "# Made from deploy/helm/hotparam with deploy/helm/" + form +
			".yaml; deploy/helm/hotparam/README.md says how to use it.\n" +
			render(t, deploy+"helm/"+form+".yaml").text
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != want {
			t.Errorf("%s is not what the chart makes: cd test && go test ./kubernetes -run Plain -update", path)
		}
	}
}

// No pod of ours has a right that it does not need.
func TestChart_GrantsNoNeedlessRight(t *testing.T) {
	t.Parallel()
	renderings(t, func(t *testing.T, m manifests) {
		for _, w := range m.workloads {
			if auto := w.pod.Spec.AutomountServiceAccountToken; auto == nil || *auto {
				t.Errorf("%s gets a token for the API server", w.name)
			}
			for _, c := range containers(w) {
				s := c.SecurityContext
				if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
					s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
					s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("%s, %s: %+v", w.name, c.Name, s)
				}
				if ours(c) && (s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil ||
					s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault) {
					t.Errorf("%s, %s: %+v", w.name, c.Name, s)
				}
				if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s, %s has no bound on memory, or asks for no processor", w.name, c.Name)
				}
			}
		}
		for _, secret := range []string{"admin-token", "gateway-token", "redis-password"} {
			if strings.Contains(m.text, secret+"=") {
				t.Errorf("%s is an argument, which everybody can read", secret)
			}
		}
	})
}

// Every reference from one object to another is right.
func TestChart_ReferencesAreValid(t *testing.T) {
	t.Parallel()
	renderings(t, func(t *testing.T, m manifests) {
		for _, w := range m.workloads {
			if !matches(w.selector, w) {
				t.Errorf("%s does not select its own pods", w.name)
			}
			for _, c := range containers(w) {
				for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
					if ours(c) && (p == nil || !hasPort(w, p.HTTPGet.Port.String())) {
						t.Errorf("%s, %s: probe %+v", w.name, c.Name, p)
					}
				}
				for _, v := range c.VolumeMounts {
					if !slices.ContainsFunc(w.pod.Spec.Volumes,
						func(have corev1.Volume) bool { return have.Name == v.Name }) {
						t.Errorf("%s, %s mounts %s", w.name, c.Name, v.Name)
					}
				}
			}
		}
		for _, s := range m.services {
			w := selected(t, m, s.Spec.Selector)
			for _, p := range s.Spec.Ports {
				if !hasPort(w, p.TargetPort.String()) {
					t.Errorf("the Service %s sends %s to a port that %s has not", s.Name, p.Name, w.name)
				}
			}
		}
		for _, d := range m.disruptions {
			selected(t, m, d.Spec.Selector.MatchLabels)
			if p := d.Spec.UnhealthyPodEvictionPolicy; p == nil || *p != policyv1.AlwaysAllow {
				t.Errorf("a pod of %s that is not ready keeps its node from being drained", d.Name)
			}
		}
		for _, s := range m.scalers {
			if !slices.ContainsFunc(m.workloads, func(w workload) bool {
				return w.name == s.Spec.ScaleTargetRef.Name
			}) {
				t.Errorf("%s scales %s", s.Name, s.Spec.ScaleTargetRef.Name)
			}
		}
		for _, p := range m.policies {
			w := selected(t, m, p.Spec.PodSelector.MatchLabels)
			for _, in := range p.Spec.Ingress {
				if len(in.From) == 0 || len(in.Ports) == 0 {
					t.Errorf("%s lets everybody in", p.Name)
				}
				for _, port := range in.Ports {
					if !hasPort(w, port.Port.String()) {
						t.Errorf("%s opens %s, which %s has not", p.Name, port.Port, w.name)
					}
				}
			}
		}
		for _, mon := range m.monitors {
			for _, w := range m.workloads {
				if !matches(mon.Spec.Selector.MatchLabels, w) || !hasPort(w, mon.Spec.PodMetricsEndpoints[0].Port) {
					t.Errorf("%s is not monitored", w.name)
				}
			}
		}
	})
}

// Values that cannot work are refused when the chart is rendered, with the field.
func TestChart_RejectsWrongValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`redis.addr=[]`:                                     "redis.addr",
		`redis.addr=["redis"]`:                              "redis",
		`redis.adr=["redis:6379"]`:                          "adr",
		`form="both"`:                                       "form",
		`aggregator.replicas=3`:                             "kafka.brokers",
		`stop.delaySeconds="5s"`:                            "stop",
		`limiter.ports.check=8185`:                          "limiter.checkDialect",
		`limiter.args=["verbose"]`:                          "args",
		`tls={"redisCA":true}`:                              "tls.secretName",
		`tls={"secretName":"certificates","clientCA":true}`: "tls.limiter",
	} {
		said, err := template(t, "--values", central, "--set-json", value)
		if err == nil || !strings.Contains(said, want) {
			t.Errorf("%s: %v, %s", value, err, said)
		}
	}
}

// containers returns all containers of a pod.
func containers(w workload) []corev1.Container {
	return slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers)
}

// ours reports whether a container runs one of our programs.
func ours(c corev1.Container) bool { return strings.HasPrefix(c.Image, "hotparam/") }

func matches(selector map[string]string, w workload) bool {
	labels := maps.Clone(w.pod.Labels)
	maps.Copy(labels, selector)
	return len(selector) > 0 && maps.Equal(labels, w.pod.Labels)
}

// selected returns the only workload that a selector matches.
func selected(t *testing.T, m manifests, selector map[string]string) workload {
	t.Helper()
	found := slices.Collect(func(yield func(workload) bool) {
		for _, w := range m.workloads {
			if matches(selector, w) && !yield(w) {
				return
			}
		}
	})
	if len(found) != 1 {
		t.Fatalf("%v selects %d workloads", metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector}),
			len(found))
	}
	return found[0]
}

func hasPort(w workload, name string) bool {
	return slices.ContainsFunc(containers(w), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	})
}
