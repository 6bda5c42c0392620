package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// A log is read however it is compressed.
func TestCompressedLogs(t *testing.T) {
	t.Parallel()
	const line = "1700000000\t192.0.2.1\tGET\t/\n"
	bzip2, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWU/9LpQAAAfeAAQwAAHwoAKABAAgACGgJtI9QgGgC1GYRfHL" +
		"jY2uyQqXxdyRThQkE/9LpQA=")
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string][]byte{"bzip2": bzip2, "plain": []byte(line)}
	for name, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
	} {
		var b bytes.Buffer
		w, err := open(&b)
		if err == nil {
			_, err = io.WriteString(w, line)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(name, err)
		}
		logs[name] = b.Bytes()
	}
	for name, log := range logs {
		rep, err := replay.Run(t.Context(), replay.Config{}, replay.Source{Name: name, Reader: bytes.NewReader(log)})
		if err != nil || rep.Requests != 1 || rep.Sources[0].Format != accesslog.Events {
			t.Errorf("%s: %v, %+v", name, err, rep)
		}
	}
}
