package decisionapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// maxCost is the greatest cost of a check, the same as Envoy's.
const maxCost = 1<<32 - 1

// check is one check as decoded from the body. Strings without escapes are parts of the body's text.
type check struct {
	method, uri, host, ip string
	cost                  int64
	holds                 bool
	from, to              int // its headers in decoder.pairs
}

// decoder reads checks, an object or an array of them, and nothing else. It does not recurse, so nothing can be nested
// too deeply.
type decoder struct {
	s      string
	i      int // next byte
	checks []check
	pairs  httplimit.Headers
}

// decode reads the whole body. It reports whether it was an array.
func (d *decoder) decode() (batch bool, err error) {
	switch d.peek() {
	case '{':
		err = d.readCheck()
	case '[':
		batch, err = true, d.readArray(d.readBatchCheck)
	default:
		return false, d.errorf("must be a check (an object) or an array of checks")
	}
	if err == nil && d.peek() != 0 {
		err = d.errorf("text after the end")
	}
	return batch, err
}

// readArray reads an array; element reads each of its values.
func (d *decoder) readArray(element func() error) error {
	d.i++
	if d.peek() == ']' {
		d.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if more, err := d.next(']'); !more {
			return err
		}
	}
}

// readBatchCheck reads a check of a batch.
func (d *decoder) readBatchCheck() error {
	if len(d.checks) == maxBatch {
		return d.errorf("more than %d checks", maxBatch)
	}
	if err := d.readCheck(); err != nil {
		return fmt.Errorf("check %d: %w", len(d.checks), err)
	}
	return nil
}

// readCheck reads one check and appends it.
func (d *decoder) readCheck() error {
	c := check{method: "GET", from: len(d.pairs), to: len(d.pairs)}
	var seen uint8
	if err := d.readObject(func(name string) error { return d.readField(&c, name, &seen) }); err != nil {
		return err
	}
	if c.uri == "" {
		return d.errorf(`field "uri" is missing or empty`)
	}
	d.checks = append(d.checks, c)
	return nil
}

// fields are the names of a check's fields. seen has a bit for each that was present.
var fields = []string{"method", "uri", "host", "ip", "cost", "headers", "in_flight"}

func (d *decoder) readField(c *check, name string, seen *uint8) (err error) {
	i := slices.Index(fields, name)
	switch {
	case i < 0:
		return d.errorf("unknown field %q", clipText(name))
	case *seen&(1<<i) != 0:
		return d.errorf("field %q is there twice", name)
	}
	*seen |= 1 << i
	switch name {
	case "method":
		c.method, err = d.readString(name)
	case "uri":
		c.uri, err = d.readString(name)
	case "host":
		c.host, err = d.readString(name)
	case "ip":
		c.ip, err = d.readString(name)
	case "cost":
		c.cost, err = d.readCost()
	case "headers":
		err = d.readHeaders(c)
	case "in_flight":
		c.holds, err = d.readInFlight()
	}
	return err
}

func (d *decoder) readInFlight() (bool, error) {
	d.peek()
	for _, word := range []string{"true", "false"} {
		if strings.HasPrefix(d.s[d.i:], word) {
			d.i += len(word)
			return word == "true", nil
		}
	}
	return false, d.errorf(`field "in_flight" is true or false`)
}

func (d *decoder) readHeaders(c *check) error {
	err := d.readObject(func(name string) error {
		if line := func() error { return d.readHeaderValue(name) }; d.peek() == '[' {
			return d.readArray(line)
		}
		return d.readHeaderValue(name)
	})
	c.to = len(d.pairs)
	return err
}

// readHeaderValue reads one value of a header field.
func (d *decoder) readHeaderValue(name string) error {
	value, err := d.readString(`a value of "headers"`)
	d.pairs = append(d.pairs, httplimit.HeaderField{Name: name, Value: value})
	return err
}

// readObject reads an object; member reads the value of each name in it.
func (d *decoder) readObject(member func(name string) error) error {
	if d.peek() != '{' {
		return d.errorf("must be an object")
	}
	d.i++
	if d.peek() == '}' {
		d.i++
		return nil
	}
	for {
		name, err := d.readName()
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
		if more, err := d.next('}'); !more {
			return err
		}
	}
}

// readName reads the name of a field and its colon.
func (d *decoder) readName() (string, error) {
	name, err := d.readString("the name of a field")
	if err == nil && d.peek() != ':' {
		err = d.errorf("must be a colon")
	}
	d.i++
	return name, err
}

// next skips a comma, or the end of a list, and reports whether more values follow.
func (d *decoder) next(end byte) (more bool, err error) {
	switch d.peek() {
	case ',':
		d.i++
		return true, nil
	case end:
		d.i++
		return false, nil
	}
	return false, d.errorf("must be a comma or %q", end)
}

// readCost reads an integer in 0..maxCost. 0 means 1, as does a missing cost.
func (d *decoder) readCost() (int64, error) {
	d.peek()
	start := d.i
	for d.i < len(d.s) && strings.IndexByte("+-.0123456789Ee", d.s[d.i]) >= 0 {
		d.i++
	}
	text := d.s[start:d.i]
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxCost || text[0] == '+' || text[0] == '-' || text[0] == '0' && len(text) > 1 {
		return 0, d.errorf(`field "cost" must be a whole number in 0..%d`, int64(maxCost))
	}
	return n, nil
}

// peek skips white space and returns the next byte, or 0 at the end.
func (d *decoder) peek() byte {
	for ; d.i < len(d.s); d.i++ {
		switch c := d.s[d.i]; c {
		case ' ', '\t', '\n', '\r':
		case 0:
			return 1 // not the end, and expected nowhere
		default:
			return c
		}
	}
	return 0
}

func (d *decoder) errorf(format string, args ...any) error {
	return fmt.Errorf("byte %d: "+format, append([]any{d.i}, args...)...)
}

// clipText shortens a text, so that an error stays short for any body.
func clipText(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
