package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// resolveWeb asks for the size of a file at a URL, or of all shards of a model, if its name is that of one of them. A URL with a
// query means its own file alone: what is behind the ? may be a signature of this one.
func (h *Hub) resolveWeb(ctx context.Context, r Ref) (*Plan, error) {
	files := []File{{Path: r.fileName(), URL: r.URL, SHA256: r.Sum, from: h.http}}
	if at, err := url.Parse(r.URL); err == nil && at.RawQuery == "" && strings.HasSuffix(at.Path, ".gguf") {
		stem, _, count := cutShard(strings.TrimSuffix(at.EscapedPath(), ".gguf"))
		if count > 1 && r.Sum != "" {
			return nil, fmt.Errorf("a sha256 of one of %d files; leave it out", count)
		}
		if count > maxWebShards {
			return nil, fmt.Errorf("%d files, want at most %d", count, maxWebShards)
		}
		if count > 1 {
			files = make([]File, count)
		}
		for i := 0; count > 1 && i < count; i++ {
			at.RawPath = gguf.ShardPath(stem, i, count)
			if at.Path, err = url.PathUnescape(at.RawPath); err != nil {
				return nil, err
			}
			files[i] = File{Path: path.Base(at.Path), URL: at.String(), from: h.http}
		}
	}
	for i := range files {
		if err := h.measure(ctx, &files[i]); err != nil {
			if len(files) > 1 {
				err = fmt.Errorf("%s: %w", files[i].Name(), err)
			}
			return nil, err
		}
	}
	revision := files[0].Validator
	for _, f := range files[1:] {
		revision += " " + f.Validator
	}
	return &Plan{Ref: r, Revision: revision, Files: files}, nil
}

// maxWebShards limits how many files are asked for because of a name.
const maxWebShards = 1000

// measure asks for the size of a file and its validator.
func (h *Hub) measure(ctx context.Context, f *File) error {
	for b := (backoff{least: h.c.Backoff}); ; {
		at, err := h.probe(ctx, f)
		if err == nil {
			f.Size, f.Validator, f.whole = at.total, at.validator, at.whole && at.total != 1
			return nil
		}
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
}

// probe requests the first byte of a file. HEAD is not used, because many servers and signed URLs accept only
// GET.
func (h *Hub) probe(ctx context.Context, f *File) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, h.c.Stall)
	defer cancel() // which ends the body, if the server sends all of it
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Range", "bytes=0-0")
	res, err := send(f.from, req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	return readAnswer(res)
}

// validatorOf returns a validator that changes when a file does: a strong ETag, or the modification date.
func validatorOf(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}
