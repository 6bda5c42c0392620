// Package others runs public suites of other authors on the product: their tests, vectors, linters and checkers. Each
// is downloaded from its registry with a pinned version, by go.mod or by pip, and nothing of it is copied.
//
//	make others                                    every suite in full, into bin/others.json
//	cd test/others && go test -run H2spec -v .     one suite, shorter
//	HOTPARAM_SEED=17 go test -run Redis -v .       the same random cases again
//
// A suite is a test function here, and a case of it is a name. A case passes, or differences.txt has a line with the
// reason why it need not; a line without such a case fails. A table of a test file is parsed in the cache of modules,
// and the author's own program has to answer as its table states.
//
// It is a module of its own, so that no other module has its dependencies.
package others
