package visitorpass_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// passesAt returns the Passes of a namespace that have a secret for the day of a time.
func passesAt(namespace string, t time.Time) *visitorpass.Passes {
	p := visitorpass.New(namespace)
	p.SetSecret(visitorpass.Day(t), secretNumber(1))
	return p
}

func secretNumber(n byte) (s visitorpass.Secret) {
	for i := range s {
		s[i] = n
	}
	return s
}

func hasPass(p *visitorpass.Passes, now time.Time, cookies, client string) bool {
	_, ok := p.Age(now, cookies, netip.MustParseAddr(client))
	return ok
}

// TestPasses_HaveFixedForm holds names, bytes and signatures to the form that other limiters of a namespace expect.
func TestPasses_HaveFixedForm(t *testing.T) {
	t.Parallel()
	p := passesAt("shop", noon)
	for client, want := range map[string]string{
		"192.0.2.7":         "hotparam_739c=awwTwAe2l28cG7O6iKBl8NIXx_8",
		"::ffff:192.0.2.99": "hotparam_739c=awwTwAe2l28cG7O6iKBl8NIXx_8",
		"2001:db8:1:2::3":   "hotparam_9c76=awwTwDqXJxug9TNNsaFITLazTUM",
	} {
		if got := p.Issue(noon, netip.MustParseAddr(client)); got != want {
			t.Errorf("%s: %q, want %q", client, got, want)
		}
	}
	if got, want := p.Grant(noon, "member"), "hotparam_class=member.awwTwHcdpZMitXi1Hpdq3cYg3V4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPasses_CountForTheirNetworkAndLife issues passes at random times and holds them to the limits of time, network
// and namespace.
func TestPasses_CountForTheirNetworkAndLife(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		issued := noon.Add(time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "issued")))
		client := drawClient(t, "client")
		p := passesAt("shop", issued)
		pass := p.Issue(issued, client)
		age := time.Duration(rapid.OneOf(rapid.Int64Range(-3e9, 3e9),
			rapid.Int64Range(0, int64(25*time.Hour))).Draw(t, "age"))
		other := drawClient(t, "other")
		sinceSecond := issued.Add(age).Sub(issued.Truncate(time.Second))
		want := networkOf(client) == networkOf(other) && sinceSecond >= -2*time.Second && sinceSecond < visitorpass.Life
		got, ok := p.Age(issued.Add(age), pass, other)
		if ok != want || ok && got != max(sinceSecond, 0) || !ok && got != 0 {
			t.Fatalf("%s at %v: %v, %v, want %v, %v", pass, age, got, ok, sinceSecond, want)
		}
		if _, ok := passesAt("mail", issued).Age(issued, pass, client); ok {
			t.Fatal("a pass of another namespace was recognised")
		}
		if _, ok := p.Granted(issued, pass); ok {
			t.Fatal("a visitor pass was recognised as one of a class")
		}
	})
}

func drawClient(t *rapid.T, name string) netip.Addr {
	return netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.255", "192.0.3.1", "::ffff:192.0.2.3",
		"2001:db8:1::1", "2001:db8:1:ffff::1", "2001:db8:2::1", "fe80::1%eth0", "::192.0.2.1"}).Draw(t, name))
}

func networkOf(a netip.Addr) netip.Prefix {
	if a = a.Unmap(); a.Is4() {
		return netip.PrefixFrom(a, 24).Masked()
	}
	return netip.PrefixFrom(a.WithZone(""), 48).Masked()
}

// TestPasses_CannotBeChanged changes one byte of a pass to any other.
func TestPasses_CannotBeChanged(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	p := passesAt("shop", noon)
	visit, class := p.Issue(noon, client), p.Grant(noon, "member")
	rapid.Check(t, func(t *rapid.T) {
		pass := rapid.SampledFrom([]string{visit, class}).Draw(t, "pass")
		changed := []byte(pass)
		changed[rapid.IntRange(0, len(pass)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		if string(changed) == pass || strings.HasPrefix(string(changed), pass+";") {
			t.Skip()
		}
		if age, ok := p.Age(noon, string(changed), client); ok {
			t.Fatalf("%q has the age %v", changed, age)
		}
		if name, ok := p.Granted(noon, string(changed)); ok {
			t.Fatalf("%q is of class %q", changed, name)
		}
	})
}

func TestPasses_WithoutSecretAreNone(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	pass, class := passesAt("", noon).Issue(noon, client), passesAt("", noon).Grant(noon, "member")
	for name, p := range map[string]*visitorpass.Passes{"nil": nil, "new": visitorpass.New(""),
		"of another day": passesAt("", noon.AddDate(0, 0, 1))} {
		age, aged := p.Age(noon, pass, client)
		_, granted := p.Granted(noon, class)
		if p.Issue(noon, client) != "" || p.Grant(noon, "member") != "" || age != 0 || aged || granted {
			t.Errorf("%s: %q %q %v %v", name, p.Issue(noon, client), p.Grant(noon, "member"), aged, granted)
		}
	}
	if p := passesAt("", noon); p.Issue(noon, netip.Addr{}) != "" || p.Grant(noon, "") != "" {
		t.Error("a pass was issued to nobody")
	}
}

// TestAge_IsZeroWithoutAPass reads cookies that hold no pass, or a pass that is not recognised.
func TestAge_IsZeroWithoutAPass(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	p := passesAt("", noon)
	pass := p.Issue(noon, client)
	for cookies, now := range map[string]time.Time{"": noon, pass: noon.Add(visitorpass.Life),
		pass[:len(pass)-1] + "!": noon, pass[:len(pass)-1]: noon, p.Issue(noon.Add(3*time.Second), client): noon} {
		if age, ok := p.Age(now, cookies, client); age != 0 || ok {
			t.Errorf("%q: %v, %v", cookies, age, ok)
		}
	}
}

// TestPasses_AreFoundInCookies places a pass among other cookies.
func TestPasses_AreFoundInCookies(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	p := passesAt("", noon)
	pass, member := p.Issue(noon, client), p.Grant(noon, "member")
	name, _, _ := strings.Cut(pass, "=")
	for cookies, want := range map[string]bool{
		"%s":                                 true,
		"__Host-%s":                          true,
		"a=b; %s; c=d":                       true,
		"a=b;%s;c=d":                         true,
		"a=b, %s, c=d":                       true,
		"x%s":                                false,
		"x__Host-%s":                         false,
		"%sx":                                false,
		"%s=":                                false,
		"a=%s":                               false,
		name + "=; %s":                       true,
		name + "=x; __Host-%s":               true,
		"__Host-" + name + "=x; %s":          true,
		name + "=x; %s":                      false,
		name + strings.Repeat("x", 1000):     false,
		"":                                   false,
		strings.Repeat("hotparam_", 7000):    false,
		strings.Repeat(name+"=; ", 4000):     false,
		strings.Repeat("a=b; ", 9000) + "%s": true,
	} {
		got := hasPass(p, noon, strings.ReplaceAll(cookies, "%s", pass), "192.0.2.7")
		ofClass := strings.ReplaceAll(strings.ReplaceAll(cookies, "%s", member), name, "hotparam_class")
		class, granted := p.Granted(noon, ofClass)
		if got != want || granted != want || granted && class != "member" {
			t.Errorf("%.50s: %v, %v %s, want %v", cookies, got, granted, class, want)
		}
	}
}

func TestGranted_CountsForAnHourFromAnywhere(t *testing.T) {
	t.Parallel()
	p := passesAt("", noon)
	pass := p.Grant(noon, "member")
	for age, want := range map[time.Duration]bool{-3 * time.Second: false, -2 * time.Second: true, 0: true,
		visitorpass.ClassLife - 1: true, visitorpass.ClassLife: false} {
		if class, ok := p.Granted(noon.Add(age), pass); ok != want || ok && class != "member" {
			t.Errorf("%v: %q, %v", age, class, ok)
		}
	}
	if got, ok := p.Granted(noon, strings.Replace(pass, "member.", "admin.", 1)); ok {
		t.Errorf("%q", got)
	}
	longest := strings.Repeat("m", 128)
	if pass := p.Grant(noon, longest+"m"); pass != "" {
		t.Errorf("a class of 129 letters was granted: %q", pass)
	}
	pass = p.Grant(noon, longest)
	if got, ok := p.Granted(noon, pass); !ok || got != longest {
		t.Errorf("of 128 letters: %q, %v", got, ok)
	}
	if got, ok := p.Granted(noon, pass+"x"); ok {
		t.Errorf("%q", got)
	}
}

func TestSetCookie_ProtectsThePass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{visitorpass.SetCookie("a=b", false, visitorpass.Life), "a=b; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"},
		{visitorpass.SetCookie("a=b", true, visitorpass.ClassLife),
			"__Host-a=b; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"},
		{visitorpass.DeleteClass(true),
			"__Host-hotparam_class=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func TestStrip_RemovesPassesOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lines, want []string }{
		{nil, nil},
		{[]string{"a=1;  b=\"2\" "}, []string{"a=1;  b=\"2\" "}},
		{[]string{"hotparam_12ef=x"}, nil},
		{[]string{"__Host-hotparam_12ef=x; hotparam_class="}, nil},
		{[]string{"hotparam_12ef=x;"}, nil},
		{[]string{"a=1; hotparam_12ef=x; b=2"}, []string{"a=1; b=2"}},
		{[]string{"hotparam_12ef=x; a=1;b=2"}, []string{"a=1;b=2"}},
		{[]string{"a=1;hotparam_12ef=x"}, []string{"a=1"}},
		{[]string{"a=hotparam_12ef=x"}, []string{"a=hotparam_12ef=x"}},
		{[]string{"hotparam_12eF=x; hotparam_12ef; hotparam_12ef0=; hotparam_classes=1"},
			[]string{"hotparam_12eF=x; hotparam_12ef; hotparam_12ef0=; hotparam_classes=1"}},
		{[]string{"a=1", "hotparam_class=x", "", "b=2; hotparam_class=y"}, []string{"a=1", "", "b=2"}},
	} {
		header := map[string][]string{"Accept": {"x"}}
		if c.lines != nil {
			header["Cookie"] = c.lines
		}
		stripped := visitorpass.Strip(header)
		got, present := header["Cookie"]
		if !slices.Equal(got, c.want) || present != (c.want != nil) || stripped != !slices.Equal(c.lines, c.want) {
			t.Errorf("%q: %q, %v, want %q", c.lines, got, stripped, c.want)
		}
	}
}
