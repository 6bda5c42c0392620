package clientsketch

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// MaxMember is the longest member, in bytes: a name of 64 bytes, its n, and
// what is between.
const MaxMember = 2*(1+maxName) + 1 + 16

const seenWord = "seen"

// AppendMembers appends what a client sketch says as the members of a StatsD set, each
// followed by a line feed; a sender makes a line "name:member|s" of each.
//
//	seen=300           so many requests were laid to a client
//	0badf00d           a mark: 8 hex digits
//	04c0000201=285     a heavy client: its form in hex, and its requests
//
// Digits are lower case. No member has ":", "|", "@", "#" or a line feed. nil
// and a client sketch that saw nothing have no members.
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

// Member is one member of a set, read. It says one of three things.
type Member struct {
	Seen   int64          // how many requests were laid to clients; 0: not said
	Client hottype.Client // a heavy client with its requests N; unknown: not said
	N      int64
	Hash   uint32 // a client's mark, where neither of the others is said
}

// MaxN is the greatest number that a member or a record may say.
const MaxN = hottype.MaxCount

var errMember = errors.New(
	"clientsketch: not a member of a set of clients; want seen=N, 8 hex digits, or a client in hex and =N")

// ParseMember reads one member, without a line feed. What AppendMembers did
// not write is refused; nothing of member is kept.
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

// parseN reads 1 to MaxN as strconv.AppendInt writes them.
func parseN(s []byte) (int64, bool) {
	if len(s) == 0 || len(s) > 16 || s[0] == '0' {
		return 0, false
	}
	n := int64(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, n <= MaxN
}

// unhex decodes lower case hex digits into dst, whose room bounds them.
func unhex(dst, s []byte) ([]byte, bool) {
	if len(s)%2 != 0 || len(s)/2 > cap(dst) || bytes.ContainsAny(s, "ABCDEF") {
		return nil, false
	}
	dst, err := hex.AppendDecode(dst, s)
	return dst, err == nil
}

// AddTo adds what the member says to a client sketch. All members of a set added to an
// empty client sketch, in any order, make the client sketch that AppendMembers wrote; those of
// a second sender are merged with it.
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
