package server

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/reply"
)

// anthropicRequest is the context key of the id of a request to Anthropic's endpoints,
// whose errors have Anthropic's form.
const anthropicRequest = "anthropic-request"

// identify gives a request the id that Anthropic's clients show, in the header: that of
// the log, where it has one.
func identify(c *gin.Context) {
	id := c.Writer.Header().Get("X-Request-Id")
	if id == "" {
		id = newID()
	}
	id = "req_" + id
	c.Set(anthropicRequest, id)
	c.Header("Request-Id", id)
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
func anthropicBody(c *gin.Context, e *reply.Error) any {
	kind, ok := anthropicKinds[e.Status]
	if !ok {
		kind = "invalid_request_error"
	}
	return anthropicError{"error", anthropicErrorDetail{kind, e.Message}, c.GetString(anthropicRequest)}
}

// anthropicTooLong words a prompt that does not fit as Anthropic does: clients that compact a conversation look for
// the words up to "maximum", and read the two numbers. A prompt needs room for one more token, so that one as large as
// the context is one too many.
func anthropicTooLong(e *engine.TooLongError) string {
	return fmt.Sprintf("prompt is too long: %d tokens > %d maximum: want a shorter one, or a server with a larger --ctx-size",
		e.Prompt, min(e.Ctx, e.Prompt-1))
}
