package engine

import "time"

// Status is a Loop at one moment.
type Status struct {
	Slots  []SlotStatus // one for each sequence that can run at a time
	Queued int          // requests that wait
	Parked int          // of which had begun and made room for others
	KV     KVStatus
	Counts Counts
	Cost   Cost
}

// SlotStatus is what runs under one number, or ran last.
type SlotStatus struct {
	Busy      bool
	Request   uint64 // the ticket's number; 0: none yet
	Flow      string
	Prompt    int // tokens
	Cached    int // of which were in the cache
	Evaluated int // of which are evaluated
	Generated int
	MaxTokens int
	Since     time.Time // when the request was submitted
}

// KVStatus is the memory of what sequences keep, in bytes. What is neither in use nor
// cached is free.
type KVStatus struct {
	Bytes  uint64
	Used   uint64 // held by sequences that run
	Cached uint64 // held for reuse by the prefix tree alone
}

// Counts only grow.
type Counts struct {
	Passes           uint64
	PromptTokens     uint64 // evaluated, without the cached ones
	CachedTokens     uint64 // of prompts, found in the cache
	GeneratedTokens  uint64
	PromptTime       time.Duration // of passes, shared out to prompts by the model of cost
	GeneratedTime    time.Duration // and to tokens
	SlotPasses       uint64        // sequences summed over passes: by Passes, the mean batch
	Preemptions      uint64
	Cancellations    uint64
	EvictedBlocks    uint64 // and states
	RejectedRequests uint64
}

// Cost is what the loop has learned a pass to take: First with one token, Each for
// every one of a long pass, Attended for every million positions that tokens attend
// to, and Read for every million that sequences have.
type Cost struct{ First, Each, Attended, Read time.Duration }
