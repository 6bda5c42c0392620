// Package demo shows the pipeline alive: a small site with a few thousand
// topics, its readers and crawlers, and one topic that goes viral.
//
// The site, the proxy in front of it, counting, detection and limiting are the
// real ones, joined over loopback HTTP. Only the visitors are made up; their
// traffic comes from [Visitors], which hotparam load also points at other targets.
package demo
