package form_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A task is a schema and documents that are written by it.
type task struct {
	name, schema string
	texts        []string
}

func decompressed(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(testdata.Path(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer z.Close()
	if data, err = z.DecodeAll(data, nil); err != nil {
		tb.Fatal(err)
	}
	return data
}

// tasks returns llama.cpp's cases and those of JSON-Schema-Test-Suite, whose documents are
// written as Python's json does.
func tasks(tb testing.TB) (all []task) {
	tb.Helper()
	data, err := os.ReadFile(testdata.Path(tb, "grammar/grammar_integration.llama.cpp.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var cases struct {
		Schema []struct {
			Name, Schema string
			Match        []string
		} `json:"schema"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		tb.Fatal(err)
	}
	for _, c := range cases.Schema {
		all = append(all, task{c.Name, c.Schema, c.Match})
	}
	files := tar.NewReader(bytes.NewReader(decompressed(tb, "grammar/JSON-Schema-Test-Suite-draft7-2020-12.tar.zst")))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			tb.Fatal(err)
		}
		name := strings.TrimPrefix(path.Clean(h.Name), "tests/")
		if !strings.HasPrefix(name, "draft2020-12/") || path.Ext(name) != ".json" || strings.Contains(name, "/optional/") && !strings.Contains(name, "/format/") {
			continue
		}
		var cases []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Data  json.RawMessage
				Valid bool
			}
		}
		if err := json.NewDecoder(files).Decode(&cases); err != nil {
			tb.Fatal(name, err)
		}
		for _, c := range cases {
			t := task{name: name + ": " + c.Description, schema: string(c.Schema)}
			for _, x := range c.Tests {
				if x.Valid {
					t.texts = append(t.texts, string(x.Data))
				}
			}
			all = append(all, t)
		}
	}
}

// llamaBPE returns a tokenizer of 128,256 tokens.
func llamaBPE(b *testing.B) *tokenizer.Tokenizer {
	f, err := gguf.Parse(decompressed(b, "tokenizers/cases/ggml-vocab-llama-bpe.gguf.zst"))
	if err != nil {
		b.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		b.Fatal(err)
	}
	return tok
}

// BenchmarkSchemas compiles each schema of the test data for a vocabulary of 128,256 tokens
// and writes documents by it, token by token: each with states that no text has met, and
// again. A mask is measured with the step to the next token.
func BenchmarkSchemas(b *testing.B) {
	tok := llamaBPE(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := tasks(b)
	next := constrain.NewSet(tok.Len())
	v := form.Vocabulary(tok)
	if _, err := (&form.Form{Kind: form.Schema, Text: `{}`}).Compile(b.Context(), tok, v, nil, nil); err != nil { // sorts the vocabulary
		b.Fatal(err)
	}
	var compiled, cold, warm []time.Duration
	refused, documents := 0, 0
	for b.Loop() {
		for _, t := range all {
			start := time.Now()
			a, err := (&form.Form{Kind: form.Schema, Text: t.schema}).Compile(b.Context(), tok, v, nil, nil)
			if err != nil {
				refused++
				continue
			}
			compiled = append(compiled, time.Since(start))
			for _, text := range t.texts {
				ids := tok.Encode(text, tokenizer.Options{NoSpecial: true})
				for _, times := range []*[]time.Duration{&cold, &warm} {
					c := a.New(true)
					begun := len(*times)
					for _, id := range append(ids, tok.EOG()[0]) {
						start := time.Now()
						clear(next)
						c.Mask(next)
						ok := c.Accept(id)
						d := time.Since(start)
						if !ok { // a spelling that is not ours
							break
						}
						*times = append(*times, d)
					}
					if times == &cold && len(*times) > begun {
						documents++
					}
				}
			}
		}
	}
	report := func(name string, times []time.Duration) {
		slices.Sort(times)
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		b.ReportMetric(us(times[len(times)/2]), name+"-median-us")
		b.ReportMetric(us(times[len(times)*99/100]), name+"-p99-us")
		b.ReportMetric(us(times[len(times)-1]), name+"-max-us")
	}
	report("compile", compiled)
	report("cold", cold)
	report("warm", warm)
	b.ReportMetric(float64(len(cold))/float64(b.N), "masks")
	b.ReportMetric(float64(documents)/float64(b.N), "documents")
	b.ReportMetric(float64(len(compiled))/float64(b.N), "schemas")
	b.ReportMetric(float64(refused)/float64(b.N), "refused")
}

// BenchmarkEnum compiles a schema of 50,000 values, new ones each time and the same again.
func BenchmarkEnum(b *testing.B) {
	tok := llamaBPE(b)
	v := form.Vocabulary(tok)
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprintf("again=%v", again), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				values := make([]string, 50_000)
				for k := range values {
					round := i
					if again {
						round = -1
					}
					values[k] = fmt.Sprintf("value %d of round %d", k*7919, round)
				}
				schema, err := json.Marshal(map[string]any{"enum": values})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				f := &form.Form{Kind: form.Schema, Text: string(schema)}
				if _, err := f.Compile(b.Context(), tok, v, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
