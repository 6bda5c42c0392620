package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// Redact is what replaces a parameter's value in keys.
type Redact uint8

// The ways to redact. A hash tells values apart without saying them; masked, a
// parameter has one value; dropped, it is not tracked.
const (
	RedactNone Redact = iota
	RedactHash
	RedactMask
	RedactDrop
)

// Redaction says how to redact parameters whose name a glob matches, in upper or lower
// case, and also where something in brackets follows the name.
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
		lower(name)
		out[i] = redaction{NewGlob(string(name)), r.Redact}
	}
	return out
}

// RedactionOf is how the value of a decoded name is redacted. The first glob that
// matches counts.
func RedactionOf(list []Redaction, name string) Redact {
	how, _ := redactionOf(newRedactions(list), []byte(name), nil)
	return how
}

func redactionOf(list []redaction, name, buf []byte) (Redact, []byte) {
	buf = append(buf[:0], name...)
	lower(buf)
	root, _, _ := bytes.Cut(buf, []byte("["))
	for i := range list {
		if list[i].glob.Match(buf) || list[i].glob.Match(root) {
			return list[i].how, buf
		}
	}
	return RedactNone, buf
}

// redacted is how the selection treats the value of a decoded name.
func (s *Selector) redacted(name []byte, sc *Scratch) (how Redact) {
	how, sc.fold = redactionOf(s.redact, name, sc.fold)
	return how
}

// Value gives what replaces a decoded value in a key, in its memory where it fits.
// Without a secret a hash would confirm a guess of the value, so the
// value is masked then.
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

// IsRedacted reports whether a value is what [Normalization.Value] makes of one that is redacted. Only what people
// write may be taken for that: clients send such values too.
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

// keyedHash is HMAC-SHA256. That of the library allocates for each value.
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
