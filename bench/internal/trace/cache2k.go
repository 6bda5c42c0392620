package trace

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
)

// SimulatorArtifact is the artifact of Maven Central that has the traces of cache2k among its resources.
const SimulatorArtifact = "com.github.ben-manes.caffeine:simulator:3.2.2"

// Attribution names the authors of the traces of cache2k, as their licence asks.
const Attribution = `The traces web07 and web12 are "Normalized access trace (HTTP requests) on a product detail ` +
	`page", copyrighted by headissue GmbH, Jens Wilke, under CC BY 4.0, as resources of ` + SimulatorArtifact +
	`. A clock and clients were added.`

// Cache2k returns the keys of a trace of cache2k, "web07" or "web12", in the order of the requests. jar is the file of
// SimulatorArtifact. A trace is a row of 4-byte integers, most significant byte first, as Java reads them.
func Cache2k(jar, name string) ([]int64, error) {
	archive, err := zip.OpenReader(jar)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer archive.Close()
	packed, err := archive.Open("com/github/benmanes/caffeine/cache/simulator/parser/cache2k/" + name + ".trace.xz")
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", jar, err)
	}
	defer packed.Close()
	plain, err := xz.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("trace: %s in %s: %w", name, jar, err)
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		return nil, fmt.Errorf("trace: %s in %s: %w", name, jar, err)
	}
	numbers := make([]int64, 0, len(text)/4)
	for ; len(text) >= 4; text = text[4:] {
		numbers = append(numbers, int64(binary.BigEndian.Uint32(text)))
	}
	return numbers, nil
}
