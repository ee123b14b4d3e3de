package model

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
)

// otherValue returns another value of a key, of a list in each element.
func otherValue(v any) any {
	switch v := v.(type) {
	case uint32:
		return 2*v + 3
	case int32:
		return 2*v + 3
	case uint64:
		return 2*v + 3
	case float32:
		return 1.25*v + 0.125
	case bool:
		return !v
	case string:
		return v + "x"
	}
	list := reflect.ValueOf(v)
	all := reflect.MakeSlice(list.Type(), list.Len(), list.Len())
	for i := range list.Len() {
		all.Index(i).Set(reflect.ValueOf(otherValue(list.Index(i).Interface())))
	}
	return all.Interface()
}

// outcome returns what becomes of a file: all that is computed, in words, or why it is refused.
func outcome(t *testing.T, d *draft) string {
	t.Helper()
	f, close, err := d.open(t)
	defer close()
	if err != nil {
		return err.Error()
	}
	s, err := NewSurvey(f, kvF32, 0)
	if err != nil {
		return err.Error()
	}
	c, found := s.Config, s.finds[0]
	p := found.program
	var text strings.Builder
	fmt.Fprintln(&text, p.Bufs, p.Groups)
	steps := slices.Concat([][]kernel.Op{p.Begin}, p.Encoder, p.Layers)
	for _, out := range p.Outputs {
		fmt.Fprintln(&text, out.Name, out.Width)
		steps = append(steps, out.Ops)
	}
	for _, ops := range steps {
		for _, op := range ops {
			fmt.Fprintf(&text, "%T%+v\n", op, op)
		}
	}
	for _, r := range found.weights.ropes {
		fmt.Fprintf(&text, "%+v\n", r.rope)
	}
	// what other packages read of the configuration
	fmt.Fprintf(&text, "%+v\n", []any{c.NCtx, c.NNext, c.Pooling, c.Prompts, c.MaxText, c.Start, c.NSide, c.Classifier})
	return text.String()
}

// open reads the file in memory outside the Go heap, since plans keep its addresses, until close is called.
func (d *draft) open(t *testing.T) (f *File, close func(), err error) {
	t.Helper()
	w := gguf.NewWriter()
	for _, kv := range d.kvs {
		w.Set(kv.Key, kv.Value)
	}
	for _, x := range d.tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	r, err := mem.Alloc(uint64(b.Len()), "a small model")
	if err != nil {
		t.Fatal(err)
	}
	copy(r.Bytes(), b.Bytes())
	f, err = OpenBytes("test", r.Bytes()[:b.Len()])
	return f, func() { r.Close() }, err
}

// with returns the file with another value of a key.
func (d *draft) with(key string, v any) *draft {
	c := &draft{slices.Clone(d.kvs), d.tensors}
	c.set(key, v)
	return c
}

// ofEach calls test with a small model of each architecture; in short runs, which have the race detector, of an eighth.
func ofEach(t *testing.T, test func(t *testing.T, name string, d *draft)) {
	z := newZoo(t)
	seen := map[string]bool{}
	for _, d := range z.models {
		name := d.arch()
		if _, err := arch.Lookup(name); err != nil || seen[name] {
			continue
		}
		seen[name] = true
		if testing.Short() && len(seen)%8 != 1 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, d)
		})
	}
}

// unheeded returns the keys that decide nothing in an architecture, by testdata/unheeded.txt.
func unheeded(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/unheeded.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 3 {
			t.Fatalf("%q: want a key, architectures and a reason", line)
		}
		all[words[0]] = append(all[words[0]], strings.Split(words[1], ",")...)
	}
	return all
}

// TestKeysAreHeeded changes each key of a small model of each architecture. Another model is computed then, or the file
// is refused; or the key is one that decides nothing there, in a table with the reason.
func TestKeysAreHeeded(t *testing.T) {
	nothing := unheeded(t)
	ofEach(t, func(t *testing.T, name string, d *draft) {
		plain := outcome(t, d)
		for _, kv := range d.kvs {
			key, is := strings.CutPrefix(kv.Key, name+".")
			if !is && !strings.HasPrefix(key, nn.Own) {
				continue
			}
			said := slices.Contains(nothing[key], name) || slices.Contains(nothing[key], "*")
			if same := outcome(t, d.with(kv.Key, otherValue(kv.Value))) == plain; same && !said {
				t.Errorf("%s is %v, or anything else", key, kv.Value)
			} else if !same && slices.Contains(nothing[key], name) {
				t.Errorf("%s decides something: testdata/unheeded.txt says that it does not", key)
			}
		}
	})
}

// TestNoKeyIsPassedBy gives a small model of each architecture keys that others have. It is computed otherwise then, or
// the file is refused.
func TestNoKeyIsPassedBy(t *testing.T) {
	text, err := os.ReadFile("arch/testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	nothing := unheeded(t)
	ofEach(t, func(t *testing.T, name string, d *draft) {
		result := func(d *draft) string {
			f, close, err := d.open(t)
			defer close()
			if err != nil {
				t.Fatal(err)
			}
			c, err := f.Config()
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%+v", *c)
		}
		plain := result(d)
		for line := range strings.Lines(string(text)) {
			key, judgement, _ := strings.Cut(strings.TrimSpace(line), " ")
			full := name + "." + key
			if !strings.HasPrefix(judgement, "other") || slices.ContainsFunc(d.kvs, func(kv gguf.KV) bool {
				return kv.Key == full
			}) || slices.Contains(nothing[key], name) {
				continue
			}
			if result(d.with(full, uint32(3))) == plain && result(d.with(full, float32(3))) == plain {
				t.Errorf("%s of 3 is passed by", key)
			}
		}
	})
}
