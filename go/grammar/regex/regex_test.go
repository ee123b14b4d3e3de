package regex

import (
	"strings"
	"testing"

	"github.com/dlclark/regexp2"

	"github.com/quern-llm/quern/go/grammar"
)

// The texts that an expression finds are those that an independent implementation of
// ECMA-262 finds.
func TestSearch(t *testing.T) {
	texts := []string{
		"", "a", "b", "ab", "ba", "abc", "aab", "abab", "foo", "foobar", "xfoo", "foo bar", "bar foo", "a\nb", "\n", "A", "AB", "1", "12", "123", "a1", "1a", "_", "-",
		"a-b", " ", "\u00a0", "é", "aé", "日本", "😀", "x😀", "a.b", "ab^", "{", "a{1", "]", "}", "a]", "\t", "Pass1word", "password1", "PASSWORD", "aaaa", "aaaaa", "ſ", "K",
	}
	for _, pattern := range []string{
		``, `a`, `^a`, `a$`, `^a$`, `^$`, `ab|ba`, `^ab|ba$`, `^(ab|ba)$`, `^(?:ab)*$`, `a*`, `^a*$`, `^a+?b`, `^a{2}b`, `^a{2,}$`, `^a{1,4}$`, `.`, `^.$`, `^..$`, `^[^a]$`,
		`[a-c]+$`, `^[\w-]+$`, `\d`, `^\D*$`, `\s`, `^\S+$`, `\w`, `^\W$`, `^[\d_-]$`, `[]`, `[^]`, `^[^]$`, `\.`, `a\^*`, `^\x61`, `^\u0061$`, `\u{1F600}`, `\uD83D\uDE00`,
		`^\p{L}$`, `^\P{L}`, `\p{Script=Han}`, `^\p{Lu}+$`, `(?=.*\d)(?=.*[a-z]).{8,}`, `^(?=.*\d)(?=.*[A-Z]).*$`, `^(?!foo)`, `^(?!foo$).*$`, `^(?!.*bar)`, `foo(?=bar)`,
		`foo(?!bar)`, `a(?!b).?`, `\bfoo\b`, `\bfoo`, `foo\b`, `\Boo`, `o\B`, `^\b`, `a\b`, `(^a|b)c?`, `(^|x)foo`, `foo($|b)`, `a*^b`, `ab*(?:^|c)`, `^ab*(?:^|c)$`, `^a*(?!^)b`, `a*(?!^)b`, `^(?:ab)?(?!^)a`, `^a*(?:^|b)$`, `^b*a*(?:^|c)$`, `a^`, `$a`, `^^a$$`, `(a|^)(b|$)`, `(?:^a)?b`,
		`(^a){0,2}b`, `{`, `a{`, `a{1`, `]`, `}`, `a|`, `|`, `(|a)b`, `\t`, `\cJ`, `\0`, `a{0}b`, `(?<name>a)b`, `^(a|ab)(c|bcd)?$`, `^[\s\S]*$`, `^[a\]]+$`, `[\b]`,
	} {
		e, err := Search(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		// ECMAScript mode knows no Unicode properties; the default mode agrees otherwise.
		opt := regexp2.RegexOptions(regexp2.ECMAScript | regexp2.Unicode)
		want := regexp2.MustCompile(dialect(pattern), opt)
		for _, text := range texts {
			if strings.Contains(strings.ToLower(pattern), `\b`) && strings.ContainsAny(text, "éſ日") {
				continue // regexp2 has letters of all scripts around \b, ECMA-262 only ASCII's
			}
			ok, _ := want.MatchString(text)
			if got := grammar.Match(nil, e, text, nil); got != ok {
				t.Errorf("%q in %q: %v, want %v", pattern, text, got, ok)
			}
		}
	}
}

// dialect writes for regexp2 what it writes otherwise.
func dialect(pattern string) string {
	return strings.NewReplacer(
		`\u{1F600}`, "😀", `\uD83D\uDE00`, "😀", `\p{L}`, `[A-Za-zéſK日本]`, `\P{L}`, `[^A-Za-zéſK日本]`, `\p{Script=Han}`, "[日本]", `\p{Lu}`, `[A-ZK]`,
	).Replace(pattern)
}

func TestFull(t *testing.T) {
	for _, c := range []struct {
		pattern string
		flags   Flags
		yes, no []string
	}{
		{`a|bc`, 0, []string{"a", "bc"}, []string{"abc", "xa", ""}},
		{`^a$`, 0, []string{"a"}, []string{"ba"}},
		{`(yes|no)!?`, FoldCase, []string{"YES!", "no"}, []string{"maybe", "yes?"}},
		{`(?i:k)x`, 0, []string{"Kx", "\u212Ax", "kx"}, []string{"kX"}},
		{`(?i)ab`, 0, []string{"AB", "aB"}, nil},
		{`(a(?i)b)c`, 0, []string{"aBc"}, []string{"aBC", "Abc"}},
		{`(?s-i:.)`, FoldCase, []string{"\n"}, []string{""}},
		{`[[:alpha:]_]+`, 0, []string{"ab_C"}, []string{"a1"}},
		{`\Aa\z`, 0, []string{"a"}, nil},
		{`(?P<x>a)`, 0, []string{"a"}, nil},
		{`\pL\x{e9}`, 0, []string{"éé"}, []string{"é"}},
		{`\p{Greek}|\p{Uppercase_Letter}|\p{ASCII}`, 0, []string{"α", "É", "a"}, []string{"é"}},
		{`[^a]`, FoldCase, []string{"b"}, []string{"a", "A"}},
	} {
		e, err := Full(c.pattern, c.flags)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		for _, text := range c.yes {
			if !grammar.Match(nil, e, text, nil) {
				t.Errorf("%q refuses %q", c.pattern, text)
			}
		}
		for _, text := range c.no {
			if grammar.Match(nil, e, text, nil) {
				t.Errorf("%q accepts %q", c.pattern, text)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		`(a`: ") is missing", `a)`: ") without (", `[a`: "] is missing", `*a`: "nothing before *", `a**`: "a quantifier follows", `a{3,2}`: "out of order",
		`a{99999}`: "repetitions", `((a{300}){300})`: "more than 65536 repetitions", `(?=(a{300})b){300}`: "repetitions", `((|a{300}){2,}){200}`: "repetitions", `(a)\1`: `back reference \1`, `\k<a>`: "back reference", `(?<=a)b`: "lookbehind", `(?>a)`: "atomic group", `a++`: "possessive",
		`\a`: "no escape", `\Z`: "no escape", `\p{Nope}`: `\p{Nope}`, `\u12`: "hexadecimal", `\uD800`: "surrogate", `[z-a]`: "out of order", `\`: "at the end",
		`(?m)a`: "(?m", `(?:(?!foo).)*`: "without a bound", `\u{110000}`: "no code point", `\01`: "octal", "\xff": "UTF-8", `[[:nope:]]`: "no class",
		strings.Repeat("(", 1000): "nest", strings.Repeat("a", 1<<17): "bytes", strings.Repeat(`(a$|b)`, 100): "too large", `(?<>a)`: "name", `\c1`: "letter", `(?`: ") is missing",
	} {
		_, err := Search(pattern)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", pattern, err, want)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for _, s := range []string{`^(?!a)[^\d\w]+?$|\bx{2,3}`, `(?i:a|(?=b))\p{Lu}`, `\u{41}[[:alpha:]-\]]`} {
		f.Add(s, "ab")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		e, err := Search(pattern)
		if err == nil && len(pattern) < 100 && len(text) < 20 {
			grammar.Match(nil, e, text, nil)
		}
	})
}
