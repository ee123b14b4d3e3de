// Package reply writes the HTTP responses of every API: whole JSON bodies, event streams (SSE, or lines of JSON) and
// errors.
package reply

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"
)

// StatusCancelled is the status of a request whose client disconnected or cancelled it.
// No standard defines it; proxies and their logs use this number.
const StatusCancelled = 499

// ErrGone ends a request whose client has disconnected.
var ErrGone = errors.New("the client has gone")

// ErrCancelled ends a request that was cancelled by its id.
var ErrCancelled = &Error{Status: StatusCancelled, Message: "the request was cancelled"}

// An Error is an error in the form that clients get.
type Error struct {
	Status  int
	Message string
	Param   string         // the invalid field, if the error is about one
	Extra   map[string]any // further machine-readable members
	Retry   time.Duration  // Retry-After
	InLog   string         // logged in place of the message; empty: the message without its quotations
}

func (e *Error) Error() string { return e.Message }

// kinds maps statuses to llama-server's error types, or OpenAI's where it has none.
var kinds = map[int]string{
	http.StatusBadRequest:            "invalid_request_error",
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusMethodNotAllowed:      "invalid_request_error",
	http.StatusConflict:              "invalid_request_error",
	http.StatusRequestEntityTooLarge: "invalid_request_error",
	http.StatusUnsupportedMediaType:  "invalid_request_error",
	http.StatusTooManyRequests:       "rate_limit_error",
	StatusCancelled:                  "cancelled_error",
	http.StatusInternalServerError:   "server_error",
	http.StatusNotImplemented:        "not_supported_error",
	http.StatusBadGateway:            "server_error",
	http.StatusServiceUnavailable:    "unavailable_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// Kind is the error's type in its JSON.
func (e *Error) Kind() string { return kinds[e.Status] }

// Body is the JSON error object.
func (e *Error) Body() any {
	body := map[string]any{"code": e.Status, "message": e.Message, "type": e.Kind()}
	if e.Param != "" {
		body["param"] = e.Param
	}
	maps.Copy(body, e.Extra)
	return map[string]any{"error": body}
}

// Invalid is an error for a field with an invalid value.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: param + ": " + fmt.Sprintf(format, args...), Param: param}
}

// Bad is an error for a malformed request.
func Bad(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// Unsupported is an error for a feature of the API that this server does not have.
func Unsupported(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotImplemented, Message: fmt.Sprintf(format, args...)}
}
