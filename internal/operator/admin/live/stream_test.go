package live

import "testing"

func TestSlowClientIsDropped(t *testing.T) {
	t.Parallel()
	h := newHub(2)
	if h.join() != nil {
		t.Fatal("a stream was opened before Run")
	}
	h.open()
	slow, quick := h.join(), h.join()
	if h.join() != nil {
		t.Error("a third stream was opened")
	}
	for range streamBuffer + 1 {
		h.send([]byte("x"))
		<-quick.events
	}
	<-slow.gone
	select {
	case <-quick.gone:
		t.Error("the quick one was dropped too")
	default:
	}
	h.leave(slow)
	h.leave(quick)
	h.leave(quick)
	if got := h.stats(); got != (Stats{StreamsRejected: 2, StreamsDropped: 1}) {
		t.Errorf("%+v", got)
	}
}
