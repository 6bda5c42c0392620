package config

import "github.com/hotparam/pipeline/internal/operator/notify"

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

// UnmarshalText reads the list. No error repeats a value that may be secret.
func (w *Webhooks) UnmarshalText(text []byte) (err error) {
	*w, err = notify.ReadWebhooks(text)
	return err
}
