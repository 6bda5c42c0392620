package historystore

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/detection/history"
)

// decodeMinute returns the minute of a payload.
func decodeMinute(payload []byte) (m history.Minute, err error) {
	b := openBlock(payload)
	m.Total, err = b.read(func(r *row) { m.Keys = append(m.Keys, r.keyMinute(b.at)) })
	return m, err
}

// Decoding reverses encoding for all texts and numbers.
func TestCodec_DecodesWhatItEncoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, r := anyMinute(t), anyRecord(t)
		gotMinute, err := decodeMinute(encodeMinute(&m))
		if diff := cmp.Diff(m, gotMinute); diff != "" || err != nil {
			t.Fatalf("%v %s", err, diff)
		}
		gotRecord, err := decodeRecord(encodeRecord(&r))
		if diff := cmp.Diff(r, gotRecord, cmp.AllowUnexported(record{})); diff != "" || err != nil {
			t.Fatalf("%v %s", err, diff)
		}
	})
}

// Files of before there were costs are read, and a minute without a cost is written as it always was.
func TestCodec_ReadsMinutesWithoutCost(t *testing.T) {
	t.Parallel()
	const old = "\x80\xa8\x87\xcb\x0c" + // the time
		"\x00\x00\x00\x00\x00\x00\x08@" + "\x00\x00\x00\x00\x00\x00\xf0?" + "\x00" + "\x01" + // totals, one key
		"\ntopic?id=1" + "\x05topic" + "\x02" + "\x00\x00\x00\x00\x00\x00\x14@" +
		"\x00\x00\x00\x00\x00\x00\x1c@" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00"
	m, err := decodeMinute([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if k := m.Keys[0]; k.Cost != "" || k.State != history.Hot || k.Rule != "topic" || k.Rate != 5 || k.Peak != 7 {
		t.Errorf("%+v", k)
	}
	if got := string(encodeMinute(&m)); got != old {
		t.Errorf("%q", got)
	}
}

// However a file is cut or changed, exactly the blocks before the fault are read. A cut is distinguished from damage.
func TestSplitBlocks_StopsAtFirstFault(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data, ends, want := fileHeader(eventsKind), []int{0}, [][]byte(nil)
		for range rapid.IntRange(0, 4).Draw(t, "blocks") {
			r := anyRecord(t)
			want = append(want, encodeRecord(&r))
			data = appendBlock(data, want[len(want)-1])
			ends = append(ends, len(data))
		}
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= at {
			whole++
		}
		got, good, err := splitBlocks(eventsKind, data[:at])
		isEnd := at == len(fileHeader(eventsKind)) || whole > 0 && at == ends[whole]
		if len(got) != whole || good > at || isEnd != (err == nil) || !isEnd && !errors.Is(err, errTorn) {
			t.Fatalf("cut at %d: %d blocks, %d bytes, %v; want %d blocks", at, len(got), good, err, whole)
		}
		changed := bytes.Clone(data)
		changed[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		got, _, err = splitBlocks(eventsKind, changed)
		if !slices.EqualFunc(got, want[:whole], bytes.Equal) || !errors.Is(err, errDamaged) {
			t.Fatalf("changed at %d: %d blocks, %v; want %d blocks", at, len(got), err, whole)
		}
	})
}

// FuzzFile reads any bytes as a file: nothing panics, the bytes taken as whole are whole, and decoded values are the
// same when they are encoded and decoded again.
func FuzzFile(f *testing.F) {
	m := history.Minute{Total: history.Total{Minute: noon, By: map[string]float64{"hot": 1}, WouldDeny: 3},
		Keys: []history.KeyMinute{{Key: "topic?id=1", Rule: "topic", State: history.Hot, Peak: 7, WouldDeny: 3}}}
	f.Add(true, appendBlock(fileHeader(minutesKind), encodeMinute(&m)))
	e := hotEvent(noon, "topic?id=1")
	f.Add(false, appendBlock(fileHeader(eventsKind), encodeRecord(&record{Event: e, step: beginsSpan})))
	f.Add(true, encodeMinute(&m))
	f.Add(false, encodeRecord(&record{Event: e, step: beginsSpan}))
	f.Fuzz(func(t *testing.T, minutes bool, data []byte) {
		kind := eventsKind
		if minutes {
			kind = minutesKind
		}
		good, _ := wholeBlocks(kind, data)
		if rest, err := wholeBlocks(kind, data[:good]); good > 0 && (err != nil || rest != good) {
			t.Errorf("%d bytes are whole, of them %d: %v", good, rest, err)
		}
		if m, err := decodeMinute(data); err == nil {
			again, err := decodeMinute(encodeMinute(&m))
			if err != nil || len(again.Keys) != len(m.Keys) || !again.Total.Minute.Equal(m.Total.Minute) {
				t.Errorf("%+v is read as %+v, %v", m, again, err)
			}
		}
		if r, err := decodeRecord(data); err == nil {
			again, err := decodeRecord(encodeRecord(&r))
			if err != nil || again.Kind != r.Kind || again.step != r.step {
				t.Errorf("%+v is read as %+v, %v", r, again, err)
			}
		}
	})
}
