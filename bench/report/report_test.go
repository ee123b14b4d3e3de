package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page is made of the committed results.
func TestReport(t *testing.T) {
	out := filepath.Join(t.TempDir(), "page", "report.html")
	if err := run("../results", out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, w := range []string{
		`<h2 id="peers">`, `<h2 id="roofline">`, `<h2 id="quality">`, `<h2 id="memory">`,
		`<h3>llama-3.2-1b:Q4_K_M</h3>`, `<details id="2026-11-21-load">`, `href="#2026-11-22-kv-tiers"`,
		"TinyStories-656K-x2-Q4_K_M",
	} {
		if !strings.Contains(page, w) {
			t.Errorf("no %s in the page", w)
		}
	}
	for _, w := range []string{"<img", `href="..`, `href="/`, "NaN", ".md\""} {
		if at := strings.Index(page, w); at >= 0 {
			t.Errorf("%s in the page: %.80s", w, page[at:])
		}
	}
}

const peersPage = `# a, 2026-11-21

- date: %DATE%

## m:Q4_K_M

| test | ours t/s | peer t/s | ours / peer | rounds | roofline t/s | ours of it |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| pp8 | %OURS% | 10.00 | **2.00** | 1 to 3 | 40.00 | 50 % |
| tg8 | 5.00 | 10.00 | **0.50** | 1 to 3 |  |  |
`

func TestNewestTable(t *testing.T) {
	dir := t.TempDir()
	for name, at := range map[string][2]string{"2026-11-21-z": {"2026-11-21T08:00:00Z", "20.00"}, "2026-11-21-a": {"2026-11-21T09:00:00Z", "30.00"}} {
		write(t, dir, name+".md", strings.NewReplacer("%DATE%", at[0], "%OURS%", at[1]).Replace(peersPage))
	}
	r, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := r.speeds()
	if len(all) != 1 {
		t.Fatalf("%d models, want one: %+v", len(all), all)
	}
	s := all[0]
	if s.page != "2026-11-21-a" || s.model != "m:Q4_K_M" || len(s.peers) != 1 || s.peers[0] != "peer" || s.tests[1] != "tg8" ||
		s.ours[0] != 30 || s.ours[1] != 5 || s.theirs[0][0] != 10 || s.roof[0] != 40 || s.roof[1] != 0 {
		t.Errorf("%+v", s)
	}
}

func TestBadResults(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"empty":      {"x.txt", "", "no results"},
		"no title":   {"x.md", "text", "begins with its title"},
		"bad JSON":   {"x.json", "{", "x.json"},
		"other JSON": {"x.json", "{}", "not what quern compare"},
		"no picture": {"x.md", "# x\n\n![a](b.svg)\n", "b.svg"},
	} {
		dir := t.TempDir()
		write(t, dir, tt.file, tt.text)
		if err := run(dir, filepath.Join(t.TempDir(), "out.html")); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	for _, svg := range []string{`<svg><script>x</script></svg>`, `<html/>`, `<svg>`} {
		if _, err := inline([]byte(svg)); err == nil {
			t.Errorf("%s is put into the page", svg)
		}
	}
	if _, err := inline([]byte(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`)); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
