package engine

import (
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/stream"
)

// Status is a snapshot of a Loop.
type Status struct {
	Slots  []SlotStatus // one for each sequence that can run at a time
	Queued int          // waiting requests
	Asked  []*Adapter   // that waiting requests use, each once
	Parked int          // of which were preempted after they had begun
	KV     KVStatus
	Counts Counts
	Cost   Cost
	Stream *stream.Stats // of streamed weights; nil for others
	Drafts *DraftStatus  // nil: no model drafts
	Ranks  *RanksStatus  // nil: the model is not divided
}

// DraftStatus describes a draft model.
type DraftStatus struct {
	File  string // its path
	Size  uint64 // bytes of the file
	Bytes uint64 // that it takes, of those of the Loop
	Ctx   int    // tokens of a text
	KV    KVStatus
}

// SlotStatus describes the current or last request of a slot.
type SlotStatus struct {
	Busy      bool
	Request   uint64 // the ticket's number; 0: none yet
	Flow      string
	Prompt    int // tokens
	Cached    int // of which were in the cache
	Evaluated int // of which are evaluated
	Generated int
	MaxTokens int
	Since     time.Time       // when the request was submitted
	Adapters  []ScaledAdapter // while it runs
}

// KVStatus is the use of the KV pool, in bytes. Memory that is neither used nor cached is free.
type KVStatus struct {
	Bytes  uint64 // that it may use now
	Most   uint64 // that it may use when memory is not short
	Used   uint64 // held by running sequences
	Cached uint64 // held only by the prefix tree, for reuse

	BlockTokens int // positions of a block
	Blocks      int // that the pool has room for, in texts as long as the context
}

// Counts are totals since the loop began; they never decrease.
type Counts struct {
	Passes           uint64
	PromptTokens     uint64 // evaluated, excluding cached ones
	CachedTokens     uint64 // of prompts, found in the cache
	GeneratedTokens  uint64
	PromptTime       time.Duration // of passes: the share that the cost model attributes to prompts
	GeneratedTime    time.Duration // the share attributed to generated tokens
	SlotPasses       uint64        // sequences summed over passes: by Passes, the mean batch
	Drafts           uint64        // steps of sequences that had drafts
	Drafted          draft.Counts
	Drafting         time.Duration // between passes, to draft
	Rested           uint64        // passes without the drafts that there were, since drafts had lost too much time
	Preemptions      uint64
	Cancellations    uint64
	EvictedBlocks    uint64 // and recurrent states
	RejectedRequests uint64
	Restores         uint64 // requests for which a prefix was read from disk
	RestoredTokens   uint64 // of their prompts
	Encodings        uint64 // of pictures and sounds
	RowRestores      uint64 // of those whose rows were read from disk
}

// Plus returns the sum of two counts.
func (c Counts) Plus(o Counts) Counts {
	c.Passes += o.Passes
	c.PromptTokens += o.PromptTokens
	c.CachedTokens += o.CachedTokens
	c.GeneratedTokens += o.GeneratedTokens
	c.PromptTime += o.PromptTime
	c.GeneratedTime += o.GeneratedTime
	c.Encodings += o.Encodings
	c.RowRestores += o.RowRestores
	c.SlotPasses += o.SlotPasses
	c.Drafts += o.Drafts
	c.Drafted = c.Drafted.Plus(o.Drafted)
	c.Drafting += o.Drafting
	c.Rested += o.Rested
	c.Preemptions += o.Preemptions
	c.Cancellations += o.Cancellations
	c.EvictedBlocks += o.EvictedBlocks
	c.RejectedRequests += o.RejectedRequests
	c.Restores += o.Restores
	c.RestoredTokens += o.RestoredTokens
	return c
}

// Cost is the learned cost model of a pass: First is the time with one token, Each that of every token of a
// long pass, Attended that of a million positions attended to (summed over tokens), and Read that of a
// million positions of sequences.
type Cost struct{ First, Each, Attended, Read time.Duration }
