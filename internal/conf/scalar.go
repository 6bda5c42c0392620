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
)

// scalar reads a scalar into a value of a basic type.
func (v Value) scalar(to reflect.Value, tag reflect.StructTag) {
	if words := v.words(tag); tag.Get("true") != "" && v.node.ShortTag() == "!!bool" {
		to.SetString(words[0])
		if strings.EqualFold(v.node.Value, "true") {
			to.SetString(tag.Get("true"))
		}
		return
	}
	what, tags := v.wanted(to.Type(), tag)
	if text, ok := v.Scalar(what, tags...); ok {
		if err := v.setText(to, text, tag); err != nil {
			v.Fail("%s", err)
		}
	}
}

// wanted says what a value of a type has to be, and which tags of YAML it may have.
func (v Value) wanted(t reflect.Type, tag reflect.StructTag) (what string, tags []string) {
	form, hasForm := v.report.schema.Texts[tag.Get("as")]
	switch {
	case tag.Get("words") != "":
		return "one of " + strings.Join(v.words(tag), ", "), []string{"!!str"}
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

// setText reads the text of a scalar, of a file or of a default.
func (v Value) setText(to reflect.Value, s string, tag reflect.StructTag) error {
	if words := v.words(tag); words != nil {
		return v.setWord(to, s, words, int(whole(tag.Get("from"))))
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
			f = math.NaN() // which no bounds have
		}
		to.SetFloat(f)
	}
	return nil
}

// setWord sets a value to one of a few words: a number is the place of the word, from a first number on.
func (v Value) setWord(to reflect.Value, s string, words []string, first int) error {
	at := slices.Index(words, s)
	switch {
	case at < 0:
		return errors.New(v.noWord(s, words))
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
