package model

import (
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// A Network is how long ranks need to exchange something, of all together.
type Network struct {
	Sizes [3]int // bytes
	Took  [3]time.Duration
}

// networkSizes are about those of the exchanges of one token and of a slice of a prompt.
var networkSizes = [3]int{64, 16 << 10, 1 << 20}

// Measure is MeasureNetwork on rank 0, where the others follow.
func (r Ranks) Measure() (n Network, err error) {
	if err = r.Group.Send(kernel.Everyone, []byte{msgMeasure}); err == nil {
		n, err = MeasureNetwork(r.Group)
	}
	return n, err
}

// MeasureNetwork measures a group's exchanges. All ranks call it at the same time.
func MeasureNetwork(g *kernel.Ranks) (n Network, err error) {
	n.Sizes = networkSizes
	for i, rounds := range []int{101, 101, 21} {
		if n.Took[i], err = g.Exchanges(n.Sizes[i], rounds); err != nil {
			return n, err
		}
	}
	return n, nil
}

// String says what was measured.
func (n Network) String() string {
	text := ""
	for i, bytes := range n.Sizes {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %.1f µs", mem.FormatBytes(uint64(bytes)), float64(n.Took[i].Nanoseconds())/1e3)
	}
	return text
}

// perByte returns the seconds of a byte that a rank receives from `ranks` - 1 others, beyond those of an exchange of few.
func (n Network) perByte(ranks int) float64 {
	received := float64(n.Sizes[2]-n.Sizes[0]) * float64(ranks-1) / float64(ranks)
	return max((n.Took[2]-n.Took[0]).Seconds(), 0) / received
}

// A Machine is what one of the ranks computes in a second.
type Machine struct{ ReadBytes, Int8MACs float64 }

// A Prediction is how long a divided model computes, by each division, in relation to what was measured.
type Prediction struct {
	Prompt, Answer int // tokens of a request, alone
	Rows, Layers   time.Duration
	One            time.Duration // on one machine, if it had the memory
	CanLayers      bool          // else Layers says nothing
}

// Better reports whether layers take less time.
func (p Prediction) Better() (layers bool) { return p.CanLayers && p.Layers < p.Rows }

// By names what is better, as flags do.
func (p Prediction) By() string {
	if p.Better() {
		return "layers"
	}
	return "rows"
}

const (
	typicalPrompt = 2048
	typicalSlice  = 512
	typicalAnswer = 256

	skew       = 3e-6 // seconds of an exchange for which ranks are not in step
	replicated = 0.03 // of a pass of one process, which every rank of rows computes
)

// work is what a pass over a model takes, by its number of tokens.
type work struct {
	dense, experts float64 // bytes of matrices; of all experts
	used           float64 // the part of experts that a token uses
	macs           float64 // multiply-adds of a token
	exchanges      int
	received       float64 // bytes of a token
}

// bytes returns what a pass of n tokens reads: experts are chosen at random.
func (w work) bytes(n float64) float64 {
	most := 1.0
	for range int(min(n, 1<<12)) {
		most *= 1 - w.used
	}
	return w.dense + w.experts*(1-most)
}

// seconds returns the time of a pass of n tokens on one machine.
func (w work) seconds(n float64, m Machine) float64 {
	return max(w.bytes(n)/m.ReadBytes, n*w.macs/m.Int8MACs)
}

// workOf adds up the operations of a program, of which this is a rank.
func workOf(p *nn.Program, rank int) (w work) {
	lists := p.Layers
	for _, o := range p.Outputs {
		if o.Name == nn.Logits {
			lists = append(lists[:len(lists):len(lists)], o.Ops)
		}
	}
	for _, ops := range lists {
		for _, op := range ops {
			switch op := op.(type) {
			case kernel.Matmul:
				for _, part := range op.Parts {
					bytes, macs := float64(part.Bytes()), float64(part.In)*float64(part.Out)*float64(part.N)
					if p.Bufs[op.Act[part.Type.Act()]].Fine {
						macs *= 2 // two rows of 8 bits
					}
					if op.Rows == kernel.PairRows {
						spec := p.Bufs[op.Dst]
						w.used = float64(spec.NUsed) / float64(spec.NExpert)
						w.experts += bytes
						w.macs += macs * w.used
						continue
					}
					w.dense += bytes
					w.macs += macs
				}
			case kernel.Share:
				rows := 1
				if op.Rows == kernel.PairRows {
					rows = p.Bufs[op.Parts[0].Dst].NUsed
				}
				w.exchanges++
				for r := range len(op.Parts[0].Cut) - 1 {
					if r != rank {
						w.received += float64(op.Sent(r) * rows)
					}
				}
			}
		}
	}
	return w
}

// Predict predicts how long a request takes if the model is divided by rows and by layers, among ranks that all compute as
// fast as m. The survey is of the whole model. By rows a pass takes its part of the time of one process and its exchanges. By
// layers it takes the time of one process and a hop to each rank; and the slices of a prompt, of which ranks compute several at
// a time, as long as if there were a slice for each rank but one less of them.
func (s *Survey) Predict(r Ranks, m Machine, net Network) (p Prediction, err error) {
	whole, err := s.find(Packed)
	if err != nil {
		return p, err
	}
	one := workOf(whole.program, 0)
	ranks := float64(r.Group.Count())
	latency, perByte := net.Took[0].Seconds()+skew, net.perByte(r.Group.Count())
	exchanges := func(layers bool) (work, error) {
		r.Layers = layers
		part, err := s.Split(r)
		if err != nil {
			return work{}, err
		}
		f, err := part.find(Packed)
		if err != nil {
			return work{}, err
		}
		return workOf(f.program, r.Group.Rank()), nil
	}
	rows, err := exchanges(false)
	if err != nil {
		return p, err
	}
	const slices = typicalPrompt / typicalSlice
	pass := func(n float64) float64 {
		t := one.seconds(n, m)
		return t/ranks + replicated*t*(1-1/ranks) + float64(rows.exchanges)*latency + n*rows.received*perByte
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	p = Prediction{Prompt: typicalPrompt, Answer: typicalAnswer}
	p.One = seconds(slices*one.seconds(typicalSlice, m) + typicalAnswer*one.seconds(1, m))
	p.Rows = seconds(slices*pass(typicalSlice) + typicalAnswer*pass(1))
	if p.CanLayers = canStage(s.Config) == nil; !p.CanLayers {
		return p, nil
	}
	layers, err := exchanges(true)
	if err != nil {
		return p, err
	}
	hops := func(n float64) float64 {
		return float64(layers.exchanges)*latency + n*float64(layers.exchanges)*4*float64(s.Config.NEmbd)*perByte
	}
	stage := one.seconds(typicalSlice, m)/ranks + hops(typicalSlice)/float64(max(layers.exchanges, 1))
	p.Layers = seconds((slices+ranks-1)*stage + typicalAnswer*(one.seconds(1, m)+hops(1)))
	return p, nil
}

// String says what is better and why.
func (p Prediction) String() string {
	t, other := p.Rows, fmt.Sprintf("%.2f s by layers", p.Layers.Seconds())
	if p.Better() {
		t, other = p.Layers, fmt.Sprintf("%.2f s by rows", p.Rows.Seconds())
	} else if !p.CanLayers {
		other = "its layers cannot be divided"
	}
	return fmt.Sprintf("%s: a prompt of %d tokens and an answer of %d are predicted to take %.2f s, %s, %.2f s on one machine",
		p.By(), p.Prompt, p.Answer, t.Seconds(), other, p.One.Seconds())
}
