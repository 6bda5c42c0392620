package replay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/counting/unpack"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// zippedText makes one member of every part. Writing to memory does not fail.
func zippedText(parts ...string) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, p)
		_ = z.Close()
	}
	return b.Bytes()
}

func events(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\tc%d\tGET\t/t?id=%d\n", from+i/10, i%37, i*i%101)
	}
	return b.String()
}

func TestRun_ReadsGzipMembers(t *testing.T) {
	t.Parallel()
	log := events(1e9, 30_000)
	half := strings.LastIndexByte(log[:len(log)/2], '\n') + 1
	whole, err := replay.Run(context.Background(), replay.Config{}, text("", log))
	if err != nil {
		t.Fatal(err)
	}
	z, err := replay.Run(context.Background(), replay.Config{},
		replay.Source{Reader: bytes.NewReader(zippedText(log[:half], log[half:])), Unpack: unpack.Reader})
	if err != nil {
		t.Fatal(err)
	}
	whole.Sources, z.Sources = nil, nil
	if diff := cmp.Diff(whole, z); diff != "" {
		t.Error(diff)
	}
}

func TestRun_ReportsLinesOfTruncatedGzip(t *testing.T) {
	t.Parallel()
	packed := zippedText(events(1e9, 30_000))
	rep, err := replay.Run(context.Background(), replay.Config{},
		replay.Source{Name: "cut.gz", Reader: bytes.NewReader(packed[:len(packed)/2]), Unpack: unpack.Reader},
		text("whole", events(1e9, 10)))
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "cut.gz") {
		t.Errorf("error is %v", err)
	}
	if rep.Requests < 10_000 || rep.Requests > 20_000 || rep.Malformed > 1 || rep.Sources[0].Error == "" ||
		rep.Sources[1].Error != "" {
		t.Errorf("%d requests, %d malformed, sources %+v", rep.Requests, rep.Malformed, rep.Sources)
	}
}

func TestRun_ReportsUnreadableSources(t *testing.T) {
	t.Parallel()
	rep, err := replay.Run(context.Background(), replay.Config{},
		text("a.zst", "\x28\xb5\x2f\xfd...."), text("b.gz", "\x1f\x8b\x00"), text("c", events(1e9, 10)),
		text("empty", ""))
	if err == nil || !strings.Contains(err.Error(), "a.zst: reading") ||
		!strings.Contains(err.Error(), "b.gz: reading gzip") {
		t.Errorf("error is %v", err)
	}
	if rep.Requests != 10 {
		t.Errorf("%d requests", rep.Requests)
	}
}

func TestRun_CountsAndShowsBrokenLines(t *testing.T) {
	t.Parallel()
	log := "# comment\n\n" + events(1e9, 3) + "nonsense\n" + strings.Repeat("x", 1<<20) + "\n" +
		"\x00\x1b[2J\n" + events(1e9+1, 3) + "1e9\tc\tGET\t/"
	rep, err := replay.Run(context.Background(), replay.Config{}, text("log", log))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Requests != 6 || rep.Malformed != 4 || rep.Lines != 10 || rep.Sources[0].Lines != 12 {
		t.Errorf("%d requests, %d malformed of %d lines, %d with comments", rep.Requests, rep.Malformed, rep.Lines,
			rep.Sources[0].Lines)
	}
	var numbers []int64
	for _, b := range rep.Broken {
		numbers = append(numbers, b.Line)
	}
	if diff := cmp.Diff([]int64{6, 7, 8, 12}, numbers); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(rep.Broken[1].Reason, "64 KiB") {
		t.Errorf("a line of 1 MiB: %q", rep.Broken[1].Reason)
	}
	var b strings.Builder
	if err := replay.Write(&b, rep, replay.Options{}); err != nil || strings.ContainsAny(b.String(), "\x00\x1b") {
		t.Errorf("%v, written: %q", err, b.String())
	}
}

func TestRun_BearsGarbage(t *testing.T) {
	t.Parallel()
	rep, err := replay.Run(context.Background(), replay.Config{}, text("log", strings.Repeat("garbage\n", 500)))
	if err != nil || rep.Malformed != 500 || rep.Requests != 0 {
		t.Errorf("%v, %+v", err, rep)
	}
}

// Whatever a log holds, nothing panics and every line is in one number.
func FuzzRun(f *testing.F) {
	f.Add("# c\n"+events(1e9, 3)+"x\n", int64(0))
	f.Add(string(zippedText(events(1e9, 3))), int64(300))
	f.Add(`192.0.2.7 - - [17/May/2015:10:05:03.5 +0000] "GET /t?id=%zz HTTP/1.1" 200 1 "-" "bot"`+"\n", int64(1))
	set := parse(f, small)
	f.Fuzz(func(t *testing.T, log string, buffer int64) {
		cfg := replay.Config{Rules: set, MaxKeys: 5, MaxBuffer: max(buffer, 0)}
		rep, err := replay.Run(context.Background(), cfg, text("log", log))
		if rep == nil {
			t.Fatal(err)
		}
		if rep.Lines != rep.Requests+rep.Malformed+rep.Late || rep.Denied.Total() > uint64(rep.Requests) {
			t.Fatalf("%+v", rep)
		}
		if err := replay.Write(io.Discard, rep, replay.Options{Color: true, Width: 1}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRun_CountsLateLines(t *testing.T) {
	t.Parallel()
	log := events(1e9, 30_000) + events(1e9, 7) // the last ones are 50 minutes late
	rep, err := replay.Run(context.Background(), replay.Config{}, text("log", log))
	if err != nil || rep.Late != 7 || rep.Requests != 30_000 || rep.Lines != 30_007 {
		t.Errorf("%v, late %d, requests %d, lines %d", err, rep.Late, rep.Requests, rep.Lines)
	}
	rep, err = replay.Run(context.Background(), replay.Config{Lateness: time.Hour}, text("log", log))
	if err != nil || rep.Late != 0 || rep.Requests != 30_007 {
		t.Errorf("with an hour: %v, late %d, requests %d", err, rep.Late, rep.Requests)
	}
}

func TestRun_KeepsAndReportsBounds(t *testing.T) {
	t.Parallel()
	rep, err := replay.Run(context.Background(), replay.Config{MaxKeys: 10, MaxBuffer: 1 << 12},
		text("log", events(1e9, 10_000)))
	if err != nil || len(rep.Keys) != 10 || len(rep.Clients) != 10 || rep.Requests != 10_000 {
		t.Fatalf("%v, %d keys, %d clients, %d requests", err, len(rep.Keys), len(rep.Clients), rep.Requests)
	}
	kept := rep.Dropped.Keys
	for _, k := range rep.Keys {
		kept += k.Requests
	}
	if kept != 10_000 || rep.Dropped.Clients == 0 || rep.Dropped.EarlySeconds == 0 {
		t.Errorf("%d requests are in a key or dropped, %+v", kept, rep.Dropped)
	}
}
