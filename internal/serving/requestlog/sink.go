package requestlog

import (
	"log/slog"
	"os"
	"syscall"
)

// sink is a file that others may move, or the standard output or error. It is not safe for concurrent use.
type sink struct {
	name string // stdout, stderr or a path
	log  *slog.Logger
	file *os.File

	torn    bool // the file ends in the middle of a line
	failing bool // the last line could not be written, which was logged
	moved   bool // the file could not be opened again, which was logged
}

// open opens the file. A pipe without a reader is an error at once. A new file is not for everyone, because it names
// clients.
func (s *sink) open() error {
	file, err := openStandard(s.name)
	if file == nil && err == nil {
		file, err = os.OpenFile(s.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
	}
	if err == nil {
		s.file = file
	}
	return err
}

func (s *sink) isStandard() bool { return s.name == "stdout" || s.name == "stderr" }

// wasMoved reports whether the open file no longer has its name.
func (s *sink) wasMoved() bool {
	if s.isStandard() {
		return false
	}
	opened, err := s.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(s.name)
	return err != nil || !os.SameFile(named, opened)
}

// reopen opens the file of this name. If that fails, lines go on into the file that is open.
func (s *sink) reopen() {
	if s.isStandard() {
		return
	}
	before := s.file
	if err := s.open(); err != nil {
		if !s.moved {
			s.log.Warn("denials: the log cannot be opened again; lines go on into the file that has been open", "file",
				s.name, "err", err)
		}
		s.moved = true
		return
	}
	s.moved = false
	_ = before.Close() // each line was written at once
}

// close closes a file. The standard output and error are for others too.
func (s *sink) close() {
	if !s.isStandard() {
		_ = s.file.Close() // each line was written at once
	}
}

// write writes a line, and reports whether all of it was written. A line after a torn one begins on a line of its own.
func (s *sink) write(line []byte) bool {
	if s.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := s.file.Write(line)
	switch {
	case err == nil:
		if s.torn = false; s.failing {
			s.log.Info("denials: the log is written again", "file", s.name)
		}
	case !s.failing:
		s.log.Error("denials: the log cannot be written; denials have no line until it can", "file", s.name, "err", err)
	}
	if s.failing = err != nil; s.failing && n > 0 {
		s.torn = line[n-1] != '\n'
	}
	return !s.failing
}
