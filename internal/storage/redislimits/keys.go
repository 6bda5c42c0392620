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

// maxSubjectBytes is the longest subject that is written out in a key. Longer subjects are hashed, so that keys stay
// short for any input.
const maxSubjectBytes = 512

// limitState returns the name of the state of one limit, a string; lua/limit_prelude.lua describes its text. The state
// expires when nothing is taken any more. The name is one of
//
//	hp:{news}:limit:hot:k:topic?id=42         a name
//	hp:{news}:limit:ip_fixed:a:192.0.2.7      an address; then maybe " " and a name
//	hp:{news}:limit:ip_fixed:c:4:anna         an opaque client; then maybe a name
//	hp:{news}:limit:hot:h:<64 hex digits>     SHA-256 of a long or odd subject
//
// Two subjects never share a key. Algorithms do share it, so that a limit whose algorithm is changed does not start
// afresh.
func (k keys) limitState(s *limit.Subject) string {
	return string(k.appendLimitState(nil, s))
}

// appendLimitState appends the name that limitState returns.
func (k keys) appendLimitState(b []byte, s *limit.Subject) []byte {
	b = append(b, k.prefix...)
	return appendSpace(append(b, "limit:"...), s)
}

// sumsKey returns the name of a hash of the costs that the processes have allowed to a subject in one window of
// consistency async; lua/limit_exchange.lua describes its fields. The window has the length window and begins at start,
// unix us. The hash expires when the window no longer counts.
//
//	hp:{news}:limit:sums1:60000000:1795233720000000:ip_fixed:a:192.0.2.7
func (k keys) sumsKey(window, start int64, s *limit.Subject) string {
	b := make([]byte, 0, 128)
	b = append(b, k.prefix...)
	b = append(b, "limit:sums1:"...)
	b = append(strconv.AppendInt(b, window, 10), ':')
	b = append(strconv.AppendInt(b, start, 10), ':')
	return string(appendSpace(b, s))
}

// appendSpace appends the space of a subject and the rest of the name.
func appendSpace(b []byte, s *limit.Subject) []byte {
	if strings.Contains(s.Space, ":") {
		b = append(b, strings.ReplaceAll(s.Space, ":", "_")...)
	} else {
		b = append(b, s.Space...)
	}
	return appendSubject(append(b, ':'), s)
}

// appendSubject appends the part of a key's name after the space.
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

// shardKeys returns the builder of the names of the states of one shard, on a cluster:
//
//	hp:{news/7}:limit:ip_fixed:a:192.0.2.7
func shardKeys(namespace string, shard int) keys {
	return newKeys(namespace + "/" + strconv.Itoa(shard))
}

// shardOf returns the shard of a subject, given the part of its state's name after the space ("a:192.0.2.7"): FNV-1a
// with 64 bits over its bytes, modulo shardCount.
func shardOf(subject []byte) int {
	return int(canon.FNV1a(subject) % shardCount)
}

// blockKey returns the name of the last block of the subject of a state: a string, "until length" in us, that expires
// when it no longer makes a difference.
//
//	hp:{news}:block:hot:k:topic?id=42
func (k keys) blockKey(state string) string {
	return k.prefix + "block:" + strings.TrimPrefix(state, k.prefix+"limit:")
}

// throttleKey returns the name of the state of one key of Throttle, a string; lua/cl_throttle.lua describes its text.
// The state expires when nothing is taken any more. A key that exceeds maxSubjectBytes with its space is hashed.
//
//	hp:{news}:limit:cl_throttle:k:user123
func (k keys) throttleKey(key string) string {
	return k.limitState(&limit.Subject{Space: "cl_throttle", Name: key})
}

// inFlightKey returns the name of a sorted set from the id of a call to the end of its lease (unix us), which expires
// with its last lease. A key that exceeds maxSubjectBytes with its space is hashed.
//
//	hp:{news}:limit:in_flight:k:export
func (k keys) inFlightKey(key string) string {
	return k.limitState(&limit.Subject{Space: "in_flight", Name: key})
}

// mustHash reports whether a subject is hashed: it is too long to write out, or has parts that could be mistaken for
// others, which no program makes.
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
