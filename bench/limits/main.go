package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", filepath.Join("..", "docs", "limits"), "directory of the pictures")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes all pictures.
func write(dir string) error {
	for _, s := range subjects() {
		svg, err := picture(s)
		if err != nil {
			return fmt.Errorf("draw: %s: %w", s.file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, s.file), svg, 0o644); err != nil {
			return fmt.Errorf("draw: %w", err)
		}
	}
	return os.WriteFile(filepath.Join(dir, fairnessFile), fairness(), 0o644)
}
