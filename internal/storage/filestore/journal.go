package filestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
)

const (
	// minJournal is the size in bytes up to which a journal grows beside a file that is smaller.
	minJournal = 64 << 10
	sumLen     = 8  // hexadecimal digits of a line's checksum
	genLen     = 16 // hexadecimal digits of a generation
)

// castagnoli is the polynomial of the checksums, for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journaledFile is a file that is replaced as a whole from time to time, and a journal of the changes since, so that
// the cost of a change does not grow with the file. A line of the journal is
//
//	checksum of the rest, generation of the file, change as JSON
//
// The generation is a digest of the file, so that a change is never applied to another file: neither to a file that a
// person or an older program wrote, nor to the next file if a crash left the journal of the last one.
//
// A line that is not complete was never answered. It is the last one, because after an error the next change replaces
// the file. A journaledFile is not safe for concurrent use.
type journaledFile struct {
	disk          disk
	name, journal string
	min           int    // minJournal, or less in tests
	generation    string // of the file on the disk, or "" if the next change has to replace the file
	size, bytes   int    // of the file and of the journal
	// stale means that the files on the disk may differ from generation and bytes, or that the journal has lines that
	// are not of this generation. The next change replaces the file.
	stale bool
}

func newJournaledFile(d disk, name, journal string) journaledFile {
	return journaledFile{disk: d, name: name, journal: journal, min: minJournal}
}

// journal holds the lines of a journal: the changes of the file, the changes of other generations, and whether the last
// line is incomplete.
type journal struct {
	changes, foreign [][]byte
	torn             bool
}

// damagedLine is the error of a journal with an unreadable line before others.
type damagedLine struct {
	path string
	line int
}

func (e *damagedLine) Error() string {
	return fmt.Sprintf("filestore: %s line %d is damaged", e.path, e.line)
}

// read returns the file and its journal, or fs.ErrNotExist if there is no file. With a damagedLine, it also returns the
// changes before that line.
func (f *journaledFile) read() (data []byte, j journal, err error) {
	data, noFile := f.disk.read(f.name)
	switch {
	case noFile == nil:
		f.generation, f.size = generationOf(data), len(data)
	case !errors.Is(noFile, fs.ErrNotExist):
		return nil, j, noFile
	}
	text, err := f.disk.read(f.journal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, j, err
	}
	f.bytes = len(text)
	j, damaged := parseJournal(text, f.generation)
	f.stale = j.torn || len(j.foreign) > 0 || damaged > 0
	if damaged > 0 {
		return data, j, &damagedLine{f.disk.pathOf(f.journal), damaged}
	}
	return data, j, noFile
}

// hasRoom reports whether a change of n bytes can be added to the journal. It cannot if the journal would outgrow the
// file, so that the file is written once in as many bytes of changes.
func (f *journaledFile) hasRoom(n int) bool {
	most := min(max(f.min, f.size), maxFile)
	return f.generation != "" && !f.stale && f.bytes+n+sumLen+genLen+3 <= most
}

// hasJournal reports whether there is a journal to merge into the file. A file that is missing stays missing until the
// next change, so that each start reports it.
func (f *journaledFile) hasJournal() bool { return f.size > 0 && (f.bytes > 0 || f.stale) }

// add adds a change to the journal, which must have room for it.
func (f *journaledFile) add(change []byte) error {
	line := journalLine(f.generation, change)
	if err := f.disk.add(f.journal, line); err != nil {
		// A part of the line may be there, or all of it. Cutting it off is best effort: while it is there, a restart
		// may take the change that failed for one that was made.
		_ = f.disk.truncate(f.journal, f.bytes)
		f.stale = true
		return err
	}
	f.bytes += len(line)
	return nil
}

// replace replaces the file, and begins its journal again.
func (f *journaledFile) replace(data []byte) error {
	if err := f.disk.replace(f.name, data); err != nil {
		f.stale = true // either file may be there
		return err
	}
	f.generation, f.size = generationOf(data), len(data)
	// The file holds everything, so a journal that cannot be removed is no error of the change: its lines are of
	// another generation, and the next change tries again.
	f.stale = f.disk.truncate(f.journal, 0) != nil
	if !f.stale {
		f.bytes = 0
	}
	return nil
}

func generationOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:genLen/2])
}

func journalLine(generation string, change []byte) []byte {
	rest := generation + " " + string(change)
	return fmt.Appendf(nil, "%0*x %s\n", sumLen, crc32.Checksum([]byte(rest), castagnoli), rest)
}

// parseJournal returns the lines of a journal up to a damaged line, and the number of that line from 1, or 0 if no line
// is damaged. A damaged last line is torn instead.
func parseJournal(text []byte, generation string) (j journal, damaged int) {
	for n := 1; len(text) > 0; n++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		of, change, ok := parseJournalLine(line)
		switch {
		case len(rest) == 0 && (!ok || !ended):
			j.torn = true
		case !ok:
			return j, n
		case of == generation:
			j.changes = append(j.changes, change)
		default:
			j.foreign = append(j.foreign, change)
		}
		text = rest
	}
	return j, 0
}

func parseJournalLine(line []byte) (generation string, change []byte, ok bool) {
	sum, rest, _ := bytes.Cut(line, []byte(" "))
	if string(sum) != fmt.Sprintf("%0*x", sumLen, crc32.Checksum(rest, castagnoli)) {
		return "", nil, false
	}
	of, change, ok := bytes.Cut(rest, []byte(" "))
	return string(of), change, ok
}
