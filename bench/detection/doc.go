// Command detection measures how well package detect finds hot keys, beside an
// exact count of everything: the figures and pictures of RESULTS.md.
//
//	go run ./detection [-seed 1] [-traffic DIR] [-quick]   # measures and writes
//	go run ./detection -draw                              # writes from results.json
//
// Traffic is made from a seed and time is the traffic's own. The seed of the
// detector's hash is another one each time: where counters are enough that
// changes nothing, and where they are short, which light keys are given up. So
// errors differ a little from run to run then, and what was promised of them
// does not.
//
// Measured is at several numbers of counters. The program fails where a promise
// is broken: a key that has the threshold and the known error is not hot in the
// same tick, or one is called hot that is not. Real logs are read from -traffic
// (HOTPARAM_TRAFFIC); without them their rows are left out.
//
// It writes results.json, the pictures and the tables of RESULTS.md beside this file, and
// the picture that docs/detection.md shows. A test compares these with what today's program
// makes of results.json, and measures a small stream again.
package main
