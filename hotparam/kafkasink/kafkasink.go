// Package kafkasink sends the counts of a hotparam.Pipeline to Kafka, for aggregators that form a consumer group. It is
// a package of its own so that a service without Kafka does not compile a Kafka client.
//
//	sink, err := kafkasink.New(kafkasink.Config{Brokers: []string{"kafka:9092"}, Rules: rules})
//	p, err := hotparam.New(hotparam.Config{Rules: rules, Shared: shared.Config{Redis: rdb, Sink: sink}})
//
// Pipeline.Run runs the sink, and ends it when the last counts are confirmed.
package kafkasink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/tlsfiles"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// Config holds the destination of the counts. Only Brokers is needed.
type Config struct {
	// Brokers holds "host:port" of one or more brokers of the cluster.
	Brokers []string
	// Topic must be the topic of the aggregators; default "hotparam-counts".
	Topic string
	// Rules holds the rules of the pipeline, whose namespace the counts carry; nil means the default rules.
	Rules *hotparam.Rules

	// TLS encrypts. CAFile holds the certificates (PEM) of the authorities that may sign the brokers' certificates; by
	// default the system's authorities. CertFile and KeyFile (PEM) are shown to brokers that ask for a certificate.
	TLS                       bool
	CAFile, CertFile, KeyFile string
	// Username and Password log in by SASL, with the Mechanism PLAIN (the default),
	// SCRAM-SHA-256 or SCRAM-SHA-512.
	Username, Password, Mechanism string

	// Log receives a message when trouble begins and when it ends; default slog.Default().
	Log *slog.Logger
}

// Sink is a hotparam.Sink for one pipeline. Make it with New: Send and Run of the zero value return an error, and the
// other methods panic.
type Sink struct{ producer *kafka.Producer }

// checkBuilt returns an error for a Sink that was not made by New.
func (s *Sink) checkBuilt() error {
	if s == nil || s.producer == nil {
		return errors.New("kafkasink: the Sink is nil or the zero value: make it with New, and check its error")
	}
	return nil
}

// mustBeBuilt panics on a Sink that was not made by New. It is for methods that return no error.
func (s *Sink) mustBeBuilt() {
	if err := s.checkBuilt(); err != nil {
		panic(err.Error())
	}
}

// New returns a sink. No broker needs to be up; errors are mistakes in cfg.
func New(cfg Config) (*Sink, error) {
	if cfg.Rules.Namespace() == "" {
		return nil, errors.New("kafkasink: Config.Rules is the zero value: make it with hotparam.LoadRules, " +
			"ParseRules or NewRules, or leave it nil for the default rules")
	}
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafka.Config{
		Brokers: cfg.Brokers, Topic: cmp.Or(cfg.Topic, "hotparam-counts"), Namespace: cfg.Rules.Namespace(),
		TLS: kafka.TLS{Enabled: cfg.TLS,
			Files: tlsfiles.Files{CA: cfg.CAFile, Cert: cfg.CertFile, Key: cfg.KeyFile}},
		Login: kafka.Login{Mechanism: cfg.Mechanism, Username: cfg.Username, Password: cfg.Password}, Log: cfg.Log,
	}})
	if err != nil {
		return nil, fmt.Errorf("kafkasink: %w", err)
	}
	return &Sink{p}, nil
}

// Send implements hotparam.Sink: it queues the counts, and never waits for a broker.
func (s *Sink) Send(ctx context.Context, counts []hotparam.Count) error {
	if err := s.checkBuilt(); err != nil {
		return err
	}
	return s.producer.Send(ctx, counts)
}

// Run sends the queued counts until ctx ends, and then the rest, within 2 s. Pipeline.Run calls it.
func (s *Sink) Run(ctx context.Context) error {
	if err := s.checkBuilt(); err != nil {
		return err
	}
	return s.producer.Run(ctx)
}

// Delivered returns the numbers of requests that brokers have confirmed, and that were lost, for the pipeline's Stats.
func (s *Sink) Delivered() (sent, lost uint64) {
	s.mustBeBuilt()
	st := s.producer.Stats()
	return st.Sent, st.Dropped + st.Invalid
}

// Down reports whether no broker accepts counts, for the pipeline's Health: until the first has answered, and while all
// are silent.
func (s *Sink) Down() bool {
	s.mustBeBuilt()
	return s.producer.Outage() != nil
}
