package answer

import (
	"net/http"
	"strconv"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Dialect is what all endpoints of an API have in common beside their fields and answers: how errors are worded, and
// how streams are kept alive. Plain is the usual one; others embed it and change what differs.
type Dialect interface {
	// Begin is called when a request arrives.
	Begin(r *Request)
	// Refine gives an error the words and codes that the API's clients look for. It is made of cause.
	Refine(e *reply.Error, cause error)
	// Error returns the body of an error.
	Error(r *Request, e *reply.Error) any
	// ErrorSchema describes it.
	ErrorSchema() field.Schema
	// Quota puts into the header of an answer what is left of the quotas of the caller's key.
	Quota(h http.Header, s quota.State)
	// Lines reports whether streams are lines of JSON. Others are server-sent events.
	Lines() bool
	// Ping adds to a stream what keeps it alive in silence.
	Ping(s *reply.Stream) error
}

// Plain is the dialect of llama-server.
type Plain struct{}

func (Plain) Begin(*Request)                       {}
func (Plain) Refine(*reply.Error, error)           {}
func (Plain) Error(_ *Request, e *reply.Error) any { return e.Body() }
func (Plain) ErrorSchema() field.Schema            { return field.Schema{"$ref": "#/components/schemas/Error"} }

// Quota tells it as OpenAI does.
func (Plain) Quota(h http.Header, s quota.State) {
	for what, q := range map[string]quota.Quota{"Requests": s.Requests, "Tokens": s.Tokens} {
		if q.Limit == 0 {
			continue
		}
		h.Set("X-Ratelimit-Limit-"+what, strconv.FormatInt(q.Limit, 10))
		h.Set("X-Ratelimit-Remaining-"+what, strconv.FormatInt(q.Left, 10))
		h.Set("X-Ratelimit-Reset-"+what, quota.Readable(q.Reset))
	}
}

func (Plain) Lines() bool                { return false }
func (Plain) Ping(s *reply.Stream) error { s.Ping(); return nil }

// ErrorSchema describes errors as llama-server and OpenAI have them, which differ in what a code may be.
func ErrorSchema(code field.Schema) field.Schema {
	return field.Schema{
		"type": "object", "required": []string{"error"},
		"properties": field.Schema{"error": field.Schema{
			"type": "object", "required": []string{"code", "message", "type"},
			"properties": field.Schema{
				"code":    code,
				"message": field.Schema{"type": "string"},
				"type":    field.Schema{"type": "string"},
				"param":   field.Schema{"type": "string", "description": "The field at fault."},
			},
		}},
	}
}
