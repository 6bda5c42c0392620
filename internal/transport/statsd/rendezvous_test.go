package statsd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/canon"
)

func mustRendezvous(t interface{ Fatal(args ...any) }, servers ...string) (rendezvous, []string) {
	slices.Sort(servers)
	r, err := newRendezvous(servers)
	if err != nil {
		t.Fatal(err)
	}
	return r, servers
}

// The hash equals the hash of docs/protocol.md, so that other senders can compute it.
func TestRendezvous_HashIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	r, servers := mustRendezvous(t, "stats-1:8125", "stats-2:8125", "stats-3:8125")
	name := "hotparam.topic.hot_param.id=42"
	if h, g := canon.FNV1a(name), canon.FNV1a("stats-1:8125"); h != 0xd7980e17c8e24b5f || g != 0x6078ca3e086cc3b6 ||
		mix(h^g) != 0xd039e995f1a677aa {
		t.Errorf("name %#x, server %#x, bid %#x", h, g, mix(h^g))
	}
	doc, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "<!-- rendezvous -->\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 4 {
		t.Fatalf("no table of names in docs/protocol.md: %q", table)
	}
	for _, row := range rows[2:] {
		cells := strings.Split(row, "`")
		if len(cells) != 5 || servers[r.serverOf([]byte(cells[1]))] != cells[3] {
			t.Errorf("docs/protocol.md says %s", row)
		}
	}
}

func TestRendezvous_SharesAreEven(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 8, 31} {
		var servers []string
		for i := range n {
			servers = append(servers, fmt.Sprintf("10.0.0.%d:8125", i))
		}
		r, _ := mustRendezvous(t, servers...)
		shares := make([]int, n)
		const names = 40000
		for i := range names {
			shares[r.serverOf(fmt.Appendf(nil, "hotparam.topic.hot_param.id=%d", i))]++
		}
		for i, s := range shares {
			if s < names/n*85/100 || s > names/n*115/100 {
				t.Errorf("server %d of %d has %d of %d names", i, n, s, names)
			}
		}
	}
}

// A new server takes only its own names, a removed server leaves only its former names, and the order of the list does
// not matter.
func TestRendezvous_MovesOnlyNamesOfTheChangedServer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		servers := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9.-]{1,12}:[0-9]{1,5}`), 2, 9, rapid.ID).
			Draw(t, "servers")
		comes := servers[0]
		shuffled := rapid.Permutation(servers).Draw(t, "order")
		before, old := mustRendezvous(t, slices.Clone(servers[1:])...)
		after, all := mustRendezvous(t, shuffled...)
		moved := 0
		const names = 2000
		salt := rapid.StringMatching(`[a-z0-9=_.-]{0,20}`).Draw(t, "salt")
		for i := range names {
			name := fmt.Appendf(nil, "p.%s.hot_param.%d", salt, i)
			from, to := old[before.serverOf(name)], all[after.serverOf(name)]
			if from == to {
				continue
			}
			if moved++; to != comes {
				t.Fatalf("%s moved from %s to %s when %s came", name, from, to, comes)
			}
		}
		if fair := names / len(servers); moved < fair/2 || moved > fair*3/2 {
			t.Fatalf("%d of %d names moved to one of %d servers", moved, names, len(servers))
		}
	})
}

func BenchmarkRing(b *testing.B) {
	r, _ := mustRendezvous(b, "a:1", "b:1", "c:1", "d:1")
	name := []byte("hp.news.topic.hot_param.id=42-lang=en")
	for b.Loop() {
		r.serverOf(name)
	}
}
