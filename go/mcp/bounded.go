package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// errLong is the cause of a request's end when its answer does not end.
var errLong = fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)

// endKey is the key of the function in a request's context that ends it.
type endKey struct{}

// answered returns a context that ends with errLong when the answer to one of its HTTP requests is too long.
func answered(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, endKey{}, cancel), cancel
}

// bounded bounds the bytes of each answer, decompressed and of all its events together, and the time it takes where
// the request's context does not.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if _, limited := ctx.Deadline(); !limited {
		ctx, cancel = context.WithTimeout(ctx, maxCall)
	}
	answer, err := b.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	end, _ := ctx.Value(endKey{}).(context.CancelCauseFunc)
	answer.Body = &boundedBody{answer.Body, maxAnswer, cancel, end}
	return answer, nil
}

// A boundedBody fails after a number of bytes, and then ends the request that it answers.
type boundedBody struct {
	io.ReadCloser
	left   int
	cancel context.CancelFunc
	end    context.CancelCauseFunc // nil: nobody waits for the answer
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left >= 0 {
		return n, err
	}
	if b.end != nil {
		b.end(errLong)
	}
	return 0, errLong
}

func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
