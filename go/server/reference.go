package server

import (
	"bytes"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// referencePage is the page of all endpoints for people. Like the OpenAPI document it needs no key.
var referencePage = Page{"/docs", "The endpoints, as a page", "text/html"}

// referenceStyle is the page's stylesheet, for light and dark schemes.
const referenceStyle = ":root{color-scheme:light dark}" +
	"body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}" +
	"h2{margin-top:2em;border-top:1px solid #8886;padding-top:1em;font-size:1.1em}" +
	"table{border-collapse:collapse;width:100%}" +
	"td,th{text-align:left;vertical-align:top;border-top:1px solid #8884;padding:.2em .6em .2em 0}" +
	"pre{overflow:auto;background:#8882;padding:.6em}ul{columns:2}"

// reference is the page of routes and pages: what the OpenAPI document says, without a script.
func reference(routes []answer.Route, pages []Page, version string) []byte {
	var b bytes.Buffer
	esc := html.EscapeString
	b.WriteString("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Quern API</title>")
	fmt.Fprintf(&b, "<style>%s</style>\n", referenceStyle)
	fmt.Fprintf(&b, "<h1>Quern API</h1><p>%s. "+
		"The same for programs: <a href=\"openapi.json\">openapi.json</a>.</p>\n<ul>\n", esc(version))
	for _, r := range routes {
		id := operationID(r.Method, r.Paths[0])
		fmt.Fprintf(&b, "<li><a href=\"#%s\">%s %s</a></li>\n", id, r.Method, esc(openPath(r.Paths[0])))
	}
	b.WriteString("</ul>\n")
	for _, r := range routes {
		fmt.Fprintf(&b, "<h2 id=\"%s\"><code>%s %s</code></h2>\n<p>%s.", operationID(r.Method, r.Paths[0]), r.Method,
			esc(openPath(r.Paths[0])), esc(strings.TrimSuffix(r.Summary, ".")))
		if len(r.Paths) > 1 {
			fmt.Fprintf(&b, " Also: <code>%s</code>.", esc(strings.Join(r.Paths[1:], ", ")))
		}
		if r.Admin {
			b.WriteString(" For keys with the role admin.")
		}
		b.WriteString("</p>\n")
		if len(r.Params) > 0 {
			b.WriteString("<table><tr><th>parameter<th>in<th>\n")
			for _, p := range r.Params {
				fmt.Fprintf(&b, "<tr><td><code>%s</code><td>%s<td>%s\n", esc(p.Name), esc(p.In), esc(p.Doc))
			}
			b.WriteString("</table>\n")
		}
		if r.Body.Name != "" {
			referenceFields(&b, r.Body)
		}
		if r.Example != nil {
			if example, err := reply.Encode(r.Example); err == nil {
				fmt.Fprintf(&b, "<pre>curl -X %s $URL%s -d &#39;%s&#39;</pre>\n", r.Method,
					esc(openPath(r.Paths[0])), esc(string(example)))
			}
		}
	}
	for _, p := range pages {
		fmt.Fprintf(&b, "<h2><code>GET %s</code></h2>\n<p>%s.</p>\n", esc(p.Path), esc(p.Summary))
	}
	return b.Bytes()
}

// referenceFields adds the table of a body's fields.
func referenceFields(b *bytes.Buffer, body answer.Body) {
	fields := body.Defaults(&ask.Model{Sampling: sample.Defaults(), Normalize: engine.Euclidean}).Fields()
	b.WriteString("<table><tr><th>field<th>default<th>\n")
	needed := func(f field.Field) int {
		if f.Need {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(fields, func(x, y field.Field) int { return needed(x) - needed(y) })
	for _, f := range fields {
		standard := ""
		switch {
		case f.Need:
			standard = "required"
		case !f.Input:
			if v, err := reply.Encode(f.To.Value()); err == nil {
				standard = string(v)
			}
		}
		fmt.Fprintf(b, "<tr><td><code>%s</code><td>%s<td>%s\n", html.EscapeString(strings.Join(f.Names, ", ")),
			html.EscapeString(standard), html.EscapeString(f.Doc))
	}
	b.WriteString("</table>\n")
}

// serveReference serves the page.
func (s *Server) serveReference(c *gin.Context) {
	c.Header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	c.Header("X-Content-Type-Options", "nosniff")
	c.Data(http.StatusOK, "text/html; charset=utf-8", s.reference)
}
