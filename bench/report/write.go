package main

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A section is a part of the page that stands alone: a title, and HTML that this program made.
type section struct {
	Anchor, Title string
	Body          template.HTML
}

// write writes the page.
func (r *results) write(w io.Writer) error {
	var overview, pages []section
	for _, part := range []func() (section, error){r.peers, r.rooflines, r.qualities, r.memory, r.changes} {
		s, err := part()
		if err != nil {
			return err
		}
		if s.Body != "" {
			overview = append(overview, s)
		}
	}
	for _, p := range r.pages {
		s, err := r.page(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		pages = append(pages, s)
	}
	return pageTemplate.Execute(w, map[string]any{"Overview": overview, "Pages": pages})
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table))

var (
	image     = regexp.MustCompile(`<p><img src="([^"/]+\.svg)" alt="[^"]*"></p>`)
	otherPage = regexp.MustCompile(`href="([^"/:#]+)\.md(#[^"]*)?"`)
	elsewhere = regexp.MustCompile(`<a href="[./][^"]*">(.*?)</a>`)
	title     = regexp.MustCompile(`^# .*\n`)
)

// page turns a result into HTML: pictures are put into it, links to other results lead to
// their place, and links into the tree, which is not here, become text.
func (r *results) page(p result) (section, error) {
	var b bytes.Buffer
	if err := markdown.Convert([]byte(title.ReplaceAllString(p.text, "")), &b); err != nil {
		return section{}, err
	}
	var failed error
	html := image.ReplaceAllStringFunc(b.String(), func(s string) string {
		svg, err := r.picture(image.FindStringSubmatch(s)[1])
		if err != nil {
			failed = err
		}
		return string(svg)
	})
	html = otherPage.ReplaceAllString(html, `href="#$1"`)
	html = elsewhere.ReplaceAllString(html, "$1")
	return section{p.name, p.title, template.HTML(html)}, failed
}

// picture returns a picture of the folder, to be part of the page.
func (r *results) picture(file string) (template.HTML, error) {
	b, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil {
		return "", err
	}
	return inline(b)
}

// inline returns an SVG document as an element of a page, after a look that it is one, and has no script.
func inline(svg []byte) (template.HTML, error) {
	root := ""
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		t, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		if e, ok := t.(xml.StartElement); ok {
			if root == "" {
				root = e.Name.Local
			}
			if e.Name.Local == "script" {
				return "", fmt.Errorf("a picture with a script")
			}
		}
	}
	if root != "svg" {
		return "", fmt.Errorf("a picture of <%s>, want <svg>", root)
	}
	return template.HTML(`<figure>` + string(svg[bytes.Index(svg, []byte("<svg")):]) + `</figure>`), nil
}

// linked names a page, with a link to it.
func linked(page string) string {
	return fmt.Sprintf(`<a href="#%s">%s</a>`, template.HTMLEscapeString(page), template.HTMLEscapeString(page))
}

// grid returns a table whose cells are text but for the last, which is HTML.
func grid(head []string, rows [][]string) string {
	var b strings.Builder
	b.WriteString("<table><thead><tr>")
	for _, c := range head {
		b.WriteString("<th>" + template.HTMLEscapeString(c) + "</th>")
	}
	b.WriteString("</tr></thead><tbody>")
	for _, row := range rows {
		b.WriteString("<tr>")
		for i, c := range row {
			if i < len(row)-1 {
				c = template.HTMLEscapeString(c)
			}
			b.WriteString("<td>" + c + "</td>")
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>\n")
	return b.String()
}
