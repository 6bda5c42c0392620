package gateways

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The tests have no Traefik that they could start, so its file is only held to the fields that its documentation
// knows, and to itself.
func TestTraefikFile(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../deploy/traefik/hotparam.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var file struct {
		HTTP struct {
			Routers map[string]struct {
				EntryPoints   []string `yaml:"entryPoints"`
				Rule, Service string
				Middlewares   []string
			}
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address            string
					TrustForwardHeader *bool `yaml:"trustForwardHeader"`
				} `yaml:"forwardAuth"`
			}
			Services map[string]struct {
				LoadBalancer struct {
					PassHostHeader bool `yaml:"passHostHeader"`
					Servers        []struct{ URL string }
				} `yaml:"loadBalancer"`
			}
		}
	}
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for name, r := range file.HTTP.Routers {
		auth := file.HTTP.Middlewares[r.Middlewares[0]].ForwardAuth
		if auth.TrustForwardHeader == nil || *auth.TrustForwardHeader || !strings.HasSuffix(auth.Address, "/check") {
			t.Errorf("%s asks %+v", name, auth)
		}
		if len(file.HTTP.Services[r.Service].LoadBalancer.Servers) == 0 {
			t.Errorf("%s has no servers", name)
		}
	}
}
