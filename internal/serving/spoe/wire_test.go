package spoe

import (
	"bytes"
	"io"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The bytes equal the specification's examples and limits.
func TestAppendNumber_FollowsTheSpecification(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{
		0: "\x00", 239: "\xef", 240: "\xf0\x00", 2287: "\xff\x7f", 2288: "\xf0\x80\x00", 264431: "\xff\xff\x7f",
		264432: "\xf0\x80\x80\x00",
	} {
		if got := appendNumber(nil, n); string(got) != want {
			t.Errorf("%d: %x, want %x", n, got, want)
		}
		if d := (decoder{[]byte(want), nil}); d.readNumber() != n || d.err != nil || len(d.b) > 0 {
			t.Errorf("%x is read as something else than %d", want, n)
		}
	}
}

func TestReadNumber_ReadsAppendNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(math.MaxUint64-300, math.MaxUint64)).Draw(t, "n")
		d := decoder{appendNumber(nil, n), nil}
		if got := d.readNumber(); got != n || d.err != nil {
			t.Fatalf("%d, want %d: %v", got, n, d.err)
		}
	})
}

func TestReadFrame_ReadsAppendFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "payload")
		stream, id := rapid.Uint64().Draw(t, "stream"), rapid.Uint64().Draw(t, "id")
		f, _, err := readFrame(bytes.NewReader(appendFrame(nil, frameAck, stream, id, payload)), nil)
		if err != nil || f.kind != frameAck || f.flags != flagFin || f.stream != stream || f.id != id ||
			!bytes.Equal(f.payload, payload) {
			t.Fatalf("%+v: %v", f, err)
		}
	})
}

// A length costs no memory before its bytes are there, and none beyond the bound.
func TestReadFrame_BoundsItsMemory(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"\xff\xff\xff\xff", "\x00\x01\x00\x01", "\x00\x00\x00\x06", "\x00\x00\x00\x00"} {
		if _, buf, err := readFrame(bytes.NewReader([]byte(in+"\x01\x00\x00\x00\x01\x00\x00")), nil); err != errFrame ||
			cap(buf) > 0 {
			t.Errorf("%x: %v, %d bytes", in, err, cap(buf))
		}
	}
	if _, _, err := readFrame(bytes.NewReader([]byte("\x00\x00\x00\x09\x01")), nil); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(nil, frameNotify, 1, 1, notification("GET", "/topic?id=42", "192.0.2.7")))
	f.Add([]byte("\x00\x00\x00\x09\x03\x00\x00\x00\x01\x01\x01\x05check\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, _, err := readFrame(bytes.NewReader(b), nil)
		if err != nil {
			return
		}
		if list, err := decodeMessages(frame.payload); err == nil && len(list) > len(b) {
			t.Errorf("%d messages of %d bytes", len(list), len(b))
		}
	})
}
