// Package clientsketch summarises which clients made the requests of one key: about
// how many different clients there are, and which of them are the heaviest.
// Summaries of different moments and processes merge into one, and each is of
// a fixed size, whatever the traffic.
//
// What enters is clients with their requests ([Add]) or other summaries
// ([Merge]); what leaves is how many clients there are ([Clients]) and what
// would be left of the requests if no client counted for more than so much
// ([Effective]). The last one tells a viral key from a loop: a key asked for a
// thousand times by one client needs no protection from others.
//
// Two parts make a [hottype.ClientSketch]. Sample is a bottom-k (KMV) sample
// (Bar-Yossef et al., "Counting distinct elements in a data stream", 2002):
// the [MaxSample] smallest different hashes; the hash is published (docs/protocol.md)
// and the same everywhere, so the union of two sketches is that of their
// clients. Heavy is a Misra-Gries summary of [MaxHeavy] counters (Agarwal et
// al., "Mergeable summaries", 2012): no client's counter is above its requests,
// and none is below by more than
//
//	(Seen - sum of the counters) / (MaxHeavy + 1)
//
// so a client with more than a ninth of the requests is always among them,
// also after any number of merges.
//
// The hash being public, a client can choose addresses with small sample hashes and
// look like many clients to Clients, which is only shown to people. Effective goes by
// counters, and by the sample hashes only where their number is exact: for that one
// address more is one client more and nothing else.
//
// The package is pure. A sketch that may still be read must not be changed;
// nothing here is safe for concurrent use of one ClientSketch.
package clientsketch
