package constrain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/gbnf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// load returns a vocabulary of the test data.
func load(tb testing.TB, name string) (*tokenizer.Tokenizer, *constrain.Vocabulary) {
	tb.Helper()
	data, err := os.ReadFile(testdata.Path(tb, "tokenizers/cases/ggml-vocab-"+name))
	if err != nil {
		tb.Fatal(err)
	}
	if filepath.Ext(name) == ".zst" {
		d, err := zstd.NewReader(nil)
		if err != nil {
			tb.Fatal(err)
		}
		defer d.Close()
		if data, err = d.DecodeAll(data, nil); err != nil {
			tb.Fatal(err)
		}
	}
	f, err := gguf.Parse(data)
	if err != nil {
		tb.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		tb.Fatal(err)
	}
	return tok, constrain.NewVocabulary(tok.Len(), func(id int32) []byte { return tok.Piece(id, false) }, tok.EOG())
}

func gbnfFile(tb testing.TB, name string) *grammar.Grammar {
	tb.Helper()
	text, err := os.ReadFile(testdata.Path(tb, "grammar/gbnf/"+name))
	if err != nil {
		tb.Fatal(err)
	}
	g, err := gbnf.Parse(string(text), nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// object is a grammar as a schema of an object gives it, with strings of at most 100
// code points.
const object = `
root ::= "{" space name "," space age "," space tags "," space address "}" space
name ::= "\"name\"" space ":" space "\"" char{1,100} "\"" space
age ::= "\"age\"" space ":" space ("0" | [1-9] [0-9]{0,15}) space
tags ::= "\"tags\"" space ":" space "[" space (string ("," space string)*)? "]" space
address ::= "\"address\"" space ":" space "{" space street "," space city "," space kind "}" space
street ::= "\"street\"" space ":" space string
city ::= "\"city\"" space ":" space string
kind ::= "\"kind\"" space ":" space ("\"home\"" | "\"work\"" | "\"other\"") space
string ::= "\"" char* "\"" space
char ::= [^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})
space ::= | " " | "\n" [ \t]{0,20}
`

const objectText = `{"name": "Wilhelmina Ågren-Jørgensen, née 山田 (\"Billy\")", "age": 37, "tags": ["swimming", "très bien", "日本語 text",
  "a \u00e9scape", "long winded explanations of nothing in particular that go on for quite a while"], "address": {"street": "12 Foo\\Bar Street",
 "city": "Reykjavík", "kind": "other"}}`

func parse(tb testing.TB, text string) *grammar.Grammar {
	tb.Helper()
	g, err := gbnf.Parse(text, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// enum is a grammar of n values.
func enum(n int) *grammar.Grammar {
	var alt grammar.Alt
	for i := range n {
		alt = append(alt, grammar.Lit(fmt.Sprintf(`"value %d of the enumeration %x"`, i, i*7919)))
	}
	g := &grammar.Grammar{}
	g.Add("root", alt)
	return g
}

// cpuTime returns the time that this thread has run: others may have the CPU meanwhile.
func cpuTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// BenchmarkMask walks texts token by token on a vocabulary of 128,256 tokens: each round
// with an automaton that was just compiled (cold), or with one that has been there (warm).
func BenchmarkMask(b *testing.B) {
	tok, v := load(b, "llama-bpe.gguf.zst")
	for _, tt := range []struct {
		name string
		g    *grammar.Grammar
		text string
	}{
		{"object", parse(b, object), objectText},
		{"json", gbnfFile(b, "json.gbnf"), objectText},
		{"list", gbnfFile(b, "list.gbnf"), "- first things first\n- très bien\n- 日本語\n"},
		{"arithmetic", gbnfFile(b, "arithmetic.gbnf"), "(a+b)*(c-d)/12=x\n"},
		{"enum 20000", enum(20000), fmt.Sprintf(`"value 12345 of the enumeration %x"`, 12345*7919)},
	} {
		ids := tok.Encode(tt.text, tokenizer.Options{NoSpecial: true})
		for _, warm := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/warm=%v", tt.name, warm), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var times []time.Duration
				next := constrain.NewSet(tok.Len())
				var held *constrain.Automaton
				for b.Loop() {
					b.StopTimer()
					a := held
					if a == nil {
						a = constrain.CompileAnew(b, v, tt.g)
						if warm {
							held = a
						}
					}
					c := a.New(true)
					b.StartTimer()
					for _, id := range ids {
						start := cpuTime()
						clear(next)
						c.Mask(next)
						ok := next.Has(id) && c.Accept(id)
						times = append(times, cpuTime()-start)
						if !ok {
							b.Fatalf("%q is refused", tok.Piece(id, false))
						}
					}
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2])/1e3, "median-us")
				b.ReportMetric(float64(times[len(times)*99/100])/1e3, "p99-us")
				b.ReportMetric(float64(times[len(times)-1])/1e3, "max-us")
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	_, v := load(b, "llama-bpe.gguf.zst")
	for _, tt := range []struct {
		name string
		g    *grammar.Grammar
	}{
		{"object", parse(b, object)}, {"json", gbnfFile(b, "json.gbnf")}, {"c", gbnfFile(b, "c.gbnf")},
		{"maxLength 10000", parse(b, `root ::= "\"" [^"]{0,10000} "\""`)}, {"enum 20000", enum(20000)},
	} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				constrain.CompileAnew(b, v, tt.g)
			}
		})
	}
}
