package demo_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// update is for another model: scripts/go.sh test ./go/demo -update
var update = flag.Bool("update", false, "write what the model says into testdata anew; read the diff before you commit it")

func open(tb testing.TB, threads int, c engine.Config) *engine.Engine {
	tb.Helper()
	f, err := model.OpenBytes(demo.Name, demo.GGUF())
	if err != nil {
		tb.Fatal(err)
	}
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: threads, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(d.Close)
	c.Device = d
	e, err := engine.New(f, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	return e
}

func vocabulary(tb testing.TB) *tokenizer.Tokenizer {
	tb.Helper()
	f, err := model.OpenBytes(demo.Name, demo.GGUF())
	if err != nil {
		tb.Fatal(err)
	}
	tok, err := tokenizer.New(f.GGUF)
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

// greedy returns the likeliest text of n tokens at most, and why it ended.
func greedy(tb testing.TB, e *engine.Engine, tok *tokenizer.Tokenizer, prompt string, n int) (string, generate.Finish) {
	tb.Helper()
	p := sample.Defaults()
	p.Temp = 0
	s := e.NewSequence()
	defer s.Close()
	text := tok.NewStream()
	var b strings.Builder
	st, err := e.Generate(context.Background(), s, generate.Params{Prompt: encode(tok, prompt), MaxTokens: n, Sampling: p, Stop: tok.IsEOG, TopLogprobs: -1}, func(id int32) error {
		b.WriteString(text.Write(id))
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return b.String() + text.Flush(), st.Finish
}

// encode returns the ids of a prompt, which templates may begin with BOS; of an
// empty one, BOS alone.
func encode(tok *tokenizer.Tokenizer, prompt string) []int32 {
	return tok.Begin(tok.Encode(prompt, tokenizer.Options{ParseSpecial: true}))
}

// The model stays where the program has it: in pages of the file that nobody can
// write, none of them copied by loading it or by running it from there. It lies
// as well as in a file that is mapped.
func TestLiesInTheProgram(t *testing.T) {
	b := demo.GGUF()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if at%32 != 0 {
		t.Errorf("it is at %#x, which is no multiple of 32", at)
	}
	e := open(t, 1, engine.Config{Residency: model.Mapped})
	if text, _ := greedy(t, e, vocabulary(t), "Once upon a time", 4); text == "" {
		t.Error("it says nothing")
	}
	// of e's weights, as the engine has them
	for _, tensor := range e.Model().GGUF().Tensors {
		if p := uintptr(unsafe.Pointer(unsafe.SliceData(tensor.Data))); p < at || p >= at+uintptr(len(b)) {
			t.Errorf("%s was copied to %#x", tensor.Name, p)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := mapping(t, at)
	if m.path != self || m.perms != "r--p" && m.perms != "r-xp" || m.to < at+uintptr(len(b)) {
		t.Errorf("it lies in %+v, want read-only pages of %s", m, self)
	}
	if m.anonymous != 0 {
		t.Errorf("%d KiB of the pages around it are copies", m.anonymous)
	}
}

// A pages is a line of /proc/self/smaps, and what it says of memory.
type pages struct {
	from, to    uintptr
	perms, path string
	anonymous   int // KiB that are not the file's
}

// mapping returns the pages with an address.
func mapping(t *testing.T, at uintptr) (m pages) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if from, to, ok := strings.Cut(words[0], "-"); ok {
			m = pages{perms: words[1], path: words[len(words)-1]}
			if _, err := fmt.Sscanf(from+" "+to, "%x %x", &m.from, &m.to); err != nil {
				t.Fatal(err)
			}
		}
		if words[0] == "Anonymous:" && m.from <= at && at < m.to {
			fmt.Sscan(words[1], &m.anonymous)
			return m
		}
	}
	t.Fatalf("no pages at %#x", at)
	return m
}
