// Command masks holds documents to the JSON schemas of a folder, by the vocabulary of a model: which schemas are taken, which valid
// documents are refused, which invalid ones are accepted, and what masks cost in CPU time.
//
//	go run ./bench/masks -model model.gguf [-exact] [-every 4] FOLDER
//
// Files are those of MaskBench, with one schema each, or of JSON-Schema-Test-Suite, with a list of them. A document is written as
// Python's json writes it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/tokenizer"
)

func main() {
	model := flag.String("model", "", "GGUF file with the vocabulary")
	exact := flag.Bool("exact", false, "read schemas to the letter")
	every := flag.Int("every", 1, "take one schema in so many, of those with documents")
	match := flag.String("match", "", "only files with this in their names")
	others := flag.String("others", "", "documents that schemas refer to, which are bundled into them: `FOLDER=URI`")
	list := flag.Bool("list", false, "print each schema that is not right")
	flag.Parse()
	if *model == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "masks: want -model FILE and a folder of schemas")
		os.Exit(2)
	}
	if err := run(*model, flag.Arg(0), *match, *others, *exact, max(*every, 1), *list); err != nil {
		fmt.Fprintln(os.Stderr, "masks:", err)
		os.Exit(1)
	}
}

// A task is a schema and documents.
type task struct {
	name   string
	Schema json.RawMessage
	Tests  []document
}

type document struct {
	Description string
	Valid       bool
	Data        json.RawMessage
}

// tasks reads the schemas of a folder that have documents.
func tasks(dir, match string) (all []task, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" || !strings.Contains(path, match) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		list := make([]task, 1)
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '[' {
			err = json.Unmarshal(text, &list)
		} else {
			err = json.Unmarshal(text, &list[0])
		}
		if err != nil {
			fmt.Printf("%s is left out: %v\n", name, err)
			return nil
		}
		for i, t := range list {
			if t.name = name; len(list) > 1 {
				t.name = fmt.Sprintf("%s#%d", name, i)
			}
			if strings.Contains(path, "draft7") {
				t.Schema = dated(t.Schema)
			}
			if len(t.Tests) > 0 {
				all = append(all, t)
			}
		}
		return nil
	})
	return all, err
}

// dated returns a schema that says that it is of draft 7, as those of the suite's folder are, if it says nothing.
func dated(schema json.RawMessage) json.RawMessage {
	var s map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || s == nil || s["$schema"] != nil {
		return schema
	}
	comma := ","
	if len(s) == 0 {
		comma = ""
	}
	return append([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#"`+comma), bytes.TrimSpace(schema)[1:]...)
}

// cpuTime returns the time that this thread has run: others may have the CPU meanwhile.
func cpuTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// A tally is what has been counted.
type tally struct {
	tok      *tokenizer.Tokenizer
	next     constrain.Set
	list     bool
	first    []time.Duration // masks of an automaton that no text has been held to before, each with the step after it
	later    []time.Duration
	compiled []time.Duration

	schemas, right                    int
	valid, refused, invalid, accepted int
	disagree                          int // tokens that the mask has and that are not accepted, or the reverse
	notTaken                          map[string]int
}

func run(model, dir, match, others string, exact bool, every int, list bool) error {
	m, err := mem.Map(model)
	if err != nil {
		return err
	}
	f, err := gguf.Parse(m.Bytes())
	if err != nil {
		return err
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		return err
	}
	all, err := tasks(dir, match)
	if err != nil {
		return err
	}
	if others != "" {
		if err := bundle(all, others); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	t := &tally{tok: tok, next: constrain.NewSet(tok.Len()), list: list, notTaken: map[string]int{}}
	v := form.Vocabulary(tok)
	start := cpuTime()
	if _, err := (&form.Form{Kind: form.Schema, Text: `{"type":"string"}`}).Compile(context.Background(), tok, v, nil, nil); err != nil {
		return err
	}
	fmt.Printf("%d tokens; the first schema: %v\n", tok.Len(), cpuTime()-start)
	for i, task := range all {
		if i%every == 0 {
			t.task(task, v, exact)
		}
	}
	t.report()
	return nil
}

// task holds the documents of a task to its schema.
func (t *tally) task(x task, v *constrain.Vocabulary, exact bool) {
	t.schemas++
	start := cpuTime()
	a, err := (&form.Form{Kind: form.Schema, Text: string(x.Schema), Exact: exact}).Compile(context.Background(), t.tok, v, nil, nil)
	t.compiled = append(t.compiled, cpuTime()-start)
	// That a schema has no document at all is right where none of its documents is valid.
	right := err == nil || strings.HasSuffix(err.Error(), "the schema allows no document") && !slices.ContainsFunc(x.Tests, func(d document) bool { return d.Valid })
	taken := err == nil || right
	for _, doc := range x.Tests {
		if doc.Valid {
			t.valid++
		} else {
			t.invalid++
		}
		takes := false
		where := ""
		if err == nil {
			takes, where = t.holds(a, doc.Data, &t.first)
			t.holds(a, doc.Data, &t.later)
		}
		switch {
		case doc.Valid && !takes:
			t.refused++
			right = false
		case !doc.Valid && takes:
			t.accepted++
			right = false
		default:
			continue
		}
		if t.list && err == nil {
			fmt.Printf("%s: %s: valid %v, taken %v%s\n", x.name, doc.Description, doc.Valid, takes, where)
		}
	}
	if !taken {
		t.notTaken[reason(err)]++
		if t.list {
			fmt.Printf("%s: %v\n", x.name, err)
		}
	}
	if right {
		t.right++
	}
	if took := cpuTime() - start; t.list && took > time.Second {
		fmt.Printf("%s: %v for its schema and its documents\n", x.name, took)
	}
}

// reason is a message without what differs from schema to schema.
func reason(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); strings.HasPrefix(text, "#") && i > 0 {
		path, _, _ := strings.Cut(text, ": ")
		text = path[strings.LastIndex(path, "/")+1:] + text[i:]
	}
	return text[:min(len(text), 120)]
}

// holds reports whether a document may be written, and otherwise where it stops. It adds the time of each mask with the step after it.
func (t *tally) holds(a *constrain.Automaton, data json.RawMessage, times *[]time.Duration) (bool, string) {
	doc := jsontext.Value(slices.Clone(data))
	if err := doc.Format(jsontext.Multiline(false), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return false, err.Error()
	}
	c := a.New(true)
	text := ""
	for _, id := range append(t.tok.Encode(string(doc), tokenizer.Options{NoSpecial: true}), t.tok.EOG()[0]) {
		start := cpuTime()
		clear(t.next)
		c.Mask(t.next)
		ok := c.Accept(id)
		*times = append(*times, cpuTime()-start)
		if t.next.Has(id) != ok {
			t.disagree++
		}
		if !ok {
			why := ""
			if err := c.(constrain.Failer).Err(); err != nil {
				why = ": " + err.Error()
			}
			return false, fmt.Sprintf(" after %q, at %q%s", text[max(0, len(text)-60):], t.tok.Piece(id, true), why)
		}
		text += string(t.tok.Piece(id, false))
	}
	return true, ""
}

func (t *tally) report() {
	fmt.Printf("%d schemas, %d right (%.1f %%)\n", t.schemas, t.right, 100*float64(t.right)/float64(max(t.schemas, 1)))
	fmt.Printf("%d of %d valid documents refused, %d of %d invalid ones accepted; mask and step disagree %d times\n", t.refused, t.valid, t.accepted, t.invalid, t.disagree)
	for _, why := range slices.SortedFunc(maps.Keys(t.notTaken), func(a, b string) int {
		return cmp.Or(t.notTaken[b]-t.notTaken[a], cmp.Compare(a, b))
	}) {
		fmt.Printf("  %4d not taken: %s\n", t.notTaken[why], why)
	}
	fmt.Println("CPU time in us: median, p90, p99, max")
	for _, row := range []struct {
		name  string
		times []time.Duration
	}{{"compilation", t.compiled}, {"first masks", t.first}, {"later masks", t.later}} {
		if len(row.times) == 0 {
			continue
		}
		slices.Sort(row.times)
		at := func(q float64) float64 { return float64(row.times[int(q*float64(len(row.times)-1))]) / 1e3 }
		fmt.Printf("  %s (%d): %.1f %.1f %.1f %.1f\n", row.name, len(row.times), at(.5), at(.9), at(.99), at(1))
	}
}
