package fake

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

const published = "testdata/requests.txt"

// Published compares what requests to routes may have with testdata/requests.txt, which is written anew where update is
// set: clients rely on each name, bound and default. Fields that all endpoints share are in the file of go/server/ask.
func Published(t *testing.T, update bool, routes []answer.Route) {
	t.Helper()
	m := ask.Model{Sampling: sample.Defaults(), Normalize: engine.Euclidean}
	shared := map[string]string{}
	o, c := ask.NewOptions(&m), ask.NewConversation()
	for _, f := range slices.Concat(o.Fields(), c.Fields()) {
		shared[f.Names[0]] = line(t, f)
	}
	var b bytes.Buffer
	for _, r := range routes {
		fmt.Fprintf(&b, "%s %s\n", r.Method, strings.Join(r.Paths, " "))
		for _, p := range r.Params {
			fmt.Fprintf(&b, "  %s %s: %s\n", p.In, p.Name, encoded(t, p.Is))
		}
		if r.Example != nil {
			fmt.Fprintf(&b, "  such as %s\n", encoded(t, r.Example))
		}
		if r.Body.Name == "" {
			continue
		}
		for _, f := range r.Body.Defaults(&m).Fields() {
			if text := line(t, f); text != shared[f.Names[0]] {
				b.WriteString(text)
			}
		}
	}
	compare(t, update, b.Bytes())
}

// PublishedFields does the same for fields.
func PublishedFields(t *testing.T, update bool, fields []field.Field) {
	t.Helper()
	var b bytes.Buffer
	for _, f := range fields {
		b.WriteString(line(t, f))
	}
	compare(t, update, b.Bytes())
}

// line is a field: its names, its schema, and its default, if it is a setting.
func line(t *testing.T, f field.Field) string {
	t.Helper()
	text := fmt.Sprintf("  %s: %s", strings.Join(f.Names, " "), encoded(t, f.To.Schema()))
	if v := f.To.Value(); v != nil && !f.Input {
		text += ", by default " + encoded(t, v)
	}
	if f.Need {
		text += ", required"
	}
	return text + "\n"
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := reply.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func compare(t *testing.T, update bool, text []byte) {
	t.Helper()
	if update {
		if err := os.WriteFile(published, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	is, was := strings.Split(string(text), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(is), len(was)) {
		if i >= len(is) || i >= len(was) || is[i] != was[i] {
			t.Errorf("%s: line %d is %q, want %q; -update writes the file anew", published, i+1,
				slices.Concat(is, make([]string, len(was)))[i], slices.Concat(was, make([]string, len(is)))[i])
			return
		}
	}
}
