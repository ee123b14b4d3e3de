package document

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, f File) *Document {
	t.Helper()
	d, err := Read(t.Context(), f, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// refused has a file be refused as an error of a kind.
func refused(t *testing.T, f File, l Limits, kind error, want string) {
	t.Helper()
	_, err := Read(t.Context(), f, l)
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%.40q: %v, want %q", f.Data, err, want)
	}
}

func TestPlainText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ data, kind, want string }{
		{"a\r\nb\rc\n", "", "a\nb\nc\n"},
		{"\xef\xbb\xbfgrün", "text/markdown", "grün"},
		{"\xff\xfeg\x00r\x00\xfc\x00n\x00=\xd8\x00\xde", "text/plain", "grün😀"},
		{"\xfe\xff\x00g\x00r\x00\xfc\x00n", "text/csv", "grün"},
		{"gr\xfcn \x80", "text/plain; charset=ISO-8859-1", "grün €"},
		{`{"a": 1}`, "application/json", `{"a": 1}`},
		{"<p>Hi</p>", "text/plain", "<p>Hi</p>"},
		{"BMW and others", "", "BMW and others"},
	} {
		if d := read(t, File{Data: []byte(c.data), Type: c.kind}); d.Format != "text" || len(d.Pages) != 1 || d.Pages[0] != c.want {
			t.Errorf("%q: %+v", c.data, d)
		}
	}
}

func TestUnmarked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ data, want, wrong string }{
		{"", "", ""},
		{"a\r\nb\xff", "a\r\nb\xff", ""},
		{"\xef\xbb\xbfgrün\r\n", "grün\r\n", ""},
		{"\xef\xbb\xbfgr\xfcn", "", "not UTF-8"},
		{"\xff\xfe=\xd8\x00\xde", "😀", ""},
		{"\xfe\xff\x00g", "g", ""},
		{"\xff\xfea", "", "odd number"},
	} {
		got, err := Unmarked([]byte(c.data))
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %q, %v, want %q, %q", c.data, got, err, c.want, c.wrong)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ data, kind, want string }{
		{"", "", "an empty file"},
		{" \n\t", "", "an empty document"},
		{"gr\xfcn", "", "the byte 2 is not UTF-8; want UTF-8, or UTF-16"},
		{"gr\xfcn", "text/plain; charset=koi8-r", `the charset "koi8-r" is not read`},
		{"a\x00b", "", "a file of an unknown type is not read; want PDF, DOCX, HTML and text"},
		{"\x7fELF\x02\x01\x01\x00", "", "application/x-elf is not read"},
		{"\xff\xfea", "", "UTF-16 of an odd number of bytes"},
		{"\xff\xfe\x00\x00\x00\x00", "", "UTF-16 with zeros"},
		{"hello", "application/pdf", "declared as application/pdf, and it is text"},
		{"hello", "image/png", "declared as image/png, and it is text"},
		{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and more", "", "an Office file of the old format, or with a password"},
		{"<html></html>", "text/html", "a page without text"},
	} {
		refused(t, File{Data: []byte(c.data), Type: c.kind}, Limits{}, ErrFormat, c.want)
	}
	refused(t, File{Data: []byte("hello")}, Limits{Text: 4}, ErrSize, "of text")
	refused(t, File{Data: []byte("<p>hello"), Type: "text/html"}, Limits{Text: 4}, ErrSize, "of text")
	refused(t, File{Data: []byte("<p>hello"), Type: "text/html"}, Limits{Time: time.Nanosecond}, ErrSize, "to read")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, File{Data: []byte("hello")}, Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
}

func TestHTML(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ page, want string }{
		{"<!DOCTYPE html><title> A  page </title><body><h1>Head</h1><p>One <b>bo</b>ld\n word.<p>Two<br>lines", "# A page\n\n# Head\n\nOne bold word.\n\nTwo\nlines"},
		{"<p>a<script>if (a < b) '</p>'</script>b<style>p{}</style>c<noscript>d</noscript><svg><text>e</text><svg/></svg>f", "abcf"},
		{"<ul><li>one<li><p>two</p></ul>after", "- one\n- two\n\nafter"},
		{"<table><tr><th>a<th>b</tr><tr><td>1</td><td>2</td></tr></table>", "a | b\n1 | 2"},
		{"<pre>x\n  y\n</pre>z", "x\n  y\n\n\nz"},
		{"&lt;b&gt; &amp; caf&eacute;&nbsp;!", "<b> & café !"},
		{"<a href=x>a</a><span> b</span>", "a b"},
		{"a<!-- no --><iframe>no</iframe><template><p>no</template>b", "ab"},
		{"<hr><p>a", "---\n\na"},
	} {
		if d := read(t, File{Data: []byte(c.page), Type: "text/html"}); d.Format != "HTML" || d.Pages[0] != c.want {
			t.Errorf("%s: %q, want %q", c.page, d.Pages, c.want)
		}
	}
	for name, f := range map[string]File{
		"by its name":     {Data: []byte("<p>é"), Name: "a.HTM"},
		"by its looks":    {Data: []byte("<!doctype html><p>é")},
		"in windows-1252": {Data: []byte("<p>\xe9"), Type: "text/html"},
		"as it says":      {Data: []byte("<meta charset=iso-8859-1><p>\xe9"), Name: "a.html"},
	} {
		if d := read(t, f); d.Format != "HTML" || d.Pages[0] != "é" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := read(t, File{Data: []byte("<!doctype html><p>a"), Name: "page.txt"}); d.Format != "text" {
		t.Errorf("a text with tags: %+v", d)
	}
	deep := strings.Repeat("<div><p><table><tr><td><ul><li>", 50_000) + "x"
	if d := read(t, File{Data: []byte(deep), Type: "text/html"}); d.Pages[0] != "- x" {
		t.Errorf("deep: %.50q", d.Pages)
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d                   *Document
		name, context, want string
	}{
		{Plain("a\n"), "", "", "<document>\na\n</document>\n"},
		{Plain("a"), "x \"y\"\n.txt", "", "<document name=\"x 'y'.txt\">\na\n</document>\n"},
		{Plain("a"), "\xff", "c", "<document>\n<context>\nc\n</context>\na\n</document>\n"},
		{&Document{Pages: []string{"a", "", "b"}, paged: true}, "p", "",
			"<document name=\"p\">\n<page number=\"1\">\na\n</page>\n<page number=\"2\">\n</page>\n<page number=\"3\">\nb\n</page>\n</document>\n"},
	} {
		if got := c.d.Prompt(c.name, c.context); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := nameIn(strings.Repeat("ä", 1000)); len(got) > maxName {
		t.Errorf("a name of %d bytes", len(got))
	}
}

// A text that tells of PDF is a text.
func TestTextsAboutPDF(t *testing.T) {
	t.Parallel()
	for _, f := range []File{
		{Data: []byte("<!doctype html><title>a</title><p>A file begins with %PDF-1.7 and")},
		{Data: []byte("A file begins with %PDF-1.7 and"), Type: "text/plain"},
	} {
		if d := read(t, f); d.Format == "PDF" || !strings.Contains(d.Pages[0], "%PDF-1.7 and") {
			t.Errorf("%s: %+v", f.Data, d)
		}
	}
	if page := []byte("<< /Pages << /Kids [<< /Type /Page >>] >> >> trailer << /Root 1 0 R >>"); !isPDF(append([]byte("\n%PDF-1.7 1 0 obj "), page...)) ||
		!isPDF(append([]byte("head\x00\x01\xff %PDF-1.7 1 0 obj "), page...)) {
		t.Error("a PDF is none")
	}
}
