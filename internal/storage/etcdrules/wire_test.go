package etcdrules

import (
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// The published package reads the requests that are written by hand.
func TestRequests_EqualThePublishedOnes(t *testing.T) {
	t.Parallel()
	deletion := &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &etcdserverpb.DeleteRangeRequest{Key: []byte("k/1"), RangeEnd: []byte("k/3")}}}
	put := &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{
		RequestPut: &etcdserverpb.PutRequest{Key: []byte("k"), Value: []byte("\xffv")}}}
	unchanged := func(revision int64) *etcdserverpb.Compare {
		return &etcdserverpb.Compare{Key: []byte("k"), Target: etcdserverpb.Compare_MOD,
			Result: etcdserverpb.Compare_EQUAL, TargetUnion: &etcdserverpb.Compare_ModRevision{ModRevision: revision}}
	}
	for name, c := range map[string]struct {
		encoded []byte
		want    proto.Message
	}{
		"one key": {(&keyRange{key: "k"}).encode(), &etcdserverpb.RangeRequest{Key: []byte("k")}},
		"a range": {(&keyRange{key: "k", end: "l", limit: 50, newestFirst: true, keysOnly: true}).encode(),
			&etcdserverpb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: 50, KeysOnly: true,
				SortOrder: etcdserverpb.RangeRequest_DESCEND, SortTarget: etcdserverpb.RangeRequest_KEY}},
		"a key that is absent": {txnIfUnchanged("k", 0, putOp("k", []byte("\xffv"))), &etcdserverpb.TxnRequest{
			Compare: []*etcdserverpb.Compare{unchanged(0)}, Success: []*etcdserverpb.RequestOp{put}}},
		"a key that is there": {txnIfUnchanged("k", 1<<40, putOp("k", []byte("\xffv")), deleteOp("k/1", "k/3")),
			&etcdserverpb.TxnRequest{Compare: []*etcdserverpb.Compare{unchanged(1 << 40)},
				Success: []*etcdserverpb.RequestOp{put, deletion}}},
		"a watch": {watchRequest("k"), &etcdserverpb.WatchRequest{
			RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
				CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte("k")}}}},
		"a user": {authenticateRequest("u", "p"), &etcdserverpb.AuthenticateRequest{Name: "u", Password: "p"}},
	} {
		got := c.want.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(c.encoded, got); err != nil || !proto.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// Responses of the published package are read, and a message that ends early is an error.
func TestDecoders_ReadThePublishedResponses(t *testing.T) {
	t.Parallel()
	header := &etcdserverpb.ResponseHeader{Revision: 9}
	encode := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	values := encode(&etcdserverpb.RangeResponse{Header: header, Kvs: []*mvccpb.KeyValue{
		{Key: []byte("k"), ModRevision: 1 << 40, Value: []byte("\xffv")}, {Key: []byte("l"), ModRevision: 2}}})
	if list, err := decodeRange(values); err != nil || len(list) != 2 || list[0].modRevision != 1<<40 ||
		string(list[0].value) != "\xffv" || list[1].modRevision != 2 || list[1].value != nil {
		t.Errorf("%+v, %v", list, err)
	}
	for _, want := range []bool{true, false} {
		txn := encode(&etcdserverpb.TxnResponse{Header: header, Succeeded: want})
		if got, err := decodeTxn(txn); got != want || err != nil {
			t.Errorf("a transaction: %v, %v; want %v", got, err, want)
		}
		watched := encode(&etcdserverpb.WatchResponse{Header: header, WatchId: 7, Created: true, Canceled: want,
			CompactRevision: 5, Events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{Key: []byte("k")}}}})
		if got, err := decodeWatch(watched); got != want || err != nil {
			t.Errorf("a watch: %v, %v; want %v", got, err, want)
		}
	}
	token := encode(&etcdserverpb.AuthenticateResponse{Header: header, Token: "t.1"})
	if got, err := decodeToken(token); got != "t.1" || err != nil {
		t.Errorf("a token: %q, %v", got, err)
	}
	for n := range len(values) {
		if list, err := decodeRange(values[:n]); err == nil && len(list) == 2 {
			t.Errorf("%d of %d bytes: %+v", n, len(values), list)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte("\x12\x04\x18\x01*\x00"))
	f.Fuzz(func(_ *testing.T, b []byte) { // no answer of a server panics
		_, _ = decodeRange(b)
		_, _ = decodeTxn(b)
		_, _ = decodeWatch(b)
		_, _ = decodeToken(b)
	})
}
