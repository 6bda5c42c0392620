package envoy

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/internal/protofield"
)

// headerFields holds the fields of a header as they are in the message, each after its length. Look-ups search them by
// name, so that fields that no rule names take no more memory than on the wire.
type headerFields struct {
	raw   []byte
	count int
}

func (h *headerFields) add(field []byte) {
	h.raw = protowire.AppendBytes(h.raw, field)
	h.count++
}

// Get returns the first value of a field, or "". The case of the name does not matter.
func (h *headerFields) Get(name string) (value string) {
	h.find(name, func(v string) bool { value = v; return false })
	return value
}

// Values returns all values of a field. The case of the name does not matter.
func (h *headerFields) Values(name string) (values []string) {
	h.find(name, func(v string) bool { values = append(values, v); return true })
	return values
}

// find calls f with the values of a field until f returns false.
func (h *headerFields) find(name string, f func(value string) bool) {
	for b := h.raw; len(b) > 0; {
		field, n := protowire.ConsumeBytes(b)
		b = b[n:]
		var of, value []byte
		// add has accepted only readable fields.
		_ = protofield.Each(field, func(num protowire.Number, text []byte, _ uint64) error {
			switch num {
			case 1:
				of = text
			case 2, 3: // 3 is the raw_value of a HeaderValue
				value = text
			}
			return nil
		})
		if len(of) == len(name) && strings.EqualFold(string(of), name) && !f(string(value)) {
			return
		}
	}
}
