// Package quota counts what each API key, or subject of tokens, asks of a server, and refuses what is more than it may.
//
// An Account is what is counted of a key. A request for a model is a Run: it is refused at its beginning where the key has
// no requests, places or output tokens left, and once its prompt is known where that has more tokens than are left. Output
// is counted as it comes and ends nothing: what is more than was left is a debt, which has to flow back first.
//
// Nothing here runs by itself or waits; locks are held for a few additions. Accounts begin anew with the process.
package quota

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Account is what is counted of one key. Its methods are safe for concurrent use; those of a nil Account count nothing
// and refuse nothing.
type Account struct {
	clock func() time.Time

	mu                      sync.Mutex
	limits                  Limits
	requests, input, output meter
	running                 int64
	refused                 int64
	periods                 [2]int64 // the numbers of the minute and of the day that are counted, since 1970
	models                  map[string]*[periods]Count
	total                   *Account // nil: none
}

// The periods of which there are counts.
const (
	Minute = iota // that runs, of the clock
	Day           // that runs, in UTC
	Since         // the account began: of requests that have ended, so that it never becomes less
	periods
)

// lengths are those of the periods that end, in seconds.
var lengths = [2]int64{60, 86400}

// A Count is what was asked.
type Count struct {
	Requests int64 `json:"requests"`
	Input    int64 `json:"input_tokens"`
	Cached   int64 `json:"cached_tokens"`
	Output   int64 `json:"output_tokens"`
}

func (c *Count) add(d Count) {
	c.Requests = max(0, c.Requests+d.Requests)
	c.Input = max(0, c.Input+d.Input)
	c.Cached = max(0, c.Cached+d.Cached)
	c.Output = max(0, c.Output+d.Output)
}

// maxCounted is how many models have counts of their own; Others has those of all further ones.
const (
	maxCounted = 256
	Others     = "(others)"
)

// New returns an account by a clock, which is time.Now if it is nil.
func New(l Limits, clock func() time.Time) *Account {
	if clock == nil {
		clock = time.Now
	}
	return &Account{clock: clock, limits: l, models: map[string]*[periods]Count{}}
}

// SetLimits changes the limits. What was counted stays.
func (a *Account) SetLimits(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn()
	a.limits = l
	a.turn() // what is not limited is not counted by minutes
}

// Into has what is counted from now on be counted in a total too, which has no limits: requests that have ended, and refusals.
// A total is in none itself.
func (a *Account) Into(total *Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total = total
}

// since counts requests of a model that have ended.
func (a *Account) since(model string, c Count) {
	if a == nil || c == (Count{}) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := Run{a: a, model: model}
	r.counts()[Since].add(c)
}

// refusal counts one.
func (a *Account) refusal() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused++
}

// Limits returns the limits.
func (a *Account) Limits() Limits {
	if a == nil {
		return Limits{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limits
}

// turn brings all counts up to date, and returns how long the day still is. a.mu is held.
func (a *Account) turn() (ends time.Duration) {
	now := a.clock()
	seconds := now.Unix()
	for i, length := range lengths {
		number := seconds / length
		if number == a.periods[i] || number == a.periods[i]-1 { // a clock that was set back a little begins nothing anew on its way
			continue
		}
		for _, c := range a.models {
			c[i] = Count{}
		}
		if days := number - a.periods[Day]; i == Day && days > 0 { // else the clock was set back far
			a.requests.nextDay(days, a.limits.Day.Requests)
			a.input.nextDay(days, a.limits.Day.Input)
			a.output.nextDay(days, a.limits.Day.Output)
		}
		a.periods[i] = number
	}
	a.requests.minute.flow(a.limits.Minute.Requests, now)
	a.input.minute.flow(a.limits.Minute.Input, now)
	a.output.minute.flow(a.limits.Minute.Output, now)
	return time.Unix((a.periods[Day]+1)*lengths[Day], 0).Sub(now)
}

// quotas returns the limits of requests, input and output. a.mu is held.
func (a *Account) quotas() (requests, input, output []Quota) {
	ends := a.turn()
	m, d := &a.limits.Minute, &a.limits.Day
	return a.requests.quotas(m.Requests, d.Requests, ends), a.input.quotas(m.Input, d.Input, ends),
		a.output.quotas(m.Output, d.Output, ends)
}

// A State is what is left of the limits of an account: of each kind, the one of which the least is left. Those that there
// are not have a Limit of 0.
type State struct{ Requests, Input, Output, Tokens Quota }

// State returns what is left; false: no limit changes with what is asked.
func (a *Account) State() (s State, ok bool) {
	if a == nil {
		return s, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.limits.Counted() {
		return s, false
	}
	requests, input, output := a.quotas()
	s.Requests, _ = least(requests)
	s.Input, _ = least(input)
	s.Output, _ = least(output)
	s.Tokens, _ = least(slices.Concat(input, output))
	return s, true
}

// Begin begins a request for a model, which is counted under its name. One in the background takes none of the places. The
// error is an *Error.
func (a *Account) Begin(model string, background bool) (*Run, error) {
	if a == nil {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	requests, _, _ := a.quotas()
	l := &a.limits
	r := &Run{a: a, model: model, holders: 1, background: background}
	if e := spent(Requests, requests); e != nil {
		return nil, r.refuse(e)
	}
	if !background {
		if l.Concurrent > 0 && a.running >= l.Concurrent {
			return nil, r.refuse(&Error{Kind: Concurrent, Limit: l.Concurrent, Retry: time.Second})
		}
		a.running++
		r.place = 1
	}
	a.requests.take(1, l.Minute.Requests > 0)
	r.count(Count{Requests: 1})
	return r, nil
}

// Wait returns how long it takes until a request may be sent, whatever it is. One that may be sent now can still have a prompt
// of too many tokens.
func (a *Account) Wait() time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	requests, _, _ := a.quotas()
	if e := spent(Requests, requests); e != nil {
		return e.Retry
	}
	return 0
}

// spent returns the error of what has nothing left, nil where all has.
func spent(kind Kind, all []Quota) (e *Error) {
	for _, q := range all {
		if q.Left < 1 {
			e = worse(e, &Error{Kind: kind, Limit: q.Limit, Daily: q.daily, Retry: q.after(1)})
		}
	}
	return e
}

// refuse counts a refusal. Those of the background are not the client's: who sends them does so until they are taken. a.mu is
// held.
func (r *Run) refuse(e *Error) *Error {
	if !r.background {
		r.a.refused++
		r.a.total.refusal()
	}
	return e
}

// A Run is a request that runs. Its methods are safe for concurrent use; those of a nil Run count nothing.
type Run struct {
	a       *Account
	model   string
	holders int   // that have not ended it
	place   int64 // of those that run at a time
	far     Count // so far, which Since has not yet

	background bool
}

// count adds to the counts of the run's model. a.mu is held, and a is up to date.
func (r *Run) count(d Count) {
	c := r.counts()
	c[Minute].add(d)
	c[Day].add(d)
	if r.holders > 0 {
		r.far.add(d)
	} else {
		c[Since].add(d)
		r.a.total.since(r.model, d)
	}
}

// counts returns those of the run's model. a.mu is held.
func (r *Run) counts() *[periods]Count {
	c := r.a.models[r.model]
	if c == nil {
		if len(r.a.models) >= maxCounted {
			r.model = Others
		}
		if c = r.a.models[r.model]; c == nil {
			c = new([periods]Count)
			r.a.models[strings.Clone(r.model)] = c
		}
	}
	return c
}

// Input counts the tokens of a prompt, before they are computed. The error is an *Error: there are fewer left, or none of
// those that a request that generates has.
func (r *Run) Input(tokens int, generates bool) error {
	if r == nil {
		return nil
	}
	a, n := r.a, int64(tokens)
	a.mu.Lock()
	defer a.mu.Unlock()
	_, input, output := a.quotas()
	if !generates {
		output = nil
	}
	e := spent(Output, output)
	for _, q := range input {
		if q.Left < n {
			e = worse(e, &Error{Kind: Input, Limit: q.Limit, Daily: q.daily, Left: q.Left, Want: n, Retry: q.after(n)})
		}
	}
	if e != nil {
		return r.refuse(e)
	}
	a.input.take(n, a.limits.Minute.Input > 0)
	r.count(Count{Input: n})
	return nil
}

// Return undoes Input for a prompt that was refused.
func (r *Run) Return(tokens int) {
	if r == nil {
		return
	}
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.a.turn()
	r.giveBack(Count{Input: int64(tokens)})
}

// giveBack undoes what was counted. a.mu is held, and a is up to date.
func (r *Run) giveBack(c Count) {
	l := &r.a.limits.Minute
	r.a.requests.take(-c.Requests, l.Requests > 0)
	r.a.input.take(-c.Input, l.Input > 0)
	back, counts := Count{Requests: -c.Requests, Input: -c.Input, Cached: -c.Cached}, r.counts()
	counts[Minute].add(back)
	counts[Day].add(back)
	r.far.add(back)
}

// Output counts tokens that were generated.
func (r *Run) Output(tokens int) {
	if r == nil || tokens <= 0 {
		return
	}
	a := r.a
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn()
	a.output.take(int64(tokens), a.limits.Minute.Output > 0)
	r.count(Count{Output: int64(tokens)})
}

// Cached counts tokens of the prompt that were found in the cache. They are among those of Input too.
func (r *Run) Cached(tokens int) {
	if r == nil || tokens <= 0 {
		return
	}
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.a.turn()
	r.count(Count{Cached: int64(tokens)})
}

// Again has the run go on until End was called once more.
func (r *Run) Again() {
	if r == nil {
		return
	}
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.holders++
}

// End ends the run. One that was refused for lack of room, before anything was generated, has counted nothing.
func (r *Run) End(refused bool) {
	if r == nil {
		return
	}
	a := r.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.holders--; r.holders > 0 {
		return
	}
	a.running -= r.place
	r.place = 0
	far := r.far
	r.far = Count{}
	if refused && far.Output == 0 {
		a.turn()
		r.giveBack(far)
		return
	}
	r.counts()[Since].add(far)
	a.total.since(r.model, far)
}

// A Usage is what an account has counted.
type Usage struct {
	Limits  Limits
	Running int64
	Refused int64        // since the account began
	Ends    [2]time.Time // of the minute and of the day
	Models  map[string][periods]Count
}

// Sum is what was counted of all models in a period.
func (u Usage) Sum(period int) (sum Count) {
	for _, c := range u.Models {
		sum.add(c[period])
	}
	return sum
}

// Usage returns what was counted.
func (a *Account) Usage() (u Usage) {
	if a == nil {
		return u
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn()
	u = Usage{Limits: a.limits, Running: a.running, Refused: a.refused, Models: map[string][periods]Count{}}
	for i, length := range lengths {
		u.Ends[i] = time.Unix((a.periods[i]+1)*length, 0).UTC()
	}
	for name, c := range maps.All(a.models) {
		u.Models[name] = *c
	}
	return u
}

// Running returns how many requests wait or run, without those in the background.
func (a *Account) Running() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running
}

// Idle reports whether nothing runs and nothing was counted on this day: then only what was counted before is lost with
// the account.
func (a *Account) Idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn()
	for _, c := range a.models {
		if c[Day] != (Count{}) {
			return false
		}
	}
	return a.running == 0 && a.requests.today == 0 && a.input.today == 0 && a.output.today == 0
}

// A Key is whose an account is.
type Key struct {
	ID      string // the beginning of the key's hash; empty: of all requests, where there are no keys
	Name    string // in the file of keys, or of the subject of a token; empty: it has none
	Tenant  string // of such a subject; empty: none
	Admin   bool
	Account *Account
}
