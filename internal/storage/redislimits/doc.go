// Package redislimits has the limits that all processes of a namespace share: the
// same algorithms as limit.Memory, as scripts inside Redis, by its clock.
//
//	Limiter.Take ───> batcher ──> one script for many requests
//	Prefetch.Take ──> tokens taken ahead ──> Limiter
//	Windows.Take ───> limit.Memory, sums exchanged ten times a second
//
// All keys of a namespace carry one hash tag; on a cluster the limits lie in shards,
// each with a tag of its own.
package redislimits
