package page

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/browser"
)

// What the renderer makes of text, as the browser writes it out again.
var markdown = []struct{ text, html string }{
	{"", ""},
	{"a\nb", "<p>a<br>b</p>"},
	{"a  \nb\\\nc", "<p>a<br>b<br>c</p>"},
	{"a\r\n\r\nb", "<p>a</p><p>b</p>"},
	{"# A\n## B ##\n#C\n####### D", "<h3>A</h3><h4>B</h4><p>#C<br>####### D</p>"},
	{"---\n***\n_ _ _\n--", "<hr><hr><hr><p>--</p>"},
	{"text\n---", "<p>text</p><hr>"},

	// Emphasis
	{"*a* **b** ***c*** ~~d~~", "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del></p>"},
	{"_a_ __b__", "<p><em>a</em> <strong>b</strong></p>"},
	{"***a** b* and ***a* b**", "<p><em><strong>a</strong> b</em> and <strong><em>a</em> b</strong></p>"},
	{"**a *b** c*", "<p><em><em>a <em>b</em></em> c</em></p>"},
	{"snake_case_name 2*3*4 a * b", "<p>snake_case_name 2<em>3</em>4 a * b</p>"},
	{"**unclosed and ~tilde~", "<p>**unclosed and ~tilde~</p>"},
	{"**“quoted”** text", "<p><strong>“quoted”</strong> text</p>"},
	{`\*a\* 1\. \\`, `<p>*a* 1. \</p>`},
	{"*****a*****", "<p>*****a*****</p>"},

	// Code
	{"`a*b*` ``c`d`` `e", "<p><code>a*b*</code> <code>c`d</code> `e</p>"},
	{"` `` `", "<p><code>``</code></p>"},
	{"`a\nb`", "<p><code>a b</code></p>"},
	{"```go\nx := 1\n\n\ty\n```\nafter", code("go", "x := 1\n\n\ty") + "<p>after</p>"},
	{"~~~\n```\n~~~", code("", "```")},
	{"````md\n```\n````", code("md", "```")},
	{"```\nopen *end*", code("", "open *end*")},
	{"```py title=\"x\"\n```", code("py", "")},
	{"  ```\n  a\n    b\n  ```", code("", "a\n  b")},
	{"``` not`a fence", "<p>``` not`a fence</p>"},

	// Links
	{"[a *b*](https://x.example/p \"t\")", "<p>" + link("https://x.example/p", "a <em>b</em>") + "</p>"},
	{"[a](<https://x.example/a b>)", "<p>" + link("https://x.example/a%20b", "a") + "</p>"},
	{"[a](https://x.example/(b)_c)", "<p>" + link("https://x.example/(b)_c", "a") + "</p>"},
	{"[a [b] c](https://x.example)", "<p>" + link("https://x.example/", "a [b] c") + "</p>"},
	{"![alt](https://x.example/i.png)", "<p>" + link("https://x.example/i.png", "alt") + "</p>"},
	{"<https://x.example/a_b_c>", "<p>" + link("https://x.example/a_b_c", "https://x.example/a_b_c") + "</p>"},
	{"See https://x.example/a_b?c=d&e=f. Or (https://x.example).", "<p>See " +
		link("https://x.example/a_b?c=d&amp;e=f", "https://x.example/a_b?c=d&amp;e=f") + ". Or (" + link("https://x.example/", "https://x.example") + ").</p>"},
	{"**https://x.example/**", "<p><strong>" + link("https://x.example/", "https://x.example/") + "</strong></p>"},
	{"[x](mailto:a@b.example)", "<p>" + link("mailto:a@b.example", "x") + "</p>"},
	{"[a](/props) [b](#c) [d](javascript:1) [e](java\tscript:1) [f]()",
		"<p>[a](/props) [b](#c) [d](javascript:1) [e](java\tscript:1) [f]()</p>"},
	{"[a] [b][c] [d", "<p>[a] [b][c] [d</p>"},

	// What is HTML elsewhere
	{"<b>x</b> &lt;i&gt; &amp;amp; &copy; a<br>b", "<p>&lt;b&gt;x&lt;/b&gt; &lt;i&gt; &amp;amp; &amp;copy; a<br>b</p>"},
	{"<!-- c -->", "<p>&lt;!-- c --&gt;</p>"},

	// Lists
	{"- a\n- b", "<ul><li>a</li><li>b</li></ul>"},
	{"* a\n+ b", "<ul><li>a</li><li>b</li></ul>"},
	{"1. a\n2) b", "<ol><li>a</li><li>b</li></ol>"},
	{"3. a", `<ol start="3"><li>a</li></ol>`},
	{"- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"},
	{"- a\n  - b\n    - c\n- d", "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>"},
	{"1. a\n  - b\n    - c\n2. d", "<ol><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ol>"},
	{"1. a\n   ```sh\n   x\n     y\n   ```\n2. b", "<ol><li>a" + code("sh", "x\n  y") + "</li><li>b</li></ol>"},
	{"- a\n\t```\n\t\tx\n\t```", "<ul><li>a" + code("", "\tx") + "</li></ul>"},
	{"- a\nlazy\n\nafter", "<ul><li>a<br>lazy</li></ul><p>after</p>"},
	{"- a\n1. b", "<ul><li>a</li></ul><ol><li>b</li></ol>"},
	{"1. a\n\n```\nx\n```\n\n2. b", `<ol><li>a</li></ol>` + code("", "x") + `<ol start="2"><li>b</li></ol>`},
	{"- [ ] a\n- [x] b", `<ul><li class="task"><input type="checkbox" disabled="">a</li>` +
		`<li class="task"><input type="checkbox" disabled="" checked="">b</li></ul>`},
	{"text\n- a", "<p>text</p><ul><li>a</li></ul>"},
	{"born in\n1984. It", "<p>born in<br>1984. It</p>"},
	{"text\n-", "<p>text<br>-</p>"},
	{"-", "<ul><li></li></ul>"},
	{"-a", "<p>-a</p>"},
	{"- a\n---", "<ul><li>a</li></ul><hr>"},

	// Quotes, tables, formulas
	{"> a\n> > b\n>\n> - c", "<blockquote><p>a</p><blockquote><p>b</p></blockquote><ul><li>c</li></ul></blockquote>"},
	{"| a | b |\n|:--|--:|\n| *c* | d\\|e |\n| f |\n\ng", table("<th class=\"left\">a</th><th class=\"right\">b</th>",
		"<td class=\"left\"><em>c</em></td><td class=\"right\">d|e</td>", "<td class=\"left\">f</td>") + "<p>g</p>"},
	{"intro\na | b\n--|:-:\n1 | 2 | 3", "<p>intro</p>" + table("<th class=\"left\">a</th><th class=\"center\">b</th>",
		"<td class=\"left\">1</td><td class=\"center\">2</td>")},
	{"a | b\n---", "<p>a | b</p><hr>"},
	{"$$\na_1 * b_1\n$$", `<pre class="math">a_1 * b_1</pre>`},
	{"\\[ x^2 \\]\nso \\(a*b*c\\) and $5 or $6", `<pre class="math">x^2</pre><p>so <code class="math">a*b*c</code> and $5 or $6</p>`},
	{"$$E=mc^2$$ and $a_1$, so $x$.", `<p><code class="math">E=mc^2</code> and <code class="math">a_1</code>, so <code class="math">x</code>.</p>`},
	{"$$a$$\nfrom $5 to $6, or US$7 and C$8", `<pre class="math">a</pre><p>from $5 to $6, or US$7 and C$8</p>`},
	{"$$ never closed\n\nafter", `<pre class="math">never closed</pre><p>after</p>`},
}

func code(language, body string) string {
	return `<figure class="code"><figcaption><span>` + language + `</span></figcaption><pre><code>` + body + `</code></pre></figure>`
}

func link(to, text string) string {
	return `<a href="` + to + `" title="` + to + `" target="_blank" rel="noopener noreferrer">` + text + `</a>`
}

func table(head string, rows ...string) string {
	return `<div class="table"><table><thead><tr>` + head + `</tr></thead><tbody><tr>` + strings.Join(rows, "</tr><tr>") + `</tr></tbody></table></div>`
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// load has the page define rendered(text), which writes out what becomes of a text at once, and
// grown(text, cuts), which does the same by way of the texts that end at the cuts.
func load(t *testing.T, b *browser.Browser) *browser.Page {
	p := b.Open(t, newServer(t, nil).URL)
	p.Exec(`(async () => {
		const { View } = await import("./assets/markdown.js");
		const written = (node) => {
			for (const button of node.querySelectorAll("button")) button.remove();
			return node.innerHTML;
		};
		globalThis.grown = (text, cuts) => {
			const node = document.createElement("div");
			const view = new View(node);
			for (const cut of cuts) view.set(text.slice(0, cut));
			view.set(text);
			return written(node);
		};
		globalThis.rendered = (text) => grown(text, []);
	})()`)
	return p
}

func testMarkdown(t *testing.T, b *browser.Browser) {
	p := load(t, b)
	for _, tt := range markdown {
		if html := browser.Eval[string](p, "rendered("+quoted(tt.text)+")"); html != tt.html {
			t.Errorf("%q\n got %s\nwant %s", tt.text, html, tt.html)
		}
	}

	// A text that grows, wherever it was cut, ends as the same text shown at once.
	t.Run("grows", func(t *testing.T) {
		var all strings.Builder
		for _, tt := range markdown {
			all.WriteString(tt.text)
			all.WriteString([]string{"\n", "\n\n"}[all.Len()%2])
		}
		p.Exec(`globalThis.differing = (text, cuts) => grown(text, cuts) === rendered(text) ? "" : grown(text, cuts) + "\n\n" + rendered(text)`)
		if d := browser.Eval[string](p, "differing("+quoted(all.String())+", Array.from({length: "+fmt.Sprint(all.Len())+"}, (_, i) => i))"); d != "" {
			t.Errorf("character by character: %s", d)
		}
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 0))
		parts := []string{"\n", "\n\n", "- ", "1. ", "  ", "> ", "```\n", "| a | b |\n", "|---|---|\n", "# ", "*", "**", "_", "`", "$$", "[a](https://x.example)",
			"word", " ", "---\n", "\t", "2. ", "\\", "https://x.example/a", "<br>", "\\[", "~~~"}
		var texts []string
		for range 400 {
			var text strings.Builder
			for range 5 + r.IntN(40) {
				text.WriteString(parts[r.IntN(len(parts))])
			}
			texts = append(texts, text.String())
		}
		list, _ := json.Marshal(texts)
		for _, d := range browser.Eval[[]string](p, string(list)+".map(text => differing(text, Array.from({length: text.length}, (_, i) => i)))") {
			if d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
		}
	})

	// A table has the cells that were written, and no more: rows times columns may be any number.
	t.Run("draws wide tables", func(t *testing.T) {
		text := strings.Repeat("|a", 4000) + "\n" + strings.Repeat("|-", 4000) + "\n" + strings.Repeat("|b\n", 8000)
		if n := browser.Eval[int](p, "rendered("+quoted(text)+").split(/<t[hd][ >]/).length - 1"); n != 12_000 {
			t.Errorf("%d cells, want 12000", n)
		}
	})

	// Whatever there is much of, there is room for it.
	t.Run("has room", func(t *testing.T) {
		for _, part := range []string{"*a* ", "*a ", "&lt;", "- a\n", "a\n\n", "> a\n\n", "`a` ", "\\*", "[", "|a", "***a** b*"} {
			text := strings.Repeat(part, 400_000/len(part))
			if n := browser.Eval[int](p, "rendered("+quoted(text)+").length"); n < 100_000 {
				t.Errorf("400 kB of %q became %d bytes", part, n)
			}
		}
	})

	// Text that makes other parsers slow: time must grow with length, and no faster.
	t.Run("is fast", func(t *testing.T) {
		for _, part := range []string{"*a ", "*a _b ", "a_ ", "[", "[a](", "![", "`a``b", "> ", "- ", "<", "\\(", "&", "~~a ", "**a*", "| a ",
			"[a](b c", "$$\n", "```\n", "1. a\n  ", "  - a\n", "http://", "\\[ ", "<https://", "[a [b] ", "((", " "} {
			text := "x" + strings.Repeat(part, 60_000/len(part))
			start := time.Now()
			p.Exec("rendered(" + quoted(text) + ")")
			p.Exec("rendered(" + quoted(text[1:]) + ")")
			if took := time.Since(start); took > time.Minute { // on a busy machine
				t.Errorf("60 kB of %q took %v", part, took)
			}
		}
	})
}
