package quota

import (
	"fmt"
	"strings"
	"time"
)

// A Kind is what a limit is of.
type Kind int

const (
	Requests Kind = iota
	Input
	Output
	Concurrent
)

// An Error is a request that is more than its key may ask for.
type Error struct {
	Kind  Kind
	Limit int64
	Daily bool          // the limit is of a day, else of a minute
	Left  int64         // of input tokens
	Want  int64         // the same: what the prompt has
	Retry time.Duration // until it may be repeated
}

// Never reports whether the request is more than the whole limit, so that waiting does not mend it.
func (e *Error) Never() bool { return e.Kind == Input && e.Want > e.Limit }

// worse returns the error of two that a client has to wait longer for; what waiting does not mend is worst.
func worse(a, b *Error) *Error {
	switch {
	case a == nil || b.Never() && !a.Never():
		return b
	case b.Never() == a.Never() && b.Retry > a.Retry:
		return b
	}
	return a
}

func (e *Error) Error() string {
	period := "minute"
	if e.Daily {
		period = "day"
	}
	again := "try again in " + Readable(e.Retry)
	switch {
	case e.Never():
		return fmt.Sprintf("the prompt has %d tokens, and this API key or token may send %d a %s: want a shorter one", e.Want,
			e.Limit, period)
	case e.Kind == Requests:
		return fmt.Sprintf("this API key or token may send %d requests a %s, and has sent as many: %s", e.Limit, period, again)
	case e.Kind == Input:
		return fmt.Sprintf("the prompt has %d tokens, and of the %d a %s that this API key or token may send %d are left: %s", e.Want,
			e.Limit, period, e.Left, again)
	case e.Kind == Output:
		return fmt.Sprintf("this API key or token may have %d tokens a %s generated, and they are used up: %s", e.Limit, period,
			again)
	}
	return fmt.Sprintf("this API key or token may have %d requests waiting or running at a time, and has as many: try again "+
		"when one has ended", e.Limit)
}

// Readable is a time as people read it, rounded up.
func Readable(d time.Duration) string {
	unit := time.Second
	if d < time.Second {
		unit = time.Millisecond
	}
	return ((d + unit - 1) / unit * unit).String()
}

// A ModelError is a request for a model that its key may not ask.
type ModelError struct {
	Name string   // of the model
	Want []string // that the key may ask
}

func (e *ModelError) Error() string {
	const most = 20
	want := strings.Join(e.Want[:min(len(e.Want), most)], ", ")
	if len(e.Want) > most {
		want += ", ..."
	}
	return fmt.Sprintf("this API key or token may not ask the model %s, want one of these: %s", e.Name, want)
}
