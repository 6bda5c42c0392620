package canon

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIntegerFormApply_ReadsLikeEachLanguage compares with the results of each language for these texts.
func TestIntegerFormApply_ReadsLikeEachLanguage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		form IntegerForm
		same []string // equal to 42
		not  map[string]string
	}{
		{IntegerDecimal, []string{"042", "+42", "+00042"},
			map[string]string{"": "", "-": "-", "-0": "0", "-042": "-42", "4 2": "4 2", "42a": "42a", "000": "0"}},
		{IntegerGo, []string{"042", "+42"}, map[string]string{" 42": " 42", "0x2a": "0x2a", "4_2": "4_2"}},
		{IntegerJS, []string{"42abc", " 42", "\ufeff42", "\u00a042", "0x2a", "0X2Az", "42.9", "42e1", "+042;", "42 "},
			map[string]string{"\x1c42": "\x1c42", "\u008542": "\u008542", "abc": "abc", "0x": "0x", "-0x2a": "-42", "4e1": "4", "- 42": "- 42", "": ""}},
		{IntegerNumber, []string{" 42 ", "42.0", "4.2e1", "420e-1", "0x2A", "+42", "42.", "\ufeff042\n"},
			map[string]string{"42\x1f": "42\x1f", "\u008542": "\u008542", "42abc": "42abc", "42.5": "42.5", "4e1": "40", ".": ".", "-0x2a": "-0x2a",
				"1e400": "1e400"}},
		{IntegerPHP, []string{" 42abc", "42.9", "4.2e1x", "\v+042", "42e", "42e+"},
			map[string]string{"abc": "0", "": "0", "-42x": "-42", "\u00a042": "0", "0x2a": "0", ".5": "0",
				"4e1": "40"}},
		{IntegerPython, []string{" 42\n", "4_2", "0_42", "\uff14\uff12", "\u0664\u0662", "4\u0662", "\u00a042\u3000",
			"42\u0085", "\U0001d7dc\U0001d7da"},
			map[string]string{"\x1c\uff14\uff12": "\x1c\uff14\uff12", "\x1c42": "\x1c42", "42\x1f": "42\x1f", "\ufeff42": "\ufeff42", "42a": "42a", "4__2": "4__2", "_42": "_42", "42_": "42_", "0x2a": "0x2a",
				"\u2463\u2461": "\u2463\u2461", "-\u0664\u0662": "-42"}},
		{IntegerRuby, []string{" 42abc", "4_2", "0_42", "42.9", "42__"},
			map[string]string{"abc": "0", "4__2": "4", "0x2a": "0", "": "0", "-42a": "-42"}},
		{IntegerJava, []string{"042", "+42", "\uff14\uff12"},
			map[string]string{" 42": " 42", "4_2": "4_2", "0x2a": "0x2a"}},
		{IntegerSpring, []string{" 4 2 ", "0x2a", "#2a", "0X2A", "\u0664\u0662", "4\n2", "\x1c42"},
			map[string]string{"\u00a042": "\u00a042", "\u008542": "\u008542", "\ufeff42": "\ufeff42", "42a": "42a", "-0x2a": "-42"}},
	} {
		n := Normalization{Integer: c.form}
		for _, text := range c.same {
			if got := string(n.apply([]byte(text))); got != "42" {
				t.Errorf("%s %q = %q, want 42", IntegerForms()[c.form], text, got)
			}
		}
		for text, want := range c.not {
			if got := string(n.apply([]byte(text))); got != want {
				t.Errorf("%s %q = %q, want %q", IntegerForms()[c.form], text, got, want)
			}
		}
	}
	if got := string(Normalization{Trim: true, Fold: true}.apply([]byte("\ufeff\t STAR\u3000\n"))); got != "star" {
		t.Errorf("trimmed: %q", got)
	}
}

// TestIntegerFormApply_IsIdempotent holds for any text and form.
func TestIntegerFormApply_IsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := Normalization{
			Trim: rapid.Bool().Draw(t, "trim"), Fold: rapid.Bool().Draw(t, "fold"),
			Integer: IntegerForm(rapid.IntRange(0, len(IntegerForms())-1).Draw(t, "form")),
		}
		text := rapid.OneOf(rapid.StringMatching(`[ \x{FEFF}\n]?[-+#]?(0[xX])?[0-9a-f_.٤eE+-]{0,8}[ z]?`),
			rapid.String()).Draw(t, "text")
		once := string(n.apply([]byte(text)))
		if twice := string(n.apply([]byte(once))); twice != once {
			t.Fatalf("%+v: %q gives %q, and that %q", n, text, once, twice)
		}
	})
}
