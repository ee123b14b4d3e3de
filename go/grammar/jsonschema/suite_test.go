package jsonschema

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/internal/testdata"
)

type suiteCase struct {
	file        string
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Tests       []struct {
		Description string          `json:"description"`
		Data        json.RawMessage `json:"data"`
		Valid       bool            `json:"valid"`
	} `json:"tests"`
}

// suite returns the cases of JSON-Schema-Test-Suite. Those of the optional folder check
// what the specification leaves open; of these, formats and regular expressions count.
func suite(t testing.TB) []suiteCase {
	f, err := os.Open(testdata.Path(t, "grammar/JSON-Schema-Test-Suite-draft7-2020-12.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var all []suiteCase
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(path.Clean(h.Name), "tests/")
		if !strings.HasSuffix(name, ".json") || !strings.HasPrefix(name, "draft") || strings.HasPrefix(path.Clean(h.Name), "remotes") {
			continue
		}
		if strings.Contains(name, "/optional/") && !strings.Contains(name, "/format/") && !strings.Contains(name, "regex") {
			continue
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		var cases []suiteCase
		if err := json.Unmarshal(body, &cases); err != nil {
			t.Fatal(name, err)
		}
		for i := range cases {
			cases[i].file = name
			if strings.HasPrefix(name, "draft7") { // of which it says so
				var m map[string]json.RawMessage
				if json.Unmarshal(cases[i].Schema, &m) == nil && m["$schema"] == nil {
					cases[i].Schema = append([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#"`+map[bool]string{true: ",", false: ""}[len(m) > 0]), bytes.TrimSpace(cases[i].Schema)[1:]...)
				}
			}
		}
		all = append(all, cases...)
	}
	return all
}

// spellings returns the ways to write a document that differ in the order of members, up
// to some: ours is the schema's.
func spellings(v *value) []string {
	list := func(items []*value, names []string) []string {
		out := []string{""}
		for i, item := range items {
			var next []string
			for _, before := range out {
				for _, s := range spellings(item) {
					if names != nil {
						s = quote(names[i]) + ": " + s
					}
					if i > 0 {
						s = ", " + s
					}
					next = append(next, before+s)
				}
			}
			out = next[:min(len(next), 200)]
		}
		return out
	}
	switch v.kind {
	case '"':
		return []string{quote(v.text)}
	case '0':
		if r, ok := rational(v); ok && r.IsInt() {
			return []string{r.Num().String()}
		} else if ok {
			if n, exact := r.FloatPrec(); exact {
				return []string{r.FloatString(n)}
			}
		}
		return []string{v.text}
	case '[':
		var out []string
		for _, s := range list(v.items, nil) {
			out = append(out, "["+s+"]")
		}
		return out
	case '{':
		var out []string
		permute(len(v.names), func(order []int) {
			items, names := make([]*value, len(order)), make([]string, len(order))
			for i, k := range order {
				items[i], names[i] = v.items[k], v.names[k]
			}
			for _, s := range list(items, names) {
				out = append(out, "{"+s+"}")
			}
		})
		return out
	}
	return []string{v.String()}
}

func permute(n int, f func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var place func(i int)
	place = func(i int) {
		if i == n || i > 5 {
			f(order)
			return
		}
		for k := i; k < n; k++ {
			order[i], order[k] = order[k], order[i]
			place(i + 1)
			order[i], order[k] = order[k], order[i]
		}
	}
	place(0)
}

func accepts(g *grammar.Grammar, data []byte) bool {
	v, err := parse(data)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(spellings(v), func(s string) bool { return grammar.Match(g, grammar.Ref(0), s, nil) })
}

// narrowed reports whether a valid document is one that is not written: formats bind, which
// 2020-12 leaves open, and of some formats there are spellings that few use.
func narrowed(file, description string) bool {
	switch {
	case file == "draft2020-12/format.json", strings.Contains(file, "/format/iri"), strings.Contains(file, "/format/idn-"), strings.HasSuffix(file, "/format/regex.json"),
		strings.HasSuffix(file, "/format/ecmascript-regex.json"): // a part of these formats is written
		return true
	case strings.HasPrefix(description, "no validation: invalid number"): // vocabularies of metaschemas are not read
		return true
	}
	return strings.Contains(file, "/format/") && slices.ContainsFunc(
		[]string{"leap second", "quoted string", "double dot in the local part", "a @ in the local part", "address-literal", "a valid host name", "PVALID", "unycode", "xn--", "DISALLOWED", "KERAIA", "GERESH", "GERSHAYIM", "MIDDLE DOT", "Arabic", "ZERO WIDTH"},
		func(s string) bool { return strings.Contains(description, s) })
}

// Of each schema that is taken, what is valid can be written and what is not can't. The
// numbers of those that are taken, and of those refused by keyword, are pinned.
func TestSuite(t *testing.T) {
	taken, refused := 0, map[string]int{}
	for _, c := range suite(t) {
		name := c.file + ": " + c.Description
		g, err := Grammar(c.Schema, Options{Exact: true})
		if err != nil {
			var e *Error
			key := err.Error()
			if errors.As(err, &e) {
				key = e.Keyword
				if key == "" {
					key = e.Reason
				}
			}
			if key == "the schema allows no document" && !slices.ContainsFunc(c.Tests, func(x struct {
				Description string          `json:"description"`
				Data        json.RawMessage `json:"data"`
				Valid       bool            `json:"valid"`
			}) bool {
				return x.Valid
			}) {
				taken++
				continue
			}
			refused[key]++
			if testing.Verbose() {
				t.Logf("%s: %v", name, err)
			}
			continue
		}
		taken++
		for _, x := range c.Tests {
			if got := accepts(g, x.Data); got != x.Valid && !(x.Valid && narrowed(c.file, x.Description)) {
				t.Errorf("%s: %s: %.200s: %v, want %v\n\t%s", name, x.Description, x.Data, got, x.Valid, c.Schema)
			}
		}
	}
	got := fmt.Sprint(taken, refused)
	want := "705 map[$ref:31 multipleOf:2]"
	if got != want {
		t.Errorf("taken and refused: %s, want %s", got, want)
	}
}
