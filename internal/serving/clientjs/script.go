// Package clientjs serves hotparam.js, an ES module for web pages whose requests may be limited. All clients get the
// same module. It is never limited, and holds no data of the process that serves it.
package clientjs

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"
)

// Source is the text of the module.
//
//go:embed hotparam.js
var Source []byte

// etag changes with the module.
var etag = func() string {
	sum := sha256.Sum256(Source)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}()

// Handler returns a handler that serves the module at a path, without a query, and lets next serve everything else. If
// path is "", it returns next.
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
