package simulation

// Second is how many requests were let in during one, of clients that ask for little and of
// those that ask for too much.
type Second struct{ Light, Heavy int }

// The scenario of Course: requests a second, and seconds.
const (
	CourseLimit, CourseFlood, CourseReaders, CourseEach = 100, 500, 50, 2
	CourseFrom, CourseUntil, CourseEnds                 = 10, 30, 40
)

// Course is what becomes, second by second, of CourseReaders clients that ask CourseEach
// times a second at random, and of one that asks CourseFlood times from CourseFrom until
// CourseUntil, on a bucket of CourseLimit with as much burst.
func Course(fair bool) []Second {
	s := bucket(CourseLimit, CourseLimit, CourseEnds, flood(CourseFlood, during(CourseFrom, CourseUntil, poisson)),
		readers(CourseReaders, CourseEach, poisson))
	s.plain = !fair
	w := newWorld(s, 0, 0)
	w.run()
	return w.course[:CourseEnds]
}
