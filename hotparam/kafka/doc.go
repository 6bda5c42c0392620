// Package kafka carries counts over Kafka: a [Producer] for those who count, a
// [Consumer] for those who judge, and between them the record of docs/wire.md
// and docs/counts.proto.
//
//	tally ──> Producer ── one record for each partition and flush ──> topic
//	                                                                    │
//	aggregator <── Handle <── Consumer (a member of a group) <──────────┘
//
// A key always goes to the same partition, so one member of the group sees all
// of it and may judge alone. Counts carry their own second: a record that comes
// late is late, it makes nothing hot. A record that comes twice is recognised.
//
// Neither side needs a broker to be built or to keep running. While there is
// none the producer keeps the newest counts in bounded memory and drops the
// rest, counted; the consumer tries again.
package kafka
