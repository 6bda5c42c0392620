package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"net/textproto"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
)

// longestClientName bounds the value of a field that names a client as it is written, in bytes. A longer value is
// replaced by a hash.
const longestClientName = 128

// ClientField is the field of a request that names whom a window counts, in the place of the client's address.
type ClientField struct {
	Header string // canonical
	hashed bool   // redacted
	secret []byte // of hashes
}

// ClientOf returns whom a window counts: the value of the field, if a trusted peer has sent the request and the field
// has one line, or otherwise the client. The name of the field precedes the value, so that no client by address or by
// an opaque name equals it. Servers remove spaces and tabs around values, but callers of the decision API may send
// them. Without a secret a redacted value cannot be told apart, and the client counts.
func (f *ClientField) ClientOf(req *hottype.Request, client hottype.Client) hottype.Client {
	if !req.FromProxy || f.hashed && len(f.secret) == 0 {
		return client
	}
	value, _ := hottype.HeaderLine(req.Header, f.Header) // "" for several lines
	value = strings.Trim(value, " \t")
	switch {
	case value == "":
		return client
	case f.hashed:
		hash := canon.Normalization{Redact: canon.RedactHash}.Value(f.secret, []byte(value))
		return hottype.Client{Name: f.Header + "=" + string(hash)}
	case len(value) > longestClientName:
		sum := sha256.Sum256([]byte(value))
		return hottype.Client{Name: f.Header + "#" + hex.EncodeToString(sum[:16])}
	}
	return hottype.Client{Name: f.Header + "=" + value}
}

// clientHeader returns the canonical name of the header in a field client_key, or "" if it is not set or wrong.
func clientHeader(v conf.Value, text string) string {
	at := v.At("client_key")
	if !v.Has("client_key") || at.Failed() {
		return ""
	}
	name, ok := strings.CutPrefix(text, "header.")
	if !ok || !headerName.MatchString(name) {
		at.Fail("must be header.NAME, the header that names the client")
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// compileClientField compiles the field client_key of a window, or returns nil if it is not set.
func (s *Set) compileClientField(v conf.Value, text string) *ClientField {
	name := clientHeader(v, text)
	if name == "" {
		return nil
	}
	how := canon.RedactionOf(s.Redact, "header."+name)
	if how == canon.RedactNone {
		how = canon.RedactionOf(s.Redact, name)
	}
	switch {
	case name == "Host" || name == "Cookie" || name == "Authorization":
		v.At("client_key").Fail("%s is not the word of a proxy; let the proxy write a field of its own, such as X-Account",
			name)
	case how == canon.RedactMask || how == canon.RedactDrop:
		v.At("client_key").Fail("redact masks or drops %s, so that all would be one client; redact it by hash", name)
	}
	return &ClientField{Header: name, hashed: how == canon.RedactHash, secret: s.secret}
}
