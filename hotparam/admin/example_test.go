package admin_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/admin"
)

// The page is mounted beside the handler that the pipeline protects, below a prefix of the service's choice.
func Example() {
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		log.Fatal(err)
	}
	page, err := admin.New(p, admin.Config{Token: "use-openssl-rand-hex-24"})
	if err != nil {
		log.Fatal(err)
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux := http.NewServeMux()
	mux.Handle("/hotparam/", http.StripPrefix("/hotparam", page))
	mux.Handle("/", p.Middleware(app))

	ask := func(path, token string) {
		r, w := httptest.NewRequest(http.MethodGet, path, http.NoBody), httptest.NewRecorder()
		if token != "" {
			r.SetBasicAuth("anna", token)
		}
		mux.ServeHTTP(w, r)
		fmt.Println(path, w.Code)
	}
	ask("/topic?id=42", "")
	ask("/hotparam/v1/hot", "")
	ask("/hotparam/v1/hot", "use-openssl-rand-hex-24")
	// Output:
	// /topic?id=42 200
	// /hotparam/v1/hot 401
	// /hotparam/v1/hot 200
}

// Access admits users of the service by its own login.
func ExampleConfig() {
	login := func(r *http.Request) (user string, role admin.Role) { // as the service does it
		cookie, err := r.Cookie("session")
		if err != nil {
			return "", 0
		}
		return cookie.Value, admin.Viewer
	}
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		log.Fatal(err)
	}
	page, err := admin.New(p, admin.Config{Access: login})
	if err != nil {
		log.Fatal(err)
	}
	ask := func(method, path, session string) {
		r, w := httptest.NewRequest(method, path, http.NoBody), httptest.NewRecorder()
		if session != "" {
			r.AddCookie(&http.Cookie{Name: "session", Value: session})
		}
		page.ServeHTTP(w, r)
		fmt.Println(method, path, w.Code)
	}
	ask(http.MethodGet, "/v1/overrides", "")
	ask(http.MethodGet, "/v1/overrides", "anna")
	ask(http.MethodDelete, "/v1/overrides/one", "anna")
	// Output:
	// GET /v1/overrides 403
	// GET /v1/overrides 200
	// DELETE /v1/overrides/one 403
}
