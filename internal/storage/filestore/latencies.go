package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

const (
	latenciesFile   = "base-latency.json"
	latenciesFormat = 1
)

// Latencies keeps the latencies without a rush of the upstreams of one process, so that they are known after a start in
// a rush. Only one goroutine at a time may use it.
//
//	DIR/base-latency.json   {"version": 1, "of": "http://127.0.0.1:3000", "upstreams": …}
type Latencies struct {
	disk disk
	of   string
}

// Latencies returns the latencies in the state directory, or in memory if there is no directory. of names the upstreams
// of the process: latencies of other upstreams are not returned.
func (o *Overrides) Latencies(of string) *Latencies { return &Latencies{disk: o.disk, of: of} }

type latenciesEnvelope struct {
	Version   int             `json:"version"`
	Of        string          `json:"of"`
	Upstreams json.RawMessage `json:"upstreams"`
}

// ReadBases returns the stored text, or nil if there is none for these upstreams.
func (l *Latencies) ReadBases(context.Context) ([]byte, error) {
	data, err := l.disk.read(latenciesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var file latenciesEnvelope
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err == nil && file.Version != latenciesFormat {
		err = fmt.Errorf("version %d", file.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: %s: %w; the next latencies replace it", l.disk.pathOf(latenciesFile), err)
	}
	if file.Of != l.of {
		return nil, nil
	}
	return file.Upstreams, nil
}

// WriteBases replaces the stored text, which must be JSON.
func (l *Latencies) WriteBases(_ context.Context, text []byte) error {
	data, err := json.Marshal(latenciesEnvelope{latenciesFormat, l.of, text})
	if err != nil {
		return fmt.Errorf("filestore: %s: %w", latenciesFile, err)
	}
	return l.disk.replace(latenciesFile, append(data, '\n'))
}
