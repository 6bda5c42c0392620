package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestGubernatorRequest_HasTheLimit(t *testing.T) {
	request := gubernatorRequest("topic")
	wantNumbers := map[protowire.Number]uint64{3: 1, 4: rate, 5: 1000, 6: 1, 8: burst}
	if diff := cmp.Diff(wantNumbers, numbers(request)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[protowire.Number]string{1: "bench", 2: "topic"}, texts(request)); diff != "" {
		t.Error(diff)
	}
	if got := texts(request[:len(request)-1]); len(got) != 2 {
		t.Errorf("cut off: %v", got)
	}
}
