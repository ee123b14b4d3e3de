package engine

import (
	"fmt"
	"sort"
	"strings"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// A Plan is how a model would be loaded, and the memory that it would take.
type Plan struct {
	Use  model.Use      // its Residency is what was chosen
	Need model.Estimate // with the least keys and values where those may be as many as fit
	// Streams is, with streamed weights, the bytes that each pass reads from disk, assuming that it uses all
	// experts.
	Streams uint64
}

// NewPlan returns how Open would load the model in f with a budget and so many threads, without reading
// weights. If the model does not fit, the error is a *FitError, and the plan is the one that was requested. c
// needs no Device.
func NewPlan(f *model.File, b *mem.Budget, threads int, c Config) (Plan, error) {
	if err := c.fill(); err != nil {
		return Plan{}, err
	}
	var none error
	var encoders encoders
	if err := encoders.open(&c); err != nil {
		return Plan{}, err
	}
	_, p, err := c.plan(f, b.Free()-min(b.Free(), encoders.bytes()), threads, &none)
	p.Need.Weights += encoders.bytes()
	if err == nil && p.Need.Total() > b.Free() {
		err = c.unfit(f, b, threads, p)
	}
	if more := p.Need.Streamable; err == nil && more > 0 {
		rest := b.Free() - p.Need.Total()
		if kept := rest - min(rest, streamable(b.Free())); kept < more {
			p.Streams = more - kept + p.Need.StreamLeast
		}
	}
	return p, err
}

// A FitError reports a model that does not fit in memory.
type FitError struct {
	Plan
	Free, Limit uint64
	Reason      string   // what set the limit
	Advice      []string // each of which would fit
}

// Error returns one sentence with the numbers, and what would fit.
func (e *FitError) Error() string {
	weights := "packed weights"
	switch e.Use.Residency {
	case model.Mapped:
		weights = "weights outside the file"
	case model.Streamed:
		weights = "weights at a time"
	}
	n := e.Need
	var b strings.Builder
	need, free := mem.FormatBytes(n.Total()), mem.FormatBytes(e.Free)
	if need == free { // a refusal has to show the difference
		need, free = fmt.Sprintf("%d bytes", n.Total()), fmt.Sprintf("%d", e.Free)
	}
	fmt.Fprintf(&b, "it needs %s: %s of %s", need, mem.FormatBytes(n.Weights), weights)
	if e.Use.Residency != model.Packed && n.Apart > 0 {
		fmt.Fprintf(&b, " (%s of which the file has in several parts, and stay in memory)", mem.FormatBytes(n.Apart))
	}
	fmt.Fprintf(&b, ", %s of keys and values", mem.FormatBytes(n.KV))
	if n.Checks > n.KV+n.Activations {
		fmt.Fprintf(&b, ", or %s to check the weights first", mem.FormatBytes(n.Checks))
	}
	fmt.Fprintf(&b, ", %s of activations; %s of the %s limit are free (%s)", mem.FormatBytes(n.Activations), free, mem.FormatBytes(e.Limit), e.Reason)
	if len(e.Advice) > 0 {
		fmt.Fprintf(&b, "; what would fit: %s", strings.Join(e.Advice, ", or "))
	}
	return b.String()
}

// Unwrap returns the error as one of the budget.
func (e *FitError) Unwrap() error {
	return &mem.LimitError{Purpose: "the model", Need: e.Need.Total(), Free: e.Free, Limit: e.Limit, Reason: e.Reason}
}

// unfit returns the FitError of a plan, with what would fit.
func (c Config) unfit(f *model.File, b *mem.Budget, threads int, p Plan) error {
	e := &FitError{Plan: p, Free: b.Free()}
	e.Limit, e.Reason = b.Limit()
	fits := func(c Config) bool {
		s, err := c.needed(f)
		if err != nil {
			return false
		}
		p, err := c.place(s, e.Free, threads)
		return err == nil && p.Need.Total() <= e.Free
	}
	alone := c
	if cfg, err := f.Config(); err == nil && cfg.Head.Arch != "" && c.MTP {
		if alone.MTP = false; fits(alone) {
			e.Advice = append(e.Advice, "no head that drafts (without --model-draft)")
		}
	}
	small := c
	small.KV, small.Tiers = kvcache.Both(kvcache.Q8), nil
	smaller := c.KV.K != kvcache.Q8 && c.KV.K != kvcache.Q4 || c.KV.V != kvcache.Q8 && c.KV.V != kvcache.Q4
	if smaller && fits(small) {
		e.Advice = append(e.Advice, "keys and values of 8 bits (-ctk q8_0 -ctv q8_0)")
	}
	const unit = 256 // no less, and whole ones, are worth advice
	shorter := unit * sort.Search((p.Use.Ctx-1)/unit, func(i int) bool {
		short := c
		short.Ctx = (i + 1) * unit
		return !fits(short)
	})
	if shorter > 0 {
		e.Advice = append(e.Advice, fmt.Sprintf("a context of %d tokens (-c %d)", shorter, shorter))
	}
	streamed := c
	if streamed.Residency = model.Streamed; p.Use.Residency != model.Streamed && fits(streamed) {
		e.Advice = append(e.Advice, "weights that are read from the disk as they are needed, which is slower (--weights streamed)")
	}
	mapped := c
	if mapped.Residency = model.Mapped; p.Use.Residency != model.Mapped && fits(mapped) {
		e.Advice = append(e.Advice, "weights that stay in the file, which is slower (--weights mapped)")
	}
	if apart := p.Need.Apart; p.Use.Residency != model.Packed && apart > 0 {
		// Streaming needs one layer in memory, and the next.
		if cfg, err := f.Config(); err == nil && p.Need.Total()-apart+2*apart/uint64(len(cfg.Layers)) <= e.Free {
			e.Advice = append(e.Advice, "a packed file (quern pack), whose weights are all read from the disk as they are needed (--weights streamed)")
		}
	}
	if rest := p.Need.KV + p.Need.Activations; p.Use.Residency != model.Mapped && rest < e.Free && p.Need.Weights > 0 {
		if name := lighter(bits(f), float64(e.Free-rest)/float64(p.Need.Weights)); name != "" {
			e.Advice = append(e.Advice, "a file quantized to "+name)
		}
	}
	if f.Remote() {
		e.Advice = append(e.Advice, "a copy on the disk (quern pull), whose weights can be read as they are needed")
	}
	if len(e.Advice) == 0 {
		e.Advice = append(e.Advice, "a smaller model, or a higher limit")
	}
	return e
}

// bits returns the mean bits per weight of the file.
func bits(f *model.File) float64 {
	bytes, weights := 0.0, 0.0
	for i := range f.GGUF.Tensors {
		t := &f.GGUF.Tensors[i]
		bytes, weights = bytes+float64(len(t.Data)), weights+float64(t.Elems())
	}
	return 8 * bytes / weights
}

// lighter returns the largest common mix of types that takes at most `part` of the size of a file with so
// many bits per weight; "" if there is none.
func lighter(bits, part float64) string {
	for _, m := range []struct {
		name string
		bits float64 // of a weight, on average, of models of 7 to 8 billion parameters
	}{{"Q8_0", 8.5}, {"Q6_K", 6.6}, {"Q5_K_M", 5.7}, {"Q4_K_M", 4.9}, {"Q3_K_M", 4.0}, {"Q2_K", 3.2}} {
		if m.bits <= bits*part {
			return m.name
		}
	}
	return ""
}
