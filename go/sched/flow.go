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
	f.weight = positive(weight)
	f.requests++
	return f
}

// positive returns a weight, 1 where none was given.
func positive(weight float64) float64 {
	if weight <= 0 {
		return 1
	}
	return weight
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

// excess returns the request that leaves a full queue to r: the newest of the flow that has the most waiting requests
// for its weight, if that flow has more even without it than r's with r. A request that has run before keeps its
// place. 0: there is none.
func (s *Scheduler) excess(r Request) uint64 {
	waiting, newest := map[*flow]int{}, map[*flow]uint64{}
	for _, j := range s.waiting {
		waiting[j.flow]++
		if !j.begun {
			newest[j.flow] = max(newest[j.flow], j.ID)
		}
	}
	most, id := float64(waiting[s.flows[r.Flow]]+1)/positive(r.Weight), uint64(0)
	for f, n := range waiting {
		rest := float64(n-1) / f.weight
		if newest[f] != 0 && f.name != r.Flow && (rest > most || rest == most && newest[f] > id) {
			most, id = rest, newest[f]
		}
	}
	return id
}

// wait estimates how long r would wait: while the waiting requests of its flow are served, each other flow has
// its share.
func (s *Scheduler) wait(r Request) time.Duration {
	var t time.Duration
	for _, j := range s.running {
		t += s.work(j)
	}
	waiting := map[*flow]time.Duration{}
	for _, j := range s.waiting {
		waiting[j.flow] += s.work(j)
	}
	own := waiting[s.flows[r.Flow]]
	each := float64(own)/positive(r.Weight) + float64(quantum)
	for f, work := range waiting {
		if f.name != r.Flow {
			work = min(work, time.Duration(each*f.weight))
		}
		t += work
	}
	return t
}
