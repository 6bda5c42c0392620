package httplimit

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// slotted is a gate whose requests all need a slot.
type slotted struct{ holder }

func (*slotted) NeedsSlot(time.Time, *hottype.Request) bool { return true }

// Each byte that is read before a slot is counted until the handler has returned, even if the body fails. The handler
// reads the bytes that exceed the bound.
func TestAwaitBody_BoundsTheBytesOfAll(t *testing.T) {
	t.Parallel()
	for _, before := range []int64{0, maxBeforeSlots - 20<<10, maxBeforeSlots} {
		for _, length := range []int{1, 4 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200 << 10} {
			g := NewHTTPGate(HTTPGateConfig{Gate: &slotted{}, GuardsBodies: true})
			g.beforeSlots.Store(before)
			sent := []byte(strings.Repeat("abcdefg", length/7+1))[:length]
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(sent))
			awaited, end, ok := g.AwaitBody(httptest.NewRecorder(), r)
			if !ok {
				t.Fatalf("%d bytes are refused", length)
			}
			if n := g.beforeSlots.Load(); n > maxBeforeSlots || n == before && before < maxBeforeSlots {
				t.Errorf("%d bytes are counted with %d after %d", length, n, before)
			}
			if got, err := io.ReadAll(awaited.Body); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d of %d bytes, %v", len(got), length, err)
			}
			end()
			end()
			if n := g.beforeSlots.Load(); n != before {
				t.Errorf("%d bytes leave %d, before %d", length, n, before)
			}
		}
	}
}

func TestAwaitBody_AnswersBodiesThatFail(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		http.StatusRequestTimeout:        ErrSlowBody,
		http.StatusRequestEntityTooLarge: &http.MaxBytesError{},
		http.StatusBadRequest:            io.ErrUnexpectedEOF,
	} {
		g := NewHTTPGate(HTTPGateConfig{Gate: &slotted{}, GuardsBodies: true})
		r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("a"), failing{err}))
		w := httptest.NewRecorder()
		if _, _, ok := g.AwaitBody(w, r); ok || w.Code != want || w.Header().Get("Connection") != "close" {
			t.Errorf("%v: %d, ok is %v", err, w.Code, ok)
		}
		if n := g.beforeSlots.Load(); n != 0 {
			t.Errorf("%v leaves %d bytes", err, n)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
