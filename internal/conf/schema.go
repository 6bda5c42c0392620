// Package conf reads a configuration, YAML, JSON or a Go value, into structs whose field tags state the allowed values.
// It reports all mistakes, each error with line and path of its field.
//
//	YAML ── Document ──┐
//	                   ├─ nodes ── Decode ──┐
//	JSON ── JSON ──────┘                    ├─> Value ── Settle: defaults, tags, checks ──> errors, or a complete struct
//	Go ─────────────────────────── FromGo ──┘
//
// The tags of a field:
//
//	name:"rate"            its name in YAML; ",inline" for the fields of an embedded struct
//	required:"true"        it has to be set
//	default:"5s"           its value where it is not set
//	in:"1s..10m"           bounds of a whole number, a time or an amount of memory; a decimal is above the first
//	within:"0.5..0.99"     bounds of a decimal, both included
//	step:"1s"              a time is a multiple of it
//	words:"a,b"            the words for it; of a bool the second is true, of a number the place in the list counts
//	from:"1"               the first word is number 1
//	also:"auto"            a further word for a time, which is then 0
//	as:"rate"              a form of text: rate, bytes
//	form:"plain"           the pattern of a text, one of Schema.Forms
//	true:"decimal"         the word that true stands for; false is the first
//
// Rules between fields are checked by functions of a [Schema], by type. Package conf itself knows no field.
package conf

import (
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// Form is the form of a text: the pattern that it matches, and the words by which a message asks for it.
type Form struct {
	Pattern *regexp.Regexp
	Want    string // "a-z, 0-9 and _, such as news"
}

// Schema holds the rules that tags cannot state: the forms of texts, and functions by type. It must not be changed once
// it is used.
type Schema struct {
	// Forms holds the forms of texts, by the name in the tag "form".
	Forms map[string]Form
	// Words holds the lists that a tag "words" names in place of the words themselves.
	Words map[string][]string
	// Texts parse forms of numbers, by the name in the tag "as". They return the error of a value.
	Texts map[string]Text
	// Secret is true if messages must not repeat a value.
	Secret bool
	types  map[reflect.Type]hooks
}

// Text is a written form of a number.
type Text struct {
	// What is the description for errors: "a rate such as 100 or 30/m".
	What string
	// Unit is the unit of numbers within bounds: "bytes, such as 64KiB".
	Unit string
	// Parse returns a float64 or an int64.
	Parse func(string) (any, error)
	// Check, if set, returns the error that Parse would return for a number of a Go value.
	Check func(float64) error
}

// Of holds the functions of a type; each may be nil.
type Of[T any] struct {
	// Read reads a value in place of its tags, from any node.
	Read func(Value, *T)
	// Short reads a struct from a node that is not a mapping.
	Short func(Value, *T)
	// Unknown explains a field that the struct does not have, or returns "".
	Unknown func(name string) string
	// Check runs after the defaults and the checks by tags, of parts before the whole.
	Check func(Value, *T)
}

type hooks struct {
	read, short, check func(Value, reflect.Value)
	unknown            func(string) string
}

func Add[T any](s *Schema, of Of[T]) {
	with := func(f func(Value, *T)) func(Value, reflect.Value) {
		if f == nil {
			return nil
		}
		return func(v Value, x reflect.Value) { f(v, x.Addr().Interface().(*T)) }
	}
	if s.types == nil {
		s.types = map[reflect.Type]hooks{}
	}
	s.types[reflect.TypeFor[T]()] = hooks{with(of.Read), with(of.Short), with(of.Check), of.Unknown}
}

// Field is a field of a struct as its tags describe it.
type Field struct {
	// Name is the name in a file, Label the name in Go.
	Name, Label string
	Tag         reflect.StructTag
	Type        reflect.Type
	index       []int
}

func (f *Field) Of(s reflect.Value) reflect.Value { return s.FieldByIndex(f.index) }

// Index returns the path of the field through embedded structs, which must not be changed.
func (f *Field) Index() []int { return f.index }

// fieldLists caches the fields of each struct, because listing them by reflection is slow.
var fieldLists sync.Map // of reflect.Type to []Field

// Fields returns the fields of a struct, including the fields of inlined structs. The list must not be changed.
func Fields(t reflect.Type) []Field {
	if fs, ok := fieldLists.Load(t); ok {
		return fs.([]Field)
	}
	fs, _ := fieldLists.LoadOrStore(t, listFields(t))
	return fs.([]Field)
}

func listFields(t reflect.Type) (all []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("name"), ",")
		switch {
		case option == "inline":
			for _, g := range Fields(f.Type) {
				g.index = append([]int{i}, g.index...)
				all = append(all, g)
			}
		case name != "":
			all = append(all, Field{name, f.Name, f.Tag, f.Type, []int{i}})
		}
	}
	return all
}
