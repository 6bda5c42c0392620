// Package clientjs serves hotparam.js, an ES module for web pages whose requests may be limited. It is the same for
// everybody, is never limited, and holds nothing of the process that serves it.
package clientjs

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"
)

// Source is the module.
//
//go:embed hotparam.js
var Source []byte

// etag changes with the module.
var etag = func() string {
	sum := sha256.Sum256(Source)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}()

// Handler serves the module at a path, without a query, and lets next serve everything else; the path "" serves it
// nowhere.
func Handler(path string, next http.Handler) http.Handler {
	if path == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != path || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Etag", etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(Source))
	})
}
