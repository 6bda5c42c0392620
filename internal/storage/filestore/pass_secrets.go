package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

const (
	passSecretsFile   = "pass-secrets.json"
	passSecretsFormat = 1
)

// PassSecrets keeps the secrets that sign the passes of one process, by day, so that passes are recognised after a
// restart. Only one goroutine at a time may use it.
//
//	DIR/pass-secrets.json   {"version": 1, "secrets": {"20786": base64}}
type PassSecrets struct {
	disk  disk
	log   *slog.Logger
	known map[int64]string // by day, encoded, as on the disk; nil before the file was read
}

// PassSecrets returns the secrets in the state directory, or in memory if there is no directory.
func (o *Overrides) PassSecrets(log *slog.Logger) *PassSecrets {
	return &PassSecrets{disk: o.disk, log: log}
}

type secretsFile struct {
	Version int              `json:"version"`
	Secrets map[int64]string `json:"secrets"`
}

// AgreeOnSecrets returns the stored secrets of the days of proposals. It stores the secret of a proposal, unless that
// is zero, for a day without a secret, and forgets the secrets of all other days. With an error the secrets are not on
// the disk.
func (s *PassSecrets) AgreeOnSecrets(_ context.Context,
	proposals []visitorpass.DaySecret) (agreed []visitorpass.DaySecret, err error) {
	if s.known == nil {
		s.known = s.read()
	}
	next := map[int64]string{}
	for _, d := range proposals {
		if secret, err := visitorpass.ParseSecret(s.known[d.Day]); err == nil {
			d.Secret = secret
		}
		if d.Secret != (visitorpass.Secret{}) {
			next[d.Day] = d.Secret.Encode()
			agreed = append(agreed, d)
		}
	}
	if maps.Equal(next, s.known) {
		return agreed, nil
	}
	data, err := json.Marshal(secretsFile{passSecretsFormat, next})
	if err == nil {
		err = s.disk.replace(passSecretsFile, append(data, '\n'))
	}
	if err == nil {
		s.known = next
	}
	return agreed, err
}

// read returns the secrets on the disk. A file that cannot be used is logged, and the next secrets replace it.
func (s *PassSecrets) read() map[int64]string {
	data, err := s.disk.read(passSecretsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return map[int64]string{}
	}
	var file secretsFile
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err == nil && (file.Version != passSecretsFormat || file.Secrets == nil) {
		err = fmt.Errorf("version %d, %d secrets", file.Version, len(file.Secrets))
	}
	for _, text := range file.Secrets {
		if err == nil {
			_, err = visitorpass.ParseSecret(text)
		}
	}
	if err != nil {
		s.log.Warn("filestore: the secrets of visitor passes cannot be used and are replaced; passes from before are "+
			"not recognised", "file", s.disk.pathOf(passSecretsFile), "err", err)
		return map[int64]string{}
	}
	return file.Secrets
}
