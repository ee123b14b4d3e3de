package llamaserver

import (
	"net/http"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/server/reply"
)

// How many calls of the server's own tools run at a time: each is a process. Of one caller there are half as many, so that
// one alone never holds others up. The tools themselves run mostCalls at a time too, so none waits there.
const (
	mostCalls      = 8
	mostCallsOfOne = mostCalls / 2
)

// turns are those of calls that run. The zero value has none. It is safe for concurrent use.
type turns struct {
	lock sync.Mutex
	all  int
	of   map[string]int // by their callers
}

// take takes a turn for a caller, or refuses it. The function that it returns gives the turn back.
func (t *turns) take(caller string) (func(), error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	why := ""
	switch {
	case t.of[caller] == mostCallsOfOne:
		why = "as many tools run for this caller as may at a time; try again when one has ended"
	case t.all == mostCalls:
		why = "as many tools run as may at a time; try again when one has ended"
	}
	if why != "" {
		return nil, &reply.Error{Status: http.StatusTooManyRequests, Message: why, Retry: time.Second}
	}
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.all++
	t.of[caller]++
	return func() { t.giveBack(caller) }, nil
}

func (t *turns) giveBack(caller string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.all--
	if t.of[caller]--; t.of[caller] == 0 {
		delete(t.of, caller)
	}
}
