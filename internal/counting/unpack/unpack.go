// Package unpack reads compressed logs: gzip, zstd, xz and bzip2, recognized by their first bytes, in bounded memory.
// Plain logs pass through it. It is separate from package replay, because a program that replays only its own logs does
// not need the libraries, whose archives have 45 MB.
package unpack

import (
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// byteOrder is the byte order mark of UTF-8.
const byteOrder = "\xef\xbb\xbf"

// compressions holds the supported and the refused compressions, which are recognized by their first bytes.
var compressions = []struct {
	name, begins string
	open         func(*bufio.Reader) (io.Reader, error)
}{
	{"gzip", "\x1f\x8b", func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"zstd", "\x28\xb5\x2f\xfd", func(r *bufio.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	}},
	{"xz", "\xfd7zXZ\x00", openXZ},
	{"bzip2", "BZh", func(r *bufio.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"lz4", "\x04\x22\x4d\x18", refusingOpener("lz4 -dc FILE | hotparam … -")},
	{"snappy", "\xff\x06\x00\x00sN", refusingOpener("snzip -dc FILE | hotparam … -")},
}

// refusingOpener returns the opener of a compression that is recognized and not read.
func refusingOpener(instead string) func(*bufio.Reader) (io.Reader, error) {
	return func(*bufio.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("this compression is not supported: %s", instead)
	}
}

// maxWindow bounds the memory that a compressed log may ask for: zstd writes up to 8 MiB unless told
// otherwise, xz -9 64 MiB.
const maxWindow = 64 << 20

// Reader returns the plain bytes of r, whose compression it recognizes by the first bytes, and skips a byte order mark.
func Reader(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading: %w", err)
	}
	for _, c := range compressions {
		if !strings.HasPrefix(string(head), c.begins) {
			continue
		}
		plain, err := c.open(b)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.name, err)
		}
		return plain, nil
	}
	if strings.HasPrefix(string(head), byteOrder) {
		_, err = b.Discard(len(byteOrder))
		return b, err
	}
	return b, nil
}
