package openai

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

var errNoBatches = reply.Unsupported("this server keeps no files and runs no batches; start it with --batch-dir")

// kept is a handler of files or batches, whose errors it translates.
func (s *API) kept(
	f func(req *answer.Request, store *batch.Store, owner string) (any, error),
) func(*answer.Request) error {
	return func(req *answer.Request) error {
		if s.Batches == nil {
			return errNoBatches
		}
		v, err := f(req, s.Batches, req.Caller.Owner)
		switch {
		case errors.Is(err, batch.ErrNotFound):
			return &reply.Error{Status: http.StatusNotFound, Message: err.Error()}
		case errors.Is(err, batch.ErrInUse):
			return &reply.Error{Status: http.StatusConflict, Message: err.Error()}
		case errors.Is(err, batch.ErrMany):
			return &reply.Error{Status: http.StatusTooManyRequests, Message: err.Error()}
		case errors.Is(err, batch.ErrFull), errors.Is(err, batch.ErrTooLarge), errors.Is(err, batch.ErrDisk):
			return &reply.Error{Status: http.StatusRequestEntityTooLarge, Message: err.Error()}
		case err != nil:
			return err
		}
		if v != nil {
			req.Send(v)
		}
		return nil
	}
}

// upload keeps a file: a form with purpose and file.
func (s *API) upload(req *answer.Request, store *batch.Store, owner string) (any, error) {
	const want = "want a form (multipart/form-data) with purpose=batch and file"
	if kind, _, err := mime.ParseMediaType(req.HTTP.GetHeader("Content-Type")); err != nil ||
		kind != "multipart/form-data" {
		return nil, reply.Bad("the body is no form, %s", want)
	}
	form, err := req.HTTP.Request.MultipartReader()
	if err != nil {
		return nil, reply.Bad("the body: %v, %s", err, want)
	}
	purpose, kept := "", (*batch.File)(nil)
	discard := func(err error) (any, error) {
		if kept != nil {
			_ = store.RemoveFile(owner, kept.ID)
		}
		return nil, err
	}
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return discard(upset(err))
		}
		switch name := part.FormName(); name {
		case "purpose":
			v, err := io.ReadAll(io.LimitReader(part, 64))
			if err != nil {
				return discard(upset(err))
			}
			purpose = string(v)
		case "file":
			if kept != nil {
				return discard(reply.Invalid("file", "given twice, want one"))
			}
			f, err := store.AddFile(owner, field.Clip(part.FileName()), "batch", part)
			if read := (batch.ReadError{}); errors.As(err, &read) {
				return nil, upset(read.Unwrap())
			}
			if err != nil {
				return nil, err
			}
			kept = &f
		default:
			return discard(reply.Invalid(field.Clip(name), "not supported, %s", want))
		}
	}
	switch {
	case !slices.Contains([]string{"batch", batch.PurposeTune, "vision", "user_data"}, purpose):
		return discard(reply.Invalid("purpose", "%s, want batch, fine-tune, or vision or user_data for pictures, sounds and texts of messages",
			field.Quote(purpose)))
	case kept == nil:
		return nil, reply.Invalid("file", "missing, %s", want)
	case kept.Purpose != purpose: // which may come behind the file
		f, err := store.Repurpose(owner, kept.ID, purpose)
		if err != nil {
			return discard(err)
		}
		kept = &f
	}
	return kept, nil
}

// upset is an error of reading an upload, which is the client's.
func upset(err error) error {
	return answer.Unread(err)
}

func (s *API) getFile(req *answer.Request, store *batch.Store, owner string) (any, error) {
	return store.File(owner, req.HTTP.Param("id"))
}

func (s *API) fileContent(req *answer.Request, store *batch.Store, owner string) (any, error) {
	about, err := store.File(owner, req.HTTP.Param("id"))
	if err != nil {
		return nil, err
	}
	f, err := store.Content(owner, about.ID)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	req.HTTP.DataFromReader(http.StatusOK, about.Bytes, "application/octet-stream", f, nil)
	return nil, nil
}

// deleted is the response to a deletion.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func (s *API) deleteFile(req *answer.Request, store *batch.Store, owner string) (any, error) {
	id := req.HTTP.Param("id")
	return deleted{id, "file", true}, store.RemoveFile(owner, id)
}

// How files and batches are listed.
var (
	filePages  = paging{"desc", 10_000, 10_000}
	batchPages = paging{"desc", 20, 10_000}
)

func (s *API) listFiles(req *answer.Request, store *batch.Store, owner string) (any, error) {
	list := store.Files(owner)
	if purpose := req.HTTP.Query("purpose"); purpose != "" {
		list = slices.DeleteFunc(list, func(f batch.File) bool { return f.Purpose != purpose })
	}
	slices.Reverse(list) // the store has the newest first
	return pageOf(req, list, func(f batch.File) string { return f.ID }, filePages)
}

func (s *API) listBatches(req *answer.Request, store *batch.Store, owner string) (any, error) {
	list := store.Batches(owner)
	slices.Reverse(list)
	return pageOf(req, list, func(b batch.Batch) string { return b.ID }, batchPages)
}

func (s *API) getBatch(req *answer.Request, store *batch.Store, owner string) (any, error) {
	return store.Batch(owner, req.HTTP.Param("id"))
}

func (s *API) cancelBatch(req *answer.Request, store *batch.Store, owner string) (any, error) {
	return store.Cancel(owner, req.HTTP.Param("id"))
}

// A batchQuery is a request to begin a batch.
type batchQuery struct {
	input, endpoint, window string
	metadata                metadataField
}

func newBatchQuery(*ask.Model) *batchQuery { return &batchQuery{window: "24h"} }

func (q *batchQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("input_file_id", field.Text(&q.input), "A file that was uploaded, of a request in each line."),
		field.Required("endpoint", field.Text(&q.endpoint), "What answers the requests, such as /v1/chat/completions."),
		field.Input("completion_window", field.Text(&q.window),
			"After which what was not answered is given up, such as 24h; at most 720h."),
		field.Input("metadata", &q.metadata, "Texts to be kept with the batch, by name."),
	}
}

// metadataField is up to 16 texts by name.
type metadataField map[string]string

const wantMetadata = "an object of at most 16 texts"

func (m *metadataField) Take(r *field.Reader) error {
	*m = metadataField{}
	return r.Members(wantMetadata, func(name string) error {
		v, err := r.Text(wantMetadata)
		if (*m)[name] = v; err == nil && (len(*m) > 16 || len(name) > 64 || len(v) > 512) {
			err = fmt.Errorf("%s is one too many, or longer than 64 and 512 bytes, want %s", field.Quote(name), wantMetadata)
		}
		return err
	})
}

func (m *metadataField) Value() any { return *m }
func (m *metadataField) Schema() field.Schema {
	return field.Schema{"description": wantMetadata, "type": "object",
		"additionalProperties": field.Schema{"type": "string"}}
}

// createBatch reads the body first: what is wrong with it is told whether or not there are batches.
func (s *API) createBatch(req *answer.Request) error {
	q := newBatchQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	if all := s.Endpoints(); !slices.Contains(all, q.endpoint) {
		return reply.Invalid("endpoint", "%s, want one of %s", field.Quote(q.endpoint), strings.Join(all, ", "))
	}
	lasts, err := time.ParseDuration(q.window)
	if err != nil || lasts < time.Second || lasts > 720*time.Hour {
		return reply.Invalid("completion_window", "%s, want a time such as 24h, at most 720h", field.Quote(q.window))
	}
	return s.kept(func(_ *answer.Request, store *batch.Store, owner string) (any, error) {
		return store.AddBatch(owner, q.input, q.endpoint, q.window, lasts, q.metadata)
	})(req)
}
