package config

import "github.com/hotparam/pipeline/internal/operator/notify"

// Webhooks are the webhooks of the settings. As text they are a list in YAML.
type Webhooks []notify.Webhook

// UnmarshalText reads the list. Its errors never repeat a value that may be secret.
func (w *Webhooks) UnmarshalText(text []byte) (err error) {
	*w, err = notify.ReadWebhooks(text)
	return err
}
