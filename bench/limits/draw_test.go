package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The pictures equal the pictures that the present code makes.
func TestPictures_AreUpToDate(t *testing.T) {
	t.Parallel()
	for _, s := range subjects() {
		want, err := picture(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("..", "..", "docs", "limits", s.file)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not up to date (%v): cd bench && go run ./limits", s.file, err)
		}
	}
}

func TestFairness_IsUpToDate(t *testing.T) {
	t.Parallel()
	if got, err := os.ReadFile(filepath.Join("..", "..", "docs", "limits", fairnessFile)); err != nil || !bytes.Equal(got, fairness()) {
		t.Errorf("%s is not up to date (%v): cd bench && go run ./limits", fairnessFile, err)
	}
}

// No stretch of any curve exceeds the bound that is drawn for it.
func TestCurves_StayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	for _, s := range subjects() {
		for _, wanted := range [][]demand{saturating(), bursts()} {
			c, err := judge(s.spec, wanted)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.admitted) == 0 || len(c.admitted) == c.asked {
				t.Errorf("%s: %d of %d admitted shows nothing", s.file, len(c.admitted), c.asked)
			}
			for i, from := range c.admitted {
				for j, to := range c.admitted[i:] {
					if n := float64(j + 1); n > s.bound(to-from)+1e-9 {
						t.Fatalf("%s: %v in %v from %v on, at most %v", s.file, n, to-from, from, s.bound(to-from))
					}
				}
			}
		}
	}
}
