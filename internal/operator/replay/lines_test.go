package replay

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func readAll(r io.Reader) []string {
	var got []string
	for l := newLines(r); ; {
		line, err := l.next()
		switch {
		case err == nil:
			got = append(got, line)
		case errors.Is(err, errLong), errors.Is(err, errCut):
			got = append(got, err.Error())
		default:
			return append(got, err.Error())
		}
	}
}

func TestLines_AreCutAtLineEnds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	fits := strings.Repeat("x", maxLine-1)
	tests := []struct {
		text string
		want []string
	}{
		{"", []string{"EOF"}},
		{"\n", []string{"", "EOF"}},
		{"a\r\nb", []string{"a", "b", "EOF"}},
		{"a\n\nb\n", []string{"a", "", "b", "EOF"}},
		{"a\n" + long + "\nb\n", []string{"a", errLong.Error(), "b", "EOF"}},
		{long, []string{errLong.Error(), "EOF"}},
		{fits + "\n" + fits + "\n", []string{fits, fits, "EOF"}},
	}
	for _, tt := range tests {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.text), "half": iotest.HalfReader(strings.NewReader(tt.text)),
			"data with EOF": iotest.DataErrReader(strings.NewReader(tt.text)),
		} {
			if diff := cmp.Diff(tt.want, readAll(r)); diff != "" {
				t.Errorf("%.20q %s: (-want +got) %.300s", tt.text, name, diff)
			}
		}
	}
}

func TestLines_ReportStreamErrors(t *testing.T) {
	t.Parallel()
	r := io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if diff := cmp.Diff([]string{"a", errCut.Error(), "unexpected EOF"}, readAll(r)); diff != "" {
		t.Error(diff)
	}
	if got := readAll(stuck{}); got[0] != io.ErrNoProgress.Error() {
		t.Errorf("a reader that gives nothing: %q", got)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestLines_EqualSplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.StringMatching(`[a-z ]{0,40}`)).Draw(t, "lines")
		got := readAll(iotest.OneByteReader(strings.NewReader(strings.Join(append(want, ""), "\n"))))
		if diff := cmp.Diff(append(want, "EOF"), got); diff != "" {
			t.Fatal(diff)
		}
	})
}
