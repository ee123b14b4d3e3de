package llamaserver

import (
	"cmp"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// A memoryUse is the memory of the server, as GET /v1/memory shows it. All sizes are bytes.
type memoryUse struct {
	Object    string        `json:"object"`
	Limit     uint64        `json:"limit"`
	LimitedBy string        `json:"limited_by"`
	Used      uint64        `json:"used"` // reserved, of the limit
	Free      uint64        `json:"free"`
	Peak      uint64        `json:"peak"`          // the most that was reserved at once
	Pressure  string        `json:"pressure"`      // none, tight, critical
	Resident  uint64        `json:"resident"`      // in memory now, pages of files included
	Anonymous uint64        `json:"anonymous"`     // of it no file's
	Most      uint64        `json:"resident_peak"` // the most that was resident
	Purposes  []purposeUse  `json:"purposes"`      // the largest first
	Models    []modelMemory `json:"models"`
	CPU       cpuUse        `json:"cpu"`
	Disk      *diskUse      `json:"disk,omitempty"` // texts on disk, where there are some
}

// A purposeUse is what is reserved for a purpose.
type purposeUse struct {
	Purpose string `json:"purpose"`
	Bytes   uint64 `json:"bytes"`
}

// A modelMemory is the memory of a model that depends on its requests.
type modelMemory struct {
	ID       string   `json:"id"`
	Personas []string `json:"personas,omitempty"` // of the model, which share its memory
	State    string   `json:"state"`              // loading, loaded or sleeping
	Bytes    uint64   `json:"bytes"`              // of the server's memory
	Leases   int      `json:"leases"`             // requests that keep it loaded
	File     uint64   `json:"file"`               // bytes of its file
	Context  int      `json:"context"`            // of a request, in tokens
	KV       kvUse    `json:"kv"`
	Running  int      `json:"running"` // requests
	Waiting  int      `json:"waiting"`
	Restored uint64   `json:"restored"` // tokens of prompts that were read from disk
	Parked   int      `json:"parked"`   // of those that wait: preempted, and will continue
	Loaded   float64  `json:"loaded"`   // when, in seconds of Unix time

	Stream *streamUse `json:"streamed,omitempty"` // of weights that come from the disk
	Drafts *draftUse  `json:"draft,omitempty"`    // by another model
}

// A draftUse is the memory of a model that drafts for another.
type draftUse struct {
	Path    string `json:"path"`
	Bytes   uint64 `json:"bytes"` // of the model's bytes
	File    uint64 `json:"file"`  // bytes of its file
	Context int    `json:"context"`
	KV      kvUse  `json:"kv"`
}

// A streamUse is the streamed weights of a model.
type streamUse struct {
	How    string  `json:"how"`    // its file is read
	Bytes  uint64  `json:"bytes"`  // of all weights that are streamed
	Kept   uint64  `json:"kept"`   // of those that stay in memory
	Ring   uint64  `json:"ring"`   // that others pass through
	Cache  uint64  `json:"cache"`  // for experts
	Read   uint64  `json:"read"`   // so far
	Waited float64 `json:"waited"` // seconds that passes waited for the disk
	Hits   uint64  `json:"hits"`   // experts that were in memory when they were needed
	Misses uint64  `json:"misses"`
	Errors uint64  `json:"errors"` // of reads
}

// A kvUse is the memory of a model's keys, values and recurrent state.
type kvUse struct {
	Bytes  uint64 `json:"bytes"`  // that it may use now
	Most   uint64 `json:"most"`   // that it may use when memory is not short
	Used   uint64 `json:"used"`   // of running requests
	Cached uint64 `json:"cached"` // of earlier texts
}

func kvUseOf(s engine.KVStatus) kvUse { return kvUse{s.Bytes, s.Most, s.Used, s.Cached} }

// A diskUse is the use of the disk cache. What was read and written counts from the server's start.
type diskUse struct {
	Bytes   uint64 `json:"bytes"` // of all servers that share the folder
	Limit   uint64 `json:"limit"`
	Pages   int    `json:"pages"`
	Read    uint64 `json:"read"` // pages
	Written uint64 `json:"written"`
	Removed uint64 `json:"removed"` // for want of room
	Damaged uint64 `json:"damaged"` // found so, and removed
	Errors  uint64 `json:"errors"`
}

// A cpuUse is what the server has of the CPUs.
type cpuUse struct {
	Threads          int     `json:"threads"`
	ThrottledPeriods uint64  `json:"throttled_periods"`
	Throttled        float64 `json:"throttled_seconds"`
	Steal            float64 `json:"steal_seconds"`
}

// memory answers what the server's memory is used for.
func (s *API) memory(req *answer.Request) error {
	d := s.Device
	if d == nil {
		return reply.Unsupported("this server has no memory budget")
	}
	b := d.Budget()
	u := memoryUse{
		Object: "memory", Used: b.Used(), Free: b.Free(), Peak: b.Peak(), Pressure: d.Pressure().String(),
		Resident: mem.RSS(), Anonymous: mem.Anonymous(), Most: mem.PeakRSS(), Purposes: []purposeUse{},
		Models: []modelMemory{},
	}
	u.Limit, u.LimitedBy = b.Limit()
	for purpose, bytes := range b.ByPurpose() {
		u.Purposes = append(u.Purposes, purposeUse{purpose, bytes})
	}
	slices.SortFunc(u.Purposes, func(x, y purposeUse) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Purpose, y.Purpose))
	})
	for _, st := range s.List.Set.List() {
		if st.State == models.Unloaded {
			continue
		}
		one := modelMemory{ID: st.Names[0]}
		if st.Model != nil {
			one = useOf(st.Model)
		}
		one.State, one.Bytes, one.Leases = st.State.String(), st.Bytes, st.Leases
		one.Waiting += st.Waiting
		for _, p := range s.List.Personas(st.Names[0]) {
			one.Personas = append(one.Personas, p.Name)
		}
		u.Models = append(u.Models, one)
	}
	p := machine.ReadPressure()
	u.CPU = cpuUse{d.Threads(), p.ThrottledPeriods, p.Throttled.Seconds(), p.Steal.Seconds()}
	if s.Disk != nil {
		d := s.Disk.Status()
		u.Disk = &diskUse{d.Bytes, d.Limit, d.Pages, d.Read, d.Written, d.Removed, d.Damaged, d.Errors}
	}
	req.Send(u)
	return nil
}

func useOf(m *ask.Model) modelMemory {
	s := m.Engine.Status()
	u := modelMemory{
		ID: m.Name, File: m.Info.Size, Context: m.Ctx, Waiting: s.Queued, Parked: s.Parked, Loaded: float64(m.Loaded.Unix()),
		Restored: s.Counts.RestoredTokens,
		KV:       kvUseOf(s.KV),
	}
	if d := s.Drafts; d != nil {
		u.Drafts = &draftUse{d.File, d.Bytes, d.Size, d.Ctx, kvUseOf(d.KV)}
	}
	if st := s.Stream; st != nil {
		u.Stream = &streamUse{st.How, st.Bytes, st.Pinned, st.Ring, st.Cache, st.Read, st.Waited.Seconds(), st.Hits,
			st.Misses, st.Errors}
	}
	for _, slot := range s.Slots {
		if slot.Busy {
			u.Running++
		}
	}
	return u
}
