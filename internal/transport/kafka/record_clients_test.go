package kafka_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

var addresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// twoClients is the client sketch of the example in docs/protocol.md.
func twoClients() *hottype.ClientSketch {
	c := new(hottype.ClientSketch)
	clientsketch.Add(c, hottype.ParseClient("192.0.2.1"), 285)
	clientsketch.Add(c, hottype.ParseClient("2001:db8:0:1::7"), 15)
	return c
}

// anySketch is nil in half of the cases.
func anySketch(t *rapid.T) *hottype.ClientSketch {
	if rapid.Bool().Draw(t, "nobody looked") {
		return nil
	}
	c := new(hottype.ClientSketch)
	for range rapid.IntRange(1, 50).Draw(t, "clients") {
		who := hottype.Client{Name: rapid.StringN(1, 8, 20).Draw(t, "name")}
		switch a := rapid.Uint32().Draw(t, "address"); a % 3 {
		case 0:
			who = hottype.ClientFromAddr(netip.AddrFrom4([4]byte{10, byte(a), byte(a >> 8)}))
		case 1:
			who = hottype.ClientFromAddr(netip.AddrFrom16([16]byte{0x20, 1, byte(a), byte(a >> 8)}))
		}
		clientsketch.Add(c, who, rapid.Int64Range(1, 1<<30).Draw(t, "n"))
	}
	return c
}

// A client sketch that is out of bounds stays behind when it is written, and breaks
// the record when another one wrote it.
func TestRecord_LeavesOutUnsoundClientSketches(t *testing.T) {
	t.Parallel()
	unsound := twoClients()
	unsound.Attributed = 3
	r := kafka.Record{Counts: []hottype.Count{{Key: "k", N: 300, Second: 1, Clients: unsound}}}
	if got, err := kafka.ParseRecord(r.Append(nil)); err != nil || got.Counts[0].N != 300 ||
		got.Counts[0].Clients != nil {
		t.Errorf("%+v, %v", got, err)
	}

	lv := func(dst []byte, field protowire.Number, b ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), b)
	}
	v4 := []byte{4, 192, 0, 2, 1}
	for name, c := range map[string][]byte{
		"empty":               {},
		"nothing seen":        {8, 0},
		"seen too much":       {8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"half a mark":         lv([]byte{8, 9}, 2, 1, 2, 3),
		"marks descend":       lv([]byte{8, 9}, 2, 2, 0, 0, 0, 1, 0, 0, 0),
		"marks in two fields": lv(lv([]byte{8, 9}, 2, 2, 0, 0, 0), 2, 1, 0, 0, 0),
		"too many marks":      lv([]byte{8, 99}, 2, make([]byte, 4*33)...),
		"no client":           lv([]byte{8, 9}, 3, 16, 1),
		"no n":                lv([]byte{8, 9}, 3, lv(nil, 1, v4...)...),
		"a strange client":    lv([]byte{8, 9}, 3, append(lv(nil, 1, 5, 1), 16, 1)...),
		"more than seen":      lv([]byte{8, 1}, 3, append(lv(nil, 1, v4...), 16, 2)...),
	} {
		pair := append(lv(nil, 1, 'k'), 16, 9, 24, 1)
		if r, err := kafka.ParseRecord(lv([]byte{8, 1}, 6, lv(pair, 4, c...)...)); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}
