package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// Redact is the way in which a parameter's value is replaced in keys.
type Redact uint8

// The ways to redact. A hash distinguishes values without revealing them; a masked parameter has one value; a dropped
// parameter is not tracked.
const (
	RedactNone Redact = iota
	RedactHash
	RedactMask
	RedactDrop
)

// Redaction is the way to redact parameters whose name a glob matches, in upper or lower case, and also if brackets
// follow the name.
type Redaction struct {
	Name   string
	Redact Redact
}

const (
	masked      = "masked"
	valueMark   = "hash-"
	valueDigits = 24 // 96 bits
)

type redaction struct {
	glob Glob
	how  Redact
}

func newRedactions(list []Redaction) []redaction {
	out := make([]redaction, len(list))
	for i, r := range list {
		name := []byte(r.Name)
		lowerASCII(name)
		out[i] = redaction{NewGlob(string(name)), r.Redact}
	}
	return out
}

// RedactionOf returns how the value of a decoded name is redacted. The first glob that matches counts.
func RedactionOf(list []Redaction, name string) Redact {
	how, _ := redactionOf(newRedactions(list), []byte(name), nil)
	return how
}

func redactionOf(list []redaction, name, buf []byte) (Redact, []byte) {
	buf = append(buf[:0], name...)
	lowerASCII(buf)
	root, _, _ := bytes.Cut(buf, []byte("["))
	for i := range list {
		if list[i].glob.Match(buf) || list[i].glob.Match(root) {
			return list[i].how, buf
		}
	}
	return RedactNone, buf
}

// redactionFor returns how the selection redacts the value of a decoded name.
func (s *Selector) redactionFor(name []byte, sc *Scratch) (how Redact) {
	how, sc.fold = redactionOf(s.redact, name, sc.fold)
	return how
}

// Value returns the replacement of a decoded value in a key, in the value's memory if it fits. Without a secret the
// value is masked, because a hash would confirm a guess of the value.
func (n Normalization) Value(secret, value []byte) []byte {
	value = n.apply(value)
	switch {
	case n.Redact == RedactNone:
		return value
	case n.Redact != RedactHash || len(secret) == 0:
		return append(value[:0], masked...)
	}
	sum := keyedHash(secret, value)
	return hex.AppendEncode(append(value[:0], valueMark...), sum[:valueDigits/2])
}

// IsRedacted reports whether a value is like a value that [Normalization.Value] has redacted. Use it only for values
// that people write, because clients can send such values too.
func IsRedacted(value string) bool {
	if value == masked {
		return true
	}
	if len(value) != len(valueMark)+valueDigits || value[:len(valueMark)] != valueMark {
		return false
	}
	for i := len(valueMark); i < len(value); i++ {
		if c := value[i]; c > 'f' || unhex(c) >= 16 || 'A' <= c && c <= 'F' {
			return false
		}
	}
	return true
}

// keyedHash returns HMAC-SHA256. The library's function allocates for each value.
func keyedHash(secret, value []byte) [sha256.Size]byte {
	var inner, outer [sha256.BlockSize]byte
	if len(secret) > sha256.BlockSize {
		sum := sha256.Sum256(secret)
		copy(inner[:], sum[:])
	} else {
		copy(inner[:], secret)
	}
	for i, c := range inner {
		inner[i], outer[i] = c^0x36, c^0x5c
	}
	h := sha256.New() // does not escape
	h.Write(inner[:])
	h.Write(value)
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	h.Reset()
	h.Write(outer[:])
	h.Write(sum[:])
	h.Sum(sum[:0])
	return sum
}
