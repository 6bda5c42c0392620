package conf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Settle fills in the defaults of the struct that to points at and checks the fields that are set, parts before the
// whole.
func (v Value) Settle(to any) { v.settleValue(reflect.ValueOf(to).Elem(), "", true) }

// Default returns a struct with the defaults of its tags.
func Default[T any](s *Schema) *T {
	to := new(T)
	s.topValue("", to).settleValue(reflect.ValueOf(to).Elem(), "", false)
	return to
}

func (v Value) settleValue(of reflect.Value, tag reflect.StructTag, set bool) {
	if v.Broken() {
		return // a value that is not a mapping does not lack fields
	}
	h := v.hooksOf(of.Type())
	switch {
	case h.read != nil:
	case of.Kind() == reflect.Pointer:
		if !of.IsNil() {
			v.settleValue(of.Elem(), tag, set)
		}
		return
	case of.Kind() == reflect.Struct:
		v.settleFields(of, set)
	case of.Kind() == reflect.Slice:
		for i := range of.Len() {
			v.Entry(i).settleValue(of.Index(i), tag, true)
		}
	}
	if !set {
		return
	}
	if (v.node == nil || !v.isNull()) && !v.Failed() {
		v.checkTags(of, tag)
	}
	if h.check != nil {
		h.check(v, of)
	}
}

func (v Value) settleFields(of reflect.Value, set bool) {
	for _, f := range Fields(of.Type()) {
		x, at := f.Of(of), v.At(f.Name)
		_, has := v.report.present[at.path]
		if text, ok := f.Tag.Lookup("default"); ok && !has {
			if err := v.setText(x, text, f.Tag); err != nil {
				panic("conf: a default does not parse: " + err.Error()) // a mistake of ours, found by every test
			}
		} else if f.Tag.Get("required") == "true" && set && !has {
			at.Fail("is missing")
		}
		at.settleValue(x, f.Tag, has)
	}
}

// writtenText returns a value as it is in the file, or as Go formats it.
func (v Value) writtenText(of reflect.Value) string {
	if v.report.schema.Secret {
		return "the value"
	}
	if v.node != nil && v.node.Kind == yaml.ScalarNode {
		return v.node.Value
	}
	return fmt.Sprint(of.Interface())
}

func (v Value) checkTags(of reflect.Value, tag reflect.StructTag) {
	low, high, bounded := strings.Cut(tag.Get("in"), "..")
	d, isTime := of.Interface().(time.Duration)
	form, hasForm := v.report.schema.Texts[tag.Get("as")]
	switch {
	case isTime:
		least, most, step := parseSpan(low), parseSpan(high), max(1, parseSpan(tag.Get("step")))
		if also := tag.Get("also"); bounded && (also == "" || v.writtenText(of) != also) &&
			(d < least || d > most || d%step != 0) {
			v.Fail("%s is not between %s and %s in steps of %s", v.writtenText(of), least, most, step)
		}
	case hasForm && v.InGo() && of.CanFloat() && form.Check != nil:
		if err := form.Check(of.Float()); err != nil {
			v.Fail("%s", err)
		}
	case of.CanInt() && bounded:
		if least, most := parseInt(low), parseInt(high); of.Int() < least || of.Int() > most {
			if form.Unit != "" {
				v.Fail("%q is not between %d and %d %s", v.writtenText(of), least, most, form.Unit)
				return
			}
			v.Fail("%s is not a whole number between %d and %d", v.writtenText(of), least, most)
		}
	case of.CanFloat() && bounded:
		v.checkDecimal(of.Float(), v.writtenText(of), tag)
	case of.Kind() == reflect.String:
		v.checkText(of.String(), tag)
	}
}

func (v Value) checkDecimal(f float64, text string, tag reflect.StructTag) {
	low, high, _ := strings.Cut(tag.Get("in"), "..")
	if least, most := parseFloat(low), parseFloat(high); !(f > least && f <= most) {
		v.Fail("%s is not above %v and at most %.0f", text, least, most)
		return
	}
	if low, high, ok := strings.Cut(tag.Get("within"), ".."); ok && (f < parseFloat(low) || f > parseFloat(high)) {
		v.Fail("%s is not between %s and %s", text, low, high)
	}
}

func (v Value) checkText(s string, tag reflect.StructTag) {
	form := v.report.schema.Forms[tag.Get("form")]
	switch words := v.wordsOf(tag); {
	case words != nil:
		if !slices.Contains(words, s) {
			v.Fail("%s", v.noWordText(s, words))
		}
	case s == "" || hasControl(s):
		v.Fail("is empty or has control characters")
	case form.Pattern != nil && !form.Pattern.MatchString(s):
		v.Fail("%s cannot be used; write %s", v.quote(s), form.Want)
	}
}

// wordsOf returns the words of a tag, or nil without the tag.
func (v Value) wordsOf(tag reflect.StructTag) []string {
	words := tag.Get("words")
	if words == "" {
		return nil
	}
	if list := v.report.schema.Words[words]; list != nil {
		return list
	}
	return strings.Split(words, ",")
}

func (v Value) noWordText(s string, words []string) string {
	return fmt.Sprintf("%s is not one of %s%s", v.quote(s), strings.Join(words, ", "), Suggest(s, words))
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func parseSpan(text string) time.Duration { d, _ := time.ParseDuration(text); return d }

func parseInt(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }

func parseFloat(text string) float64 { f, _ := strconv.ParseFloat(text, 64); return f }

// decodeScalar reads a scalar into a value of a basic type.
func (v Value) decodeScalar(to reflect.Value, tag reflect.StructTag) {
	if words := v.wordsOf(tag); tag.Get("true") != "" && v.node.ShortTag() == "!!bool" {
		to.SetString(words[0])
		if strings.EqualFold(v.node.Value, "true") {
			to.SetString(tag.Get("true"))
		}
		return
	}
	what, tags := v.wantedForm(to.Type(), tag)
	if text, ok := v.Scalar(what, tags...); ok {
		if err := v.setText(to, text, tag); err != nil {
			v.Fail("%s", err)
		}
	}
}

// wantedForm returns the description of the values of a type, and the YAML tags that they may have.
func (v Value) wantedForm(t reflect.Type, tag reflect.StructTag) (what string, tags []string) {
	form, hasForm := v.report.schema.Texts[tag.Get("as")]
	switch {
	case tag.Get("words") != "":
		return "one of " + strings.Join(v.wordsOf(tag), ", "), []string{"!!str"}
	case hasForm:
		return form.What, []string{"!!int", "!!float", "!!str"}
	case t == reflect.TypeFor[time.Duration]():
		return "a time such as 500ms, 5s or 1m", []string{"!!str", "!!int"}
	case t.Kind() == reflect.Bool:
		return "true or false", []string{"!!bool"}
	case t.Kind() == reflect.Float64:
		return "a number", []string{"!!int", "!!float"}
	case t.Kind() == reflect.String:
		return "a string (quote it)", []string{"!!str"}
	}
	return "a whole number", []string{"!!int"}
}

// setText sets a value from the text of a scalar, of a file or of a default.
func (v Value) setText(to reflect.Value, s string, tag reflect.StructTag) error {
	if words := v.wordsOf(tag); words != nil {
		return v.setWord(to, s, words, int(parseInt(tag.Get("from"))))
	}
	if form, ok := v.report.schema.Texts[tag.Get("as")]; ok {
		n, err := form.Parse(s)
		if err == nil {
			to.Set(reflect.ValueOf(n).Convert(to.Type()))
		}
		return err
	}
	switch {
	case to.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(s)
		if err != nil && s != tag.Get("also") {
			return fmt.Errorf("%s is not a time such as 500ms, 5s or 1m", v.quote(s))
		}
		to.SetInt(int64(d))
	case to.Kind() == reflect.Slice: // only of defaults
		to.Set(reflect.ValueOf(strings.Split(s, ",")))
	case to.Kind() == reflect.String:
		to.SetString(s)
	case to.Kind() == reflect.Bool:
		to.SetBool(strings.EqualFold(s, "true"))
	case to.CanInt():
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			low, high, _ := strings.Cut(tag.Get("in"), "..")
			return fmt.Errorf("%s is not a whole number between %s and %s", Cut(s), low, high)
		}
		to.SetInt(n)
	case to.CanFloat():
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			f = math.NaN() // which is outside of all bounds
		}
		to.SetFloat(f)
	}
	return nil
}

// setWord sets a value to one of a few words: a number becomes the place of the word, counted from first.
func (v Value) setWord(to reflect.Value, s string, words []string, first int) error {
	at := slices.Index(words, s)
	switch {
	case at < 0:
		return errors.New(v.noWordText(s, words))
	case to.Kind() == reflect.Bool:
		to.SetBool(at == 1)
	case to.CanInt():
		to.SetInt(int64(at + first))
	case to.CanUint():
		to.SetUint(uint64(at + first))
	default:
		to.SetString(s)
	}
	return nil
}
