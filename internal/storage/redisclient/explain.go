package redisclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// errUnknownEndpoint explains why no node of a cluster can be found.
var errUnknownEndpoint = errors.New("redisclient: the nodes of the cluster do not say at which address they are " +
	"(cluster-preferred-endpoint-type unknown-endpoint): set it to ip or hostname on all nodes, " +
	"redis-cli --cluster call HOST:PORT CONFIG SET cluster-preferred-endpoint-type ip, and in redis.conf")

// endpointHook is a hook of each node of a cluster. A cluster with unknown endpoints answers CLUSTER SLOTS with null
// addresses, of which go-redis makes redis.Nil: every call would then fail as if its key were absent.
type endpointHook struct{}

// DialHook changes nothing.
func (endpointHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook replaces the error of CLUSTER SLOTS.
func (endpointHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if _, slots := cmd.(*redis.ClusterSlotsCmd); slots && errors.Is(err, redis.Nil) {
			cmd.SetErr(errUnknownEndpoint)
			return errUnknownEndpoint
		}
		return err
	}
}

// ProcessPipelineHook changes nothing.
func (endpointHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// explainSilentEnd explains a connection that ends before the first answer: usually it is a port that speaks TLS, which
// closes the connection of a client that does not.
func explainSilentEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return uncutError(fmt.Errorf("%w before the first answer; is this a port with TLS? Then set redis.tls", err))
	}
	return err
}

// uncutError returns an error with the text of err that go-redis does not cut. When a connection cannot be set up,
// go-redis shows of an error that wraps a single error only the wrapped one.
func uncutError(err error) error { return errors.Join(err) }

// explainMovingSlot adds the cause to the error of a command whose keys are in a slot that moves to another node. The
// node answers commands of several keys so, while some of the keys have moved and others have not.
func explainMovingSlot(cmd redis.Cmder, err error) error {
	if !redis.HasErrorPrefix(err, "TRYAGAIN") {
		return err
	}
	err = fmt.Errorf("%w (a slot of the cluster moves to another node; calls for its keys succeed when it has moved)", err)
	cmd.SetErr(err)
	return err
}
