package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/hotparam/pipeline/hotparam/rule"
)

// rulesHash returns a hash of a file of rules with its defaults: of how requests are read, counted, judged and limited.
// It leaves out the limits of clients, upstreams and overrides, because processes may differ in these on purpose. It
// returns "" if the rules cannot be written.
func rulesHash(d *rule.Set) string {
	text, err := json.Marshal([]any{d.Namespace, d.Rules, d.QueryBounds, d.Redact, d.ParseAs})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
