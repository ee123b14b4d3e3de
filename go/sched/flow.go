package sched

import "time"

// A flow is the requests of one client. What it has had of the machine is
// counted in time, divided by its weight: flows are served so that those counts
// stay together. (Start-time fair queueing, Goyal, Vin and Cheng 1996.)
type flow struct {
	name     string
	weight   float64
	served   time.Duration
	requests int
}

// quantum is how far flows may be apart: a short prompt's worth, seldom noticed.
const quantum = time.Second

// round is the number of quanta that f has had.
func (f *flow) round() int64 { return int64(f.served / quantum) }

// join returns the flow of that name. One that begins has had as much as the one
// that has had least, to whole quanta: to have been away is no credit.
func (s *Scheduler) join(name string, weight float64) *flow {
	f := s.flows[name]
	if f == nil {
		f = &flow{name: name, served: s.least().Truncate(quantum)}
		s.flows[name] = f
	}
	if weight <= 0 {
		weight = 1
	}
	f.weight = weight
	f.requests++
	return f
}

func (s *Scheduler) leave(f *flow) {
	if f.requests--; f.requests == 0 {
		delete(s.flows, f.name)
	}
}

func (s *Scheduler) least() time.Duration {
	first, least := true, time.Duration(0)
	for _, f := range s.flows {
		if first || f.served < least {
			first, least = false, f.served
		}
	}
	return least
}

// charge counts tokens that one of the requests of a pass had of it.
func (s *Scheduler) charge(f *flow, tokens, requests int) {
	t := s.Cost.First()/time.Duration(requests) + time.Duration(tokens)*s.Cost.Each()
	f.served += time.Duration(float64(t) / f.weight)
}
