package clientjs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hotparam/pipeline/internal/serving/clientjs"
)

func TestHandler_ServesScript(t *testing.T) {
	t.Parallel()
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, c := range []struct {
		path, method, target string
		want                 int
	}{
		{"/hotparam.js", "GET", "/hotparam.js", 200},
		{"/hotparam.js", "HEAD", "/hotparam.js", 200},
		{"/hotparam.js", "POST", "/hotparam.js", 418},
		{"/hotparam.js", "GET", "/hotparam.js?v=1", 418},
		{"/hotparam.js", "GET", "/%68otparam.js", 418},
		{"", "GET", "/hotparam.js", 418},
	} {
		w := httptest.NewRecorder()
		clientjs.Handler(c.path, next).ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		if w.Code != c.want || w.Code == 200 && (w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" ||
			c.method == "GET" && w.Body.String() != string(clientjs.Source)) {
			t.Errorf("%+v: %d %v", c, w.Code, w.Header())
		}
		if w.Code == 200 {
			r := httptest.NewRequest(c.method, c.target, nil)
			r.Header.Set("If-None-Match", w.Header().Get("Etag"))
			w = httptest.NewRecorder()
			if clientjs.Handler(c.path, next).ServeHTTP(w, r); w.Code != http.StatusNotModified {
				t.Errorf("%+v: again: %d", c, w.Code)
			}
		}
	}
}
