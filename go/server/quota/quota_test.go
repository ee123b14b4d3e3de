package quota

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A clock is set by its test.
type clock struct{ now time.Time }

func (c *clock) read() time.Time      { return c.now }
func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }
func account(t *testing.T, words ...string) (*Account, *clock) {
	t.Helper()
	// tomorrow at noon
	c := &clock{time.Now().Truncate(24 * time.Hour).Add(36 * time.Hour)}
	return New(limits(t, words...), c.read), c
}

func limits(t *testing.T, words ...string) (l Limits) {
	t.Helper()
	for _, word := range words {
		if known, err := l.Set(word); !known || err != nil {
			t.Fatalf("%s: %v %v", word, known, err)
		}
	}
	return l
}

// refused checks that an error is one of a kind, and when to try again.
func refused(t *testing.T, err error, kind Kind, retry time.Duration, words string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || (e.Retry-retry).Abs() > time.Millisecond || !strings.Contains(e.Error(), words) {
		t.Fatalf("%+v (%v), want kind %d, a retry in %v, and %q", e, err, kind, retry, words)
	}
}

func begin(t *testing.T, a *Account) *Run {
	t.Helper()
	r, err := a.Begin("m", false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSet(t *testing.T) {
	l := limits(t, "rpm=1", "rpd=2", "tpm-in=3", "tpm-out=4", "tpd-in=5", "tpd-out=6", "concurrent=7", "models=a,b:c")
	if got := fmt.Sprint(l); got != "{{1 3 4} {2 5 6} 7 [a b:c]}" {
		t.Error(got)
	}
	for word, want := range map[string]string{"rpm=0": "from 1 to", "rpm=-1": "from 1", "rpm=": "from 1", "rpm=1.5": "from 1", "rpd=9999999999999": "from 1",
		"models=": "names", "models=a,,b": "names", "models=" + strings.Repeat("m,", 1000) + "m": "at most 1000"} {
		var l Limits
		if known, err := l.Set(word); !known || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v %v", word, known, err)
		}
	}
	for _, word := range []string{"rpm=2", "models=x"} {
		if known, err := l.Set(word); !known || err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s again: %v %v", word, known, err)
		}
	}
	for _, word := range []string{"rpm", "x=1", "admin", "3", "=", "tpm=1"} {
		if known, err := l.Set(word); known || err != nil {
			t.Errorf("%s: %v %v", word, known, err)
		}
	}
	if !Allows(l.Models, "x", "a") || Allows(l.Models, "x", "A") || Allows(l.Models) || !Allows(nil) {
		t.Error("models are allowed that are not, or the other way round")
	}
}

// Requests flow back one by one within a minute.
func TestRequestsPerMinute(t *testing.T) {
	a, c := account(t, "rpm=4")
	for range 4 {
		begin(t, a)
	}
	_, err := a.Begin("m", false)
	refused(t, err, Requests, 15*time.Second, "4 requests a minute, and has sent as many: try again in 15s")
	c.pass(14 * time.Second)
	_, err = a.Begin("m", false)
	refused(t, err, Requests, time.Second, "1s")
	c.pass(time.Second)
	begin(t, a)
	if _, err = a.Begin("m", false); err == nil {
		t.Error("two at once")
	}
	c.pass(time.Hour)
	for range 4 {
		begin(t, a)
	}
	if _, err = a.Begin("m", false); err == nil {
		t.Error("a bucket holds more than a minute's")
	}
	if u := a.Usage(); u.Refused != 4 || u.Sum(Day).Requests != 9 || u.Sum(Minute).Requests != 4 {
		t.Errorf("%+v", u)
	}
}

// The day begins at midnight in UTC.
func TestRequestsPerDay(t *testing.T) {
	a, c := account(t, "rpd=2")
	begin(t, a)
	begin(t, a)
	_, err := a.Begin("m", false)
	refused(t, err, Requests, 12*time.Hour, "2 requests a day")
	c.pass(12*time.Hour - time.Second)
	_, err = a.Begin("m", false)
	refused(t, err, Requests, time.Second, "a day")
	c.pass(time.Second)
	begin(t, a)
	begin(t, a)
	c.pass(-2 * time.Second) // a clock that is set back begins no new day, and neither does its way forward
	if _, err := a.Begin("m", false); err == nil {
		t.Error("the day before has begun anew")
	}
	c.pass(2 * time.Second)
	if _, err := a.Begin("m", false); err == nil {
		t.Error("the day has begun twice")
	}
	c.pass(-48 * time.Hour) // a day that was wrong is not kept
	c.pass(72 * time.Hour)
	begin(t, a)
}

// A request in the background that is refused is not the client's refusal. One that is refused by a minute's and a day's quota
// is told to wait for the day's, and what never fits is told so, whatever else is used up.
func TestWorstRefusal(t *testing.T) {
	a, _ := account(t, "rpm=4", "rpd=4", "tpm-in=600", "tpd-in=400", "tpd-out=1")
	if a.Wait() != 0 {
		t.Errorf("wait %v before a request", a.Wait())
	}
	var r *Run
	for range 4 {
		r = begin(t, a)
	}
	_, err := a.Begin("m", true)
	refused(t, err, Requests, 12*time.Hour, "4 requests a day")
	if u := a.Usage(); u.Refused != 0 || a.Wait() != 12*time.Hour {
		t.Errorf("%d refused, wait %v", u.Refused, a.Wait())
	}
	if err := r.Input(300, true); err != nil {
		t.Fatal(err)
	}
	r.Output(1)
	if err := r.Input(500, true); !errors.As(err, new(*Error)) || !err.(*Error).Never() || !strings.Contains(err.Error(), "400 a day") {
		t.Error(err)
	}
	refused(t, r.Input(301, false), Input, 12*time.Hour, "a day")
}

// A prompt is refused where it has more tokens than are left; one that exceeds the limit is told so.
func TestInput(t *testing.T) {
	a, c := account(t, "tpm-in=600", "tpd-in=1000")
	r := begin(t, a)
	if err := r.Input(500, false); err != nil {
		t.Fatal(err)
	}
	refused(t, r.Input(101, false), Input, 100*time.Millisecond, "the prompt has 101 tokens, and of the 600 a minute that this API key or token may send 100 are left: try again in 100ms")
	if err := r.Input(601, false); !errors.As(err, new(*Error)) || !err.(*Error).Never() || !strings.Contains(err.Error(), "600 a minute: want a shorter one") {
		t.Error(err)
	}
	if err := r.Input(100, false); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Minute)
	refused(t, r.Input(401, false), Input, 12*time.Hour-time.Minute, "of the 1000 a day that this API key or token may send 400 are left")
	if err := r.Input(400, false); err != nil {
		t.Fatal(err)
	}
	if got := a.Usage().Sum(Day); got != (Count{Requests: 1, Input: 1000}) {
		t.Errorf("%+v", got)
	}
}

// An answer goes on when the tokens are used up, and the next request waits until the debt has flown back.
func TestOutput(t *testing.T) {
	a, c := account(t, "tpm-out=60", "tpd-out=500")
	r := begin(t, a)
	for range 200 {
		r.Output(1)
	}
	err := r.Input(1, true)
	refused(t, err, Output, 141*time.Second, "60 tokens a minute generated, and they are used up: try again in 2m21s")
	c.pass(141 * time.Second)
	if err := r.Input(1, true); err != nil {
		t.Error(err)
	}
	r.Output(1000)
	refused(t, r.Input(1, true), Output, 12*time.Hour-141*time.Second, "a day")
	if err := r.Input(1, false); err != nil {
		t.Errorf("what generates nothing is refused: %v", err)
	}
	c.pass(20 * time.Minute)
	refused(t, r.Input(1, true), Output, 12*time.Hour-141*time.Second-20*time.Minute, "500 tokens a day")
	c.pass(12 * time.Hour) // the day after has what is left of the debt: 1200 are two days of 500, and 200
	refused(t, r.Input(1, true), Output, 24*time.Hour-141*time.Second-20*time.Minute, "a day")
	c.pass(24 * time.Hour)
	if s, _ := a.State(); s.Output.Left != 60 {
		t.Errorf("%+v", s)
	}
	r.Output(300)
	if err = r.Input(0, true); err == nil {
		t.Error("nothing was carried over")
	}
}

func TestConcurrent(t *testing.T) {
	a, _ := account(t, "concurrent=2")
	r, _ := begin(t, a), begin(t, a)
	_, err := a.Begin("m", false)
	refused(t, err, Concurrent, time.Second, "2 requests waiting or running at a time")
	if b, err := a.Begin("m", true); err != nil {
		t.Error("one in the background takes no place: ", err)
	} else {
		b.End(false)
	}
	r.End(false)
	r.End(false) // again, which frees no other place
	r = begin(t, a)
	r.Again()
	r.End(false)
	if _, err := a.Begin("m", false); err == nil {
		t.Error("three at a time")
	}
	if _, ok := a.State(); ok {
		t.Error("headers tell of nothing")
	}
}

// What was refused for lack of room is given back; what has generated is not.
func TestEndRefused(t *testing.T) {
	a, _ := account(t, "rpm=1", "rpd=1", "tpm-in=10", "tpd-in=10")
	r := begin(t, a)
	if err := r.Input(10, false); err != nil {
		t.Fatal(err)
	}
	r.End(true)
	if got := a.Usage(); got.Sum(Since) != (Count{}) || got.Running != 0 {
		t.Errorf("%+v", got)
	}
	r = begin(t, a)
	if err := r.Input(10, false); err != nil {
		t.Fatal(err)
	}
	r.Return(3)
	if err := r.Input(3, false); err != nil {
		t.Fatal(err)
	}
	r.Cached(4)
	if got := a.Usage().Sum(Since); got != (Count{}) {
		t.Errorf("what can still be given back is counted for good: %+v", got)
	}
	r.Output(1)
	r.Again()
	r.End(true)
	r.End(true)
	r.End(true)
	if got := a.Usage().Sum(Since); got != (Count{1, 10, 4, 1}) {
		t.Errorf("%+v", got)
	}
}

// Headers tell of the limit of which the least is left.
func TestState(t *testing.T) {
	a, c := account(t, "rpm=10", "rpd=4", "tpm-in=100", "tpm-out=60")
	r := begin(t, a)
	if err := r.Input(30, false); err != nil {
		t.Fatal(err)
	}
	s, ok := a.State()
	if !ok || s.Requests.Limit != 4 || s.Requests.Left != 3 || s.Requests.Reset != 12*time.Hour ||
		s.Input.Left != 70 || s.Input.Reset != 18*time.Second || s.Output.Left != 60 || s.Tokens.Limit != 60 {
		t.Errorf("%+v", s)
	}
	c.pass(9 * time.Second)
	if s, _ = a.State(); s.Input.Left != 85 {
		t.Errorf("%+v", s.Input)
	}
	r.Output(90)
	if s, _ = a.State(); s.Tokens.Left != 0 || s.Tokens.Reset != 90*time.Second {
		t.Errorf("%+v", s.Tokens)
	}
}

// New limits hold at once, for what was counted before too.
func TestSetLimits(t *testing.T) {
	a, c := account(t, "rpm=2", "rpd=100")
	begin(t, a)
	begin(t, a)
	a.SetLimits(limits(t, "rpm=3", "rpd=2"))
	if _, err := a.Begin("m", false); err == nil {
		t.Error("the day's requests were forgotten")
	}
	a.SetLimits(limits(t, "rpm=3"))
	begin(t, a)
	if _, err := a.Begin("m", false); err == nil {
		t.Error("the minute's requests were forgotten")
	}
	a.SetLimits(Limits{})
	for range 100 {
		begin(t, a)
	}
	a.SetLimits(limits(t, "rpm=3"))
	begin(t, a) // what was not limited is not counted by minutes
	c.pass(48 * time.Hour)
	if a.Idle() {
		t.Error("requests run")
	}
}

// However many models are asked for, few have counts of their own, and none is lost.
func TestModels(t *testing.T) {
	a, c := account(t)
	for i := range 1000 {
		r, err := a.Begin(fmt.Sprint("model", i), false)
		if err != nil {
			t.Fatal(err)
		}
		r.Output(2)
		r.End(false)
	}
	u := a.Usage()
	if len(u.Models) != maxCounted+1 || u.Sum(Day) != (Count{Requests: 1000, Output: 2000}) || u.Models[Others][Day].Requests != 1000-maxCounted {
		t.Errorf("%d models, %+v, %+v", len(u.Models), u.Sum(Day), u.Models[Others])
	}
	if a.Idle() {
		t.Error("the day's counts would be lost")
	}
	c.pass(24 * time.Hour)
	if u = a.Usage(); u.Sum(Day) != (Count{}) || u.Sum(Minute) != (Count{}) || u.Sum(Since).Requests != 1000 || !a.Idle() {
		t.Errorf("%+v", u.Sum(Day))
	}
}

// Nothing is counted of what has no account.
func TestNil(t *testing.T) {
	var a *Account
	r, err := a.Begin("m", false)
	if err != nil || r != nil {
		t.Fatal(err)
	}
	r.Output(1)
	r.Cached(1)
	r.End(false)
	if err := r.Input(1, false); err != nil {
		t.Error(err)
	}
	if _, ok := a.State(); ok || a.Limits().Concurrent != 0 || a.Usage().Models != nil {
		t.Error("a state of nothing")
	}
}

// Many at once take no more than there is.
func TestConcurrently(t *testing.T) {
	a, _ := account(t, "rpd=500", "tpd-in=2000", "concurrent=8")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				r, err := a.Begin("m", false)
				if err != nil {
					continue
				}
				_ = r.Input(7, false)
				r.Output(1)
				r.End(false)
			}
		})
	}
	wg.Wait()
	if u := a.Usage(); u.Running != 0 || u.Sum(Day).Requests > 500 || u.Sum(Day).Input > 2000 || u.Sum(Day).Input < 1993 {
		t.Errorf("%+v", u)
	}
}
