// Package parseas describes how the servers and frameworks behind a limiter read a request target.
//
// One resource has many spellings: Express routes /Topic, /topic/ and /topic to one handler, nginx resolves
// /x/../topic, PHP reads topic.id as topic_id. A limit that counts them apart is evaded by spelling. [Traits] describe
// how an upstream reads paths and queries; [Preset] returns the traits of an upstream that has been measured.
//
// The package is pure. docs/evasion.md explains it to an operator.
package parseas
