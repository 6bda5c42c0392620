package unpack_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/hotparam/pipeline/internal/counting/unpack"
)

// TestReader_RecognizesCompressions checks that a log is read however it is compressed, without a byte order mark.
func TestReader_RecognizesCompressions(t *testing.T) {
	t.Parallel()
	const line = "1700000000\t192.0.2.1\tGET\t/\n"
	bzip2, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWU/9LpQAAAfeAAQwAAHwoAKABAAgACGgJtI9QgGgC1GYRfHL" +
		"jY2uyQqXxdyRThQkE/9LpQA=")
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string][]byte{"bzip2": bzip2, "plain": []byte(line), "marked": []byte("\xef\xbb\xbf" + line)}
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
		r, err := unpack.Reader(bytes.NewReader(log))
		if err != nil {
			t.Fatal(name, err)
		}
		if text, err := io.ReadAll(r); err != nil || string(text) != line {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
}

// claiming returns an .xz stream of one line whose block claims a dictionary by the code of the format.
func claiming(t *testing.T, code byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	if err == nil {
		_, err = io.WriteString(w, "1700000000\t192.0.2.1\tGET\t/\n")
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	head := b.Bytes()[12:24] // after the header of the stream: size, flags, filter, its properties
	head[4] = code
	binary.LittleEndian.PutUint32(head[8:], crc32.ChecksumIEEE(head[:8]))
	return b.Bytes()
}

// lineCounter counts the ends of lines that are written to it.
type lineCounter int

func (n *lineCounter) Write(p []byte) (int, error) {
	*n += lineCounter(bytes.Count(p, []byte("\n")))
	return len(p), nil
}

// TestReader_BoundsMemory checks that the memory of a compressed log is bounded before it is allocated, for any
// claim in any of its blocks, and for any size of its contents.
func TestReader_BoundsMemory(t *testing.T) {
	zeros := make([]byte, 32<<20)
	bzip2, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWaIgopoBAQHAAMAAAAggADCAKRtoAgGiAQDi7kinChIURBRTQA==")
	if err != nil {
		t.Fatal(err)
	}
	var zipped, zstandard bytes.Buffer
	g := gzip.NewWriter(&zipped)
	z, err := zstd.NewWriter(&zstandard, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{g, z} {
		if _, err = w.Write(zeros); err != nil {
			t.Fatal(err)
		}
		if err = w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const gib, mib64 = 36, 28 // dictionaries of .xz by their codes
	for name, c := range map[string]struct {
		log     []byte
		lines   lineCounter
		refused string
	}{
		"bzip2": {log: bzip2}, "gzip": {log: zipped.Bytes()}, "zstd": {log: zstandard.Bytes()},
		"zstd, window of 1 GiB": {log: []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 20 << 3, 1, 0, 0}, refused: "window"},
		"xz":                    {log: claiming(t, mib64), lines: 1},
		"xz of 1 GiB":           {log: claiming(t, gib), refused: "dictionary of 1024 MiB"},
		"xz, second stream": {log: append(claiming(t, 0), claiming(t, gib)...), lines: 1,
			refused: "dictionary of 1024 MiB"},
		"lz4":    {log: []byte("\x04\x22\x4d\x18rest"), refused: "not supported"},
		"snappy": {log: []byte("\xff\x06\x00\x00sNaPpY"), refused: "not supported"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var lines lineCounter
		r, err := unpack.Reader(bytes.NewReader(c.log))
		if err == nil {
			_, err = io.Copy(&lines, r)
		}
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 160 {
			t.Errorf("%s: %d MiB were allocated", name, took)
		}
		if (err != nil) != (c.refused != "") || !strings.Contains(fmt.Sprint(err), c.refused) || lines != c.lines {
			t.Errorf("%s: %v, %d lines", name, err, lines)
		}
	}
}
