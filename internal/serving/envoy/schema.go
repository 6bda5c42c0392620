package envoy

import (
	_ "embed"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// schemaSet is a google.protobuf.FileDescriptorSet of the two services' files and of all files that they import. It
// serves reflection alone: nothing else needs the published package, which takes 11 s to compile. To write it:
//
//	go test ./internal/serving/envoy -run Schema -update
//
//go:embed schema.binpb
var schemaSet []byte

// schema finds descriptors in Envoy's files, and in the linked ones for health checks and reflection.
type schema struct {
	// files parses schemaSet at the first use.
	files func() (*protoregistry.Files, error)
}

func newSchema() schema {
	return schema{sync.OnceValues(func() (*protoregistry.Files, error) {
		set := new(descriptorpb.FileDescriptorSet)
		if err := proto.Unmarshal(schemaSet, set); err != nil {
			return nil, err
		}
		return protodesc.NewFiles(set)
	})}
}

func (s schema) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if d, err := protoregistry.GlobalFiles.FindFileByPath(path); err == nil {
		return d, nil
	}
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	return files.FindFileByPath(path)
}

func (s schema) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := protoregistry.GlobalFiles.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	return files.FindDescriptorByName(name)
}

// registerReflection lets tools such as grpcurl ask the server for its services and their schema.
func registerReflection(s *grpc.Server) {
	options := reflection.ServerOptions{Services: s, DescriptorResolver: newSchema()}
	reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(options))
	reflectionv1alpha.RegisterServerReflectionServer(s, reflection.NewServer(options))
}
