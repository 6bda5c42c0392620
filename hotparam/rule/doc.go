// Package rule has the rules of a pipeline as Go values: one struct for each concept of the rules file, for
// hotparam.NewRules. What is left zero has the default of the file. The tags of the fields state their names in YAML,
// their bounds and defaults; the file, Go values and the reference in docs/ are all made from them.
//
// The structs only hold what is written. Nothing is checked before NewRules.
package rule
