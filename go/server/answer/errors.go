package answer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

// Refusal converts err to what the client is told. Internal errors are reported without
// their details, which go to the log.
func (req *Request) Refusal(err error) *reply.Error {
	e := toAPI(err)
	if api := (*reply.Error)(nil); !errors.As(err, &api) {
		req.Route.Speaks().Refine(e, err)
	}
	if req.host.Words != nil {
		worded := *e // it may be one that requests share
		worded.Message, e = req.host.Words(e.Message), &worded
	}
	return e
}

func toAPI(err error) *reply.Error {
	var api *reply.Error
	var busy *engine.BusyError
	var short *engine.MemoryError
	var long *engine.TooLongError
	var body *http.MaxBytesError
	var missing *models.NotFoundError
	var asleep *models.NotLoadedError
	var crowd *models.BusyError
	var failed *models.LoadError
	var scarce *mem.LimitError
	var over *quota.Error
	var barred *quota.ModelError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &over) && over.Never():
		return &reply.Error{Status: http.StatusRequestEntityTooLarge, Message: over.Error()}
	case errors.As(err, &over):
		return &reply.Error{Status: http.StatusTooManyRequests, Message: over.Error(), Retry: over.Retry}
	case errors.As(err, &barred):
		return &reply.Error{Status: http.StatusForbidden, Message: barred.Error(), Param: "model"}
	case errors.Is(err, engine.ErrHears):
		return reply.Unsupported("%v", err)
	case errors.As(err, &busy):
		return &reply.Error{
			Status: http.StatusTooManyRequests, Message: busy.Error(), Retry: busy.RetryAfter,
			Extra: map[string]any{"n_queued": busy.Queued},
		}
	case errors.As(err, &short):
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: short.Error(), Retry: short.RetryAfter}
	case errors.As(err, &long):
		return &reply.Error{
			Status: http.StatusBadRequest,
			Message: fmt.Sprintf("the request has %s tokens, which exceeds the available context size of %d tokens: too large, "+
				"want a shorter one, or a server with a larger --ctx-size", long.Count(), long.Ctx),
			Extra: map[string]any{"type": "exceed_context_size_error", "n_prompt_tokens": long.Prompt, "n_ctx": long.Ctx},
		}
	case errors.As(err, &body):
		return &reply.Error{
			Status:  http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("the body is larger than %d bytes, which is the limit", body.Limit),
		}
	case errors.As(err, &missing):
		return &reply.Error{Status: http.StatusNotFound, Message: missing.Error(), Param: "model"}
	case errors.As(err, &asleep):
		return &reply.Error{Status: http.StatusBadRequest, Message: asleep.Error(), Param: "model"}
	case errors.As(err, &crowd):
		return &reply.Error{
			Status: http.StatusTooManyRequests, Message: crowd.Error(), Param: "model", Retry: time.Second,
			Extra: map[string]any{"n_queued": crowd.Waiting},
		}
	case errors.As(err, &failed) && errors.As(err, &scarce) && scarce.Need <= scarce.Limit: // else it never fits
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: failed.Error(), Param: "model",
			Retry: engine.RetryPressure}
	case errors.As(err, &failed):
		return &reply.Error{Status: http.StatusInternalServerError, Message: failed.Error(), Param: "model"}
	case errors.Is(err, models.ErrClosed):
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: err.Error()}
	case errors.Is(err, generate.ErrBanned):
		return reply.Invalid("logit_bias", "%v", generate.ErrBanned)
	case errors.Is(err, constrain.ErrLimit):
		return &reply.Error{Status: http.StatusBadRequest, Message: err.Error()}
	case errors.Is(err, engine.ErrAdapters):
		return reply.Invalid("lora", "%v", err)
	case errors.Is(err, engine.ErrAdapterGone):
		return &reply.Error{Status: http.StatusNotFound, Message: err.Error()}
	case errors.Is(err, models.ErrLoading):
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: "Loading model"}
	case errors.Is(err, engine.ErrDeadline):
		return &reply.Error{Status: http.StatusGatewayTimeout, Message: err.Error()}
	case errors.Is(err, engine.ErrDamaged):
		return &reply.Error{Status: http.StatusInternalServerError, Message: engine.ErrDamaged.Error()}
	case errors.Is(err, engine.ErrRanks):
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: "a rank of the model has ended or cannot be reached"}
	case errors.Is(err, engine.ErrClosing):
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: err.Error()}
	case errors.Is(err, context.Canceled):
		return &reply.Error{Status: reply.StatusCancelled, Message: "the request was cancelled"}
	}
	return &reply.Error{Status: http.StatusInternalServerError, Message: "internal error"}
}

// NoRoom reports whether a request was refused since there was no room for it, so that it may be sent again.
func NoRoom(err error) bool {
	if err == nil || errors.Is(err, reply.ErrGone) {
		return false
	}
	status := toAPI(err).Status
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Fail ends a request with err.
func (req *Request) Fail(err error) {
	err = req.stopped(err)
	req.LogHidden(err)
	req.HTTP.Abort()
	if errors.Is(err, reply.ErrGone) {
		req.HTTP.Status(reply.StatusCancelled) // for the log only: the client is gone
		return
	}
	e := req.Refusal(err)
	req.noteError(e)
	if req.kept != nil {
		req.kept.failed = e
	}
	if req.Waited { // as a stream, which has begun
		out := reply.Resume(req.HTTP)
		if out.Event(req.Route.Speaks().Error(req, e)) == nil {
			_ = out.Flush() // fails only if the client has disconnected
		}
		return
	}
	if e.Status == http.StatusTooManyRequests || e.Retry > 0 {
		req.HTTP.Header("Retry-After", strconv.Itoa(max(int(math.Ceil(e.Retry.Seconds())), 1)))
	}
	reply.JSON(req.HTTP, e.Status, req.Route.Speaks().Error(req, e))
}

// LogHidden logs the details of an error that are kept from the client.
func (req *Request) LogHidden(err error) {
	if !errors.Is(err, reply.ErrGone) && toAPI(err).Status == http.StatusInternalServerError {
		e := req.host.Log.Error().Err(err).Str("path", req.path)
		if p := (*panics.Panic)(nil); errors.As(err, &p) {
			e.Bytes("stack", p.Stack)
		}
		e.Msg("request failed")
	}
}
