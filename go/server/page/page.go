// Package page is the chat page: one HTML file, a stylesheet and JavaScript modules,
// embedded in the program and served as they are, without a build step or external
// resources. It is an ordinary client of the HTTP API: it uses v1/chat/completions,
// v1/models and props, relative to its own address, and keeps conversations and
// settings in the browser.
//
// Model output is untrusted. The page inserts it as text nodes, never as HTML, and its
// content security policy blocks the rest: foreign or inline scripts, foreign images
// and styles, and strings used as markup.
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

//go:embed index.html sw.js assets
var files embed.FS

// Not from package mime, whose results depend on the system's tables.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// A file is the resource at one path, plain and compressed.
type file struct {
	contentType  string
	plain, gzip  []byte
	etag, packed string // the ETags of the two
}

// served maps paths to files.
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
		panic(err) // unreachable: the files are embedded
	}
	all["/"] = all["/index.html"]
	delete(all, "/index.html")
	return all
})

// Paths returns the paths that Handler serves: /, the assets below /assets/, and /sw.js, which takes the place of the
// service worker of llama-server's page. They are public: the page itself asks for the API key.
func Paths() []string { return slices.Sorted(maps.Keys(served())) }

// Handler serves the page. Strip a prefix before calling it; the page's own URL must
// end in a slash, since all its requests are relative to it.
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
	// Revalidated on each use, with 304 if unchanged: a new version of the program
	// takes effect at once, and modules of two versions never mix.
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

// acceptsGzip parses an Accept-Encoding header for gzip or *, with a weight other than
// 0.
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
