package unpack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// openXZ returns a reader of an .xz stream whose blocks have dictionaries of at most maxWindow.
func openXZ(r *bufio.Reader) (io.Reader, error) {
	// The library accepts the size that a block claims, so that it is asked for the minimum.
	return xz.ReaderConfig{DictCap: lzma.MinDictCap}.NewReader(&xzGuard{r: r})
}

// xzGuard forwards an .xz stream and ends it with an error before a header of a block that claims a larger dictionary
// than maxWindow, which the library would allocate at once. All parts of the format begin at multiples of four bytes,
// so that each header is found without parsing the data between them.
type xzGuard struct {
	r    *bufio.Reader
	safe int // number of bytes that may be forwarded
}

func (g *xzGuard) Read(p []byte) (int, error) {
	if g.safe == 0 {
		word, err := g.r.Peek(4)
		if len(word) == 0 {
			return 0, err
		}
		if dict := g.dictionarySize(word); dict > maxWindow {
			return 0, fmt.Errorf("a dictionary of %d MiB is more than %d MiB: compress with xz -9 at most", dict>>20,
				maxWindow>>20)
		}
		g.safe = len(word)
	}
	n, err := g.r.Read(p[:min(len(p), g.safe)])
	g.safe -= n
	return n, err
}

// dictionarySize returns the size of the dictionary that the header of a block claims, or 0 if no header begins with
// word.
func (g *xzGuard) dictionarySize(word []byte) int64 {
	// Its own size, then flags: one filter, and bits that are 0.
	if len(word) < 4 || word[0] == 0 || word[1]&0x3f != 0 {
		return 0
	}
	head, _ := g.r.Peek((int(word[0]) + 1) * 4)
	end := len(head) - 4
	if end < 4 || crc32.ChecksumIEEE(head[:end]) != binary.LittleEndian.Uint32(head[end:]) {
		return 0
	}
	fields := bytes.NewReader(head[2:end])
	for _, sized := range []byte{0x40, 0x80} { // of the block, compressed and not
		if head[1]&sized != 0 {
			_, _ = binary.ReadUvarint(fields)
		}
	}
	// LZMA2 has the number 0x21 and one byte of properties.
	var filter [3]byte
	if _, err := io.ReadFull(fields, filter[:]); err != nil || filter[0] != 0x21 || filter[1] != 1 {
		return 0
	}
	dict, _ := lzma.DecodeDictCap(filter[2])
	return dict
}
