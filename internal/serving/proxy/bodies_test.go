package proxy

import (
	"io"
	"net/http"
	"testing"
)

// closedBody is a body that the server closes after its end, as for an answer that came early.
type closedBody struct{ read bool }

func (b *closedBody) Read(p []byte) (int, error) {
	if b.read {
		return 0, http.ErrBodyReadAfterClose
	}
	b.read = true
	return copy(p, "body"), io.EOF
}

func (*closedBody) Close() error { return nil }

// The transport reads once more after the end, and would take an error for one of the upstream.
func TestClientBody_EndsOnce(t *testing.T) {
	t.Parallel()
	b := &clientBody{ReadCloser: new(closedBody), ctx: t.Context()}
	text, err := io.ReadAll(b)
	if string(text) != "body" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if n, err := b.Read(make([]byte, 4)); n != 0 || err != io.EOF || b.hasFailed(t.Context()) {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}
}
