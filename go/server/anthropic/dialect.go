package anthropic

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

// Dialect is Anthropic's dialect.
type Dialect struct{ answer.Plain }

// requestID is the header with the id that clients show.
const requestID = "Request-Id"

// Begin gives the request an id: that of the log, if there is one.
func (Dialect) Begin(r *answer.Request) {
	r.HTTP.Header(requestID, "req_"+cmp.Or(r.HTTP.Writer.Header().Get("X-Request-Id"), answer.NewID()))
}

func (Dialect) Ping(s *reply.Stream) error { return send(s, event{Type: "ping"}) }

// Quota tells what is left of the quotas of the caller's key.
func (Dialect) Quota(h http.Header, s quota.State) {
	for what, q := range map[string]quota.Quota{
		"Requests": s.Requests, "Tokens": s.Tokens, "Input-Tokens": s.Input, "Output-Tokens": s.Output,
	} {
		if q.Limit == 0 {
			continue
		}
		h.Set("Anthropic-Ratelimit-"+what+"-Limit", strconv.FormatInt(q.Limit, 10))
		h.Set("Anthropic-Ratelimit-"+what+"-Remaining", strconv.FormatInt(q.Left, 10))
		h.Set("Anthropic-Ratelimit-"+what+"-Reset", time.Now().Add(q.Reset+time.Second-1).UTC().Format(time.RFC3339))
	}
}

// Refine words a prompt that does not fit as Anthropic does.
func (Dialect) Refine(e *reply.Error, cause error) {
	if long := (*engine.TooLongError)(nil); errors.As(cause, &long) {
		e.Message = tooLong(long)
	}
}

// kinds maps statuses to Anthropic's error types.
var kinds = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusInternalServerError:   "api_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

type errorBody struct {
	Type    string      `json:"type"`
	Error   errorDetail `json:"error"`
	Request string      `json:"request_id"`
}

type errorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details any    `json:"details,omitzero"`
}

func (Dialect) Error(r *answer.Request, e *reply.Error) any {
	kind, ok := kinds[e.Status]
	if !ok {
		kind = "invalid_request_error"
	}
	return errorBody{"error", errorDetail{kind, e.Message, e.Extra["details"]}, r.HTTP.Writer.Header().Get(requestID)}
}

func (Dialect) ErrorSchema() field.Schema { return field.SchemaOf(errorBody{}) }

// tooLong words a prompt that does not fit as Anthropic does: clients that compact a conversation look for
// the words up to "maximum", and read the two numbers. A prompt needs room for one more token, so that one as large as
// the context is one too many.
func tooLong(e *engine.TooLongError) string {
	return fmt.Sprintf("prompt is too long: %s tokens > %d maximum: want a shorter one, or a server with a larger "+
		"--ctx-size",
		e.Count(), min(e.Ctx, e.Prompt-1))
}
