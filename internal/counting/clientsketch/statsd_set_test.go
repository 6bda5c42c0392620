package clientsketch

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func members(c *hottype.ClientSketch) [][]byte {
	return bytes.Split(bytes.TrimSuffix(AppendMembers(nil, c), []byte("\n")), []byte("\n"))
}

func TestAppendMembers_WritesSketch(t *testing.T) {
	t.Parallel()
	c := new(hottype.ClientSketch)
	Add(c, hottype.ParseClient("192.0.2.1"), 285)
	Add(c, hottype.ParseClient("2001:db8:0:1::7"), 15)
	want := "seen=300\n5a9150d9\ne8887397\n04c0000201=285\n0620010db800000001=15\n"
	if got := string(AppendMembers(nil, c)); got != want {
		t.Errorf("%s want\n%s", got, want)
	}
	if got := AppendMembers(nil, nil); len(got) != 0 {
		t.Errorf("nobody: %q", got)
	}
}

func TestAppendMembers_AreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawSketch(t, "sketch")
		back := new(hottype.ClientSketch)
		if c.Attributed > 0 {
			for _, text := range rapid.Permutation(members(c)).Draw(t, "order") {
				m, err := ParseMember(text)
				if err != nil || len(text) > MaxMember || bytes.ContainsAny(text, ":|@#\n") {
					t.Fatalf("%q: %v", text, err)
				}
				m.AddTo(back)
			}
		}
		// Equal counters keep the order in which they came.
		for _, sketch := range []*hottype.ClientSketch{c, back} {
			heavy := sketch.Heavy
			sketch.Heavy = nil
			mergeHeavy(sketch, heavy)
		}
		if diff := gocmp.Diff(c, back, same...); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	})
}

func TestParseMember_RejectsOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "=", "seen", "seen=", "seen=0", "seen=01", "seen=-1", "seen=9007199254740993", "Seen=1", "=5",
		"0badf00", "0BADF00D", "0badf00dd", "0badf00g", "04c0000201", "04c0000201=", "04c0000201=0",
		"04c00002=1", "05c0000201=1", "00=1", "0620010db8000000=1", "04C0000201=1", "04c0000201=1=1",
		"00" + strings.Repeat("61", maxName+1) + "=1",
	} {
		if m, err := ParseMember([]byte(text)); !errors.Is(err, errMember) {
			t.Errorf("%q is %+v, %v", text, m, err)
		}
	}
	long := hottype.Client{Name: strings.Repeat("a", 1000)}
	c := new(hottype.ClientSketch)
	Add(c, long, MaxN)
	for _, text := range members(c) {
		if _, err := ParseMember(text); err != nil {
			t.Error(err)
		}
	}
}

// Lost members must not make a client sketch that a later reader rejects.
func TestRepair_MakesSketchSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole, c := drawSketch(t, "sketch"), new(hottype.ClientSketch)
		for _, text := range members(whole) {
			if m, err := ParseMember(text); err == nil && rapid.Bool().Draw(t, "arrives") {
				m.AddTo(c)
			}
		}
		if sound := Repair(c); sound != (c.Attributed > 0) || c.Attributed > whole.Attributed {
			t.Fatalf("%v: %+v of %+v", sound, c, whole)
		}
	})
}

func TestCheck_RejectsUnsoundSketches(t *testing.T) {
	t.Parallel()
	a, b := client(1), client(2)
	for name, c := range map[string]hottype.ClientSketch{
		"nothing seen":       {},
		"too much seen":      {Attributed: MaxN + 1},
		"marks out of order": {Attributed: 9, Sample: []uint32{2, 1}},
		"a mark twice":       {Attributed: 9, Sample: []uint32{1, 1}},
		"too many marks":     {Attributed: 99, Sample: make([]uint32, MaxSample+1)},
		"too many counters":  {Attributed: 99, Heavy: make([]hottype.ClientCount, MaxHeavy+1)},
		"out of order":       {Attributed: 9, Heavy: []hottype.ClientCount{{Client: a, N: 1}, {Client: b, N: 2}}},
		"more than seen":     {Attributed: 2, Heavy: []hottype.ClientCount{{Client: a, N: 2}, {Client: b, N: 1}}},
		"a client twice":     {Attributed: 9, Heavy: []hottype.ClientCount{{Client: a, N: 2}, {Client: a, N: 1}}},
		"nobody":             {Attributed: 9, Heavy: []hottype.ClientCount{{N: 2}}},
		"a count of nothing": {Attributed: 9, Heavy: []hottype.ClientCount{{Client: a}}},
	} {
		if Check(&c) == nil {
			t.Errorf("%s is sound", name)
		}
	}
	if err := errors.Join(Check(nil), Check(of(5, 4, 3))); err != nil {
		t.Error(err)
	}
}

func FuzzParseMember(f *testing.F) {
	for _, text := range members(of(285, 15)) {
		f.Add(text)
	}
	f.Add([]byte("00757365722d37=3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseMember(text)
		if err != nil {
			return
		}
		c := new(hottype.ClientSketch)
		m.AddTo(c)
		c.Attributed = max(c.Attributed, m.N, int64(len(c.Sample)))
		if err := Check(c); err != nil {
			t.Fatalf("%q makes %+v", text, c)
		}
		if !bytes.Contains(AppendMembers([]byte("\n"), c), append(append([]byte("\n"), text...), '\n')) {
			t.Fatalf("%q is not what %+v is written as", text, c)
		}
	})
}
