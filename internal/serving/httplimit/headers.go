package httplimit

import "strings"

// HeaderField is one header line of a request that somebody else received.
type HeaderField struct{ Name, Value string }

// Headers are the header lines of a request that somebody else received, in their order.
// They implement hottype.Header.
type Headers []HeaderField

// Get gives the first value of a header, whatever the case of its name, or "".
func (h *Headers) Get(name string) string {
	for i := range *h {
		if strings.EqualFold((*h)[i].Name, name) {
			return (*h)[i].Value
		}
	}
	return ""
}

// Values gives all values of a header, whatever the case of its name.
func (h *Headers) Values(name string) []string {
	var values []string
	for i := range *h {
		if strings.EqualFold((*h)[i].Name, name) {
			values = append(values, (*h)[i].Value)
		}
	}
	return values
}
