package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
)

// TestBlockedTopicIsNotServed checks that the page shows only the topic that was counted.
func TestBlockedTopicIsNotServed(t *testing.T) {
	t.Parallel()
	blocked := append(rulesYAML, "overrides: [{key: 'topic?id=star', action: block}]\n"...)
	rules, err := hotparam.ParseRules("rules.yaml", blocked)
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	site := p.Middleware(newHandler())
	for _, target := range []string{"/topic", "/topic?id=7", "/topic?id=star", "/%74opic?id=st%61r",
		"/topic?id=star&id=7", "/topic/?id=star", "//topic?id=star", "/x/../topic?id=star"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
			r := httptest.NewRequest(method, target, strings.NewReader("id=star"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			site.ServeHTTP(w, r)
			if w.Code == http.StatusOK && strings.Contains(w.Body.String(), "star") {
				t.Errorf("%s %s shows %q", method, target, w.Body)
			}
		}
	}
}
