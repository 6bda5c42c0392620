package etcdrules

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/internal/protofield"
)

// Messages of etcd's API v3 (etcdserverpb) are written and read here by hand, because the store needs four requests
// with a dozen fields. The tests compare them with the published package. Numbers that are zero and empty texts are
// left out, as in proto3.

// codec passes messages that are encoded already.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("etcdrules: cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("etcdrules: cannot receive a %T", v)
	}
	*b = data.Materialize()
	return nil
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendMessage appends a message, also an empty one.
func appendMessage(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

func appendNumber(b []byte, field protowire.Number, n int64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

// keyRange selects the keys from key to end, without end; an empty end means key alone.
type keyRange struct {
	key, end    string
	limit       int64 // 0: no limit
	newestFirst bool  // the keys are in descending order
	keysOnly    bool
}

// encode returns a RangeRequest.
func (r *keyRange) encode() []byte {
	b := appendNumber(appendText(appendText(nil, 1, r.key), 2, r.end), 3, r.limit)
	if r.newestFirst {
		b = appendNumber(b, 5, 2) // sort_order: DESCEND; sort_target: KEY is 0
	}
	if r.keysOnly {
		b = appendNumber(b, 8, 1)
	}
	return b
}

// putOp returns a RequestOp that writes a key.
func putOp(key string, value []byte) []byte {
	return appendMessage(nil, 2, appendText(appendText(nil, 1, key), 2, string(value)))
}

// deleteOp returns a RequestOp that deletes the keys from key to end, without end.
func deleteOp(key, end string) []byte {
	return appendMessage(nil, 3, appendText(appendText(nil, 1, key), 2, end))
}

// txnIfUnchanged returns a TxnRequest that runs ops if the key was last modified in revision of etcd, or if the key is
// absent and revision is 0.
func txnIfUnchanged(key string, revision int64, ops ...[]byte) []byte {
	compare := appendText(appendNumber(nil, 2, 2), 3, key) // result: EQUAL is 0; target: MOD
	compare = protowire.AppendTag(compare, 6, protowire.VarintType)
	compare = protowire.AppendVarint(compare, uint64(revision)) // one of several, so a zero is written too
	b := appendMessage(nil, 1, compare)
	for _, op := range ops {
		b = appendMessage(b, 2, op)
	}
	return b
}

// watchRequest returns a WatchRequest that begins to watch a key.
func watchRequest(key string) []byte { return appendMessage(nil, 1, appendText(nil, 1, key)) }

// authenticateRequest returns an AuthenticateRequest.
func authenticateRequest(user, password string) []byte {
	return appendText(appendText(nil, 1, user), 2, password)
}

// keyValue holds the used fields of a mvccpb.KeyValue.
type keyValue struct {
	modRevision int64
	value       []byte
}

// decodeRange reads a RangeResponse.
func decodeRange(b []byte) (list []keyValue, err error) {
	err = protofield.Each(b, func(field protowire.Number, text []byte, _ uint64) error {
		if field != 2 {
			return nil
		}
		var kv keyValue
		err := protofield.Each(text, func(field protowire.Number, text []byte, n uint64) error {
			switch field {
			case 3:
				kv.modRevision = int64(n)
			case 5:
				kv.value = text
			}
			return nil
		})
		list = append(list, kv)
		return err
	})
	return list, err
}

// decodeTxn reads from a TxnResponse whether the comparison held.
func decodeTxn(b []byte) (succeeded bool, err error) {
	err = protofield.Each(b, func(field protowire.Number, _ []byte, n uint64) error {
		succeeded = succeeded || field == 2 && n != 0
		return nil
	})
	return succeeded, err
}

// decodeWatch reads from a WatchResponse whether etcd has ended the watch.
func decodeWatch(b []byte) (canceled bool, err error) {
	err = protofield.Each(b, func(field protowire.Number, _ []byte, n uint64) error {
		canceled = canceled || field == 4 && n != 0
		return nil
	})
	return canceled, err
}

// decodeToken reads an AuthenticateResponse.
func decodeToken(b []byte) (token string, err error) {
	err = protofield.Each(b, func(field protowire.Number, text []byte, _ uint64) error {
		if field == 2 {
			token = string(text)
		}
		return nil
	})
	return token, err
}
