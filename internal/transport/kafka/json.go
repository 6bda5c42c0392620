package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxJSON is the longest record that is read as JSON. It is the form for people
// and for a script; senders with more to send write protobuf.
const maxJSON = 1 << 20

// jsonPair is one element of counts. A key has to be text: one that is not
// UTF-8 can only be written as protobuf.
type jsonPair struct {
	Key    string `json:"key"`
	N      int64  `json:"n"`
	Second int64  `json:"second"`
}

// parseJSON reads the other form of a record:
//
//	{"namespace":"news","counts":[{"key":"topic?id=42","n":300}]}
//
// Its fields have the names of counts.proto and the same bounds; all but
// namespace and counts may be missing, and those that are not known are skipped.
// It goes from element to element and stops at the first that is wrong, so that
// what is allocated is bounded by the length of data.
func parseJSON(data []byte) (Record, error) {
	if len(data) > maxJSON || !utf8.Valid(data) {
		return Record{}, fmt.Errorf("%w: JSON over %d bytes or not UTF-8", errRecord, maxJSON)
	}
	p := jsonParser{Decoder: json.NewDecoder(bytes.NewReader(data)), version: 1}
	if err := p.object(p.field); err != nil {
		return Record{}, err
	}
	if p.More() || strings.TrimSpace(string(data[p.InputOffset():])) != "" {
		return Record{}, fmt.Errorf("%w: something stands behind the JSON object", errRecord)
	}
	return p.Record, check(p.version, &p.Record)
}

type jsonParser struct {
	*json.Decoder
	Record
	version uint64
}

// object calls f for each field of an object.
func (p *jsonParser) object(f func(name string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	for p.More() {
		token, err := p.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return fmt.Errorf("%w: JSON: a field's name is missing", errRecord)
		}
		if err := f(name); err != nil {
			return err
		}
	}
	return p.delim('}')
}

func (p *jsonParser) delim(want json.Delim) error {
	if token, err := p.Token(); err != nil || token != want {
		return fmt.Errorf("%w: JSON: want %q before byte %d", errRecord, want.String(), p.InputOffset())
	}
	return nil
}

func (p *jsonParser) field(name string) error {
	switch name {
	case "version":
		return p.value(name, &p.version)
	case "namespace":
		return p.value(name, &p.Namespace)
	case "source":
		return p.value(name, &p.Source)
	case "epoch":
		return p.value(name, &p.Epoch)
	case "sequence":
		return p.value(name, &p.Sequence)
	case "counts":
		return p.pairs()
	}
	var skipped json.RawMessage
	return p.value(name, &skipped)
}

func (p *jsonParser) value(name string, into any) error {
	if err := p.Decode(into); err != nil {
		return fmt.Errorf("%w: JSON: %s: %w", errRecord, name, err)
	}
	return nil
}

func (p *jsonParser) pairs() error {
	if err := p.delim('['); err != nil {
		return err
	}
	for p.More() {
		var pair jsonPair
		if err := p.value("counts", &pair); err != nil {
			return err
		}
		c := hottype.Count{Key: hottype.Key(pair.Key), N: pair.N, Second: pair.Second}
		// What JSON cannot say, such as half of a surrogate pair, comes as this
		// character: it would be another key.
		if !isSound(&c) || strings.ContainsRune(pair.Key, utf8.RuneError) {
			return fmt.Errorf("%w: JSON: counts[%d]: key of 1 to %d bytes and n of 1 to 2^40 are needed", errRecord,
				len(p.Counts), maxKey)
		}
		p.Counts = append(p.Counts, c)
	}
	return p.delim(']')
}
