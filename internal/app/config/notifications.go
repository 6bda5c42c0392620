package config

import "github.com/hotparam/pipeline/internal/operator/notify"

// Webhooks are those of the settings. As text they are a list in YAML.
type Webhooks []notify.Webhook

// UnmarshalText reads the list. No error repeats a value that may be secret.
func (w *Webhooks) UnmarshalText(text []byte) (err error) {
	*w, err = notify.ReadWebhooks(text)
	return err
}
