package sched

import "time"

// A flow is the requests of one client. Its service is measured in machine time divided
// by its weight (virtual time), and flows are scheduled so that these stay close to each
// other. (Start-time fair queueing, Goyal, Vin and Cheng 1996.)
type flow struct {
	name     string
	weight   float64
	served   time.Duration
	requests int
}

// quantum is how far the service of flows may differ: the time of a short prompt.
const quantum = time.Second

// round is the number of quanta of service that f has received.
func (f *flow) round() int64 { return int64(f.served / quantum) }

// join returns the flow of that name. A new flow starts at the virtual time of the flow
// with the least service, in whole quanta: idle time earns no credit.
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

// charge charges a flow for the tokens of one of its requests in a pass.
func (s *Scheduler) charge(f *flow, tokens, requests int) {
	t := s.Cost.First()/time.Duration(requests) + time.Duration(tokens)*s.Cost.Each()
	f.served += time.Duration(float64(t) / f.weight)
}
