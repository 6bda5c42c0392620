// Package kafka carries counts over Kafka: a [Producer] for those who count, a
// [Consumer] for those who judge, and between them the record of docs/protocol.md
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
// A partition's state lives with its reader and nowhere else. Who takes one over
// reads the last window of it again, which is the state, counts and numbers of
// records alike; who loses one forgets its keys (ConsumerConfig.Lost) before
// another member has it. So members may come, go and die: no count is in two
// memories, and none is missing for longer than the partition was without a
// reader. docs/adr/0007-the-topic-hands-over.md says why.
//
// Neither side needs a broker to be built or to keep running. While there is
// none the producer keeps the newest counts in bounded memory and drops the
// rest, counted; the consumer tries again.
package kafka
