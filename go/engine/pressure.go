package engine

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/platform"
)

// Pressure is the degree of memory shortage of a device.
type Pressure int32

const (
	Calm     Pressure = iota
	Tight             // caches were given back
	Critical          // that was not enough: new requests are refused
)

// String returns the name of the pressure.
func (p Pressure) String() string { return [...]string{"none", "tight", "critical"}[p] }

// A Reading is the state of the machine's memory at one time.
type Reading struct {
	Limit  uint64 // of memory
	Reason string // what set it
	// Pressure stall information: the shares of the time since the last reading in which some task, or all
	// tasks, waited for memory.
	Some, Full float64
	Short      platform.Short // what the system itself says, where it does
}

// Thresholds of pressure.
const (
	someStalls = 0.1
	fullStalls = 0.2
	// calmReadings is the number of readings without a cause after which pressure ends.
	calmReadings = 3
	// 1/sparePart of the limit is freed beyond what is needed, and kept free when caches may grow again.
	sparePart = 64
	// 1/stalledPart of the limit is given back per reading if there are only stalls.
	stalledPart = 16
)

// RetryPressure is when a request that was refused for lack of memory may be retried: about the time that
// pressure takes to end.
const RetryPressure = 5 * time.Second

// Pressure returns the memory pressure of the device.
func (d *Device) Pressure() Pressure { return Pressure(d.level.Load()) }

// programPurpose is the budget purpose of the program's memory.
const programPurpose = "the program"

// CountProgram reserves from the budget, now and at each Adjust, the memory of the program outside the
// budget's other purposes: the Go heap with tokenizers and grammars, and stacks. The heap may grow to what the budget
// leaves to it, until the device is closed.
func (d *Device) CountProgram() error {
	if d.program != nil {
		return nil
	}
	r, err := d.budget.Reserve(programPurpose, ProgramBytes(d.budget))
	if err != nil {
		return err
	}
	d.program, d.gc = r, goHeap{user: debug.SetMemoryLimit(-1), base: heapBytes()}
	d.limitHeap()
	return nil
}

// Adjust keeps the device within the machine's limits. If usage exceeds the limit, tasks stall on memory, or the system
// says that memory is short, it gives back in this order: room for pages of mapped weights, resident streamed weights, cached prefixes,
// the retained memory of idle models, the contexts of background requests. If that is not enough, new
// requests are refused until it is. When the cause has been absent for some readings, KV pools may grow
// again. It returns the changes, one line each.
func (d *Device) Adjust(r Reading) (changes []string) {
	say := func(format string, args ...any) { changes = append(changes, fmt.Sprintf(format, args...)) }
	d.measure()
	was, whose := d.budget.Limit()
	d.budget.SetLimit(r.Limit, r.Reason)
	if d.program != nil && d.littered(d.budget.Over() > 0) {
		d.Collect()
	}
	d.limitHeap()
	// Available memory varies with everything else on the machine. A shortage is reported below.
	moved := max(was, r.Limit)-min(was, r.Limit) > max(was, r.Limit)/8
	if r.Reason != whose || moved && r.Reason != machine.Available {
		say("the memory limit is %s (%s), it was %s (%s)", mem.FormatBytes(r.Limit), r.Reason, mem.FormatBytes(was), whose)
	}
	if d.mapped() { // pages that are read from the file are waited for in any case
		r.Some, r.Full = 0, 0
	}
	over := d.budget.Over()
	asked := r.Some >= someStalls || r.Short != platform.ShortNot
	if over == 0 && !asked {
		if d.calm++; d.calm < calmReadings {
			return changes
		}
		if d.Pressure() != Calm {
			d.level.Store(int32(Calm))
			say("memory is no longer short: %s of %s are taken", mem.FormatBytes(d.budget.Used()), mem.FormatBytes(r.Limit))
		}
		d.regrow()
		return changes
	}
	d.calm = 0
	want := uint64(0)
	if over > 0 {
		want = over + r.Limit/sparePart
	}
	if asked {
		want = max(want, r.Limit/stalledPart)
	}
	freed, steps := d.giveBack(want)
	next := Tight
	if d.budget.Over() > 0 || r.Full >= fullStalls || r.Short == platform.ShortCritical {
		next = Critical
	}
	if freed > 0 || next != d.Pressure() {
		cause := fmt.Sprintf("tasks waited for memory %.0f %% of the time", 100*r.Some)
		if r.Short != platform.ShortNot {
			cause = platform.Name + " says so"
		}
		if over > 0 {
			cause = fmt.Sprintf("%s more than the limit of %s were taken", mem.FormatBytes(over), mem.FormatBytes(r.Limit))
		}
		effect := ""
		if next == Critical {
			effect = "; new requests are refused"
		}
		say("memory is short, as %s: gave back %s%s%s", cause, mem.FormatBytes(freed), steps, effect)
	}
	d.level.Store(int32(next))
	return changes
}

// mapped reports whether an engine uses mapped weights.
func (d *Device) mapped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.engines {
		if e.model.Residency == model.Mapped {
			return true
		}
	}
	return false
}

// giveBack releases about n bytes, the least valuable first. It returns how many it released, and describes
// them in words.
func (d *Device) giveBack(n uint64) (freed uint64, steps string) {
	count := func(what string, bytes uint64) {
		if bytes > 0 {
			freed += bytes
			steps += fmt.Sprintf(", %s of %s", mem.FormatBytes(bytes), what)
		}
	}
	left := func() uint64 { return n - min(n, freed) }
	d.mu.Lock()
	loops := slices.Clone(d.loops)
	bytes := uint64(0)
	for e := range d.engines {
		if e.hot != nil && left() > bytes {
			has := e.hot.Bytes()
			less := min(has, left()-bytes)
			_ = e.hot.Resize(has - less) // shrinking cannot fail
			bytes += less
		}
	}
	count("room for pages of weights", bytes)
	bytes = 0
	for e := range d.engines {
		if st, ok := e.model.Stream(); ok && left() > bytes {
			bytes += st.Limit - e.model.SetStreamLimit(st.Limit-min(st.Limit, left()-bytes))
		}
	}
	d.mu.Unlock()
	count("streamed weights, which are read again", bytes)
	count("cached prefixes", give(loops, left(), prefixes))
	count("idle models", give(loops, left(), idle))
	if d.shed != nil && left() > 0 {
		count("weights of idle models", d.shed(left()))
	}
	count("background requests", give(loops, left(), background))
	return freed, steps
}

// give makes loops give back about n bytes, and returns how many they gave.
func give(loops []*Loop, n uint64, what giving) (bytes uint64) {
	for _, l := range loops {
		if n > bytes {
			bytes += l.give(n-bytes, what)
		}
	}
	return bytes
}

// running returns the loops on the device.
func (d *Device) running() []*Loop {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.loops)
}

// Shed sets a function that releases about n bytes of weights of unused models under memory pressure: after
// the caches of idle models, and before the contexts of background requests. It must be called before Watch.
func (d *Device) Shed(f func(n uint64) (freed uint64)) { d.shed = f }

// Spare frees about n bytes that KV pools have reserved and do not use, and returns how many.
func (d *Device) Spare(n uint64) uint64 { return give(d.running(), n, spare) }

// Trim frees about n bytes of cached prefixes, then of everything that idle models have cached, and returns
// how many.
func (d *Device) Trim(n uint64) uint64 {
	loops := d.running()
	freed := give(loops, n, prefixes)
	return freed + give(loops, n-min(n, freed), idle)
}

// Give frees about n bytes that no request uses, first as Spare does, then as Trim does. It returns how many.
func (d *Device) Give(n uint64) uint64 {
	freed := d.Spare(n)
	return freed + d.Trim(n-min(n, freed))
}

// regrow lets caches grow back, as far as memory is free with some to spare.
func (d *Device) regrow() {
	loops := d.running()
	limit, _ := d.budget.Limit()
	defer d.regrowStreams(limit / sparePart)
	for _, l := range loops {
		free := d.budget.Free()
		l.regrow(free-min(free, limit/sparePart), free)
	}
}

// regrowStreams lets streamed weights use all free memory except `keep`.
func (d *Device) regrowStreams(keep uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.engines {
		if st, ok := e.model.Stream(); ok && st.Limit < e.streamed {
			free := d.budget.Free()
			e.model.SetStreamLimit(min(st.Limit+free-min(free, keep), e.streamed))
		}
	}
}

func (d *Device) begin(l *Loop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loops = append(d.loops, l)
}

func (d *Device) end(l *Loop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loops = slices.DeleteFunc(d.loops, func(o *Loop) bool { return o == l })
	d.unload(l)
}
