package kubernetes

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

var update = flag.Bool("update", false, "write deploy/kubernetes from the chart")

const deploy = "../../deploy/"

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// helm returns the path of the installed program, or of one that is built once.
func helm(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("helm"); err == nil {
		return path
	}
	if !redistest.RequireAll() {
		t.Skip("no helm: install it, or set HOTPARAM_REQUIRE_SERVERS=1 to have it built")
	}
	dir := program.Fetch(t, "helm-3.22", func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "go", "install", "helm.sh/helm/v3/cmd/helm@v3.22.0")
		cmd.Env = append(os.Environ(), "GOBIN="+dir)
		return cmd
	})
	return filepath.Join(dir, "helm")
}

// template renders the chart. Its error has the output of helm.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	// A helm that was built by go install takes an old version for the cluster's.
	args = append([]string{"template", "hotparam", deploy + "helm/hotparam", "--kube-version", "1.29.0"}, args...)
	cmd := exec.CommandContext(t.Context(), helm(t), args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return said.String(), err
	}
	return string(out), nil
}

// podMonitor is the part of Prometheus' type that the chart writes.
type podMonitor struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       podMonitorSpec `json:"spec"`
}

type podMonitorSpec struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	PodMetricsEndpoints []struct {
		Port          string `json:"port"`
		Path          string `json:"path"`
		Interval      string `json:"interval"`
		Authorization struct {
			Credentials corev1.SecretKeySelector `json:"credentials"`
		} `json:"authorization"`
	} `json:"podMetricsEndpoints"`
}

// workload is a Deployment or a StatefulSet.
type workload struct {
	name     string
	selector map[string]string
	pod      corev1.PodTemplateSpec
}

// manifests are the objects of one rendering, by type.
type manifests struct {
	text        string
	workloads   []workload
	services    []corev1.Service
	configs     []corev1.ConfigMap
	scalers     []autoscalingv2.HorizontalPodAutoscaler
	disruptions []policyv1.PodDisruptionBudget
	policies    []networkingv1.NetworkPolicy
	monitors    []podMonitor
}

// render renders the chart with a file of values and further ones, and reads the result as the API server would: a
// field that a type does not have is an error.
func render(t *testing.T, values string, set ...string) manifests {
	t.Helper()
	args := []string{"--values", values}
	for _, s := range set {
		args = append(args, "--set-json", s)
	}
	text, err := template(t, args...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, text)
	}
	m := manifests{text: text}
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(strings.TrimPrefix(doc, "---")) != "" {
			m.add(t, doc)
		}
	}
	return m
}

func (m *manifests) add(t *testing.T, doc string) {
	t.Helper()
	var what struct{ Kind, APIVersion string }
	if err := yaml.Unmarshal([]byte(doc), &what); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	switch what.APIVersion + " " + what.Kind {
	case "apps/v1 Deployment":
		d := decode[appsv1.Deployment](t, doc)
		m.workloads = append(m.workloads, workload{d.Name, d.Spec.Selector.MatchLabels, d.Spec.Template})
	case "apps/v1 StatefulSet":
		s := decode[appsv1.StatefulSet](t, doc)
		m.workloads = append(m.workloads, workload{s.Name, s.Spec.Selector.MatchLabels, s.Spec.Template})
	case "v1 Service":
		m.services = append(m.services, decode[corev1.Service](t, doc))
	case "v1 ConfigMap":
		m.configs = append(m.configs, decode[corev1.ConfigMap](t, doc))
	case "autoscaling/v2 HorizontalPodAutoscaler":
		m.scalers = append(m.scalers, decode[autoscalingv2.HorizontalPodAutoscaler](t, doc))
	case "policy/v1 PodDisruptionBudget":
		m.disruptions = append(m.disruptions, decode[policyv1.PodDisruptionBudget](t, doc))
	case "networking.k8s.io/v1 NetworkPolicy":
		m.policies = append(m.policies, decode[networkingv1.NetworkPolicy](t, doc))
	case "monitoring.coreos.com/v1 PodMonitor":
		m.monitors = append(m.monitors, decode[podMonitor](t, doc))
	default:
		t.Fatalf("a %s %s, which nobody looks at:\n%s", what.APIVersion, what.Kind, doc)
	}
}

func decode[T any](t *testing.T, doc string) (object T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(doc), &object); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return object
}
