package visitorpass_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

// TestPasses_OutliveChangeOfSecret holds a day to two secrets, the newer of which signs.
func TestPasses_OutliveChangeOfSecret(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	p := visitorpass.New("")
	today := visitorpass.Day(noon)
	var passes []string
	for n := range byte(3) {
		p.SetSecret(today, secretNumber(n))
		p.SetSecret(today, secretNumber(n)) // read again
		passes = append(passes, p.Issue(noon, client))
	}
	for i, want := range []bool{false, true, true} {
		if got := hasPass(p, noon, passes[i], "192.0.2.7"); got != want {
			t.Errorf("pass %d: %v", i, got)
		}
	}
	for later := range int64(3) {
		p.SetSecret(today+1+later, secretNumber(9))
	}
	if p.HasSecret(today) || !p.HasSecret(today+1) || !p.HasSecret(today+3) {
		t.Error("not the three last days have secrets")
	}
}

// TestPasses_CanBeShared changes secrets while passes are issued and recognised.
func TestPasses_CanBeShared(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	p := passesAt("", noon)
	var all sync.WaitGroup
	for n := range byte(4) {
		all.Go(func() {
			for range 50 {
				pass := p.Issue(noon, client)
				p.SetSecret(visitorpass.Day(noon), secretNumber(n))
				if pass == "" {
					t.Error("no pass")
				}
				hasPass(p, noon, pass, "192.0.2.7") // the secret may have been replaced twice
			}
		})
	}
	all.Wait()
	if !hasPass(p, noon, p.Issue(noon, client), "192.0.2.7") {
		t.Error("a new pass is not recognised")
	}
}

// TestPasses_NeedSecretsOfTheirLives holds the needed secrets to the days of passes that are recognised or that are
// soon issued.
func TestPasses_NeedSecretsOfTheirLives(t *testing.T) {
	t.Parallel()
	p, today := visitorpass.New(""), visitorpass.Day(noon)
	p.SetSecret(today, secretNumber(1))
	for hour, want := range map[time.Duration][]visitorpass.DaySecret{
		0:                {{Day: today - 1}, {Day: today, Secret: secretNumber(1)}},
		11*time.Hour - 1: {{Day: today - 1}, {Day: today, Secret: secretNumber(1)}},
		11 * time.Hour:   {{Day: today - 1}, {Day: today, Secret: secretNumber(1)}, {Day: today + 1}},
		12 * time.Hour:   {{Day: today, Secret: secretNumber(1)}, {Day: today + 1}},
	} {
		if got := p.NeededSecrets(noon.Add(hour)); !slices.Equal(got, want) {
			t.Errorf("%v: days %v, want %v", hour, got, want)
		}
	}
	if end := visitorpass.EndOfPasses(today); !end.Equal(noon.Add(36 * time.Hour)) {
		t.Error(end)
	}
}

func TestSecret_IsNotPrinted(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"%v", "%+v", "%s", "%x", "%q"} {
		got := fmt.Sprintf(format, visitorpass.DaySecret{Secret: secretNumber('K')})
		if strings.Contains(got, "KK") || strings.Contains(got, "4b4b") || strings.Contains(got, "75 75") {
			t.Errorf("%s: %s", format, got)
		}
	}
}

func TestParseSecret_ReadsWhatEncodeWrites(t *testing.T) {
	t.Parallel()
	text := secretNumber(7).Encode()
	if s, err := visitorpass.ParseSecret(text); err != nil || s != secretNumber(7) {
		t.Errorf("%q: %v", text, err)
	}
	for _, bad := range []string{"", "x", text + "A", text[4:], visitorpass.Secret{}.Encode()} {
		if s, err := visitorpass.ParseSecret(bad); err == nil || s != (visitorpass.Secret{}) ||
			len(bad) > 1 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
