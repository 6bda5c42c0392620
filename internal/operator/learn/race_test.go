//go:build race

package learn_test

const raceDetector = true
