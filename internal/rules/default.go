package rules

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
)

// Default is the set without a configuration file: every path with its whole
// query is a key, hot from 500 requests a second over 5 s, and a hot key is
// limited to 100 a second with a burst of 200.
func Default() *Set {
	r := &Rule{Name: "*", Params: []Param{{Name: "*"}}, AllQuery: true, Hot: defaultCriteria(), Limit: noLimit(),
		Malformed: MalformedLimit}
	r.Hot.Rate = 500
	r.Limit.Set = true
	r.Limit.Spec = limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: time.Second, Burst: 200}
	s := &Set{Namespace: DefaultNamespace, Rules: []*Rule{r}, QueryBounds: canon.DefaultQueryBounds()}
	if err := s.compile(); err != nil {
		panic(err) // the constant above is invalid: a mistake in this file
	}
	return s
}
