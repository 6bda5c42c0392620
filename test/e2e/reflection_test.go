package e2e

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// A program shows Envoy's schema to tools such as grpcurl, although it does not link the published package, as the unit
// tests of the listener do.
func TestLimiterSidecar_ReflectsEnvoySchema(t *testing.T) {
	t.Parallel()
	envoy := freeport.Addr(t)
	launch(t, "limiter-sidecar", "--redis.addr", freeport.Addr(t), "--config", write(t, "hotparam.yaml", pipelineRules),
		"--envoy.listen", envoy)
	conn, err := grpc.NewClient(envoy, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := reflectionv1.NewServerReflectionClient(conn)
	stream, err := client.ServerReflectionInfo(t.Context(), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(symbol string) {
		t.Helper()
		if err := stream.Send(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol},
		}); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := new(descriptorpb.FileDescriptorProto)
			if err := proto.Unmarshal(b, file); err != nil {
				t.Errorf("%s: %v", symbol, err)
			}
			for _, service := range file.GetService() {
				if file.GetPackage()+"."+service.GetName() == symbol && len(service.GetMethod()) > 0 {
					return
				}
			}
		}
		t.Errorf("%s: %v", symbol, answer)
	}
	ask("envoy.service.auth.v3.Authorization")
	ask("envoy.service.ratelimit.v3.RateLimitService")
	ask("grpc.health.v1.Health")
}
