package live

import "testing"

func TestHub_DropsSlowClient(t *testing.T) {
	t.Parallel()
	h := newHub(8)
	if h.addStream("ann") != nil {
		t.Fatal("a stream was opened before Run")
	}
	h.open()
	slow, quick := h.addStream("ann"), h.addStream("ann")
	if h.addStream("ann") != nil {
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
	h.removeStream(slow)
	h.removeStream(quick)
	h.removeStream(quick)
	if got := h.readStats(); got != (Stats{StreamsRejected: 2, StreamsDropped: 1}) {
		t.Errorf("%+v", got)
	}
}

// One caller has a quarter of the streams, even if there are no others, and gets a place again when it leaves one.
func TestHub_OneCallerHasAShareOfTheStreams(t *testing.T) {
	t.Parallel()
	h := newHub(8)
	h.open()
	first := h.addStream("ann")
	if first == nil || h.addStream("ann") == nil || h.addStream("ann") != nil {
		t.Error("ann has not two streams of eight")
	}
	if h.addStream("ben") == nil {
		t.Error("ben has no stream beside ann")
	}
	h.removeStream(first)
	h.removeStream(first)
	second := h.addStream("ben")
	if h.addStream("ann") == nil || h.addStream("ann") != nil {
		t.Error("ann has not two streams after one was left")
	}
	h.removeStream(second)
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
	first, second := h.addStream("ann"), h.addStream("ben")
	h.endAll()
	if h.addStream("ann") != nil || h.addStream("eve") != nil {
		t.Error("a stream was opened beside two whose handlers write")
	}
	h.removeStream(first)
	h.removeStream(second)
	if h.addStream("ann") == nil || h.addStream("eve") == nil {
		t.Error("no stream can be opened after two have left")
	}
	h.endAll()
	if h.readStats().Streams != 0 || len(h.callers) != 2 {
		t.Errorf("%d streams, callers %v", h.readStats().Streams, h.callers)
	}
}
