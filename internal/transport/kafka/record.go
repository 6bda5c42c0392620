package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// Version is the version of the record that this package writes. A reader rejects records of a higher version and skips
// fields that it does not know.
const Version = 1

// The fields of docs/counts.proto.
const (
	fieldVersion   = 1
	fieldNamespace = 2
	fieldSource    = 3
	fieldEpoch     = 4
	fieldSequence  = 5
	fieldPair      = 6

	fieldKey     = 1
	fieldN       = 2
	fieldSecond  = 3
	fieldClients = 4
)

// Limits of a record. A reader rejects records beyond them.
const (
	maxKey  = 64 << 10
	maxName = 256 // of a namespace or source
	maxWire = 8 << 20
)

// Record is one message of the topic: counts of one producer for keys of one partition.
type Record struct {
	Namespace string
	// Source names the producer, Epoch is its start (unix microseconds), and Sequence numbers its records for this
	// partition from 1. These three and the partition identify a repeated record.
	Source   string
	Epoch    uint64
	Sequence uint64
	Counts   []hottype.Count
}

// Append appends the record in its wire form to dst.
func (r *Record) Append(dst []byte) []byte {
	dst = r.appendHead(dst)
	for i := range r.Counts {
		dst = appendPair(dst, &r.Counts[i])
	}
	return dst
}

func (r *Record) appendHead(dst []byte) []byte {
	dst = appendVarint(dst, fieldVersion, Version)
	dst = appendString(dst, fieldNamespace, r.Namespace)
	dst = appendString(dst, fieldSource, r.Source)
	dst = appendVarint(dst, fieldEpoch, r.Epoch)
	return appendVarint(dst, fieldSequence, r.Sequence)
}

func appendPair(dst []byte, c *hottype.Count) []byte {
	return appendMessage(dst, fieldPair, func(dst []byte) []byte {
		dst = appendString(dst, fieldKey, string(c.Key))
		dst = appendVarint(dst, fieldN, uint64(c.N))
		dst = appendVarint(dst, fieldSecond, uint64(c.Second))
		return appendClients(dst, c.Clients)
	})
}

// appendMessage appends a field that body writes. The length stands before the field but is known only after it.
func appendMessage(dst []byte, field protowire.Number, body func([]byte) []byte) []byte {
	var length [10]byte
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	at := len(dst)
	dst = body(dst)
	return slices.Insert(dst, at, protowire.AppendVarint(length[:0], uint64(len(dst)-at))...)
}

func appendVarint(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func appendString(dst []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}

// ErrVersion reports that a record is of a later version than this reader knows.
var ErrVersion = errors.New("kafka: record of a later version; update this program first")

var errRecord = errors.New("kafka: record is broken")

// ParseRecord reads a record, as protobuf or as JSON. Its counts are sound: a key of 1 to 65536 bytes, n of 1 to 2^40,
// and a client sketch, if there is one, within clientsketch.Check. A broken record is rejected as a whole. The
// allocated memory is bounded by the length of data, whatever data contains.
func ParseRecord(data []byte) (Record, error) {
	if len(data) > maxWire {
		return Record{}, fmt.Errorf("%w: %d bytes, over %d", errRecord, len(data), maxWire)
	}
	if len(data) > 0 && data[0] == '{' { // no field of protobuf begins with it
		return parseJSON(data)
	}
	var r Record
	version := uint64(0)
	all := string(data) // one string that contains every key
	err := parseFields(data, func(f field) error {
		switch f.num {
		case fieldVersion:
			version = f.varint
		case fieldNamespace:
			r.Namespace = f.textIn(all)
		case fieldSource:
			r.Source = f.textIn(all)
		case fieldEpoch:
			r.Epoch = f.varint
		case fieldSequence:
			r.Sequence = f.varint
		case fieldPair:
			return r.addPair(f, all)
		}
		return nil
	})
	if err == nil {
		err = checkRecord(version, &r)
	}
	if err != nil {
		return Record{}, err
	}
	return r, nil
}

// checkRecord checks the fields that both forms of a record share.
func checkRecord(version uint64, r *Record) error {
	switch {
	case version > Version:
		return fmt.Errorf("%w (version %d)", ErrVersion, version)
	case version == 0:
		return fmt.Errorf("%w: no version", errRecord)
	case len(r.Namespace) > maxName || len(r.Source) > maxName:
		return fmt.Errorf("%w: namespace or source over %d bytes", errRecord, maxName)
	}
	return nil
}

func (r *Record) addPair(pair field, all string) error {
	var c hottype.Count
	err := parseFields(pair.bytes, func(f field) (err error) {
		switch f.num {
		case fieldKey:
			c.Key = hottype.Key(f.textIn(all[pair.offset:]))
		case fieldN:
			c.N = int64(min(f.varint, math.MaxInt64))
		case fieldSecond:
			c.Second = int64(f.varint)
		case fieldClients:
			c.Clients, err = parseClients(f.bytes)
		}
		return err
	})
	if err != nil || !isSound(&c) {
		return errRecord
	}
	r.Counts = append(r.Counts, c)
	return nil
}

// isSound reports whether a count is valid in a record.
func isSound(c *hottype.Count) bool {
	return len(c.Key) > 0 && len(c.Key) <= maxKey && c.N > 0 && c.N <= hottype.MaxCount
}

// field is one field of a message. A field of the wrong type is empty, and its zero is rejected where the value
// matters.
type field struct {
	num    protowire.Number
	varint uint64
	bytes  []byte
	offset int // of bytes in the message
}

// textIn returns the bytes as a substring of the message.
func (f field) textIn(message string) string { return message[f.offset : f.offset+len(f.bytes)] }

func parseFields(message []byte, f func(field) error) error {
	for at := 0; at < len(message); {
		num, typ, n := protowire.ConsumeTag(message[at:])
		if n < 0 {
			return errRecord
		}
		at += n
		v := field{num: num}
		switch typ {
		case protowire.VarintType:
			v.varint, n = protowire.ConsumeVarint(message[at:])
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(message[at:])
			v.offset = at + n - len(v.bytes)
		default:
			n = protowire.ConsumeFieldValue(num, typ, message[at:])
		}
		if n < 0 {
			return errRecord
		}
		at += n
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// Partition returns the partition of a key among n: FNV-1a with 64 bits, modulo n. Every producer of a topic has to
// agree on it. n must be positive.
func Partition(key hottype.Key, n int32) int32 {
	return int32(canon.FNV1a(key) % uint64(n))
}

// maxJSON is the maximum length of a record that is read as JSON. JSON is the form for people and scripts; senders with
// more to send write protobuf.
const maxJSON = 1 << 20

type jsonCount hottype.Count

// UnmarshalJSON reads and checks an element. Its error ends the reading of the record, so that the allocated memory is
// bounded by the length of sound elements.
func (c *jsonCount) UnmarshalJSON(data []byte) error {
	var e struct {
		Key    hottype.Key `json:"key"`
		N      int64       `json:"n"`
		Second int64       `json:"second"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	*c = jsonCount{Key: e.Key, N: e.N, Second: e.Second}
	// JSON decodes text that it cannot represent, such as half of a surrogate pair, as this character, which would make
	// another key. A key that is not UTF-8 can only be written as protobuf.
	if !isSound((*hottype.Count)(c)) || strings.ContainsRune(string(e.Key), utf8.RuneError) {
		return fmt.Errorf("a count needs a key of 1 to %d bytes and an n of 1 to 2^40", maxKey)
	}
	return nil
}

// parseJSON reads the other form of a record:
//
//	{"namespace":"news","counts":[{"key":"topic?id=42","n":300}]}
//
// Its fields have the names of counts.proto and the same bounds; all but namespace and counts may be missing, and
// unknown fields are skipped.
func parseJSON(data []byte) (Record, error) {
	if len(data) > maxJSON || !utf8.Valid(data) {
		return Record{}, fmt.Errorf("%w: JSON over %d bytes or not UTF-8", errRecord, maxJSON)
	}
	r := struct {
		Version   uint64      `json:"version"`
		Namespace string      `json:"namespace"`
		Source    string      `json:"source"`
		Epoch     uint64      `json:"epoch"`
		Sequence  uint64      `json:"sequence"`
		Counts    []jsonCount `json:"counts"`
	}{Version: 1}
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%w: JSON: %w", errRecord, err)
	}
	rec := Record{Namespace: r.Namespace, Source: r.Source, Epoch: r.Epoch, Sequence: r.Sequence}
	for _, c := range r.Counts {
		rec.Counts = append(rec.Counts, hottype.Count(c))
	}
	return rec, checkRecord(r.Version, &rec)
}
