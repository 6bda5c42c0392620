package clientsketch

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// maxName is the number of bytes of a client's opaque name that count.
const maxName = 64

// The first byte of a client's form, which selects the rest.
const (
	formName = 0x00 // 1 to maxName bytes
	formIPv4 = 0x04 // 4 bytes
	formIPv6 = 0x06 // 8 bytes: the /64
)

// AppendClient appends the form in which a client is hashed and sent: a byte that selects the rest, then 4 bytes of an
// IPv4 address, the 8 bytes of an IPv6 /64, or the first 64 bytes of a name. The form of the unknown client is empty.
func AppendClient(dst []byte, c hottype.Client) []byte {
	a := c.Addr.Unmap()
	switch {
	case a.Is4():
		b := a.As4()
		return append(append(dst, formIPv4), b[:]...)
	case a.Is6():
		b := a.As16()
		return append(append(dst, formIPv6), b[:8]...)
	case c.Name != "":
		return append(append(dst, formName), c.Name[:min(len(c.Name), maxName)]...)
	}
	return dst
}

// ParseClient parses the form that AppendClient writes. It returns false for anything else, including the empty form.
func ParseClient(form []byte) (hottype.Client, bool) {
	if len(form) == 0 {
		return hottype.Client{}, false
	}
	switch rest := form[1:]; form[0] {
	case formIPv4:
		if len(rest) == 4 {
			return hottype.Client{Addr: netip.AddrFrom4([4]byte(rest))}, true
		}
	case formIPv6:
		if len(rest) == 8 {
			var a [16]byte // ::/64 reads as itself, never as the IPv4 addresses mapped into it
			copy(a[:], rest)
			return hottype.Client{Addr: netip.AddrFrom16(a)}, true
		}
	case formName:
		if len(rest) > 0 && len(rest) <= maxName {
			return hottype.Client{Name: string(rest)}, true
		}
	}
	return hottype.Client{}, false
}

// canonicalClient returns the client under which c is counted: see hottype.ClientFromAddr. Clients from the pipeline's
// own readers of requests are already canonical.
func canonicalClient(c hottype.Client) hottype.Client {
	switch {
	case c.Addr.Is4():
		return hottype.Client{Addr: c.Addr}
	case c.Addr.IsValid():
		return hottype.ClientFromAddr(c.Addr)
	case len(c.Name) > maxName:
		return hottype.Client{Name: c.Name[:maxName]}
	}
	return c
}

// Hash returns the hash of a client, on which all processes agree: the upper 32 bits of FNV-1a with 64 bits over the
// client's form (AppendClient), mixed by canon.Mix.
func Hash(c hottype.Client) uint32 {
	var buf [1 + maxName]byte
	return uint32(canon.Mix(canon.FNV1a(AppendClient(buf[:0], c))) >> 32)
}

var errSketch = errors.New("clientsketch: out of bounds or out of order")

// Check returns an error if a client sketch from outside is not one that this package could have made. It checks sizes,
// order, numbers from 1 to MaxN, and that the counters do not add up to more than Attributed. nil is sound.
func Check(c *hottype.ClientSketch) error {
	if c == nil {
		return nil
	}
	ok := c.Attributed > 0 && c.Attributed <= MaxN && len(c.Sample) <= MaxSample && len(c.Heavy) <= MaxHeavy &&
		isAscending(c.Sample) && slices.IsSortedFunc(c.Heavy, compareN) && totalHeavy(c.Heavy) <= c.Attributed
	if !ok {
		return errSketch
	}
	return nil
}

// Repair makes a client sketch sound that was put together from members of which some may be lost or forged: it raises
// Attributed to at least the sum of the parts. It returns false if the client sketch is unsound even then.
func Repair(c *hottype.ClientSketch) bool {
	least := int64(len(c.Sample))
	weight := int64(0)
	for _, h := range c.Heavy {
		weight = min(weight+min(h.N, MaxN), MaxN)
	}
	c.Attributed = min(max(c.Attributed, least, weight), MaxN)
	return Check(c) == nil
}

func isAscending(marks []uint32) bool {
	for i := 1; i < len(marks); i++ {
		if marks[i-1] >= marks[i] {
			return false
		}
	}
	return true
}

func compareN(a, b hottype.ClientCount) int { return cmp.Compare(b.N, a.N) }

// totalHeavy returns the sum of the counters, or more than any Attributed if one of them is not sound.
func totalHeavy(heavy []hottype.ClientCount) int64 {
	total := int64(0)
	for i, h := range heavy {
		twice := slices.ContainsFunc(heavy[:i], func(o hottype.ClientCount) bool { return o.Client == h.Client })
		if h.N <= 0 || h.N > MaxN || h.Client.IsZero() || twice {
			return MaxN + 1
		}
		total += h.N
	}
	return total
}

// MaxMember is the maximum length of a member, in bytes: a name of 64 bytes, its n, and the text in between.
const MaxMember = 2*(1+maxName) + 1 + 16

const seenWord = "seen"

// AppendMembers appends the contents of a client sketch as the members of a StatsD set, each followed by a line feed; a
// sender makes a line "name:member|s" of each.
//
//	seen=300           the number of requests attributed to clients
//	0badf00d           a mark: 8 hex digits
//	04c0000201=285     a heavy client: its form in hex, and its requests
//
// Digits are lower case. No member contains ":", "|", "@", "#" or a line feed. nil and a client sketch without requests
// have no members.
func AppendMembers(dst []byte, c *hottype.ClientSketch) []byte {
	if c == nil || c.Attributed <= 0 {
		return dst
	}
	dst = append(dst, seenWord...)
	dst = appendN(dst, c.Attributed)
	for _, mark := range c.Sample {
		b := [4]byte{byte(mark >> 24), byte(mark >> 16), byte(mark >> 8), byte(mark)}
		dst = append(hex.AppendEncode(dst, b[:]), '\n')
	}
	for _, h := range c.Heavy {
		var form [1 + maxName]byte
		dst = hex.AppendEncode(dst, AppendClient(form[:0], h.Client))
		dst = appendN(dst, h.N)
	}
	return dst
}

func appendN(dst []byte, n int64) []byte {
	dst = strconv.AppendInt(append(dst, '='), n, 10)
	return append(dst, '\n')
}

// Member is one parsed member of a set. It holds one of three facts.
type Member struct {
	Seen   int64          // number of requests attributed to clients, or 0
	Client hottype.Client // a heavy client with its requests N, or unknown
	N      int64
	Hash   uint32 // a client's mark, if neither of the others is set
}

// MaxN is the maximum number in a member or a record.
const MaxN = hottype.MaxCount

var errMember = errors.New(
	"clientsketch: not a member of a set of clients; a member is seen=N, 8 hex digits, or a client in hex and =N")

// ParseMember parses one member, without a line feed. It rejects text that AppendMembers does not write, and keeps no
// part of member.
func ParseMember(member []byte) (Member, error) {
	m, ok := parseMember(member)
	if !ok {
		return Member{}, fmt.Errorf("%w: %.40q", errMember, member)
	}
	return m, nil
}

func parseMember(member []byte) (Member, bool) {
	if len(member) > MaxMember {
		return Member{}, false
	}
	who, number, weighed := bytes.Cut(member, []byte{'='})
	if !weighed {
		b, ok := unhex(make([]byte, 0, 4), who)
		if !ok || len(b) != 4 {
			return Member{}, false
		}
		return Member{Hash: uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])}, true
	}
	n, ok := parseN(number)
	if !ok {
		return Member{}, false
	}
	if string(who) == seenWord {
		return Member{Seen: n}, true
	}
	form, ok := unhex(make([]byte, 0, 1+maxName), who)
	if !ok {
		return Member{}, false
	}
	client, ok := ParseClient(form)
	return Member{Client: client, N: n}, ok
}

// parseN parses 1 to MaxN as strconv.AppendInt writes them.
func parseN(s []byte) (int64, bool) {
	n, err := strconv.ParseUint(string(s), 10, 63)
	return int64(n), err == nil && s[0] != '0' && n <= MaxN
}

// unhex decodes lower case hex digits into dst, whose capacity bounds them.
func unhex(dst, s []byte) ([]byte, bool) {
	if len(s)%2 != 0 || len(s)/2 > cap(dst) || bytes.ContainsAny(s, "ABCDEF") {
		return nil, false
	}
	dst, err := hex.AppendDecode(dst, s)
	return dst, err == nil
}

// AddTo adds a member to a client sketch. All members of a set, added to an empty client sketch in any order, make the
// client sketch that AppendMembers wrote; the members of a second sender are merged with it.
func (m Member) AddTo(dst *hottype.ClientSketch) {
	switch {
	case m.Seen > 0:
		dst.Attributed = sum(dst.Attributed, m.Seen)
	case m.N > 0:
		addHeavy(dst, m.Client, m.N)
	default:
		addToSample(dst, m.Hash)
	}
}
