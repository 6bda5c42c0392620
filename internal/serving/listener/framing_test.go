package listener

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A request that declares the end of its body twice is rejected, and its connection ends with the bytes after it,
// because a gateway in front may see another end. Other requests on a connection are served, whatever their bodies
// contain.
func TestFraming_AmbiguousBodiesEndTheConnection(t *testing.T) {
	t.Parallel()
	const length, coding = "Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n"
	const chunks, odd = "\r\n4\r\nabcd\r\n0\r\n\r\n", "\r\n15\r\n\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"
	post := func(version, rest string) string { return "POST / HTTP/" + version + "\r\nHost: x\r\n" + rest }
	for name, c := range map[string]struct {
		first, then string
		want        int // status of the second
	}{
		"both":                {post("1.1", length+"\r\nabcd"), post("1.1", length+coding+chunks), 400},
		"both, the other way": {"", post("1.1", coding+length+chunks), 400},
		"both, other case": {post("1.1", length+"\r\nabcd"),
			"\r\n" + post("1.1", "tRANSFER-ENCODING:chunked\ncontent-length:4\r\n"+chunks), 400},
		"HTTP/1.0 with chunks":    {"", post("1.0", coding+chunks), 400},
		"HTTP/1.0 kept, and both": {"", post("1.0", "Connection: keep-alive\r\n"+length+coding+"\r\nabcd"), 400},
		"one after the other":     {post("1.1", length+"\r\nabcd"), post("1.1", coding+chunks), 200},
		"a body with a field":     {post("1.1", coding+odd), post("1.1", coding+odd), 200},
		"names that only begin":   {"", post("1.1", "Content-Length-Of: 4\r\nX-"+length+coding+chunks), 200},
	} {
		s, _ := start(t, nil)
		conn := dial(t, s)
		r := bufio.NewReader(conn)
		ask := func(text string) (status int, closes bool) {
			_, _ = io.WriteString(conn, text)
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			return res.StatusCode, res.Close
		}
		if c.first != "" {
			if status, closes := ask(c.first); status != 200 || closes {
				t.Errorf("%s: the first: %d, closes %v", name, status, closes)
			}
		}
		status, closes := ask(c.then)
		if status != c.want || closes != (c.want == 400) || s.Stats().Ambiguous == 0 == (c.want == 400) {
			t.Errorf("%s: %d, closes %v, %d counted", name, status, closes, s.Stats().Ambiguous)
		}
	}
}

// The fields of a header are found in any division into parts, and no later bytes are taken for fields.
func TestFraming_ReadsHeadersInParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.SampledFrom([]string{"Content-Length", "transfer-encoding", "Host",
			"Content-Lengthy", "X-" + strings.Repeat("a", 100), " Content-Length"})).Draw(t, "names")
		end := rapid.SampledFrom([]string{"\r\n", "\n"}).Draw(t, "end")
		text := "GET / HTTP/1.1" + end
		var want framing
		for i, name := range names {
			text += fmt.Sprintf("%s: %d", name, i) + end
			want.length = want.length || name == "Content-Length"
			want.coding = want.coding || name == "transfer-encoding"
		}
		text += end + "Content-Length: 1\nTransfer-Encoding: chunked\n\n"
		var f framing
		for len(text) > 0 {
			n := rapid.IntRange(1, len(text)).Draw(t, "part")
			f.scanHeader([]byte(text[:n]))
			text = text[n:]
		}
		if !f.complete || f.length != want.length || f.coding != want.coding {
			t.Errorf("length %v, coding %v of %q", f.length, f.coding, names)
		}
	})
}
