package decisionapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func TestDecode_RejectsWrongTexts(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                                    `byte 0: must be a check`,
		` nul`:                                `byte 1: must be a check`,
		"\x00":                                `byte 0: must be a check`,
		`{"uri":"/"} x`:                       `byte 12: text after the end`,
		"{\"uri\":\"/\"}\x00":                 `byte 11: text after the end`,
		`{}`:                                  `field "uri" is missing or empty`,
		`{"uri":""}`:                          `field "uri" is missing or empty`,
		`{"uri":"/","colour":1}`:              `byte 20: unknown field "colour"`,
		`{"URI":"/"}`:                         `unknown field "URI"`,
		`{"uri":"/","uri":"/b"}`:              `field "uri" is there twice`,
		`{"uri":null}`:                        `uri must be a string`,
		`{"uri":"/","cost":-1}`:               `field "cost" must be a whole number in 0..4294967295`,
		`{"uri":"/","cost":1.5}`:              `field "cost"`,
		`{"uri":"/","cost":01}`:               `field "cost"`,
		`{"uri":"/","cost":"1"}`:              `field "cost"`,
		`{"uri":"/","cost":9007199254740992}`: `field "cost"`,
		`{"uri":"/","cost":99999999999999999999999}`: `field "cost"`,
		`{"uri":"/","headers":[]}`:                   `must be an object`,
		`{"uri":"/","headers":{"a":1}}`:              `a value of "headers" must be a string`,
		`{"uri":"/","headers":{"a":["b",[]]}}`:       `a value of "headers" must be a string`,
		`{"uri":"/","headers":{"a":["b"}}`:           `must be a comma or ']'`,
		`{"uri":"/","headers":{"a" "b"}}`:            `must be a colon`,
		`{"uri":"/",}`:                               `the name of a field must be a string`,
		`{"uri":"/"`:                                 `must be a comma or '}'`,
		`{"uri":"/`:                                  `uri has no end`,
		"{\"uri\":\"\n\"}":                           `uri has a control character`,
		"{\"uri\":\"\\n\t\"}":                        `uri has a control character`,
		"{\"uri\":\"\xff\"}":                         `uri is not UTF-8`,
		"{\"uri\":\"\\n\xff\"}":                      `uri is not UTF-8`,
		`{"uri":"\ud800"}`:                           `uri has a bad escape`,
		`{"uri":"\ud800\u0041"}`:                     `uri has a bad escape`,
		`{"uri":"\x"}`:                               `uri has a bad escape`,
		`{"uri":"\u12`:                               `uri has a bad escape`,
		`{"uri":"\`:                                  `uri has a bad escape`,
		`{"uri":"\uzzzz\n"}`:                         `uri has a bad escape`,
		`{"uri":"\udc00"}`:                           `uri has a bad escape`,
		`[{"uri":"/"},{}]`:                           `check 1: byte 15: field "uri" is missing`,
		`[{"uri":"/"}`:                               `must be a comma or ']'`,
		`[{"uri":"/"},]`:                             `check 1: byte 13: must be an object`,
		`[[]]`:                                       `check 0: byte 1: must be an object`,
		`[{"uri":"/"}` + strings.Repeat(`,{"uri":"/"}`, maxBatch) + `]`: `more than 1000 checks`,
		`{"` + strings.Repeat("x", 1000) + `":1}`:                       `unknown field "` + strings.Repeat("x", 64) + `…"`,
	} {
		d := decoder{s: body}
		if _, err := d.decode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", body, err, want)
		}
	}
}

func TestDecode_ReadsEscapedStrings(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`/plain`: "/plain", `/ü中`: "/ü中", `\/a\\b\"c`: `/a\b"c`, `\b\f\n\r\t`: "\b\f\n\r\t",
		`\u0041\u00fc\u4E2D`: "Aü中", `x\ud83d\ude00y`: "x😀y",
	} {
		d := decoder{s: `{"uri":"` + in + `"}`}
		if _, err := d.decode(); err != nil || d.checks[0].uri != want {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// oracle is a check as encoding/json decodes it.
type oracle struct {
	Method  *string           `json:"method"`
	URI     string            `json:"uri"`
	Host    string            `json:"host"`
	IP      string            `json:"ip"`
	Headers map[string]string `json:"headers"`
	Cost    int64             `json:"cost"`
}

// encoding/json accepts every text that this decoder accepts, and decodes it to the same check.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"method":"GET","uri":"/topic?id=42","host":"a","ip":"1.2.3.4","headers":{"User-Agent":"bot"},"cost":2}`,
		`[{"uri":"\/\ud83d\ude00"}, {"uri":"/b","headers":{}}]`, `[]`, `{"uri":1}`, `[{"uri":"/"},`,
		"{\"uri\":\"\xff\"}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := decoder{s: s}
		batch, err := d.decode()
		if err != nil {
			return
		}
		var want []oracle
		if batch {
			err = json.Unmarshal([]byte(s), &want)
		} else {
			want = make([]oracle, 1)
			err = json.Unmarshal([]byte(s), &want[0])
		}
		if err != nil || len(want) != len(d.checks) {
			t.Fatalf("%q: %v, %d checks, want %d", s, err, len(d.checks), len(want))
		}
		for i, c := range d.checks {
			same(t, c, d.pairs[c.from:c.to], want[i])
		}
	})
}

func same(t *testing.T, c check, pairs httplimit.Headers, o oracle) {
	method := "GET"
	if o.Method != nil {
		method = *o.Method
	}
	headers := map[string]string{}
	for _, p := range pairs {
		headers[p.Name] = p.Value
	}
	if c.method != method || c.uri != o.URI || c.host != o.Host || c.ip != o.IP || c.cost != o.Cost ||
		!slices.Equal(slices.Sorted(maps.Keys(headers)), slices.Sorted(maps.Keys(o.Headers))) {
		t.Fatalf("%+v %v, want %+v", c, pairs, o)
	}
}

func TestDecode_ReadsEachLineOfAHeader(t *testing.T) {
	t.Parallel()
	d := decoder{s: `{"uri":"/","headers":{"a":["b","c"],"d":[],"e":["f"],"a":"g"}}`}
	_, err := d.decode()
	want := httplimit.Headers{{Name: "a", Value: "b"}, {Name: "a", Value: "c"}, {Name: "e", Value: "f"},
		{Name: "a", Value: "g"}}
	if err != nil || !slices.Equal(d.pairs, want) {
		t.Errorf("%v %v", d.pairs, err)
	}
}

func TestHeaders_GetIgnoresCase(t *testing.T) {
	t.Parallel()
	h := httplimit.Headers{{Name: "user-AGENT", Value: "bot"}, {Name: "User-Agent", Value: "second"}}
	if h.Get("User-Agent") != "bot" || h.Get("Accept") != "" {
		t.Error(h)
	}
}
