package answer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// What requests take before they are with the engine is bounded, however many come: bodies that arrive or wait, and
// what is made of them until they are tokens. Of each there is as much at a time as its gate admits; the others
// wait, the first bodies in the sockets of their clients. What is kept of a request after that is part of the
// memory of its answer.

// Purposes of these reservations in the budget.
const (
	bodiesPurpose  = "request bodies"
	promptsPurpose = "prompts"
)

const (
	bodiesPart  = 16 // 1/bodiesPart of the memory is for bodies
	promptsPart = 8  // and 1/promptsPart for what is made of them

	firstBytes = 64 << 10 // of a body of unknown length, for which no other waits
	BodyBytes  = 64 << 20 // the most that a body has if nobody says

	// Making the prompt of a body takes the most for a text of one word without long tokens: its copies, as fields, as a
	// conversation and as spelled by the vocabulary, 24 bytes for each of its bytes while they are merged, and 4 of
	// ids in lists that grow. Few take as much: what exceeds the share of all prompts is asked for only down to
	// leastPromptBytes.
	PromptBytes      = 64
	leastPromptBytes = 8
	PieceBytes       = 128 // for each byte of a text, of the answer to /tokenize with the text of each token
	SpelledBytes     = 8   // for each byte of the text of /detokenize, which is encoded
)

// gates admit the requests of a server. Without a budget they are nil, and admit all.
type gates struct {
	budget          *mem.Budget
	bodies, prompts *mem.Gate
}

func NewGates(d *engine.Device) gates {
	if d == nil {
		return gates{}
	}
	b := d.Budget()
	return gates{b, mem.NewGate(b, bodiesPurpose, bodiesPart, d.Give), mem.NewGate(b, promptsPurpose, promptsPart, d.Give)}
}

// enter waits until a gate admits n bytes.
func (req *Request) enter(ctx context.Context, g *mem.Gate, what string, n uint64) (*mem.Pass, error) {
	p, err := g.Enter(ctx, n)
	var short *mem.LimitError
	switch {
	case err == nil:
		return p, nil
	case !errors.As(err, &short):
		return nil, ask.Ended(ctx)
	case short.Need > short.Limit:
		return nil, &reply.Error{
			Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("%s may take %s of memory, and the server has %s: want a shorter one", what, mem.FormatBytes(n),
				mem.FormatBytes(short.Limit)),
		}
	}
	return nil, &reply.Error{
		Status: http.StatusServiceUnavailable, Retry: retryMemory,
		Message: fmt.Sprintf("%s may take %s of memory, and %s are free now; try again later, or with a shorter one", what,
			mem.FormatBytes(n), mem.FormatBytes(short.Free)),
	}
}

// arrive waits until there is room for a body of n bytes.
func (req *Request) arrive(n int64) (err error) {
	req.arrived.Release()
	req.arrived, err = req.enter(req.Context(), req.host.Gates.bodies, "the body", uint64(n))
	return err
}

// readBody reads the body once it is admitted.
func (req *Request) readBody() (body []byte, err error) {
	from, n := req.HTTP.Request.Body, req.HTTP.Request.ContentLength
	if n >= 0 {
		if err := req.arrive(n); err != nil {
			return nil, err
		}
		body = make([]byte, n)
		_, err = io.ReadFull(from, body)
		return body, Unread(err)
	}
	if err := req.arrive(firstBytes); err != nil {
		return nil, err
	}
	body, err = io.ReadAll(io.LimitReader(from, firstBytes))
	if err == nil && len(body) == firstBytes {
		if err := req.arrive(req.mostBody); err != nil {
			return nil, err
		}
		body, err = io.ReadAll(io.MultiReader(bytes.NewReader(body), from))
	}
	req.arrived.Shrink(uint64(len(body)))
	return body, Unread(err)
}

// Admit waits until there is memory to tokenize text bytes of prompts. It replaces what was admitted before.
func (req *Request) Admit(text int) (err error) {
	req.making.Release()
	req.making, err = req.AdmitLater(req.Context(), text)
	return err
}

// AdmitLater is Admit for a prompt that is made when others of the request have been. The pass is to be released once it is
// tokens.
func (req *Request) AdmitLater(ctx context.Context, text int) (*mem.Pass, error) {
	if req.host.Gates.budget == nil {
		return nil, nil
	}
	limit, _ := req.host.Gates.budget.Limit()
	n := uint64(text)
	n = min(n*PromptBytes, max(limit/promptsPart, n*leastPromptBytes))
	return req.enter(ctx, req.host.Gates.prompts, "the prompt", n)
}

// Made ends what was admitted: the prompts are tokens, and the body has been read.
func (req *Request) Made() {
	req.Body = nil
	req.making.Release()
	req.arrived.Release()
}
