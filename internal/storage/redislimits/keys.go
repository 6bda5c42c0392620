package redislimits

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
)

// keys builds the names of the keys of limits of one namespace, or of a shard of it.
type keys struct{ prefix string }

func newKeys(namespace string) keys { return keys{redisclient.NewKeys(namespace).Prefix()} }

// maxSubjectBytes is how much of a subject is written out in a key. Longer ones
// are hashed: keys stay short, whatever clients send.
const maxSubjectBytes = 512

// limitState: string, the state of one limit; lua/limit_prelude.lua says how it
// is written. Expires when nothing is taken any more. It is one of
//
//	hp:{news}:limit:hot:k:topic?id=42         a name
//	hp:{news}:limit:ip_fixed:a:192.0.2.7      an address; then maybe " " and a name
//	hp:{news}:limit:ip_fixed:c:4:anna         an opaque client; then maybe a name
//	hp:{news}:limit:hot:h:<64 hex digits>     SHA-256 of what is long or odd
//
// Two subjects never share a key. Algorithms do share it, so that a limit whose
// algorithm is changed does not start afresh.
func (k keys) limitState(s *limit.Subject) string {
	return string(k.appendLimitState(nil, s))
}

// appendLimitState appends limitState.
func (k keys) appendLimitState(b []byte, s *limit.Subject) []byte {
	b = append(b, k.prefix...)
	return appendSpace(append(b, "limit:"...), s)
}

// sums: hash, what the processes have allowed to a subject in one window, of
// consistency async; lua/limit_exchange.lua says how it is written. window is its
// length and start when it begins, unix us. Expires when it no longer counts.
//
//	hp:{news}:limit:sums1:60000000:1795233720000000:ip_fixed:a:192.0.2.7
func (k keys) sums(window, start int64, s *limit.Subject) string {
	b := make([]byte, 0, 128)
	b = append(b, k.prefix...)
	b = append(b, "limit:sums1:"...)
	b = append(strconv.AppendInt(b, window, 10), ':')
	b = append(strconv.AppendInt(b, start, 10), ':')
	return string(appendSpace(b, s))
}

// appendSpace appends the space of a subject and what follows it.
func appendSpace(b []byte, s *limit.Subject) []byte {
	if strings.Contains(s.Space, ":") {
		b = append(b, strings.ReplaceAll(s.Space, ":", "_")...)
	} else {
		b = append(b, s.Space...)
	}
	return appendSubject(append(b, ':'), s)
}

// appendSubject appends what follows the space in the name of a key.
func appendSubject(b []byte, s *limit.Subject) []byte {
	switch {
	case mustHash(s):
		return hashSubject(append(b, "h:"...), s)
	case s.Client.Addr.IsValid():
		b = append(b, "a:"...)
		b = s.Client.Addr.AppendTo(b)
		if s.Name != "" {
			b = append(b, ' ')
		}
	case s.Client.Name != "":
		b = append(b, "c:"...)
		b = strconv.AppendInt(b, int64(len(s.Client.Name)), 10)
		b = append(append(b, ':'), s.Client.Name...)
	default:
		b = append(b, "k:"...)
	}
	return append(b, s.Name...)
}

// shardKeys builds the names of the states of one shard, on a cluster:
//
//	hp:{news/7}:limit:ip_fixed:a:192.0.2.7
func shardKeys(namespace string, shard int) keys {
	return newKeys(namespace + "/" + strconv.Itoa(shard))
}

// shardOf is the shard of a subject by what follows the space in the name of its
// state ("a:192.0.2.7"): FNV-1a with 64 bits over its bytes, modulo shards.
func shardOf(subject []byte) int {
	return int(canon.FNV1a(subject) % shardCount)
}

// block: string, "until length" in us, the last block of the subject whose state
// has this name. Expires when it makes no difference any more.
//
//	hp:{news}:block:hot:k:topic?id=42
func (k keys) block(state string) string {
	return k.prefix + "block:" + strings.TrimPrefix(state, k.prefix+"limit:")
}

// throttle: string, the state of one key of Throttle; lua/cl_throttle.lua says how
// it is written. Expires when nothing is taken any more. A key of more than
// maxSubjectBytes is hashed.
//
//	hp:{news}:limit:cl_throttle:k:user123
func (k keys) throttle(key string) string {
	return k.limitState(&limit.Subject{Space: "cl_throttle", Name: key})
}

// inFlight: sorted set, id of a call -> when its lease is over (unix us). Expires
// with its last lease. A key of more than maxSubjectBytes is hashed.
//
//	hp:{news}:limit:in_flight:k:export
func (k keys) inFlight(key string) string {
	return k.limitState(&limit.Subject{Space: "in_flight", Name: key})
}

// mustHash is true for subjects that are hashed: too long to write out, or with parts that
// could be mistaken for others, as no program makes them.
func mustHash(s *limit.Subject) bool {
	return len(s.Space)+len(s.Name)+len(s.Client.Name) > maxSubjectBytes ||
		strings.Contains(s.Space, ":") ||
		s.Client.Addr.Zone() != "" ||
		s.Client.Addr.IsValid() && s.Client.Name != ""
}

// hashSubject appends a hash over the parts of a subject, each after its length.
func hashSubject(dst []byte, s *limit.Subject) []byte {
	h := sha256.New()
	for _, part := range []string{s.Space, s.Client.Addr.String(), s.Client.Name, s.Name} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.AppendEncode(dst, h.Sum(nil))
}
