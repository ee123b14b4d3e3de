package server

import (
	"fmt"
	"net/http"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/reply"
)

// identify gives a request the id that Anthropic's clients show, in the header: that of
// the log, where it has one.
func (r *Request) identify() {
	id := r.HTTP.Writer.Header().Get("X-Request-Id")
	if id == "" {
		id = newID()
	}
	r.id = "req_" + id
	r.HTTP.Header("Request-Id", r.id)
}

// anthropicKinds maps statuses to Anthropic's error types.
var anthropicKinds = map[int]string{
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusInternalServerError:   "api_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

type anthropicError struct {
	Type    string               `json:"type"`
	Error   anthropicErrorDetail `json:"error"`
	Request string               `json:"request_id"`
}

type anthropicErrorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// anthropicBody is the error object as Anthropic has it.
func anthropicBody(r *Request, e *reply.Error) any {
	kind, ok := anthropicKinds[e.Status]
	if !ok {
		kind = "invalid_request_error"
	}
	return anthropicError{"error", anthropicErrorDetail{kind, e.Message}, r.id}
}

// anthropicTooLong words a prompt that does not fit as Anthropic does: clients that compact a conversation look for
// the words up to "maximum", and read the two numbers. A prompt needs room for one more token, so that one as large as
// the context is one too many.
func anthropicTooLong(e *engine.TooLongError) string {
	return fmt.Sprintf("prompt is too long: %d tokens > %d maximum: want a shorter one, or a server with a larger --ctx-size",
		e.Prompt, min(e.Ctx, e.Prompt-1))
}
