package replay

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// source is one log being read.
type source struct {
	name   string
	raw    *countingReader
	lines  *lines
	format accesslog.Format
	held   []heldLine // read to detect the format, not yet returned
	pos    sourceWatermark
	line   int64 // number of the line returned last
	done   bool
}

type heldLine struct {
	text string
	err  error
}

// open detects what a source is. An error means that it cannot be read at all.
func open(s Source, format accesslog.Format) (*source, error) {
	src := &source{name: s.Name, raw: &countingReader{r: s.Reader}, format: format}
	plain, err := decompress(src.raw)
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w", s.Name, err)
	}
	src.lines = newLines(plain)
	if format != "" {
		return src, nil
	}
	if !src.detect() {
		src.format = accesslog.Combined // the errors of its lines are the most helpful
	}
	return src, nil
}

// compressions that are recognized but not supported, by their first bytes.
const (
	magicGzip  = "\x1f\x8b"
	magicZstd  = "\x28\xb5\x2f\xfd"
	magicXZ    = "\xfd7zXZ\x00"
	magicBzip2 = "BZh"
	byteOrder  = "\xef\xbb\xbf"
)

// decompress recognizes gzip by its first bytes and skips a byte order mark.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading: %w", err)
	}
	switch begins := string(head); {
	case strings.HasPrefix(begins, magicGzip):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("reading gzip: %w", err)
		}
		return z, nil
	case strings.HasPrefix(begins, magicZstd), strings.HasPrefix(begins, magicXZ),
		strings.HasPrefix(begins, magicBzip2):
		return nil, errors.New("compressed other than with gzip: decompress it and give it on standard input")
	case strings.HasPrefix(begins, byteOrder):
		_, err = b.Discard(len(byteOrder))
		return b, err
	}
	return b, nil
}

// Detection reads this many lines that are not comments, within so many bytes.
const (
	detectLines = 100
	detectBytes = 1 << 20
)

// detect finds the format and holds the lines it read. It returns false if none parses.
func (s *source) detect() bool {
	var sample []string
	for size := 0; len(sample) < detectLines && size < detectBytes; {
		text, err := s.lines.next()
		size += len(text) + 1
		s.held = append(s.held, heldLine{text, err})
		if err == nil && text != "" && text[0] != '#' {
			sample = append(sample, text)
		}
		if ended(err) {
			break
		}
	}
	var ok bool
	s.format, ok = accesslog.Detect(sample)
	return ok || len(sample) == 0
}

// ended reports whether an error of lines.next is the end of the stream.
func ended(err error) bool {
	return err != nil && !errors.Is(err, errLong) && !errors.Is(err, errCut)
}

// next returns the next line as lines.next does.
func (s *source) next() (text string, err error) {
	if len(s.held) > 0 {
		text, err = s.held[0].text, s.held[0].err
		s.held = s.held[1:]
	} else {
		text, err = s.lines.next()
	}
	if ended(err) {
		s.done = true
		return "", err
	}
	s.line++
	return text, err
}

// pending reports whether next has a line without reading.
func (s *source) pending() bool { return len(s.held) > 0 || s.lines.pending() }

// countingReader counts the bytes read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
