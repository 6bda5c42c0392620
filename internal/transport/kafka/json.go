package kafka

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxJSON is the longest record that is read as JSON. It is the form for people
// and for a script; senders with more to send write protobuf.
const maxJSON = 1 << 20

// jsonCount is one element of counts.
type jsonCount hottype.Count

// UnmarshalJSON reads and checks an element. Its error ends the reading of the record, so what is allocated is
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
	// What JSON cannot say, such as half of a surrogate pair, comes as this character: it would be another key. A key
	// that is not UTF-8 can only be written as protobuf.
	if !isSound((*hottype.Count)(c)) || strings.ContainsRune(string(e.Key), utf8.RuneError) {
		return fmt.Errorf("a count needs a key of 1 to %d bytes and an n of 1 to 2^40", maxKey)
	}
	return nil
}

// parseJSON reads the other form of a record:
//
//	{"namespace":"news","counts":[{"key":"topic?id=42","n":300}]}
//
// Its fields have the names of counts.proto and the same bounds; all but
// namespace and counts may be missing, and those that are not known are skipped.
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
	return rec, check(r.Version, &rec)
}
