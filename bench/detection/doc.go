// Command detection measures how well package detect finds hot keys, compared with an exact count of everything: the
// figures and pictures of RESULTS.md.
//
//	go run ./detection [-seed 1] [-traffic DIR] [-quick]   # measures and writes
//	go run ./detection -draw                              # writes from results.json
//
// Traffic is made from a seed, and time is the traffic's own. The seed of the detector's hash differs each time. If
// counters are enough, that changes nothing; if they are short, it decides which light keys are given up. Then errors
// differ a little from run to run, but the promised bounds do not.
//
// Each stream is measured with several numbers of counters. The program fails if a promise is broken: if a key that has
// the threshold and the known error is not hot in the same tick, or if a key is called hot that is not. Real logs are
// read from -traffic (HOTPARAM_TRAFFIC); without them their rows are left out.
//
// It writes results.json, the pictures and the tables of RESULTS.md beside this file, and the picture that
// docs/detection.md shows. A test compares these files with the files that the present program makes of results.json,
// and measures a small stream again.
package main
