package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// Bounds in bytes of the texts that responses quote. With them the whole header of a response is shorter than 2 KiB. A
// gateway treats a response that does not fit its buffer as no response, and would let a denied request pass.
const (
	maxQuotedRule = 64
	maxQuotedKey  = 416 // an alias has at most 406
	maxDetail     = 512
	hashDigits    = 32
)

// Quote shortens the texts of a verdict that responses quote: the rule, and the key, whose length a client chooses. No
// response of any dialect quotes more, so its length does not grow with a client's request.
func Quote(v *hottype.Verdict) { v.Rule, v.Key = quotedRule(v.Rule), quotedKey(v.Key) }

func quotedRule(rule string) string { return cutText(rule, maxQuotedRule) }

// quotedKey returns a key, or the alias of a key that has one. Overrides and the API know both.
func quotedKey(key hottype.Key) hottype.Key {
	if len(key) <= canon.ShortPart {
		return key
	}
	if alias, ok := canon.Alias([]byte(key), nil); ok {
		return hottype.Key(alias)
	}
	return hottype.Key(cutText(string(key), maxQuotedKey))
}

// cutText returns a text. If the text is longer than most, it returns its beginning and the hash of all of it.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return s[:most-len("Zh")-hashDigits] + "Zh" + hex.EncodeToString(sum[:hashDigits/2])
}

// Detail returns a text for a person, or its beginning if it is longer than maxDetail.
func Detail(text string) string {
	if len(text) <= maxDetail {
		return text
	}
	return strings.ToValidUTF8(text[:maxDetail-len("…")], "") + "…"
}

// WithoutRedirects answers requests whose path http.ServeMux would clean by a redirect with 404, because the redirect
// would quote their whole targets.
func WithoutRedirects(mux http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := r.URL.EscapedPath()
		if clean := path.Clean(sent); clean != sent && clean+"/" != sent {
			WriteProblem(w, http.StatusNotFound, "There is nothing at this path.")
			return
		}
		mux.ServeHTTP(w, r)
	})
}
