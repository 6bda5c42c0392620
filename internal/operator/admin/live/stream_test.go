package live

import "testing"

func TestSlowClientIsDropped(t *testing.T) {
	t.Parallel()
	h := newHub(8)
	if h.join("ann") != nil {
		t.Fatal("a stream was opened before Run")
	}
	h.open()
	slow, quick := h.join("ann"), h.join("ann")
	if h.join("ann") != nil {
		t.Error("a third stream of eight was opened")
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

// One caller has a quarter of the streams, even if there are no others, and gets a place again when it leaves one.
func TestHub_OneCallerHasAShareOfTheStreams(t *testing.T) {
	t.Parallel()
	h := newHub(8)
	h.open()
	first := h.join("ann")
	if first == nil || h.join("ann") == nil || h.join("ann") != nil {
		t.Error("ann has not two streams of eight")
	}
	if h.join("ben") == nil {
		t.Error("ben has no stream beside ann")
	}
	h.leave(first)
	h.leave(first)
	second := h.join("ben")
	if h.join("ann") == nil || h.join("ann") != nil {
		t.Error("ann has not two streams after one was left")
	}
	h.leave(second)
	if h.callers["ben"] != 1 {
		t.Errorf("ben has one stream, and not %d", h.callers["ben"])
	}
}

// A stream that was dropped has its place until its handler has left: until then the events that it did not write are
// in memory.
func TestHub_DroppedStreamsHaveTheirPlaceUntilTheyLeave(t *testing.T) {
	t.Parallel()
	h := newHub(2)
	h.open()
	first, second := h.join("ann"), h.join("ben")
	h.drop()
	if h.join("ann") != nil || h.join("eve") != nil {
		t.Error("a stream was opened beside two whose handlers write")
	}
	h.leave(first)
	h.leave(second)
	if h.join("ann") == nil || h.join("eve") == nil {
		t.Error("no stream can be opened after two have left")
	}
	h.drop()
	if h.stats().Streams != 0 || len(h.callers) != 2 {
		t.Errorf("%d streams, callers %v", h.stats().Streams, h.callers)
	}
}
