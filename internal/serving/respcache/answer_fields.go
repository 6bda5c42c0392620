package respcache

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// field is a field of a response.
type field struct {
	name   string
	values []string
	limit  bool // it is added to the gate's values of this field
}

// addTo sets the field in the header of a response.
func (f *field) addTo(h http.Header) {
	if f.limit && len(h[f.name]) > 0 {
		h[f.name] = append(slices.Clip(h[f.name]), f.values...)
		return
	}
	h[f.name] = f.values
}

// fieldOf returns a field of a response.
func fieldOf(name string, values []string) field {
	return field{name, values, httplimit.IsLimitField(name)}
}

// hopHeaders are the fields of one connection or one moment, which are no part of a stored response.
var hopHeaders = []string{
	"Age", "Connection", "Content-Length", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func fieldsOf(h http.Header, now time.Time) []field {
	kept := h.Clone()
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			kept.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopHeaders {
		delete(kept, name)
	}
	maps.DeleteFunc(kept, func(name string, _ []string) bool { return strings.HasPrefix(name, http.TrailerPrefix) })
	if kept.Get("Date") == "" {
		kept.Set("Date", now.UTC().Format(http.TimeFormat))
	}
	fields := make([]field, 0, len(kept)+1)
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		fields = append(fields, fieldOf(name, kept[name]))
	}
	return fields
}
