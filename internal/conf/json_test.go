package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

type server struct {
	Name    string        `name:"name" required:"true"`
	Wait    time.Duration `name:"wait" in:"1s..1m" step:"1s" default:"5s"`
	Share   float64       `name:"share" in:"0..1"`
	Copies  int           `name:"copies" in:"1..9"`
	Mode    string        `name:"mode" words:"on,off"`
	Strict  bool          `name:"strict"`
	Servers []server      `name:"servers"`
}

func readServer(data string) (server, error) {
	var s server
	node, err := JSON("f.json", []byte(data))
	if err != nil {
		return s, err
	}
	v := new(Schema).Decode("f.json", node, &s)
	v.Settle(&s)
	return s, v.Err()
}

func TestJSON_DecodesLikeYAML(t *testing.T) {
	t.Parallel()
	const text = `{"name": "a\/b\u00e9\n", "wait": "10s", "share": 2.5e-1, "copies": 3, "mode": "off", "strict": true}`
	got, err := readServer(strings.ReplaceAll(text, `\n`, ""))
	if err != nil || got.Name != "a/bé" || got.Wait != 10*time.Second || got.Share != 0.25 || got.Copies != 3 ||
		got.Mode != "off" || !got.Strict {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = readServer(`{"name": "a", "servers": [{"name": "b"}]}`); err != nil || got.Servers[0].Name != "b" ||
		got.Servers[0].Wait != 5*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestJSON_ErrorsHaveLineAndColumn(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	for _, c := range []struct {
		text, want string
		column     int
	}{
		{``, "f.json:1: is not JSON: unexpected end", 1},
		{`{"name": "a"`, "f.json:1: is not JSON: unexpected end", 12},
		{"{\"name\":\n  nope}", "f.json:2: is not JSON: invalid character 'o'", 4},
		{`{"name": "a",}`, "f.json:1: is not JSON", 14}, {`{"name": "a"} {}`, "f.json:1: is not JSON", 15},
		{`{'name': 1}`, "f.json:1: is not JSON", 2}, {`{"name": 01}`, "f.json:1: is not JSON", 11},
		{deep, "f.json:1: is nested deeper than 64", maxDepth + 1},
		{strings.Repeat(" ", MaxFile+1), "f.json: has 4194305 bytes", 0},
		{`[]`, "f.json:1: must be a mapping of fields, not a list", 1},
		{`{}`, "f.json:1: name: is missing", 1},
		{`{"name": null}`, "name: must be a string (quote it), not nothing", 10},
		{"{\"name\": \"a\",\n\"n\\u0061me\": \"b\"}", "f.json:2: name: is set twice, first in line 1", 1},
		{"{\n \"name\": \"a\", \"copy\": 1}", "f.json:2: copy: unknown field", 15},
		{"{\n \"name\": 7}", `f.json:2: name: must be a string (quote it), not "7"`, 10},
		{`{"name": "a", "copies": 1.0}`, `copies: must be a whole number, not "1.0"`, 25},
		{`{"name": "a", "copies": 1e0}`, `copies: must be a whole number`, 25},
		{`{"name": "a", "copies": "1"}`, `copies: must be a whole number`, 25},
		{`{"name": "a", "copies": 1` + strings.Repeat("0", 30) + `}`, "is not a whole number between 1 and 9", 25},
		{`{"name": "a", "share": 1e400}`, "share: 1e400 is not above 0", 24},
		{`{"name": "a", "strict": "true"}`, "strict: must be true or false", 25},
		{`{"name": "a", "servers": [{"name": "b"},` + "\n" + `{"mode": "of"}]}`,
			`f.json:2: servers[1].name: is missing`, 1},
	} {
		_, err := readServer(c.text)
		wrong, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(err.Error(), c.want) || wrong.Column != c.column {
			t.Errorf("%.80s: %+v, want %s in column %d", c.text, wrong, c.want, c.column)
		}
	}
}

func TestValidate_NamesFieldOfError(t *testing.T) {
	t.Parallel()
	s := new(Schema)
	Add(s, Of[server]{Check: func(v Value, x *server) {
		v.Validate(func() error { return &FieldError{"mode", errors.New("rules: is off")} })
	}})
	node, err := JSON("f", []byte("{\"name\": \"a\",\n\"mode\": \"off\"}"))
	if err != nil {
		t.Fatal(err)
	}
	var to server
	v := s.Decode("f", node, &to)
	v.Settle(&to)
	if err := v.Err(); err == nil || err.Error() != "f:2: mode: is off" {
		t.Error(err)
	}
}

// FuzzJSON: JSON takes exactly the texts that encoding/json takes, unless they are nested too deep, and makes the same
// values of them. Each node is at the first byte of its value.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, -2.5e3, "x\/\ud800", true, null], "a": {}}`, " \n[\n1e400,0.10,\n{}]",
		`"\u0000"`, `[1 2]`, "{\"é\":\r\n\"\xff\"}", `-0`, `{"a":1,}`,
		`100000000000000000000.0`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		node, err := JSON("f", data)
		if valid := json.Valid(data); (err == nil) != valid {
			if !valid || !strings.Contains(err.Error(), "nested deeper") {
				t.Fatalf("%q: %v", data, err)
			}
		}
		if err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		compare(t, bytes.Split(data, []byte("\n")), node, want)
	})
}

func compare(t *testing.T, lines [][]byte, n *yaml.Node, want any) {
	t.Helper()
	first, ok := byte(0), false
	switch want := want.(type) {
	case nil:
		first, ok = 'n', n.ShortTag() == "!!null"
	case bool:
		first, ok = strconv.FormatBool(want)[0], n.ShortTag() == "!!bool" && n.Value == strconv.FormatBool(want)
	case string:
		first, ok = '"', n.ShortTag() == "!!str" && n.Value == want
	case json.Number:
		a, failA := strconv.ParseFloat(n.Value, 64)
		b, failB := strconv.ParseFloat(want.String(), 64)
		isInt := !strings.ContainsAny(want.String(), ".eE")
		first, ok = want[0], a == b && (failA == nil) == (failB == nil) && (n.ShortTag() == "!!int") == isInt
		if failA == nil && strings.ContainsAny(n.Value, "eE") {
			ok = false
		}
	case []any:
		if first, ok = '[', n.Kind == yaml.SequenceNode && len(n.Content) == len(want); ok {
			for i := range want {
				compare(t, lines, n.Content[i], want[i])
			}
		}
	case map[string]any:
		first, ok = '{', n.Kind == yaml.MappingNode
		last := map[string]*yaml.Node{}
		for i := 0; ok && i < len(n.Content); i += 2 {
			last[n.Content[i].Value] = n.Content[i+1]
		}
		ok = ok && len(last) == len(want)
		for name := range last {
			compare(t, lines, last[name], want[name])
		}
	}
	if !ok || lines[n.Line-1][n.Column-1] != first {
		t.Fatalf("%s %q in line %d, column %d: want %v", n.ShortTag(), n.Value, n.Line, n.Column, want)
	}
}
