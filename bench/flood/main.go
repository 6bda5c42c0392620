package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// picturePath is the picture that docs/crawlers.md shows, named from bench/.
const picturePath = "../docs/crawlers/flood.svg"

func main() {
	dir := flag.String("dir", "flood", "where results.json and RESULTS.md are")
	seed := flag.Uint64("seed", 1, "of the simulated clients")
	cookies := flag.Bool("cookies", false, "simulate crawlers that keep cookies, for two hours each")
	programs := flag.Bool("programs", false,
		"play six cells with real programs, over HTTP; needs redis-server and nginx")
	only := flag.String("only", "", "with -programs: only the cell of this name, which is not written down")
	logs := flag.String("ordinary", "", "play a day, and the logs of this folder, under the default rules of serve --upstream")
	played := flag.String("show", "", "play the flood for a minute, with real programs, and draw it into this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *played != "":
		err = show(ctx, *played)
	case *programs:
		err = playPrograms(ctx, *dir, *only)
	case *logs != "":
		err = studyOrdinary(*logs)
	case *cookies:
		err = studyCookies(*dir, *seed)
	default:
		err = studyMatrix(*dir, *seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func studyMatrix(dir string, seed uint64) error {
	r, err := readResults(dir)
	if err != nil {
		return err
	}
	r.Matrix = newStudy("go run ./flood", seed)
	list := append(append(quiet(), matrix()...), comparison()...)
	if err := r.Matrix.simulateAll(list, wholeCell); err != nil {
		return err
	}
	if err := drawShow(picturePath, seed); err != nil {
		return err
	}
	return r.write(dir)
}

func studyCookies(dir string, seed uint64) error {
	r, err := readResults(dir)
	if err != nil {
		return err
	}
	r.Cookies = newStudy("go run ./flood -cookies", seed)
	if err := r.Cookies.simulateAll(cookies(), eachPhase); err != nil {
		return err
	}
	return r.write(dir)
}
