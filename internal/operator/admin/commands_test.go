package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	var keys []hottype.Key
	w := newWorld(t, func(c *Config) {
		c.Purge = func(k hottype.Key) int { keys = append(keys, k); return 3 }
	})
	s := loadSchemas(t)
	for _, path := range []string{"topic%3Fid=42", "topic%3Fid=%252Fa%2Fb"} { // a slash in a value is one in the key's spelling
		rec := w.ask(http.MethodPost, "/v1/keys/"+path+"/purge?author=ann", "")
		s.answer(t, rec, 200, "Purged")
		if last := string(keys[len(keys)-1]); !strings.HasPrefix(last, "topic?id=") || !strings.Contains(rec.Body.String(), `"purged":3`) {
			t.Errorf("%s: %q, %s", path, last, rec.Body)
		}
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/purge", ""), 405, "Problem")
	s.answer(t, newWorld(t, nil).ask(http.MethodPost, "/v1/keys/topic%3Fid=42/purge", ""), 404, "Problem")
	if len(keys) != 2 {
		t.Errorf("%q were purged", keys)
	}
}
