// Package decisionapi is how programs that are no Go services ask for a verdict:
//
//	POST /v1/decide  {"method","uri","host","ip","headers":{},"cost":1}
//	            200  {"allowed","reason","rule","key","limit","remaining",
//	                  "retry_after_ms","reset_after_ms","mode"}
//
// or an array of up to 1000 of the first, answered by an array of the second in
// the same order. A decision, allowed or not, is status 200: the status speaks
// of the question, "allowed" of the answer. What cannot be understood is a
// problem document with 400, 405 or 413, and nothing is charged for any part of
// it.
//
// The JSON is read strictly, by a reader made for this one shape. Unknown and
// repeated fields, wrong types, null, text after the value and strings that are
// not UTF-8 are errors that name the field and the byte. "uri" is required and
// is the request target as the client sent it; method is GET and cost is 1 where
// they are missing. "ip" is the client: an address, or any name for one.
//
// The gate has to be one whose verdicts name cold keys too (gate.Config's
// ColdKeys), if answers about them are to have a key.
package decisionapi
