// Package hub downloads models into a cache: from Hugging Face, Ollama's registry, OCI registries, and URLs.
//
// A model in the cache is complete: its files get their names only after their SHA-256 was verified. Partial
// downloads are kept apart, and a later pull resumes them after any kind of interruption. Several programs
// may use a cache at the same time. The package does not interpret models: the caller of a pull can inspect
// the headers of its files before the rest is downloaded.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/persona"
)

// Config sets the sources and the cache.
type Config struct {
	Dir         string        // of the cache; created when it is needed
	HuggingFace string        // URL of Hugging Face or a mirror; empty: https://huggingface.co
	Ollama      string        // URL of Ollama's registry; empty: https://registry.ollama.ai
	Token       string        // for Hugging Face; may be empty
	Agent       string        // the program's name, for servers
	Connections int           // at a time; 0: 4
	Offline     bool          // nothing is downloaded
	Piece       int64         // bytes of a request; 0: 32 MiB
	Backoff     time.Duration // before the second try of a request; 0: half a second
	Stall       time.Duration // without a byte, after which a connection is given up; 0: 30 s
}

// ErrOffline reports a model that would have to be downloaded in offline mode.
var ErrOffline = errors.New("it is not in the cache, and --offline forbids downloads")

// A Hub downloads models into a cache. It is safe for concurrent use.
type Hub struct {
	c       Config
	http    *http.Client
	writeAt func(f *os.File, b []byte, at int64) (int, error)
}

// New returns a Hub.
func New(c Config) (*Hub, error) {
	if c.Dir == "" {
		return nil, errors.New("no folder for the cache of models")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	c.Dir = dir
	for _, e := range []struct {
		url      *string
		standard string
	}{{&c.HuggingFace, "https://huggingface.co"}, {&c.Ollama, "https://registry.ollama.ai"}} {
		if *e.url == "" {
			*e.url = e.standard
		}
		u, err := url.Parse(*e.url)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
			return nil, fmt.Errorf("the endpoint %q, want a URL such as %s", *e.url, e.standard)
		}
		*e.url = strings.TrimRight(*e.url, "/")
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("the token for Hugging Face has spaces or other characters that no token has")
	}
	if c.Connections == 0 {
		c.Connections = 4
	}
	if c.Piece == 0 {
		c.Piece = 32 << 20
	}
	if c.Backoff == 0 {
		c.Backoff = 500 * time.Millisecond
	}
	if c.Stall == 0 {
		c.Stall = 30 * time.Second
	}
	return &Hub{c: c, http: newHTTP(c.Agent), writeAt: (*os.File).WriteAt}, nil
}

// Dir returns the folder of the cache.
func (h *Hub) Dir() string { return h.c.Dir }

// A File is a file of a model on a server.
type File struct {
	Path      string // on the server, below the repository; its last part names the file in the cache
	URL       string
	Size      int64  // -1: the server does not say
	SHA256    string // empty: the server does not say
	Validator string // that changes when the file does (an ETag or a date), of files without a SHA256

	from  doer
	whole bool // the server was asked for a part, and sent no part
}

// Name is the file's name in the cache.
func (f *File) Name() string { return path.Base(f.Path) }

// A Plan is the list of files of a pull.
type Plan struct {
	Ref      Ref              // with the default tag filled in
	Revision string           // that the server had
	Files    []File           // the shards of a model, in order, and its projector, if it has one
	Persona  *persona.Persona // settings that come with it; nil: none
	Skipped  string           // which of its settings are left out, and why; empty: none
}

// Bytes returns the total size of the files, as far as it is known.
func (p *Plan) Bytes() int64 {
	n := int64(0)
	for i := range p.Files {
		n += max(p.Files[i].Size, 0)
	}
	return n
}

// DropProjector leaves out the projector, the encoders of pictures and sounds that go with the model. A plan for a
// projector alone stays as it is.
func (p *Plan) DropProjector() {
	if len(p.Files) > 1 {
		p.Files = slices.DeleteFunc(p.Files, func(f File) bool { return gguf.IsProjector(f.Path) })
	}
}

// maxBytes limits the file size that a server may claim.
const maxBytes = 1 << 46

// check returns an error unless the plan is valid.
func (p *Plan) check() error {
	if len(p.Files) == 0 {
		return errors.New("the model has no files")
	}
	names := map[string]bool{}
	for i := range p.Files {
		f := &p.Files[i]
		if err := checkName(f.Name()); err != nil {
			return err
		}
		if names[f.Name()] {
			return fmt.Errorf("two files are called %q", f.Name())
		}
		names[f.Name()] = true
		if f.SHA256 != "" {
			if err := checkSum(f.SHA256); err != nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		if f.Size < -1 || f.Size > maxBytes {
			return fmt.Errorf("%s: %d bytes, want 0 to %d", f.Name(), f.Size, int64(maxBytes))
		}
	}
	return nil
}

// Resolve asks the server for the files of a model. Errors name the model.
func (h *Hub) Resolve(ctx context.Context, r Ref) (*Plan, error) {
	if h.c.Offline {
		return nil, fmt.Errorf("%s: %w", r.Shown(), ErrOffline)
	}
	var p *Plan
	var err error
	switch r.Kind {
	case Ollama:
		p, err = h.resolveOllama(ctx, r)
	case OCI:
		p, err = h.resolveOCI(ctx, r)
	case Web:
		p, err = h.resolveWeb(ctx, r)
	default:
		p, err = h.resolveHF(ctx, r)
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Shown(), err)
	}
	return p, nil
}
