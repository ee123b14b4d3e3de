// Package page is the chat page: one HTML file, a stylesheet and JavaScript
// modules, kept in the program and served as they are, with nothing to build and
// nothing to fetch from elsewhere. It is a client of the HTTP API like any other:
// it asks v1/chat/completions, v1/models and props, relative to its own address,
// and keeps conversations and settings in the browser.
//
// What a model writes is hostile input. The page makes text nodes of it, never
// HTML, and its policy has the browser refuse the rest: foreign or inline code,
// foreign images and styles, and any string used as markup.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed index.html assets
var files embed.FS

// Not from package mime, whose answers depend on the machine's own tables.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// A file is what one address answers: the bytes, and the same bytes packed.
type file struct {
	contentType  string
	plain, gzip  []byte
	etag, packed string // the tags of the two
}

// served has the files by their addresses.
var served = sync.OnceValue(func() map[string]*file {
	all := map[string]*file{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		all["/"+name] = newFile(name, data)
		return nil
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	all["/"] = all["/index.html"]
	delete(all, "/index.html")
	return all
})

// Paths returns the addresses that Handler serves: / and those of its parts, below
// /assets/. They are public: the page itself asks for the API key.
func Paths() []string { return slices.Sorted(maps.Keys(served())) }

// Handler serves the page. Under a prefix, strip it before; the page's own address
// must end in a slash, since it asks for all else relative to it.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := served()[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		f.serve(w, r)
	})
}

func newFile(name string, data []byte) *file {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is a valid one
	z.Write(data)                                         // into memory: cannot fail
	z.Close()
	sum := sha256.Sum256(data)
	tag := hex.EncodeToString(sum[:12])
	return &file{
		contentType: contentTypes[path.Ext(name)],
		plain:       data,
		gzip:        b.Bytes(),
		etag:        `"` + tag + `"`,
		packed:      `"` + tag + `-gz"`,
	}
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read: GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	// Asked anew each time and answered 304, so that a new program's page is seen at once
	// and its modules are never those of two programs.
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", f.contentType)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	data, tag := f.plain, f.etag
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		data, tag = f.gzip, f.packed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// acceptsGzip reads an Accept-Encoding header: gzip or *, unless its weight is 0.
func acceptsGzip(header string) bool {
	accepted := false
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "gzip" && name != "*" {
			continue
		}
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // malformed counts as 0
		}
		if name == "gzip" {
			return weight > 0
		}
		accepted = weight > 0
	}
	return accepted
}
