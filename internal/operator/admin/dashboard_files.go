package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

//go:embed static
var static embed.FS

//go:embed openapi.json
var openAPI []byte

// file is one embedded file as it is served.
type file struct {
	route, contentType, etag string
	body                     []byte
}

// contentType returns the type by the ending of a name. The system's table may lack or
// change it, and browsers run no module of another type.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json":
		return "application/json"
	}
	return "application/octet-stream"
}

// views are the addresses of the dashboard: one page, which shows the view of its address.
var views = []string{"/{$}", "/key/{key...}", "/history", "/overrides", "/audit"}

// reasonsModule is the part of the table of reasons that the dashboard shows.
func reasonsModule() []byte {
	short := map[string]string{}
	for r := range (hottype.Denials{}).All() {
		short[r.String()] = r.Info().Short
	}
	table, _ := json.Marshal(short) // a map of strings has a JSON form
	return fmt.Appendf(nil, "// What denies requests, by reason.\nexport const reasons = %s;\n", table)
}

// pageFiles lists the dashboard and openapi.json. The embedded tree is part of
// the program: reading it cannot fail.
func pageFiles() []file {
	files := []file{newFile("/openapi.json", "openapi.json", openAPI),
		newFile("/assets/reasons.js", "reasons.js", reasonsModule())}
	entries, _ := static.ReadDir("static")
	for _, e := range entries {
		body, _ := static.ReadFile("static/" + e.Name())
		routes := []string{"/assets/" + e.Name()}
		if e.Name() == "index.html" {
			routes = views
		}
		for _, route := range routes {
			files = append(files, newFile(route, e.Name(), body))
		}
	}
	return files
}

func newFile(route, name string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{route: route, contentType: contentType(name), etag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body}
}

// serve sends the file, or 304 to who has it. No-cache means: ask each time,
// so that a new version shows at once.
func (f file) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
	return nil
}
