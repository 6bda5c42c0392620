package replay

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// A record is one buffered request: length (4 bytes),
// nanoseconds (4 bytes), status (2 bytes), then client, method, host, target,
// user agent and referer, each after its length. It never leaves the process.
const recordHead = 10

// appendRecord writes the request of e. Headers that no rule reads are already
// empty.
func appendRecord(b []byte, e *accesslog.Entry, h *accesslog.Header) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHead)...)
	b = appendClient(b, e.Request.Client)
	for _, s := range [...]string{e.Request.Method, e.Request.Host, e.Request.Target, h.UserAgent, h.Referer} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	binary.LittleEndian.PutUint32(b[start+4:], uint32(e.Nanos))
	binary.LittleEndian.PutUint16(b[start+8:], uint16(min(max(e.Status, 0), 999)))
	return b
}

// appendClient writes 0 for an unknown client, 4 or 16 and an address, or 1 and a name.
func appendClient(b []byte, c hottype.Client) []byte {
	switch {
	case c.Addr.Is4():
		a := c.Addr.As4()
		return append(append(b, 4), a[:]...)
	case c.Addr.Is6():
		a := c.Addr.As16()
		return append(append(b, 16), a[:]...)
	case c.Name != "":
		b = binary.AppendUvarint(append(b, 1), uint64(len(c.Name)))
		return append(b, c.Name...)
	}
	return append(b, 0)
}

// readRecord is the inverse of appendRecord for the bytes after the head. All
// strings are parts of s.
func readRecord(s string, r *hottype.Request, h *accesslog.Header) {
	r.Client, s = readClient(s)
	r.Method, s = readString(s)
	r.Host, s = readString(s)
	r.Target, s = readString(s)
	h.UserAgent, s = readString(s)
	h.Referer, _ = readString(s)
}

func readClient(s string) (hottype.Client, string) {
	kind, s := s[0], s[1:]
	switch kind {
	case 4:
		return hottype.Client{Addr: netip.AddrFrom4([4]byte([]byte(s[:4])))}, s[4:]
	case 16:
		return hottype.Client{Addr: netip.AddrFrom16([16]byte([]byte(s[:16])))}, s[16:]
	case 1:
		name, rest := readString(s)
		return hottype.Client{Name: name}, rest
	}
	return hottype.Client{}, s
}

// readString reads a uvarint and as many bytes.
func readString(s string) (value, rest string) {
	n, shift := 0, 0
	for s[0] >= 0x80 {
		n |= int(s[0]&0x7f) << shift
		s, shift = s[1:], shift+7
	}
	n |= int(s[0]) << shift
	return s[1 : 1+n], s[1+n:]
}

// mix is a fixed hash: the same on every machine and in every run, unlike
// hash/maphash. Equal hashes of different requests do no harm: see rehashDuplicates.
func mix(s string) uint64 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(s)) * prime
	for len(s) >= 8 {
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = bits.RotateLeft64(h^word, 29) * prime
		s = s[8:]
	}
	for i := 0; i < len(s); i++ {
		h = bits.RotateLeft64(h^uint64(s[i]), 29) * prime
	}
	return remix(h)
}

// remix spreads every bit of h over all others.
func remix(h uint64) uint64 {
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}
