package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/operator/notify"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// Notifications are the receivers of events.
type Notifications struct {
	// Webhooks that are notified when keys become hot or cold, and of loops, overrides, a failing store and adaptive
	// limits at their minimum: a list of {name, url, format, events, secret, …}, see admin.md. As a flag or in the
	// environment it is one line of YAML.
	Webhooks Webhooks `placeholder:"YAML" help:"Webhooks that receive events: a list of {name, url, …}."`
}

// Webhooks are those of the settings. As text they are a list in YAML.
type Webhooks []notify.Webhook

// yamlSetting marks settings whose text is YAML, whatever they hold.
type yamlSetting interface{ isYAML() }

func (*Webhooks) isYAML() {}

// webhook is a webhook in the file.
type webhook struct {
	Name          string        `yaml:"name"`
	URL           string        `yaml:"url"`
	URLFile       string        `yaml:"url_file"`
	Format        notify.Format `yaml:"format"`
	Events        []notify.Kind `yaml:"events"`
	Secret        string        `yaml:"secret"`
	SecretFile    string        `yaml:"secret_file"`
	Timeout       time.Duration `yaml:"timeout"`
	RetryFor      time.Duration `yaml:"retry_for"`
	TLSCA         string        `yaml:"tls_ca"`
	TLSCert       string        `yaml:"tls_cert"`
	TLSKey        string        `yaml:"tls_key"`
	TLSServerName string        `yaml:"tls_server_name"`
}

// webhookFields are the fields of a webhook.
var webhookFields = []string{
	"name", "url", "url_file", "format", "events", "secret", "secret_file", "timeout", "retry_for",
	"tls_ca", "tls_cert", "tls_key", "tls_server_name",
}

// UnmarshalText reads the list. No error repeats a value that may be secret.
func (w *Webhooks) UnmarshalText(text []byte) error {
	*w = nil
	var list []yaml.Node
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := d.Decode(&list); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return errors.New("want a list of webhooks, such as [{name: ops, url: https://example.org/hook}]")
	}
	for i := range list {
		one, err := readWebhook(&list[i])
		if err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
		*w = append(*w, one)
	}
	return notify.CheckWebhooks(*w)
}

func readWebhook(n *yaml.Node) (notify.Webhook, error) {
	if n.Kind != yaml.MappingNode {
		return notify.Webhook{}, errors.New(": has to be a mapping such as {name: ops, url: https://example.org/hook}")
	}
	var w webhook
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, one := n.Content[i].Value, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: n.Content[i : i+2]}
		if !slices.Contains(webhookFields, name) {
			return notify.Webhook{}, fmt.Errorf(".%.64q: unknown field%s", name, conf.Suggest(name, webhookFields))
		}
		if seen[name] {
			return notify.Webhook{}, fmt.Errorf(".%s: is set twice", name)
		}
		seen[name] = true
		if err := one.Decode(&w); err != nil {
			return notify.Webhook{}, fmt.Errorf(".%s: is not what belongs there: %s", name, expectedValue(name))
		}
	}
	return notify.Webhook{
		Name: w.Name, URL: w.URL, URLFile: w.URLFile, Format: w.Format, Events: w.Events,
		Secret: w.Secret, SecretFile: w.SecretFile, Timeout: w.Timeout, RetryFor: w.RetryFor,
		TLS: tlsfiles.Files{CA: w.TLSCA, Cert: w.TLSCert, Key: w.TLSKey, ServerName: w.TLSServerName},
	}, nil
}

// expectedValue says what a field holds.
func expectedValue(field string) string {
	switch field {
	case "timeout", "retry_for":
		return "want a time such as 5s"
	case "events":
		return fmt.Sprintf("want a list of %v", notify.Kinds)
	}
	return "want plain text"
}
