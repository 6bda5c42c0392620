package main

// floats is a heap of times.
type floats []float64

func (f floats) Len() int           { return len(f) }
func (f floats) Less(a, b int) bool { return f[a] < f[b] }
func (f floats) Swap(a, b int)      { f[a], f[b] = f[b], f[a] }
func (f *floats) Push(x any)        { *f = append(*f, x.(float64)) }
func (f *floats) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}

// requests is a heap of requests.
type requests []request

func (o requests) Len() int           { return len(o) }
func (o requests) Less(a, b int) bool { return o[a].end < o[b].end }
func (o requests) Swap(a, b int)      { o[a], o[b] = o[b], o[a] }
func (o *requests) Push(x any)        { *o = append(*o, x.(request)) }
func (o *requests) Pop() any {
	last := len(*o) - 1
	x := (*o)[last]
	*o = (*o)[:last]
	return x
}
