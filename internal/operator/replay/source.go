package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

type source struct {
	name   string
	raw    *countingReader
	lines  *lines
	parser *accesslog.Parser
	held   []heldLine // read by readSample, not yet returned
	pos    sourceWatermark
	line   int64 // number of the line returned last
	done   bool

	refused refusals
}

// refusals counts the malformed lines of a source by their reason.
type refusals map[string]*Refused

// maxReasons bounds the reasons that are counted for a source. The formats have few reasons, so that only a log with
// many lines of #Fields has more.
const maxReasons = 64

func (r *refusals) add(reason string, line int64, text string) {
	if *r == nil {
		*r = refusals{}
	}
	one := (*r)[reason]
	if one == nil {
		if len(*r) >= maxReasons {
			return
		}
		one = &Refused{Reason: reason, Line: line, Example: text}
		(*r)[reason] = one
	}
	one.Lines++
}

// mostFrequent returns the reason of most malformed lines, or nil if there is no malformed line. Of two equally
// frequent reasons it returns the reason that occurred first.
func (r refusals) mostFrequent() (most *Refused) {
	for _, one := range r {
		if most == nil || one.Lines > most.Lines || one.Lines == most.Lines && one.Line < most.Line {
			most = one
		}
	}
	return most
}

type heldLine struct {
	text string
	err  error
}

// open reads the first lines of a source, which show how to read it. An error means that the source cannot be read at
// all.
func open(s Source, cfg accesslog.Config) (*source, error) {
	src := &source{name: s.Name, raw: &countingReader{r: s.Reader}}
	plain, err := io.Reader(src.raw), error(nil)
	if s.Unpack != nil {
		plain, err = s.Unpack(src.raw)
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w", s.Name, err)
	}
	src.lines = newLines(plain)
	src.parser, _, err = accesslog.Open(cfg, src.readSample())
	return src, err
}

// sampleLines and sampleBytes bound the first lines that show how to read a source, and their bytes.
const (
	sampleLines = 100
	sampleBytes = 1 << 20
)

// readSample returns the first lines and holds them until next returns them.
func (s *source) readSample() (sample []string) {
	for size := 0; len(sample) < sampleLines && size < sampleBytes; {
		text, err := s.lines.next()
		size += len(text) + 1
		s.held = append(s.held, heldLine{text, err})
		if err == nil && text != "" {
			sample = append(sample, text)
		}
		if isStreamEnd(err) {
			break
		}
	}
	return sample
}

// isStreamEnd reports whether an error of lines.next is the end of the stream.
func isStreamEnd(err error) bool {
	return err != nil && !errors.Is(err, errLong) && !errors.Is(err, errCut)
}

func (s *source) next() (text string, err error) {
	if len(s.held) > 0 {
		text, err = s.held[0].text, s.held[0].err
		s.held = s.held[1:]
	} else {
		text, err = s.lines.next()
	}
	if isStreamEnd(err) {
		s.done = true
		return "", err
	}
	s.line++
	return text, err
}

// hasBuffered reports whether next has a line without reading.
func (s *source) hasBuffered() bool { return len(s.held) > 0 || s.lines.hasBuffered() }

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// maxLine is the length of the longest line that is read, in bytes. No server accepts a request line this long, so that
// a longer line is not a request.
const maxLine = 64 << 10

var (
	errLong = errors.New("line is longer than 64 KiB")
	errCut  = errors.New("line is cut off where the file could not be read further")
)

// lines cuts a stream into lines without their ends. It reads blocks, and hands out lines as parts of one string per
// block, so that a line costs no allocation.
type lines struct {
	r     io.Reader
	buf   []byte // read after the last block
	block string // the rest of the block
	long  bool   // inside a line that is too long
	err   error  // the error with which the stream ended, or nil before its end
}

func newLines(r io.Reader) *lines { return &lines{r: r, buf: make([]byte, 0, maxLine)} }

// next returns the next line, or io.EOF after the last line. errLong and errCut are each returned in place of one line;
// any other error ends the stream.
func (l *lines) next() (string, error) {
	for l.block == "" {
		if l.err != nil {
			return l.lastLine()
		}
		if err := l.fill(); err != nil {
			return "", err
		}
	}
	line, rest, _ := strings.Cut(l.block, "\n")
	l.block = rest
	return strings.TrimSuffix(line, "\r"), nil
}

// hasBuffered reports whether next has a line without reading.
func (l *lines) hasBuffered() bool { return l.block != "" }

// fill reads until there is a block of whole lines or the stream ends.
func (l *lines) fill() error {
	for idle := 0; l.err == nil; {
		seen := len(l.buf)
		n, err := l.r.Read(l.buf[seen:cap(l.buf)])
		l.buf, l.err = l.buf[:seen+n], err
		if idle++; n > 0 {
			idle = 0
		} else if idle > 100 && err == nil {
			l.err = io.ErrNoProgress
		}
		if l.long {
			if end := bytes.IndexByte(l.buf, '\n'); end >= 0 {
				l.discardFirst(end + 1)
				l.long = false
				l.cutBlock(0)
				return errLong
			}
			l.buf = l.buf[:0]
			continue
		}
		if l.cutBlock(seen) {
			return nil
		}
		if len(l.buf) == cap(l.buf) {
			l.long, l.buf = true, l.buf[:0]
		}
	}
	return nil
}

// cutBlock makes a block of the whole lines in buf, whose first from bytes are known to contain no line end. It returns
// false if buf contains no line end.
func (l *lines) cutBlock(from int) bool {
	end := bytes.LastIndexByte(l.buf[from:], '\n')
	if end < 0 {
		return false
	}
	l.block = string(l.buf[:from+end+1])
	l.discardFirst(from + end + 1)
	return true
}

func (l *lines) discardFirst(n int) { l.buf = l.buf[:copy(l.buf, l.buf[n:])] }

// lastLine returns the bytes after the last line end, then the error that ended the stream.
func (l *lines) lastLine() (string, error) {
	line, long := string(l.buf), l.long
	l.buf, l.long = l.buf[:0], false
	switch {
	case long:
		return "", errLong
	case line == "":
		return "", l.err
	case !errors.Is(l.err, io.EOF):
		return "", errCut
	}
	return strings.TrimSuffix(line, "\r"), nil
}
