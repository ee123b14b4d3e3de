package hub

import (
	"context"
	"net/http"
	"strings"
)

// resolveWeb asks for the size of a file at a URL.
func (h *Hub) resolveWeb(ctx context.Context, r Ref) (*Plan, error) {
	f := File{Path: r.fileName(), URL: r.URL, SHA256: r.Sum, from: h.http}
	for b := (backoff{least: h.c.Backoff}); ; {
		at, err := h.probe(ctx, &f)
		if err == nil {
			f.Size, f.Validator = at.total, at.validator
			break
		}
		if err := b.wait(ctx, err); err != nil {
			return nil, err
		}
	}
	return &Plan{Ref: r, Revision: f.Validator, Files: []File{f}}, nil
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
