package llamaserver

import (
	"net/http"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tools"
)

// mostCallsOfOne is how many calls of the server's own tools run at a time for one caller: half of all, so that one alone never
// holds others up. Of all there are no more than the tools themselves run, so none waits there.
const mostCallsOfOne = tools.MostCalls / 2

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
	case t.all == tools.MostCalls:
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
