package envoy

import (
	"flag"
	"os"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

var update = flag.Bool("update", false, "write schema.binpb")

// published returns the published files of both services, each behind the files that it imports.
func published() *descriptorpb.FileDescriptorSet {
	set, seen := new(descriptorpb.FileDescriptorSet), map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(authv3.File_envoy_service_auth_v3_external_auth_proto)
	add(ratelimitv3.File_envoy_service_ratelimit_v3_rls_proto)
	return set
}

// The schema that reflection shows is the published one, and can be read without the package that publishes it.
func TestSchema_IsThePublishedOne(t *testing.T) {
	t.Parallel()
	want := published()
	if *update {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("schema.binpb", b, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		schemaSet = b
	}
	got := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(schemaSet, got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Error("schema.binpb differs: go test ./internal/serving/envoy -run Schema -update")
	}
	files, err := newSchema().files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range want.GetFile() {
		if _, err := files.FindFileByPath(f.GetName()); err != nil {
			t.Errorf("%s: %v", f.GetName(), err)
		}
	}
	if _, err := files.FindDescriptorByName(serviceAuth); err != nil {
		t.Error(err)
	}
}

// The numbers in answers and limits have the published names.
func TestCodesAndUnits_ArePublished(t *testing.T) {
	t.Parallel()
	for name, got := range map[string]struct{ ours, published int32 }{
		"OK":         {codeOK, int32(ratelimitv3.RateLimitResponse_OK)},
		"OVER_LIMIT": {codeOverLimit, int32(ratelimitv3.RateLimitResponse_OVER_LIMIT)},
		"OVERWRITE":  {overwriteIfExistsOrAdd, int32(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)},
	} {
		if got.ours != got.published {
			t.Errorf("%s is %d, published as %d", name, got.ours, got.published)
		}
	}
	if names := ratelimitv3.RateLimitResponse_RateLimit_Unit_name; len(units) != len(names)-1 { // without UNKNOWN
		t.Errorf("%d units, published are %v", len(units), names)
	}
	for _, u := range units {
		name := ratelimitv3.RateLimitResponse_RateLimit_Unit(u.code).String()
		if name != strings.ToUpper(u.name) {
			t.Errorf("%s is %d, which is published as %s", u.name, u.code, name)
		}
	}
}
