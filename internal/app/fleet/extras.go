package fleet

import (
	"context"
	"fmt"
	"net"

	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/serving/envoy"
	"github.com/hotparam/pipeline/internal/textfile"
)

// Extras holds all parts that need a client of a server or gRPC.
var Extras = program.Extras{Rules: openRuleStore,
	Envoy: func() program.Envoy { return &envoyFront{} }}

type envoyFront struct {
	server *envoy.Server
	limits *envoy.Limits // of the files that were read last
}

func (e *envoyFront) Open(c program.EnvoyConfig) {
	e.server = envoy.New(envoy.Config{Gate: c.Gate, Held: c.Held, Clients: c.Clients, Answers: c.Answers, Log: c.Log,
		Authorize: c.Authorize})
}

func (e *envoyFront) Serve(ctx context.Context, ln net.Listener) error {
	return e.server.Serve(ctx, ln)
}

func (e *envoyFront) AllStats() any { return e.server.Stats() }

func (e *envoyFront) CallsBound() int64 { return envoy.CallsBound }

func (e *envoyFront) ReadLimits(names []string) error {
	files := make([]envoy.File, len(names))
	for i, name := range names {
		data, err := textfile.Read(name)
		if err != nil {
			return fmt.Errorf("envoy.limits: %w", err)
		}
		files[i] = envoy.File{Name: name, Data: data}
	}
	var err error
	e.limits, err = envoy.ParseLimits(files)
	return err
}

func (e *envoyFront) ApplyLimits() {
	if e.server != nil {
		e.server.SetLimits(e.limits)
	}
}
