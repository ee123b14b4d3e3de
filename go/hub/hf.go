package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// maxFiles limits the files of a repository or a manifest.
const maxFiles = 100_000

// A repository is Hugging Face's description of a revision of a repository.
type repository struct {
	Commit string           `json:"sha"`
	Files  []repositoryFile `json:"siblings"`
}

type repositoryFile struct {
	Path string `json:"rfilename"`
	Size *int64 `json:"size"`
	LFS  *struct {
		SHA256 string `json:"sha256"`
		Size   int64  `json:"size"`
	} `json:"lfs"`
}

// parseRepository parses the response about a repository.
func parseRepository(body []byte) (r repository, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, errors.New("the answer about the repository is no JSON of the form that is expected")
	}
	return r, nil
}

// models returns the commit and the GGUF files of a repository, without hidden ones. Invalid names are errors.
func (r *repository) models() (commit string, files []File, err error) {
	if !isComponent(r.Commit) {
		return "", nil, fmt.Errorf("the commit %.60q, want a name", r.Commit)
	}
	if len(r.Files) > maxFiles {
		return "", nil, fmt.Errorf("%d files, want at most %d", len(r.Files), maxFiles)
	}
	for _, s := range r.Files {
		if !strings.HasSuffix(s.Path, ".gguf") || isHidden(s.Path) {
			continue
		}
		if err := checkPath(s.Path); err != nil {
			return "", nil, err
		}
		f := File{Path: s.Path, Size: -1}
		if s.Size != nil {
			f.Size = *s.Size
		}
		if s.LFS != nil {
			f.Size, f.SHA256 = s.LFS.Size, s.LFS.SHA256
		}
		files = append(files, f)
	}
	return r.Commit, files, nil
}

// isHidden reports whether the name of a file, or of a folder on its path, begins with a dot.
func isHidden(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(part string) bool {
		return strings.HasPrefix(part, ".") && part != "." && part != ".."
	})
}

// authorized sends requests with a token.
type authorized struct {
	doer
	token string
}

func (a authorized) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.doer.Do(r)
}

// huggingFace returns the client for Hugging Face.
func (h *Hub) huggingFace() doer {
	if h.c.Token == "" {
		return h.http
	}
	return authorized{h.http, h.c.Token}
}

// describe asks Hugging Face for the description of a repository at its revision.
func (h *Hub) describe(ctx context.Context, r Ref) (repository, error) {
	rev := r.Rev
	if rev == "" {
		rev = "main"
	}
	address := h.c.HuggingFace + "/api/models/" + r.Repo + "/revision/" + url.PathEscape(rev) + "?blobs=true"
	body, err := h.get(ctx, h.huggingFace(), address, nil, maxMeta)
	if err != nil {
		return repository{}, h.explain(err)
	}
	return parseRepository(body)
}

// resolveHF finds the files of a model on Hugging Face, at the current commit of its revision.
func (h *Hub) resolveHF(ctx context.Context, r Ref) (*Plan, error) {
	repo, err := h.describe(ctx, r)
	if err != nil {
		return nil, err
	}
	commit, files, err := repo.models()
	if err != nil {
		return nil, err
	}
	var g *group
	if r.File != "" {
		g, err = containing(files, r.File)
	} else {
		g, err = choose(files, r.Tag)
	}
	if err != nil {
		return nil, err
	}
	if r.File == "" {
		if r.Tag = g.quant(); r.Tag == "" {
			r.File = g.files[0].Path
		}
	}
	p := &Plan{Ref: r, Revision: commit, Files: g.files}
	if of := g.files[0].Path; !gguf.IsProjector(of) {
		if f := projectorOf(files, path.Dir(of)); f != nil {
			p.Files = append(slices.Clone(p.Files), *f)
		}
	}
	for i := range p.Files {
		f := &p.Files[i]
		f.URL = h.c.HuggingFace + "/" + r.Repo + "/resolve/" + commit + "/" + escapePath(f.Path)
		f.from = h.huggingFace()
	}
	return p, nil
}

// explain adds advice to an error of Hugging Face.
func (h *Hub) explain(err error) error {
	var status *StatusError
	if !errors.As(err, &status) {
		return err
	}
	switch {
	case status.Status == http.StatusUnauthorized && h.c.Token == "":
		return fmt.Errorf("%w: there is no such repository, or it needs a token in HF_TOKEN", err)
	case status.Status == http.StatusUnauthorized, status.Status == http.StatusForbidden:
		return fmt.Errorf("%w: the token may not read it; its page may ask to accept a license first", err)
	case status.Status == http.StatusNotFound:
		return fmt.Errorf("%w: there is no such repository or revision", err)
	}
	return err
}

func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i, s := range parts {
		parts[i] = url.PathEscape(s)
	}
	return strings.Join(parts, "/")
}
