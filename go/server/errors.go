package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
)

// statusCancelled is the status of a request whose client disconnected or cancelled it.
// No standard defines it; proxies and their logs use this number.
const statusCancelled = 499

// An apiError is an error as clients see it.
type apiError struct {
	status  int
	message string
	param   string         // the field at fault, if it is one
	extra   map[string]any // further machine-readable members
	retry   time.Duration  // Retry-After
}

func (e *apiError) Error() string { return e.message }

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
	statusCancelled:                  "cancelled_error",
	http.StatusInternalServerError:   "server_error",
	http.StatusNotImplemented:        "not_supported_error",
	http.StatusBadGateway:            "server_error",
	http.StatusServiceUnavailable:    "unavailable_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// body is the JSON error object.
func (e *apiError) body() any {
	body := map[string]any{"code": e.status, "message": e.message, "type": kinds[e.status]}
	if e.param != "" {
		body["param"] = e.param
	}
	maps.Copy(body, e.extra)
	return map[string]any{"error": body}
}

// invalid is an error for a field with an invalid value.
func invalid(param, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, message: param + ": " + fmt.Sprintf(format, args...), param: param}
}

// bad is an error for a request that is malformed as a whole.
func bad(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// unsupported is an error for a feature of the API that this server does not have.
func unsupported(format string, args ...any) *apiError {
	return &apiError{status: http.StatusNotImplemented, message: fmt.Sprintf(format, args...)}
}

// openAI is the context key of requests whose clients expect OpenAI's error codes.
const openAI = "openai"

// toAPI converts err to what the client is told. Internal errors are reported without
// their details, which go to the log.
func toAPI(c *gin.Context, err error) *apiError {
	var api *apiError
	var busy *engine.BusyError
	var short *engine.MemoryError
	var long *engine.TooLongError
	var body *http.MaxBytesError
	var missing *models.NotFoundError
	var asleep *models.NotLoadedError
	var crowd *models.BusyError
	var failed *models.LoadError
	var scarce *mem.LimitError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &busy):
		return &apiError{
			status: http.StatusTooManyRequests, message: busy.Error(), retry: busy.RetryAfter,
			extra: map[string]any{"n_queued": busy.Queued},
		}
	case errors.As(err, &short):
		return &apiError{status: http.StatusServiceUnavailable, message: short.Error(), retry: short.RetryAfter}
	case errors.As(err, &long):
		e := &apiError{
			status:  http.StatusBadRequest,
			message: fmt.Sprintf("the request has %d tokens, which exceeds the available context size of %d tokens: want a shorter one, or a server with a larger --ctx-size", long.Prompt, long.Ctx),
			extra:   map[string]any{"type": "exceed_context_size_error", "n_prompt_tokens": long.Prompt, "n_ctx": long.Ctx},
		}
		if c.GetBool(openAI) {
			e.extra["code"] = "context_length_exceeded"
		}
		return e
	case errors.As(err, &body):
		return &apiError{
			status:  http.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("the body is larger than %d bytes, which is the limit", body.Limit),
		}
	case errors.As(err, &missing):
		e := &apiError{status: http.StatusNotFound, message: missing.Error(), param: "model"}
		if c.GetBool(openAI) {
			e.extra = map[string]any{"type": "invalid_request_error", "code": "model_not_found"}
		}
		return e
	case errors.As(err, &asleep):
		return &apiError{status: http.StatusBadRequest, message: asleep.Error(), param: "model"}
	case errors.As(err, &crowd):
		return &apiError{
			status: http.StatusTooManyRequests, message: crowd.Error(), param: "model", retry: time.Second, extra: map[string]any{"n_queued": crowd.Waiting},
		}
	case errors.As(err, &failed) && errors.As(err, &scarce) && scarce.Need <= scarce.Limit: // else it never fits
		return &apiError{status: http.StatusServiceUnavailable, message: failed.Error(), param: "model", retry: engine.RetryPressure}
	case errors.As(err, &failed):
		return &apiError{status: http.StatusInternalServerError, message: failed.Error(), param: "model"}
	case errors.Is(err, models.ErrClosed):
		return &apiError{status: http.StatusServiceUnavailable, message: err.Error()}
	case errors.Is(err, constrain.ErrLimit):
		return &apiError{status: http.StatusBadRequest, message: err.Error()}
	case errors.Is(err, engine.ErrAdapters):
		return invalid("lora", "%v", err)
	case errors.Is(err, engine.ErrAdapterGone):
		return &apiError{status: http.StatusNotFound, message: err.Error()}
	case errors.Is(err, models.ErrLoading):
		return &apiError{status: http.StatusServiceUnavailable, message: "Loading model"}
	case errors.Is(err, engine.ErrDeadline):
		return &apiError{status: http.StatusGatewayTimeout, message: err.Error()}
	case errors.Is(err, engine.ErrDamaged):
		return &apiError{status: http.StatusInternalServerError, message: engine.ErrDamaged.Error()}
	case errors.Is(err, engine.ErrClosing):
		return &apiError{status: http.StatusServiceUnavailable, message: err.Error()}
	case errors.Is(err, context.Canceled):
		return &apiError{status: statusCancelled, message: "the request was cancelled"}
	}
	return &apiError{status: http.StatusInternalServerError, message: "internal error"}
}

// fail ends a request with err.
func (s *Server) fail(c *gin.Context, err error) {
	s.logHidden(c, err)
	c.Abort()
	if errors.Is(err, errGone) {
		c.Status(statusCancelled) // for the log only: the client is gone
		return
	}
	e := toAPI(c, err)
	if c.GetBool(waited) { // as a stream, which has begun
		out := newStream(c)
		out.open = true
		if out.event(e.body()) == nil {
			_ = out.flush() // fails only if the client has disconnected
		}
		return
	}
	if e.status == http.StatusTooManyRequests || e.retry > 0 {
		c.Header("Retry-After", strconv.Itoa(max(int(math.Ceil(e.retry.Seconds())), 1)))
	}
	switch {
	case c.GetString(anthropicRequest) != "":
		reply(c, e.status, e.anthropic(c))
	case c.GetBool(ollamaRequest):
		reply(c, e.status, ollamaError{e.message})
	default:
		reply(c, e.status, e.body())
	}
}

// logHidden logs the details of an error that are kept from the client.
func (s *Server) logHidden(c *gin.Context, err error) {
	if !errors.Is(err, errGone) && toAPI(c, err).status == http.StatusInternalServerError {
		s.c.Log.Error().Err(err).Str("path", c.FullPath()).Msg("request failed")
	}
}
